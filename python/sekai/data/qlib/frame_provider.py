"""A frame of ticks in the place of a provider directory."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.file_stamp import Stamp
from sekai.data.intraday import named
from sekai.data.market_data import frozen
from sekai.data.near_names import near
from sekai.data.qlib.instruments_file import Instruments
from sekai.data.qlib.intraday import QlibIntraday
from sekai.data.qlib.layout import canonical_frequency
from sekai.data.qlib.provider import QlibProvider
from sekai.error import DataError

if TYPE_CHECKING:
    from sekai.data.frame_intraday import FrameIntraday

__all__ = ["FrameProvider"]


class FrameProvider(QlibProvider):
    """Ticks of a frame as a provider has them: 32 bits, slots of a calendar, NaN in between.

    The calendar has every stamp of the frame; a symbol is listed from its first to its last.
    """

    def __init__(self, ticks: FrameIntraday, freq: str = "1min") -> None:
        """Take the ticks of one frequency."""
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
        """Days with some columns; what was computed is kept as long as the frame."""
        if columns not in self._days:
            self._days[columns] = QlibIntraday(self, self._freq, columns)
        return self._days[columns]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._frame, self._freq)

    def calendar(self, freq: str = "day", *, future: bool = False) -> NDArray[np.datetime64]:
        """The stamps of all slots."""
        self._root(freq)
        return self._calendar

    def markets(self, freq: str = "day") -> tuple[str, ...]:
        """The one market that there is."""
        return ("all",)

    def instruments(self, market: str = "all", freq: str = "day") -> Instruments:
        """Symbols, and the range in which each has ticks."""
        if market != "all":
            raise DataError(f"no market {market!r} in a frame{near(market, self.markets(freq))}")
        return self._instruments

    def symbol(self, name: str, freq: str = "day", market: str = "all") -> str:
        """A symbol as the frame spells it; any name if the frame has none."""
        self._root(freq)
        if not self._frame.is_named:
            return self._frame.assets[0]
        return super().symbol(name, freq, market)

    def fields(self, symbol: str, freq: str = "day") -> tuple[str, ...]:
        """The fields of a symbol, as `$close`, in the order of their names."""
        return tuple(sorted(self._frame.ticks(self.symbol(symbol, freq)).columns))

    def has_folder(self, symbol: str, freq: str = "day") -> bool:
        """Whether a symbol has ticks at all."""
        return symbol in self._instruments

    def has_field(self, symbol: str, field: str, freq: str = "day") -> bool:
        """Whether a symbol has a field."""
        return named(self._frame.ticks(symbol).columns, field) is not None

    def extent(self, symbol: str, field: str, freq: str = "day") -> tuple[int, int]:
        """The slots from a symbol's first tick to its last."""
        self._column(symbol, field)
        first, last = self._instruments[symbol][0]
        begin, end = np.searchsorted(self._calendar, [first, last])
        return int(begin), int(end) + 1

    def values(
        self, symbol: str, field: str, first: int, stop: int, freq: str = "day"
    ) -> NDArray[np.float32]:
        """The values of a field in some slots, NaN in those without a tick."""
        column = self._column(symbol, field)
        values = np.full(max(0, stop - first), np.nan, np.float32)
        times = self._frame.ticks(symbol).times
        slots = self._calendar[first:stop]
        if len(slots):
            begin, end = np.searchsorted(times, [slots[0], slots[-1] + np.timedelta64(1, "ns")])
            places = np.searchsorted(slots, times[begin:end])
            values[places] = column[begin:end]
        return values

    def stamps(self, symbol: str, fields: Sequence[str], freq: str = "day") -> tuple[Stamp, ...]:
        """Nothing: what was read of a frame never changes."""
        return ()

    def _column(self, symbol: str, field: str) -> NDArray[np.float64]:
        columns = self._frame.ticks(symbol).columns
        found = named(columns, field)
        if found is None:
            raise DataError(f"{symbol} has no field {field!r}{near(field, columns)}")
        return columns[found]
