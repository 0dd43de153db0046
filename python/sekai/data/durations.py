"""Lengths of time as people write them: `90d`, `15min`, `12h`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import numpy as np

from sekai.data.calendar import UNITS

__all__ = ["Duration", "duration", "is_duration"]

Duration = str | timedelta | np.timedelta64

NANOSECONDS = {"w": 7 * dict(UNITS)["d"], **dict(UNITS)}


def is_duration(given: Any) -> bool:
    """Whether this is a length of time, and not a number of rows."""
    return isinstance(given, (str, timedelta, np.timedelta64))


def duration(given: Duration) -> int:
    """A length of time in nanoseconds, not below 0."""
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", given)
        if not found or found[2] not in NANOSECONDS:
            raise ValueError(
                f"a time such as '90d' was wanted, a number and one of {', '.join(NANOSECONDS)}, "
                f"found {given!r}"
            )
        return round(float(found[1]) * NANOSECONDS[found[2]])
    if not is_duration(given) or np.isnat(np.timedelta64(given)):
        raise TypeError(f"a time such as '90d' or a timedelta was wanted, found {given!r}")
    length = int(np.timedelta64(given).astype("timedelta64[ns]").astype(np.int64))
    if length < 0:
        raise ValueError(f"a time that is not below 0 was wanted, found {given!r}")
    return length
