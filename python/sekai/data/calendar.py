"""When rows are stamped: how far apart, how many in a year, and on which days."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

__all__ = ["DAY", "Calendar", "Frequency", "utc_instant", "utc_offset"]

Times = NDArray[np.datetime64]
DAY = 86_400 * 10**9
YEAR_DAYS = 365.2425
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
UNITS = (("d", DAY), ("h", DAY // 24), ("min", DAY // 1440), ("s", 10**9), ("ms", 10**6), ("ns", 1))

_with_zone = re.compile(r"(.+[T ][0-9:.]+)(?:Z|([+-][0-9]{2}:[0-9]{2}))").fullmatch


def utc_instant(moment: str | date | np.datetime64) -> np.datetime64:
    """A date or a time as an instant in UTC; one without a zone is in UTC already."""
    if isinstance(moment, str) and (match := _with_zone(moment)):
        moment = datetime.fromisoformat(match[1] + (match[2] or "+00:00"))
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc).replace(tzinfo=None)
    if isinstance(moment, np.datetime64):
        instant: np.datetime64 = moment.astype("datetime64[ns]")
        return instant
    return np.datetime64(moment, "ns")


@dataclass(frozen=True, slots=True)
class Frequency:
    """How often there is a row."""

    nanoseconds: int
    """The usual distance of two rows."""

    periods_per_year: float
    """Rows in a year, counted from the stamps: what annualisation goes by."""

    def __post_init__(self) -> None:
        if self.nanoseconds < 1 or not self.periods_per_year > 0:
            raise ValueError(
                f"a distance and a number of rows per year above 0 were wanted, found "
                f"{self.nanoseconds} ns and {self.periods_per_year}"
            )

    @property
    def name(self) -> str:
        """The distance as people write it: `1d`, `5min`."""
        unit, size = next((u, n) for u, n in UNITS if self.nanoseconds % n == 0)
        return f"{self.nanoseconds // size}{unit}"


class Calendar:
    """The stamps of a panel, and what follows from them."""

    def __init__(self, times: Times, timezone: str | None = None) -> None:
        """Take stamps in UTC, ascending.

        Args:
            times: when the rows were known, strictly ascending, without a zone of their own.
            timezone: where days begin and end, such as `America/New_York`; None for UTC.
        """
        self.times = times
        self.timezone = timezone

    @cached_property
    def frequency(self) -> Frequency:
        """The usual distance of rows, and their number in a year.

        The distance is the one that occurs most often. Rows per year are counted: a week has five
        daily bars of stocks and seven of coins, without anybody having to say so.
        """
        if len(self.times) < 2:
            return Frequency(DAY, YEAR_DAYS)
        steps = np.diff(self.nanoseconds)
        distances, counts = np.unique(steps, return_counts=True)
        usual = int(distances[np.argmax(counts)])
        years = float(self.nanoseconds[-1] - self.nanoseconds[0]) / (DAY * YEAR_DAYS)
        return Frequency(usual, (len(self.times) - 1) / years)

    @cached_property
    def nanoseconds(self) -> NDArray[np.int64]:
        """The stamps as nanoseconds since 1970 in UTC."""
        return self.times.astype("datetime64[ns]").astype(np.int64)

    @cached_property
    def days_since_previous(self) -> NDArray[np.float64]:
        """Calendar days that went by before each row, 0 for the first: what financing goes by."""
        return np.diff(self.nanoseconds, prepend=self.nanoseconds[:1]) / DAY

    @cached_property
    def dates(self) -> Times:
        """The day of each row where the market is."""
        return self.local.astype("datetime64[D]")

    @cached_property
    def day_numbers(self) -> NDArray[np.int64]:
        """The number of each row's trading day: days that have a row, counted from 0."""
        dates = self.dates.astype(np.int64)
        return np.cumsum(np.diff(dates, prepend=dates[:1]) != 0)

    @cached_property
    def local(self) -> Times:
        """What the clocks of the time zone show at each row."""
        if self.timezone is None:
            return self.times.astype("datetime64[ns]")
        offsets = _offsets(self.nanoseconds, ZoneInfo(self.timezone))
        return (self.nanoseconds + offsets).astype("datetime64[ns]")

    @cached_property
    def sessions(self) -> Times:
        """The days that have a row, ascending."""
        return np.unique(self.dates)

    def gaps(self, longest: float) -> NDArray[np.intp]:
        """The rows that come more than `longest` times the usual distance after the one before."""
        return np.flatnonzero(np.diff(self.nanoseconds) > longest * self.frequency.nanoseconds) + 1


def utc_offset(nanoseconds: int, zone: ZoneInfo) -> int:
    """How far a zone's clocks are ahead of UTC at an instant, in nanoseconds."""
    moment = EPOCH + timedelta(seconds=nanoseconds // 10**9)
    return round((moment.astimezone(zone).utcoffset() or timedelta(0)).total_seconds()) * 10**9


def _offsets(instants: NDArray[np.int64], zone: ZoneInfo) -> NDArray[np.int64]:
    """How far clocks are ahead at each instant: one look a day, unless they are set on that day."""
    days, places = np.unique(instants // DAY, return_inverse=True)
    begin, end = (
        np.array([utc_offset(int(day) * DAY, zone) for day in shifted], np.int64)
        for shifted in (days, days + 1)
    )
    offsets: NDArray[np.int64] = begin[places]
    for row in np.flatnonzero((begin != end)[places]):
        offsets[row] = utc_offset(int(instants[row]), zone)
    return offsets
