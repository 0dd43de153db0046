"""Schedule of a simulated market: timestamps of its rows, and their length in years."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, UNITS, YEAR_DAYS, Frequency, utc_instant

Floats = NDArray[np.float64]

OPENS = DAY * 19 // 48
CLOSES = DAY * 2 // 3
MONDAY = np.datetime64("2000-01-03")
WEEKDAYS_PER_WEEK = 5 / 7
END = np.datetime64("2024-12-31")
"""Last possible day of rows without a start."""
FIRST_MONDAY = np.datetime64("1677-09-27")
"""First Monday that fits into nanoseconds since 1970."""
LAST_DAY = np.datetime64("2262-04-10")
"""Last day that fits into nanoseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Timestamps of a simulated market.

    The timestamp of a row is its end. On weekdays the market is open from 9:30 to 16:00 UTC, and a
    daily row has the timestamp 16:00; a market that is always open has days of 24 hours. There
    are no holidays.
    """

    start: str | None = None
    """First day; by default a Monday such that the rows end in the week up to `END`."""

    frequency: str = "1d"
    """Interval between rows: `1d`, or a part of a day such as `1h` and `5min`."""

    calendar: Literal["weekdays", "always"] = "weekdays"
    """Open on weekdays from 9:30 to 16:00, or around the clock."""

    overnight: float = 0.0
    """Share of the daily variance between a close and the next open."""

    def __post_init__(self) -> None:
        if self.calendar not in ("weekdays", "always"):
            raise ValueError(f"calendar must be 'weekdays' or 'always', got {self.calendar!r}")
        if not 0 <= self.overnight < 1:
            raise ValueError(f"overnight must be at least 0 and below 1, got {self.overnight}")
        if self.overnight and self.calendar == "always":
            raise ValueError(
                f"overnight must be 0 for a market that is always open, got {self.overnight}"
            )
        if self.start is not None and np.isnat(utc_instant(self.start)):
            raise ValueError(f"start must be a day, got {self.start!r}")
        _nanoseconds(self.frequency)

    @property
    def rows_per_day(self) -> int:
        """Rows per day; the last may be shorter than the others."""
        return -(-self._open_for // min(_nanoseconds(self.frequency), self._open_for))

    @property
    def periods_per_year(self) -> float:
        """Mean number of rows per year."""
        days = YEAR_DAYS * (WEEKDAYS_PER_WEEK if self.calendar == "weekdays" else 1)
        return days * self.rows_per_day

    def times(self, rows: int) -> NDArray[np.datetime64]:
        """Timestamps of the first `rows` rows."""
        day, within = np.divmod(np.arange(rows), self.rows_per_day)
        days = self._days(self._first_day(int(day[-1]) if rows else 0), day)
        if rows and days[-1] > LAST_DAY:
            raise ValueError(
                f"{rows:,} rows from {days[0]} end on {days[-1]}, after the last timestamp "
                f"{LAST_DAY}; use fewer rows, an earlier start, or a higher frequency"
            )
        since_midnight = self._opens + self._ends(within)
        times: NDArray[np.datetime64] = days.astype("datetime64[ns]") + since_midnight.astype(
            "timedelta64[ns]"
        )
        return times

    def _days(self, first: np.datetime64, day: NDArray[np.int64]) -> NDArray[np.datetime64]:
        if self.calendar == "weekdays":
            return np.busday_offset(first, day, roll="forward")
        return np.asarray(first + day)

    def _first_day(self, last: int) -> np.datetime64:
        """First day; `last` is the number of the last one, counted from 0."""
        if self.start is not None:
            day: np.datetime64 = utc_instant(self.start).astype("datetime64[D]")
            return day
        # By whole weeks: weekends fall between the same rows whatever the number of rows.
        end = self._days(MONDAY, np.array([last]))[0]
        first: np.datetime64 = MONDAY + (END - end) // np.timedelta64(7, "D") * 7
        return max(first, FIRST_MONDAY)

    @property
    def panel_frequency(self) -> Frequency:
        """Frequency of the panel."""
        return Frequency(_nanoseconds(self.frequency), self.periods_per_year)

    def years(self, rows: int) -> tuple[Floats, Floats]:
        """Time before the open of each row and within it, in years; 0 before the first row."""
        day = self.rows_per_day / self.periods_per_year
        within = np.arange(rows) % self.rows_per_day
        before = np.where(within == 0, self.overnight * day, 0.0)
        before[:1] = 0.0
        length = self._ends(within) - within * _nanoseconds(self.frequency)
        return before, length / self._open_for * (1 - self.overnight) * day

    def _ends(self, within: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ends of the rows of a day, since its open."""
        ends: NDArray[np.int64] = (within + 1) * _nanoseconds(self.frequency)
        return np.minimum(ends, self._open_for)

    @property
    def _open_for(self) -> int:
        return CLOSES - OPENS if self.calendar == "weekdays" else DAY

    @property
    def _opens(self) -> int:
        return OPENS if self.calendar == "weekdays" else 0


def _nanoseconds(frequency: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]*)([a-z]+)", frequency)
    size = int(match[1]) * dict(UNITS).get(match[2], 0) if match else 0
    if not size or size > DAY:
        raise ValueError(f"frequency must be '1d' or shorter, such as '5min', got {frequency!r}")
    return size
