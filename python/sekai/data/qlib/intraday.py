"""Intraday data from Qlib providers and from frames of ticks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.intraday import (
    DayCache,
    DayTicks,
    FileVersion,
    Progress,
    TickSpan,
    day_of,
    is_settled,
    preload,
    resolve_column,
)
from sekai.data.market_data import frozen
from sekai.data.qlib.expression import Expression, column_of
from sekai.data.qlib.files import Instruments, canonical_frequency
from sekai.data.qlib.provider import QlibProvider
from sekai.error import DataError
from sekai.storage.names import did_you_mean

if TYPE_CHECKING:
    from sekai.data.frame_intraday import FrameIntraday

ATTEMPTS = 3


class QlibIntraday:
    """Intraday data of a Qlib provider.

    Columns are fields such as `$close` or expressions. Days are cached, and read again when one of
    their files has changed.

    Args:
        provider: provider directory.
        freq: frequency of the ticks.
        columns: fields and expressions; by default all fields of the symbol.
        cache: cache of days, which can be shared; by default an own one.
    """

    def __init__(
        self,
        provider: QlibProvider,
        freq: str = "1min",
        columns: Sequence[str] | None = None,
        *,
        cache: DayCache | None = None,
    ) -> None:
        self.provider = provider
        self.freq = canonical_frequency(freq)
        self.cache = DayCache() if cache is None else cache
        self.columns = None if columns is None else tuple(columns)
        for column in self.columns or ():
            Expression.parse(column)
        provider.calendar(self.freq)
        self._span: tuple[NDArray[np.datetime64], TickSpan] | None = None

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """Return the ticks of a symbol on a day; raise `DataError` if there are none."""
        symbol, day = self.provider.symbol(stock_id, self.freq), day_of(date)
        columns, fields = self._names(symbol)
        for _ in range(ATTEMPTS):
            versions = self.provider.file_versions(symbol, fields, self.freq)
            root = self.provider.roots[self.freq]
            key = (root, self.freq, versions, symbol, stock_id, str(day), columns)
            cached: DayTicks | None = self.cache.get(key)
            if cached is not None:
                return cached
            ticks = self._read(stock_id, symbol, day, columns, fields)
            if self.provider.file_versions(symbol, fields, self.freq) == versions:
                if is_settled(versions):
                    self.cache.put(key, ticks, _bytes(ticks))
                return ticks
        raise DataError(f"files of {symbol} changed while they were read; try again later")

    def has(self, stock_id: str, date: np.datetime64) -> bool:
        """Return True if a symbol has ticks on a day, even without values."""
        symbol = self.provider.symbol(stock_id, self.freq)
        slots = self._slots(day_of(date))
        listed = self.provider.listed(symbol, *slots, self.freq)
        return bool(listed.any()) and self._covered(symbol, *slots, self._names(symbol)[1])

    def span(self, stock_id: str) -> TickSpan:
        """Range of the calendar, the same for every symbol."""
        calendar = self.provider.calendar(self.freq)
        # A calendar that was read again is another object.
        if self._span is None or self._span[0] is not calendar:
            self._span = calendar, TickSpan.of(calendar)
        return self._span[1]

    def preload(
        self,
        stocks: Iterable[str],
        dates: Iterable[np.datetime64],
        *,
        workers: int = 1,
        progress: Progress = False,
    ) -> int:
        """Read days into the cache in advance.

        Args:
            stocks: symbols.
            dates: days; those without ticks of a symbol are skipped.
            workers: number of threads.
            progress: True for a progress bar on stderr, or a function of the done and the total
                number of days.

        Returns:
            Number of days read.
        """
        return preload(self, stocks, dates, workers, progress)

    def _slots(self, day: np.datetime64) -> tuple[int, int]:
        calendar = self.provider.calendar(self.freq)
        first, stop = np.searchsorted(calendar, [day, day + np.timedelta64(1, "D")])
        return int(first), int(stop)

    def _read(
        self,
        stock_id: str,
        symbol: str,
        day: np.datetime64,
        columns: Sequence[str],
        fields: Sequence[str],
    ) -> DayTicks:
        first, stop = self._slots(day)
        listed = self.provider.listed(symbol, first, stop, self.freq)
        if not listed.any() or not self._covered(symbol, first, stop, fields):
            raise DataError(f"{stock_id} has no ticks on {day}: {self._listing(symbol)}")
        values = {
            name: column_of(self.provider, symbol, Expression.parse(name), first, stop, self.freq)
            for name in columns
        }
        ticks = {name: column[listed].astype(np.float64) for name, column in values.items()}
        return DayTicks(stock_id, self.provider.calendar(self.freq)[first:stop][listed], ticks)

    def _covered(self, symbol: str, first: int, stop: int, fields: Sequence[str]) -> bool:
        """Return True if some file covers some of the slots."""
        extents = (self.provider.extent(symbol, field, self.freq) for field in fields)
        return any(begin < stop and end > first for begin, end in extents)

    def _names(self, symbol: str) -> tuple[tuple[str, ...], list[str]]:
        """Columns, and the fields that they depend on."""
        columns = self.columns or self.provider.fields(symbol, self.freq)
        fields = {name for column in columns for name in Expression.parse(column).columns}
        return columns, sorted(fields)

    def _listing(self, symbol: str) -> str:
        ranges = self.provider.instruments("all", self.freq)[symbol]
        spans = ", ".join(f"{first} to {last}" for first, last in ranges[:3])
        return f"it is listed from {spans}; check that the calendar and its files have the day"


def _bytes(ticks: DayTicks) -> int:
    return ticks.times.nbytes + sum(values.nbytes for values in ticks.columns.values())


class FrameProvider(QlibProvider):
    """Provider of the ticks of a frame: float32, calendar slots, NaN in between.

    The calendar has every timestamp of the frame; a symbol is listed from its first to its last.
    """

    def __init__(self, ticks: FrameIntraday, freq: str = "1min") -> None:
        self._frame = ticks
        self._days: dict[tuple[str, ...], QlibIntraday] = {}
        self._freq = canonical_frequency(freq)
        self.roots = MappingProxyType({self._freq: "a frame"})
        times = {symbol: ticks.ticks(symbol).times for symbol in ticks.assets}
        self._calendar = frozen(np.unique(np.concatenate(list(times.values()))))
        self._instruments: Instruments = MappingProxyType(
            {symbol: ((own[0], own[-1]),) for symbol, own in times.items()}
        )

    def days(self, columns: tuple[str, ...]) -> QlibIntraday:
        """Intraday data with some columns, cached as long as the frame."""
        if columns not in self._days:
            self._days[columns] = QlibIntraday(self, self._freq, columns)
        return self._days[columns]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._frame, self._freq)

    def calendar(self, freq: str = "day", *, future: bool = False) -> NDArray[np.datetime64]:
        """Timestamps of all slots."""
        self._root(freq)
        return self._calendar

    def markets(self, freq: str = "day") -> tuple[str, ...]:
        """Names of the markets: `all`."""
        return ("all",)

    def instruments(self, market: str = "all", freq: str = "day") -> Instruments:
        """Symbols with the range of their ticks."""
        if market != "all":
            raise DataError(
                f"unknown market {market!r} in a frame{did_you_mean(market, self.markets(freq))}"
            )
        return self._instruments

    def symbol(self, name: str, freq: str = "day", market: str = "all") -> str:
        """Resolve a symbol; any name if the frame has no symbols."""
        self._root(freq)
        if not self._frame.is_named:
            return self._frame.assets[0]
        return super().symbol(name, freq, market)

    def fields(self, symbol: str, freq: str = "day") -> tuple[str, ...]:
        """Fields of a symbol such as `$close`, sorted."""
        return tuple(sorted(self._frame.ticks(self.symbol(symbol, freq)).columns))

    def has_folder(self, symbol: str, freq: str = "day") -> bool:
        """Return True if a symbol has ticks."""
        return symbol in self._instruments

    def has_field(self, symbol: str, field: str, freq: str = "day") -> bool:
        """Return True if a symbol has a field."""
        return resolve_column(self._frame.ticks(symbol).columns, field) is not None

    def extent(self, symbol: str, field: str, freq: str = "day") -> tuple[int, int]:
        """Slots from the first tick of a symbol to its last."""
        self._column(symbol, field)
        first, last = self._instruments[symbol][0]
        begin, end = np.searchsorted(self._calendar, [first, last])
        return int(begin), int(end) + 1

    def values(
        self, symbol: str, field: str, first: int, stop: int, freq: str = "day"
    ) -> NDArray[np.float32]:
        """Values of a field in some slots, NaN in those without a tick."""
        column = self._column(symbol, field)
        values = np.full(max(0, stop - first), np.nan, np.float32)
        times = self._frame.ticks(symbol).times
        slots = self._calendar[first:stop]
        if len(slots):
            begin, end = np.searchsorted(times, [slots[0], slots[-1] + np.timedelta64(1, "ns")])
            values[np.searchsorted(slots, times[begin:end])] = column[begin:end]
        return values

    def file_versions(
        self, symbol: str, fields: Sequence[str], freq: str = "day"
    ) -> tuple[FileVersion, ...]:
        """Empty: the ticks of a frame never change."""
        return ()

    def _column(self, symbol: str, field: str) -> NDArray[np.float64]:
        columns = self._frame.ticks(symbol).columns
        name = resolve_column(columns, field)
        if name is None:
            raise DataError(f"{symbol} has no field {field!r}{did_you_mean(field, columns)}")
        return columns[name]
