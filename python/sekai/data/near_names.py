"""Names that a user may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["near"]

SHOWN = 3


def near(wanted: str, names: Iterable[str]) -> str:
    """What to add to an error about a name that is not there: the nearest, or some that are."""
    by_lower_case = {name.lower(): name for name in names}
    close = get_close_matches(wanted.lower(), by_lower_case, n=SHOWN)
    if close:
        return f"; did you mean {' or '.join(repr(by_lower_case[name]) for name in close)}?"
    some = sorted(by_lower_case.values())
    more = f" and {len(some) - 2 * SHOWN} more" if len(some) > 2 * SHOWN else ""
    return f"; there are {', '.join(some[: 2 * SHOWN])}{more}" if some else "; there are none"
