"""Reads days of ticks before they are needed."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from sekai.data.intraday import DayTicks
from sekai.data.progress import Progress, reporter

__all__ = ["day_of", "preload"]


class _Days(Protocol):
    def day(self, stock_id: str, date: np.datetime64) -> DayTicks: ...
    def has(self, stock_id: str, date: np.datetime64) -> bool: ...


def day_of(date: Any) -> np.datetime64:
    """A date, given as one or as a moment of it."""
    try:
        moment = np.datetime64(date)
        day: np.datetime64 = moment.astype("datetime64[D]")
    except (ValueError, TypeError) as error:
        raise ValueError(f"a date was wanted, found {date!r}") from error
    if np.isnat(day):
        raise ValueError(f"a date was wanted, found {date!r}")
    return day


def preload(
    source: _Days, stocks: Iterable[str], dates: Iterable[Any], workers: int, progress: Progress
) -> int:
    """See `QlibIntraday.preload`."""
    if workers < 1:
        raise ValueError(f"workers must be at least 1, was {workers}")
    days = [day_of(date) for date in dates]
    pairs = [(stock, day) for stock in stocks for day in days]
    report = reporter(progress, "preload")

    def read(pair: tuple[str, np.datetime64]) -> bool:
        if not source.has(*pair):
            return False
        source.day(*pair)
        return True

    count = 0
    report(0, len(pairs))
    with ThreadPoolExecutor(workers) as pool:
        try:
            for done, was_read in enumerate(pool.map(read, pairs), 1):
                count += was_read
                report(done, len(pairs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return count
