"""Moments as users write them."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

__all__ = ["Moment", "moment"]

Moment = str | date | np.datetime64
"""A stamp of pandas is a date too."""


def moment(value: Any) -> np.datetime64:
    """A moment in nanoseconds, from a string, a date or stamp of Python, NumPy or pandas.

    Orders go by the clocks of their market, as ticks do, so a moment has no time zone.
    """
    if getattr(value, "tzinfo", None) is not None:
        raise ValueError(
            f"a moment as the market's clocks show it was wanted, found {value!r} with a time "
            f"zone: convert it to the market's zone and drop the zone"
        )
    if not isinstance(value, (str, date, np.datetime64)):
        raise TypeError(f"a string, datetime or datetime64 was wanted, found {value!r}")
    try:
        # Asked for first: a stamp of pandas knows nanoseconds, which a datetime does not.
        convert = getattr(value, "to_datetime64", None)
        found = np.datetime64(value) if convert is None else convert()
        found = found.astype("datetime64[ns]")
    except ValueError as error:
        raise ValueError(f"a moment such as '2020-01-31 09:30' was wanted: {error}") from error
    if np.isnat(found):
        raise ValueError(f"a moment was wanted, found none (NaT): {value!r}")
    result: np.datetime64 = found
    return result
