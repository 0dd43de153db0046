"""When the rows of a simulated market are, and how much of a year each of them takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, UNITS, YEAR_DAYS, Frequency, utc_instant

__all__ = ["Clock"]

Floats = NDArray[np.float64]

OPENS = DAY * 19 // 48
CLOSES = DAY * 2 // 3
WEEKDAYS_PER_WEEK = 5 / 7
LAST_DAY = np.datetime64("2262-04-10")
"""The last whole day that nanoseconds since 1970 can be counted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The stamps of a simulated market.

    A row is stamped when it is over. On weekdays the market is open from 9:30 to 16:00 UTC, and a
    daily row is stamped at 16:00; a market that is always open has days of 24 hours. The clock
    knows no holidays.
    """

    start: str = "2000-01-03"
    """The first day."""

    frequency: str = "1d"
    """How often there is a row: `1d`, or a part of a day such as `1h` and `5min`."""

    calendar: Literal["weekdays", "always"] = "weekdays"
    """Whether the market sleeps at night and at weekends."""

    overnight: float = 0.0
    """The share of a day's variance that falls between a close and the next open."""

    def __post_init__(self) -> None:
        if self.calendar not in ("weekdays", "always"):
            raise ValueError(f"calendar must be 'weekdays' or 'always', was {self.calendar!r}")
        if not 0 <= self.overnight < 1:
            raise ValueError(f"overnight must be from 0 to below 1, was {self.overnight}")
        if self.overnight and self.calendar == "always":
            raise ValueError(f"a market that never closes has no overnight, was {self.overnight}")
        if np.isnat(utc_instant(self.start)):
            raise ValueError(f"start must be a day, was {self.start!r}")
        _nanoseconds(self.frequency)

    @property
    def rows_per_day(self) -> int:
        """How many rows a day has; the last may be shorter than the others."""
        return -(-self._open_for // min(_nanoseconds(self.frequency), self._open_for))

    @property
    def periods_per_year(self) -> float:
        """Rows in a year, on average."""
        days = YEAR_DAYS * (WEEKDAYS_PER_WEEK if self.calendar == "weekdays" else 1)
        return days * self.rows_per_day

    def times(self, rows: int) -> NDArray[np.datetime64]:
        """The stamps of the first `rows` rows."""
        day, within = np.divmod(np.arange(rows), self.rows_per_day)
        first = utc_instant(self.start).astype("datetime64[D]")
        if self.calendar == "weekdays":
            days = np.busday_offset(first, day, roll="forward")
        else:
            days = first + day
        if rows and days[-1] > LAST_DAY:
            raise ValueError(
                f"{rows:,} rows from {self.start} on end in {days[-1]}, and stamps end in "
                f"{LAST_DAY}: take fewer rows, an earlier start, or a higher frequency"
            )
        since_midnight = self._opens + self._ends(within)
        stamps: NDArray[np.datetime64] = days.astype("datetime64[ns]") + since_midnight.astype(
            "timedelta64[ns]"
        )
        return stamps

    @property
    def panel_frequency(self) -> Frequency:
        """How often there is a row, as panels say it."""
        return Frequency(_nanoseconds(self.frequency), self.periods_per_year)

    def years(self, rows: int) -> tuple[Floats, Floats]:
        """The time that passes before the open of each row, and within it, in years.

        Nothing passes before the first row: it opens at the price the market begins with.
        """
        day = self.rows_per_day / self.periods_per_year
        within = np.arange(rows) % self.rows_per_day
        before = np.where(within == 0, self.overnight * day, 0.0)
        before[:1] = 0.0
        length = self._ends(within) - within * _nanoseconds(self.frequency)
        return before, length / self._open_for * (1 - self.overnight) * day

    def _ends(self, within: NDArray[np.int64]) -> NDArray[np.int64]:
        """When the rows of a day are over, since its open."""
        ends: NDArray[np.int64] = (within + 1) * _nanoseconds(self.frequency)
        return np.minimum(ends, self._open_for)

    @property
    def _open_for(self) -> int:
        return CLOSES - OPENS if self.calendar == "weekdays" else DAY

    @property
    def _opens(self) -> int:
        return OPENS if self.calendar == "weekdays" else 0


def _nanoseconds(frequency: str) -> int:
    sizes = dict(UNITS)
    found = re.fullmatch(r"([1-9][0-9]*)([a-z]+)", frequency)
    size = int(found[1]) * sizes.get(found[2], 0) if found else 0
    if not size or size > DAY:
        raise ValueError(f"frequency must be '1d' or less, such as '5min', was {frequency!r}")
    return size
