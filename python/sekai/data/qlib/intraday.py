"""Days of ticks out of a provider directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sekai.data.day_cache import DayCache
from sekai.data.file_stamp import is_settled
from sekai.data.intraday import DayTicks
from sekai.data.preloading import day_of, preload
from sekai.data.progress import Progress
from sekai.data.qlib.expressions import Expression, column_of
from sekai.data.qlib.layout import canonical_frequency
from sekai.data.qlib.provider import QlibProvider
from sekai.error import DataError

__all__ = ["QlibIntraday"]

ATTEMPTS = 3


class QlibIntraday:
    """The ticks of a provider's symbols, a day at a time.

    Columns are fields such as `$close` or expressions. Days that were read are kept within the
    bounds of the cache; one is read again as soon as a file that it came from is another.
    """

    def __init__(
        self,
        provider: QlibProvider,
        freq: str = "1min",
        columns: Sequence[str] | None = None,
        *,
        cache: DayCache | None = None,
    ) -> None:
        """Choose what is read.

        Args:
            provider: where from.
            freq: the frequency of the ticks.
            columns: fields and expressions, all fields of the symbol if not given.
            cache: what keeps days; one of its own if not given. It can be shared.
        """
        self.provider = provider
        self.freq = canonical_frequency(freq)
        self.cache = DayCache() if cache is None else cache
        self.columns = None if columns is None else tuple(columns)
        for column in self.columns or ():
            Expression.parse(column)
        provider.calendar(self.freq)

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """The ticks of a symbol on a day; a `DataError` where there are none."""
        symbol, day = self.provider.symbol(stock_id, self.freq), day_of(date)
        columns, fields = self._names(symbol)
        for _ in range(ATTEMPTS):
            stamps = self.provider.stamps(symbol, fields, self.freq)
            key = (
                self.provider.roots[self.freq],
                self.freq,
                stamps,
                symbol,
                stock_id,
                str(day),
                columns,
            )
            kept: DayTicks | None = self.cache.get(key)
            if kept is not None:
                return kept
            ticks = self._read(stock_id, symbol, day, columns, fields)
            if self.provider.stamps(symbol, fields, self.freq) == stamps:
                if is_settled(stamps):
                    self.cache.put(key, ticks, _bytes(ticks))
                return ticks
        raise DataError(f"the files of {symbol} are rewritten while they are read: try again later")

    def has(self, stock_id: str, date: np.datetime64) -> bool:
        """Whether a symbol has ticks on a day, be they empty ones."""
        symbol = self.provider.symbol(stock_id, self.freq)
        slots = self._slots(day_of(date))
        listed = self.provider.listed(symbol, *slots, self.freq)
        return bool(listed.any()) and self._covered(symbol, *slots, self._names(symbol)[1])

    def preload(
        self,
        stocks: Iterable[str],
        dates: Iterable[np.datetime64],
        *,
        workers: int = 1,
        progress: Progress = False,
    ) -> int:
        """Read days before they are needed, as far as the cache has room.

        Args:
            stocks: the symbols.
            dates: the days; those on which a symbol has no ticks are left out.
            workers: how many threads read.
            progress: True for a bar on the standard error stream, or a function of how many days
                are done and how many there are.

        Returns:
            How many days were read.
        """
        return preload(self, stocks, dates, workers, progress)

    def _slots(self, day: np.datetime64) -> tuple[int, int]:
        calendar = self.provider.calendar(self.freq)
        first, stop = np.searchsorted(calendar, [day, day + np.timedelta64(1, "D")])
        return int(first), int(stop)

    def _read(
        self, stock_id: str, symbol: str, day: np.datetime64, columns: Sequence[str],
        fields: Sequence[str],
    ) -> DayTicks:  # fmt: skip
        first, stop = self._slots(day)
        listed = self.provider.listed(symbol, first, stop, self.freq)
        if not listed.any() or not self._covered(symbol, first, stop, fields):
            raise DataError(f"{stock_id} has no ticks on {day}: {self._told(symbol)}")
        values = {
            name: column_of(self.provider, symbol, Expression.parse(name), first, stop, self.freq)
            for name in columns
        }
        ticks = {name: column[listed].astype(np.float64) for name, column in values.items()}
        return DayTicks(stock_id, self.provider.calendar(self.freq)[first:stop][listed], ticks)

    def _covered(self, symbol: str, first: int, stop: int, fields: Sequence[str]) -> bool:
        """Whether some file has a place for some slot, be it an empty one."""
        extents = (self.provider.extent(symbol, field, self.freq) for field in fields)
        return any(begin < stop and end > first for begin, end in extents)

    def _names(self, symbol: str) -> tuple[tuple[str, ...], list[str]]:
        """The columns, and the fields that they are made of."""
        columns = self.columns or self.provider.fields(symbol, self.freq)
        return columns, sorted({name for one in columns for name in Expression.parse(one).columns})

    def _told(self, symbol: str) -> str:
        ranges = self.provider.instruments("all", self.freq)[symbol]
        spans = ", ".join(f"{first} to {last}" for first, last in ranges[:3])
        return f"it is listed from {spans}; see whether the calendar and its files have the day"


def _bytes(ticks: DayTicks) -> int:
    return ticks.times.nbytes + sum(values.nbytes for values in ticks.columns.values())
