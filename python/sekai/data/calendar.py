"""Trading calendar: timestamps, frequency, local days, and durations such as `90d`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sekai.storage.display import short_time

Times = NDArray[np.datetime64]
DAY = 86_400 * 10**9
"""Nanoseconds."""
YEAR_DAYS = 365.2425
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
UNITS = (("d", DAY), ("h", DAY // 24), ("min", DAY // 1440), ("s", 10**9), ("ms", 10**6), ("ns", 1))
NANOSECONDS = {"w": 7 * DAY, **dict(UNITS)}

Duration = str | timedelta | np.timedelta64

Moment = str | date | np.datetime64
"""Times as users write them; a Timestamp of pandas is a date."""

_with_zone = re.compile(r"(.+[T ][0-9:.]+)(?:Z|([+-][0-9]{2}):?([0-9]{2})?)").fullmatch


def utc_instant(moment: Moment) -> np.datetime64:
    """Convert a date or time to a UTC timestamp; one without a zone is taken as UTC."""
    if isinstance(moment, str) and (match := _with_zone(moment)):
        moment = datetime.fromisoformat(f"{match[1]}{match[2] or '+00'}:{match[3] or '00'}")
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc).replace(tzinfo=None)
    if isinstance(moment, np.datetime64):
        instant: np.datetime64 = moment.astype("datetime64[ns]")
        return instant
    return np.datetime64(moment, "ns")


def local_time(moment: Moment) -> np.datetime64:
    """Convert a date or time by the clock of the market; one with a time zone is refused."""
    if not isinstance(moment, Moment):
        raise TypeError(f"time must be a string, datetime or datetime64, got {moment!r}")
    has_zone = _with_zone(moment.strip()) if isinstance(moment, str) else False
    if has_zone or getattr(moment, "tzinfo", None) is not None:
        raise ValueError(
            f"time must be local, without a time zone, got {moment}; convert it to local time of "
            "the market and drop it"
        )
    try:
        # First: a Timestamp of pandas has nanoseconds, which a datetime has not.
        convert = getattr(moment, "to_datetime64", None)
        time: np.datetime64 = np.datetime64(moment) if convert is None else convert()
    except ValueError as error:
        raise ValueError(
            f"time must be a date or a time such as '2020-01-31 09:30', got {moment!r}"
        ) from error
    if np.isnat(time):
        raise ValueError(f"time must not be NaT, got {moment!r}")
    return time


@dataclass(frozen=True, slots=True)
class Frequency:
    """Interval between rows and number of rows per year."""

    nanoseconds: int
    """Usual interval between two rows."""

    periods_per_year: float
    """Rows per year counted from the timestamps, used for annualization."""

    def __post_init__(self) -> None:
        if self.nanoseconds < 1 or not self.periods_per_year > 0:
            raise ValueError(
                f"interval and rows per year must be above 0, got {self.nanoseconds} ns and "
                f"{self.periods_per_year}"
            )

    @property
    def name(self) -> str:
        """Interval as text: `1d`, `5min`."""
        unit, size = next((u, n) for u, n in UNITS if self.nanoseconds % n == 0)
        return f"{self.nanoseconds // size}{unit}"


class Calendar:
    """Timestamps of a panel, and the days and frequency derived from them.

    Args:
        times: timestamps of the rows in UTC, strictly ascending.
        timezone: time zone in which days begin and end, such as `America/New_York`; None for UTC.
    """

    def __init__(self, times: Times, timezone: str | None = None) -> None:
        self.times = times
        self.timezone = timezone

    def __repr__(self) -> str:
        ends = [short_time(time) for time in self.times[[0, -1]]] if len(self.times) else []
        span = f", {' to '.join(ends)}" if ends else ""
        return f"Calendar({len(self.times):,} rows{span}, {self.timezone or 'UTC'})"

    @cached_property
    def frequency(self) -> Frequency:
        """Most frequent interval between rows, and their number per year.

        Rows per year are counted, so daily bars give about 260 for stocks and 365 for crypto.
        """
        if len(self.times) < 2:
            return Frequency(DAY, YEAR_DAYS)
        steps = np.diff(self.nanoseconds)
        intervals, counts = np.unique(steps, return_counts=True)
        usual = int(intervals[np.argmax(counts)])
        years = float(self.nanoseconds[-1] - self.nanoseconds[0]) / (DAY * YEAR_DAYS)
        return Frequency(usual, (len(self.times) - 1) / years)

    @cached_property
    def nanoseconds(self) -> NDArray[np.int64]:
        """Timestamps as nanoseconds since 1970 in UTC."""
        return self.times.astype("datetime64[ns]").astype(np.int64)

    @cached_property
    def days_since_previous(self) -> NDArray[np.float64]:
        """Calendar days since the previous row, 0 for the first; used for financing."""
        return np.diff(self.nanoseconds, prepend=self.nanoseconds[:1]) / DAY

    @cached_property
    def dates(self) -> Times:
        """Local day of each row."""
        return self.local.astype("datetime64[D]")

    @cached_property
    def day_numbers(self) -> NDArray[np.int64]:
        """Trading-day number of each row: days with a row, counted from 0."""
        dates = self.dates.astype(np.int64)
        return np.cumsum(np.diff(dates, prepend=dates[:1]) != 0)

    @cached_property
    def local(self) -> Times:
        """Local time of each row."""
        if self.timezone is None:
            return self.times.astype("datetime64[ns]")
        offsets = _offsets(self.nanoseconds, ZoneInfo(self.timezone))
        return (self.nanoseconds + offsets).astype("datetime64[ns]")

    @cached_property
    def sessions(self) -> Times:
        """Days with a row, ascending."""
        return np.unique(self.dates)

    def gaps(self, longest: float) -> NDArray[np.intp]:
        """Rows that follow the previous one by more than `longest` usual intervals."""
        return np.flatnonzero(np.diff(self.nanoseconds) > longest * self.frequency.nanoseconds) + 1


def utc_offset(nanoseconds: int, zone: ZoneInfo) -> int:
    """UTC offset of a zone at an instant, in nanoseconds."""
    moment = EPOCH + timedelta(seconds=nanoseconds // 10**9)
    return round((moment.astimezone(zone).utcoffset() or timedelta(0)).total_seconds()) * 10**9


def _offsets(instants: NDArray[np.int64], zone: ZoneInfo) -> NDArray[np.int64]:
    """UTC offset at each instant: one lookup a day, except on days with a clock change."""
    days, index = np.unique(instants // DAY, return_inverse=True)
    begin, end = (
        np.array([utc_offset(int(day) * DAY, zone) for day in shifted], np.int64)
        for shifted in (days, days + 1)
    )
    offsets: NDArray[np.int64] = begin[index]
    for row in np.flatnonzero((begin != end)[index]):
        offsets[row] = utc_offset(int(instants[row]), zone)
    return offsets


def is_duration(value: Any) -> bool:
    """Return True if `value` is a duration and not a number of rows."""
    return isinstance(value, (str, timedelta, np.timedelta64))


def duration(value: Duration) -> int:
    """Convert a duration such as `90d` to nanoseconds."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", value)
        if not match or match[2] not in NANOSECONDS:
            raise ValueError(
                f"invalid duration {value!r}; expected a number and a unit such as '90d', units "
                f"are {', '.join(NANOSECONDS)}"
            )
        return round(float(match[1]) * NANOSECONDS[match[2]])
    if not is_duration(value) or np.isnat(np.timedelta64(value)):
        raise TypeError(f"duration must be a string such as '90d' or a timedelta, got {value!r}")
    length = int(np.timedelta64(value).astype("timedelta64[ns]").astype(np.int64))
    if length < 0:
        raise ValueError(f"duration must be at least 0, got {value!r}")
    return length


def as_timedelta(value: Duration) -> timedelta:
    """Convert a duration such as `1min` to a timedelta."""
    return timedelta(microseconds=duration(value) / 1000)
