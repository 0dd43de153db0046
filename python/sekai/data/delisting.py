"""Listing lifetimes: where assets are listed, and delistings inferred from missing rows.

Nothing is inferred unless a rule is named: `delist_after` trading days without a row. A trading day
is a day, where the market is, on which the panel has at least one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, Calendar, utc_offset
from sekai.data.problems import Problem

__all__ = ["ArrivingLifetimes", "checked_delist_after", "inferred_delistings", "lifetimes"]

Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]
Times = NDArray[np.datetime64]

NEVER = np.iinfo(np.int64).min // 2
"""The day on which an asset was last seen that never was."""


def checked_delist_after(delist_after: int | None) -> int | None:
    """Return a number of trading days, or None for no rule.

    Raises:
        ValueError: it is no whole number of at least one day.
    """
    if delist_after is None:
        return None
    is_whole = isinstance(delist_after, int | np.integer) and not isinstance(delist_after, bool)
    if not is_whole or delist_after < 1:
        raise ValueError(
            f"delist_after must be a whole number of trading days, at least 1, or None to infer "
            f"no delisting; was {delist_after!r}"
        )
    return int(delist_after)


def lifetimes(seen: Bools, delist_after: int | None = None, days: Integers | None = None) -> Bools:
    """Rows in which assets are listed: from the first in which they are seen.

    Args:
        seen: rows by assets; where an asset has a value.
        delist_after: trading days after which an asset without a value counts as delisted, from
            the first row of the last of those days on, until it is seen again; None for never.
        days: the number of each row's trading day (`Calendar.day_numbers`); a day for each row if
            not given.
    """
    rule = checked_delist_after(delist_after)
    rows = np.arange(len(seen))
    day = rows if days is None else days
    listed = np.empty(seen.shape, np.bool_)
    # Some assets at a time: counts take eight times the memory of the masks.
    for start in range(0, seen.shape[1], 32):
        some = slice(start, start + 32)
        last = np.maximum.accumulate(np.where(seen[:, some], rows[:, None], -1), axis=0)
        listed[:, some] = last >= 0
        if rule is not None:
            listed[:, some] &= day[:, None] - day[np.maximum(last, 0)] < rule
    return listed


def inferred_delistings(
    seen: Bools, listed: Bools, times: Times, assets: Sequence[str], delist_after: int
) -> list[Problem]:
    """Report of every delisting that a rule inferred: asset, last row with a value, and rule."""
    reports = []
    ends, places = np.nonzero(listed[:-1] & ~listed[1:])
    for row, place in zip((ends + 1).tolist(), places.tolist(), strict=True):
        back = np.flatnonzero(listed[row:, place])
        until = row + int(back[0]) if len(back) else len(listed)
        last = times[np.flatnonzero(seen[:row, place])[-1]]
        reports.append(
            Problem(
                "delisting", f"no row after {last}, by delist_after={delist_after} trading days",
                assets[place], time=times[row], until=times[until - 1], count=until - row,
                policy="delisted",
            )
        )  # fmt: skip
    return reports


class ArrivingLifetimes:
    """The rule of `lifetimes` for rows that arrive one at a time."""

    def __init__(self, calendar: Calendar, seen: Bools, listed: Bools, delist_after: int) -> None:
        """Begin after a history.

        Args:
            calendar: of the history.
            seen: where assets have a value in it.
            listed: where they are listed in it.
            delist_after: trading days without a row.
        """
        self._rule = delist_after
        self._zone = None if calendar.timezone is None else ZoneInfo(calendar.timezone)
        days, rows = calendar.day_numbers, len(seen)
        last = np.full(seen.shape[1], NEVER)
        if rows:
            # What is listed and was not seen in rows that are known was seen before them.
            last[listed[-1]] = days[0]
            any_seen = seen.any(axis=0)
            last_rows = rows - 1 - np.argmax(seen[::-1], axis=0)
            last[any_seen] = days[last_rows[any_seen]]
        self._day = int(days[-1]) if rows else 0
        self._date = int(calendar.dates[-1].astype(np.int64)) if rows else NEVER
        self._last = last
        self._before = (self._day, self._date, self._last)

    def alive(self, time: np.datetime64, listed: Bools) -> Bools:
        """Assets that stay listed in a row in which they are not seen.

        Args:
            time: when the row is known.
            listed: where assets were listed in the row before.
        """
        day, _ = self._day_of(time)
        alive: Bools = listed & (day - self._last < self._rule)
        return alive

    def take(self, time: np.datetime64, seen: Bools) -> None:
        """Go on to the next row."""
        self._before = (self._day, self._date, self._last)
        self._day, self._date = self._day_of(time)
        self._last = np.where(seen, self._day, self._last)

    def take_back(self) -> None:
        """Be as before the last row that was taken."""
        self._day, self._date, self._last = self._before

    def _day_of(self, time: np.datetime64) -> tuple[int, int]:
        instant = int(time.astype("datetime64[ns]").astype(np.int64))
        if self._zone is not None:
            instant += utc_offset(instant, self._zone)
        date = instant // DAY
        return self._day + (date != self._date), date
