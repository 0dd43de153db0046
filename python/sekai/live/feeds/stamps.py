"""Times as nanoseconds since 1970 in UTC."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sekai.live.feeds.frame import bad_frame

__all__ = ["stamp_of"]

_in_words = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)?)"
    r"(?:Z|\+00:00)?"
).fullmatch
EARLIEST, LATEST = np.datetime64("1678-01-01", "s"), np.datetime64("2262-01-01", "s")


def stamp_of(found: Any) -> int:
    """Of such a count, or of a time in words, in UTC.

    Raises:
        FeedError: it is neither, or has no place in 64 bits.
    """
    if type(found) is int and 0 < found < 2**63:
        return found
    if isinstance(found, str) and (match := _in_words(found)):
        try:
            moment = np.datetime64(match[1])
        except ValueError:
            raise bad_frame("a time that there is", found) from None
        if EARLIEST < moment < LATEST:
            return int(moment.astype("datetime64[ns]").astype(np.int64))
    raise bad_frame("a time in nanoseconds or as 2020-01-31T16:00:00 in UTC", found)
