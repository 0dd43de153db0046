"""Listing lifetimes: rows in which assets are listed, and delistings inferred from missing rows.

A delisting is inferred only by the rule `delist_after`, a number of trading days without a row. A
trading day is a local day on which the panel has at least one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, Calendar, utc_offset
from sekai.data.problems import Problem, checked_delist_after
from sekai.error import StateError

Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]
Times = NDArray[np.datetime64]

NEVER = np.iinfo(np.int64).min // 2
"""Last day with a value of an asset that has none."""


def lifetimes(seen: Bools, delist_after: int | None = None, days: Integers | None = None) -> Bools:
    """Mask of rows in which assets are listed: from their first value on.

    Args:
        seen: rows by assets; True where an asset has a value.
        delist_after: trading days without a value after which an asset counts as delisted, from
            the first row of the last of these days until its next value; None for never.
        days: trading-day number of each row (`Calendar.day_numbers`); one day per row by default.
    """
    rule = checked_delist_after(delist_after)
    rows = np.arange(len(seen))
    day = rows if days is None else days
    listed = np.empty(seen.shape, np.bool_)
    # In blocks of assets: int64 counts need eight times the memory of the masks.
    for start in range(0, seen.shape[1], 32):
        block = slice(start, start + 32)
        last = np.maximum.accumulate(np.where(seen[:, block], rows[:, None], -1), axis=0)
        listed[:, block] = last >= 0
        if rule is not None:
            listed[:, block] &= day[:, None] - day[np.maximum(last, 0)] < rule
    return listed


def inferred_delistings(
    seen: Bools, listed: Bools, times: Times, assets: Sequence[str], delist_after: int
) -> list[Problem]:
    """Report every inferred delisting with its asset, last row with a value, and rule."""
    reports = []
    ends, columns = np.nonzero(listed[:-1] & ~listed[1:])
    for row, column in zip((ends + 1).tolist(), columns.tolist(), strict=True):
        relisted = np.flatnonzero(listed[row:, column])
        until = row + int(relisted[0]) if len(relisted) else len(listed)
        last = times[np.flatnonzero(seen[:row, column])[-1]]
        reports.append(
            Problem(
                "delisting",
                f"no row after {last}, by delist_after={delist_after} trading days",
                assets[column],
                time=times[row],
                until=times[until - 1],
                count=until - row,
                policy="delisted",
            )
        )
    return reports


class StreamingLifetimes:
    """Streaming counterpart of `lifetimes` for rows that arrive one at a time.

    Args:
        calendar: calendar of the history.
        seen: rows by assets of the history; True where an asset has a value.
        listed: mask of the history.
        delist_after: trading days without a row after which an asset is delisted.
    """

    def __init__(self, calendar: Calendar, seen: Bools, listed: Bools, delist_after: int) -> None:
        self._rule = delist_after
        self._zone = None if calendar.timezone is None else ZoneInfo(calendar.timezone)
        days, rows = calendar.day_numbers, len(seen)
        last = np.full(seen.shape[1], NEVER)
        if rows:
            # A listed asset without a value in the history had its last value before it.
            last[listed[-1]] = days[0]
            any_seen = seen.any(axis=0)
            last_rows = rows - 1 - np.argmax(seen[::-1], axis=0)
            last[any_seen] = days[last_rows[any_seen]]
        self._day = int(days[-1]) if rows else 0
        self._date = int(calendar.dates[-1].astype(np.int64)) if rows else NEVER
        self._last = last
        self._before = (self._day, self._date, self._last)

    def still_listed(self, time: np.datetime64, listed: Bools) -> Bools:
        """Mask of assets that stay listed at `time` without a value.

        Args:
            time: timestamp of the row.
            listed: mask of the previous row.
        """
        day, _ = self._day_of(time)
        mask: Bools = listed & (day - self._last < self._rule)
        return mask

    def push(self, time: np.datetime64, seen: Bools) -> None:
        """Advance by one row."""
        self._before = (self._day, self._date, self._last)
        self._day, self._date = self._day_of(time)
        self._last = np.where(seen, self._day, self._last)

    def take_back(self) -> None:
        """Undo the last `push`."""
        self._day, self._date, self._last = self._before

    def state_dict(self) -> dict[str, Any]:
        """State from which later rows continue."""
        return {"day": self._day, "date": self._date, "last": self._last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        last = np.array(state["last"], np.int64)
        if last.shape != self._last.shape:
            raise StateError(f"expected the last days of {self._last.size} assets, got {last.size}")
        self._day, self._date, self._last = int(state["day"]), int(state["date"]), last
        self._before = (self._day, self._date, self._last)

    def _day_of(self, time: np.datetime64) -> tuple[int, int]:
        instant = int(time.astype("datetime64[ns]").astype(np.int64))
        if self._zone is not None:
            instant += utc_offset(instant, self._zone)
        date = instant // DAY
        return self._day + (date != self._date), date
