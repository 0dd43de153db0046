"""Parts of a panel that follow each other: to train on, to choose by, to test on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, overload

import numpy as np

from sekai.data.calendar import utc_instant
from sekai.data.durations import Duration, duration
from sekai.data.market_data import MarketData

__all__ = ["Fold", "WalkForward", "split"]

Amount = int | Duration
"""Rows, or a length of time such as `90d`."""


def split(
    data: MarketData,
    *parts: float | str | date | np.datetime64,
    embargo: Amount = 0,
    warm_up: Amount = 0,
) -> tuple[MarketData, ...]:
    """The panel in parts that follow each other.

    Warm-up rows of the panel itself stay with the first part, which is counted without them.

    Args:
        data: what is cut.
        parts: the fractions of all parts, such as `0.6, 0.2, 0.2`, or of all but the last; or the
            dates with which the parts after the first begin.
        embargo: rows, or time, between two parts that belong to neither. They are taken from
            the end of the earlier one.
        warm_up: rows, or time, of history that each part but the first begins with. They come
            before the part, so that they may be rows of the embargo and of the part before;
            fewer if the panel does not go back so far. `MarketData.warm_up` tells how many.
    """
    begins = [data.warm_up, *_begins(data, parts)]
    ends = [*(_back(data, begin, embargo) for begin in begins[1:]), len(data)]
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if end <= begin:
            raise ValueError(
                f"rows for each part were wanted, found none for part {number + 1} of "
                f"{len(begins)}: {len(data)} rows, embargo {embargo}"
            )
    first = data.rows(0, ends[0], warm_up=data.warm_up)
    later = zip(begins[1:], ends[1:], strict=True)
    return first, *(_with_history(data, begin, end, warm_up) for begin, end in later)


@dataclass(frozen=True, slots=True)
class Fold:
    """A part to train on, and the part after it to test on."""

    number: int
    train: MarketData
    test: MarketData


class WalkForward(Sequence[Fold]):
    """Folds whose test parts follow each other through a panel."""

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
        """Say how the folds are cut; they are cut as they are asked for.

        A fold is there only if it is whole: what is left at the end is not tested on.

        Args:
            data: what is cut.
            train_rows: rows, or time, of each training part: of the first if `expanding`.
            test_rows: rows, or time, of each test part.
            step: how far a fold is after the one before; `test_rows` if not given, so that the
                test parts follow each other without a gap.
            embargo: rows, or time, between training and test that belong to neither.
            warm_up: rows, or time, of history that a test part begins with.
            expanding: train on everything from the beginning, instead of the last `train_rows`.
        """
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
                raise ValueError(f"a step of at least 1 row was wanted, found {step}")
            begin = following
        if not self._cuts:
            raise ValueError(
                f"data for one fold of {train_rows} to train, {embargo} between and {test_rows} "
                f"to test was wanted, found {len(data) - data.warm_up} rows"
            )

    def __len__(self) -> int:
        """How many folds there are."""
        return len(self._cuts)

    @overload
    def __getitem__(self, place: int) -> Fold: ...
    @overload
    def __getitem__(self, place: slice) -> list[Fold]: ...
    def __getitem__(self, place: int | slice) -> Fold | list[Fold]:
        """A fold by its number."""
        if isinstance(place, slice):
            return [self[number] for number in range(len(self))[place]]
        number = range(len(self))[place]
        begin, end, test, stop = self._cuts[number]
        train = _cut(self._data, begin, end, begin if begin == self._data.warm_up else 0)
        return Fold(number, train, _with_history(self._data, test, stop, self._warm_up))

    def __iter__(self) -> Iterator[Fold]:
        """The folds in order."""
        return (self[number] for number in range(len(self)))


def _cut(data: MarketData, begin: int, end: int, history: int) -> MarketData:
    return data.rows(begin - history, end, warm_up=history)


def _with_history(data: MarketData, begin: int, end: int, warm_up: Amount) -> MarketData:
    return _cut(data, begin, end, begin - max(0, _back(data, begin, warm_up)))


def _begins(data: MarketData, parts: Sequence[Any]) -> list[int]:
    if not parts:
        raise TypeError("fractions or dates to split at were wanted, found none")
    if all(isinstance(part, (str, date, datetime, np.datetime64)) for part in parts):
        stamps = np.array([utc_instant(part) for part in parts])
        begins = [int(row) for row in data.times.searchsorted(stamps, "left")]
    elif all(isinstance(part, (int, float)) and 0 < part < 1 for part in parts):
        begins = _shares(len(data) - data.warm_up, [float(part) for part in parts])
        begins = [data.warm_up + begin for begin in begins]
    else:
        raise ValueError(f"fractions between 0 and 1, or dates, were wanted, found {parts}")
    if sorted(set(begins)) != begins or begins[0] <= data.warm_up or begins[-1] >= len(data):
        raise ValueError(f"parts with rows in them were wanted, found {parts} of {data!r}")
    return begins


def _shares(rows: int, parts: list[float]) -> list[int]:
    total = sum(parts)
    if total > 1 + 1e-9:
        raise ValueError(f"fractions of at most 1 in all were wanted, found {parts}")
    ends = [round(end * rows) for end in itertools.accumulate(parts)]
    return ends[:-1] if total > 1 - 1e-9 else ends


def _back(data: MarketData, row: int, amount: Amount) -> int:
    """The first row that is less than `amount` before `row`, or so many rows before."""
    if isinstance(amount, int):
        return max(0, row - _whole(amount))
    stamps = data.calendar.nanoseconds
    since = int(stamps[row]) - duration(amount)
    return min(row, int(np.searchsorted(stamps, since, "left")))


def _ahead(data: MarketData, row: int, amount: Amount) -> int | None:
    """The first row that is `amount` after `row`; None if the data ends before."""
    if isinstance(amount, int):
        ahead = row + _whole(amount)
        return ahead if ahead <= len(data) else None
    stamps = data.calendar.nanoseconds
    if row >= len(data):
        return None if duration(amount) else row
    wanted = int(stamps[row]) + duration(amount)
    # After the last row the next is due: a part is whole if that would be outside of it.
    if wanted > stamps[-1] + data.frequency.nanoseconds:
        return None
    return int(np.searchsorted(stamps, wanted, "left"))


def _whole(amount: int) -> int:
    if isinstance(amount, bool) or amount < 0:
        raise ValueError(f"rows from 0, or a time such as '90d', were wanted, found {amount!r}")
    return amount


def _require_rows(begin: int, end: int, test: int, stop: int) -> None:
    if end <= begin or stop <= test:
        raise ValueError(
            f"rows to train on and to test on were wanted, found {end - begin} and {stop - test}"
        )
