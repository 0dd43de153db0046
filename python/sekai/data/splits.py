"""Splits of a panel: training, validation and test parts, and walk-forward folds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, overload

import numpy as np

from sekai.data.calendar import Duration, duration, utc_instant
from sekai.data.market_data import MarketData

Amount = int | Duration
"""Rows, or a duration such as `90d`."""


def split(
    data: MarketData,
    *parts: float | str | date | np.datetime64,
    embargo: Amount = 0,
    warm_up: Amount = 0,
) -> tuple[MarketData, ...]:
    """Split a panel into consecutive parts.

    Warm-up rows of the panel itself stay with the first part, whose size does not include them.

    Args:
        data: panel.
        parts: fractions of all parts, such as `0.6, 0.2, 0.2`, or of all but the last; or the
            first dates of the parts after the first.
        embargo: rows, or duration, left out at the end of each part but the last.
        warm_up: rows, or duration, of history before each part but the first. They may be rows of
            the embargo and of the part before, and are fewer at the start of the panel; see
            `MarketData.warm_up`.
    """
    begins = [data.warm_up, *_begins(data, parts)]
    ends = [*(_back(data, begin, embargo) for begin in begins[1:]), len(data)]
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if end <= begin:
            raise ValueError(
                f"part {number + 1} of {len(begins)} has no rows: {len(data)} rows in all, "
                f"embargo {embargo}; use fewer parts or a shorter embargo"
            )
    first = data.rows(0, ends[0], warm_up=data.warm_up)
    later = zip(begins[1:], ends[1:], strict=True)
    return first, *(_with_history(data, begin, end, warm_up) for begin, end in later)


@dataclass(frozen=True, slots=True)
class Fold:
    """Fold of a walk-forward split: training part, and the test part after it."""

    number: int
    train: MarketData
    test: MarketData


class WalkForward(Sequence[Fold]):
    """Walk-forward folds whose test parts move through a panel.

    Folds are cut on access. An incomplete fold at the end is left out.

    Args:
        data: panel.
        train_rows: rows, or duration, of each training part; of the first if `expanding`.
        test_rows: rows, or duration, of each test part.
        step: distance between folds; `test_rows` by default, so that test parts are consecutive.
        embargo: rows, or duration, left out between training and test.
        warm_up: rows, or duration, of history before a test part.
        expanding: train on all rows from the beginning, instead of the last `train_rows`.
    """

    def __init__(
        self,
        data: MarketData,
        *,
        train_rows: Amount,
        test_rows: Amount,
        step: Amount | None = None,
        embargo: Amount = 0,
        warm_up: Amount = 0,
        expanding: bool = False,
    ) -> None:
        self._data = data
        self._warm_up = warm_up
        step = test_rows if step is None else step
        self._cuts: list[tuple[int, int, int, int]] = []
        begin = data.warm_up
        while True:
            end = _ahead(data, begin, train_rows)
            test = None if end is None else _ahead(data, end, embargo)
            stop = None if test is None else _ahead(data, test, test_rows)
            if end is None or test is None or stop is None:
                break
            _require_rows(begin, end, test, stop)
            self._cuts.append((data.warm_up if expanding else begin, end, test, stop))
            following = _ahead(data, begin, step)
            if following is None:
                break
            if following == begin:
                raise ValueError(f"step must be at least 1 row, got {step}")
            begin = following
        if not self._cuts:
            raise ValueError(
                f"too few rows for one fold: got {len(data) - data.warm_up}, need {train_rows} to "
                f"train, {embargo} of embargo and {test_rows} to test; pass more history"
            )

    def __repr__(self) -> str:
        return f"WalkForward({len(self)} folds of {self._data!r})"

    def __len__(self) -> int:
        return len(self._cuts)

    @overload
    def __getitem__(self, index: int) -> Fold: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fold]: ...
    def __getitem__(self, index: int | slice) -> Fold | list[Fold]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        begin, end, test, stop = self._cuts[number]
        train = _cut(self._data, begin, end, begin if begin == self._data.warm_up else 0)
        return Fold(number, train, _with_history(self._data, test, stop, self._warm_up))

    def __iter__(self) -> Iterator[Fold]:
        return (self[number] for number in range(len(self)))


def row_range(data: MarketData, start: Any, end: Any) -> tuple[int, int]:
    """First row from `start` on, and the row after the last one up to `end`.

    A date stands for its beginning as `start`, and for the whole day as `end`.
    """
    from sekai.data.reading.options import nanoseconds

    times = data.calendar.nanoseconds
    begin, stop = 0, len(times)
    if start is not None:
        begin = int(np.searchsorted(times, nanoseconds(start, data.timezone), "left"))
    if end is not None and (day := _whole_day(end)) is not None:
        # Days by the local clock, with 23 to 25 hours.
        stop = int(np.searchsorted(data.calendar.dates, day, "right"))
    elif end is not None:
        stop = int(np.searchsorted(times, nanoseconds(end, data.timezone), "right"))
    if stop <= begin:
        span = f"from {data.times[0]} to {data.times[-1]}" if len(times) else "none"
        raise ValueError(f"no rows between {start} and {end}; the panel has rows {span}")
    return begin, stop


def _whole_day(moment: Any) -> np.datetime64 | None:
    """Day of a date without a time of day."""
    if isinstance(moment, str) and len(moment.strip()) == len("2020-01-31"):
        return np.datetime64(moment.strip(), "D")
    if isinstance(moment, np.datetime64) and np.datetime_data(moment)[0] == "D":
        return moment
    if isinstance(moment, date) and not isinstance(moment, datetime):
        return np.datetime64(moment, "D")
    return None


def _cut(data: MarketData, begin: int, end: int, history: int) -> MarketData:
    return data.rows(begin - history, end, warm_up=history)


def _with_history(data: MarketData, begin: int, end: int, warm_up: Amount) -> MarketData:
    return _cut(data, begin, end, begin - max(0, _back(data, begin, warm_up)))


def _begins(data: MarketData, parts: Sequence[Any]) -> list[int]:
    if not parts:
        raise TypeError("pass fractions or dates to split at, got none")
    if all(isinstance(part, (str, date, datetime, np.datetime64)) for part in parts):
        times = np.array([utc_instant(part) for part in parts])
        begins = [int(row) for row in data.times.searchsorted(times, "left")]
    elif all(isinstance(part, (int, float)) and 0 < part < 1 for part in parts):
        begins = _shares(len(data) - data.warm_up, [float(part) for part in parts])
        begins = [data.warm_up + begin for begin in begins]
    else:
        raise ValueError(f"parts must be fractions between 0 and 1, or dates, got {parts}")
    if sorted(set(begins)) != begins or begins[0] <= data.warm_up or begins[-1] >= len(data):
        raise ValueError(f"every part must have rows, got {parts} of {data!r}")
    return begins


def _shares(rows: int, parts: list[float]) -> list[int]:
    total = sum(parts)
    if total > 1 + 1e-9:
        raise ValueError(f"fractions must add up to at most 1, got {parts}")
    ends = [round(end * rows) for end in itertools.accumulate(parts)]
    return ends[:-1] if total > 1 - 1e-9 else ends


def _back(data: MarketData, row: int, amount: Amount) -> int:
    """First row less than a duration before `row`, or `amount` rows before it."""
    if isinstance(amount, int):
        return max(0, row - _checked_rows(amount))
    times = data.calendar.nanoseconds
    since = int(times[row]) - duration(amount)
    return min(row, int(np.searchsorted(times, since, "left")))


def _ahead(data: MarketData, row: int, amount: Amount) -> int | None:
    """First row `amount` after `row`; None if the data ends before."""
    if isinstance(amount, int):
        ahead = row + _checked_rows(amount)
        return ahead if ahead <= len(data) else None
    times = data.calendar.nanoseconds
    if row >= len(data):
        return None if duration(amount) else row
    end = int(times[row]) + duration(amount)
    # A part is complete if the row that would follow the last is outside of it.
    if end > times[-1] + data.frequency.nanoseconds:
        return None
    return int(np.searchsorted(times, end, "left"))


def _checked_rows(amount: int) -> int:
    if isinstance(amount, bool) or amount < 0:
        raise ValueError(
            f"expected rows of at least 0, or a duration such as '90d', got {amount!r}"
        )
    return amount


def _require_rows(begin: int, end: int, test: int, stop: int) -> None:
    if end <= begin or stop <= test:
        raise ValueError(
            f"training and test part must have rows, got {end - begin} and {stop - test}"
        )
