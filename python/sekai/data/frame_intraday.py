"""Intraday data from a frame of pandas, polars or pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import Calendar
from sekai.data.intraday import DayCache, DayTicks, TickSpan, day_of
from sekai.data.market_data import frozen
from sekai.data.reading.decoding import (
    NO_TIME,
    Timestamps,
    column_kind,
    decode_names,
    decode_numbers,
    decode_timestamps,
)
from sekai.data.reading.files import SourcePart, index_columns
from sekai.data.reading.frames import to_arrow
from sekai.data.reading.options import Options, find_columns
from sekai.error import DataError
from sekai.storage.display import name_list
from sekai.storage.names import did_you_mean

if TYPE_CHECKING:
    from sekai.data.qlib.intraday import FrameProvider

Times = NDArray[np.datetime64]
Ints = NDArray[np.int64]
UNNAMED = "asset"
"""Symbol of all ticks in a frame without symbols."""


class SymbolTicks(NamedTuple):
    """Ticks of one symbol."""

    times: Times
    """Local starts of the ticks, in nanoseconds, ascending."""
    columns: dict[str, NDArray[np.float64]]
    """Values by name, such as `$close`."""


class FrameIntraday:
    """Intraday data from a pandas, polars or pyarrow frame, read once.

    Columns are fields such as `close` or `$close0`. The time is a column or the index; several
    symbols need a column or an index level that names them, while the ticks of a frame without one
    serve any symbol. Timestamps without a time zone are local times, as in a `TickStore`; others
    are converted to local times of their zone. Later changes of the frame are not seen.

    Args:
        frame: a row for each tick of a symbol, ascending for each symbol.
        time: column of timestamps; by default one named time, date, datetime or timestamp.
        asset: column of symbols; by default one named symbol, ticker, asset, tic, code or
            instrument.
        timezone: time zone of the market, if the timestamps are of another zone.

    Raises:
        DataError: if a column is missing or not numeric, or timestamps are missing, unsorted or
            duplicate.
    """

    def __init__(
        self,
        frame: Any,
        *,
        time: str | None = None,
        asset: str | None = None,
        timezone: str | None = None,
    ) -> None:
        table = to_arrow(frame)
        names = list(table.schema.names)
        if time is None and "datetime" in names and "date" in names:
            # Frames of Qlib have a column with the day beside the timestamp.
            names.remove("date")
        options = Options(time=time, asset=asset, timezone=timezone)
        index = index_columns([SourcePart(table.schema)])
        columns = find_columns(names, options, index=index)
        times = _timestamps(table.column(columns.time), columns.time, options)
        codes, symbols = _symbols(table, columns.asset)
        self.is_named = columns.asset is not None
        values = {
            name: _numbers(table.column(column), column)
            for name, column in _dollars({**columns.fields, **columns.masks}).items()
        }
        self._ticks = _by_symbol(times.instants, _zone(times, timezone), codes, symbols, values)
        self._cache = DayCache()
        self._spans: dict[str, TickSpan] = {}
        self._providers: dict[str, FrameProvider] = {}

    def __repr__(self) -> str:
        ticks = sum(len(each.times) for each in self._ticks.values())
        return f"FrameIntraday({ticks:,} ticks of {name_list(self.assets)})"

    @property
    def assets(self) -> tuple[str, ...]:
        """Symbols of the frame; a placeholder if it has none."""
        return tuple(self._ticks)

    @property
    def dates(self) -> Times:
        """Days on which any symbol has ticks."""
        return np.unique(np.concatenate([self.span(symbol).dates for symbol in self._ticks]))

    def ticks(self, stock_id: str) -> SymbolTicks:
        """Return all ticks of a symbol."""
        if not self.is_named:
            return self._ticks[UNNAMED]
        if stock_id not in self._ticks:
            raise DataError(
                f"no ticks of {stock_id!r} in the frame{did_you_mean(stock_id, self._ticks)}"
            )
        return self._ticks[stock_id]

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """Return the ticks of a symbol on a day; raise `DataError` if there are none."""
        day = day_of(date)
        cached: DayTicks | None = self._cache.get((stock_id, str(day)))
        if cached is not None:
            return cached
        times, columns = self.ticks(stock_id)
        begin, stop = np.searchsorted(times, [day, day + np.timedelta64(1, "D")])
        if begin == stop:
            raise DataError(
                f"{stock_id} has no ticks on {day}: the frame has ticks from {times[0]} to "
                f"{times[-1]}"
            )
        values = {name: column[begin:stop] for name, column in columns.items()}
        ticks = DayTicks(stock_id, times[begin:stop], values)
        self._cache.put((stock_id, str(day)), ticks, int(stop - begin) * 8 * (1 + len(columns)))
        return ticks

    def has(self, stock_id: str, date: np.datetime64) -> bool:
        """Return True if a symbol has ticks on a day."""
        day, times = day_of(date), self.ticks(stock_id).times
        begin, stop = np.searchsorted(times, [day, day + np.timedelta64(1, "D")])
        return bool(begin < stop)

    def span(self, stock_id: str) -> TickSpan:
        """Range of the ticks of a symbol."""
        if stock_id not in self._spans:
            self._spans[stock_id] = TickSpan.of(self.ticks(stock_id).times)
        return self._spans[stock_id]

    def provider(self, freq: str = "1min") -> FrameProvider:
        """Return a Qlib provider of the same ticks, for expressions."""
        from sekai.data.qlib.intraday import FrameProvider

        if freq not in self._providers:
            self._providers[freq] = FrameProvider(self, freq)
        return self._providers[freq]


def _dollars(fields: dict[str, str]) -> dict[str, str]:
    """Columns by their tick names with a leading dollar."""
    result: dict[str, str] = {}
    for name, column in fields.items():
        dollar = name if name.startswith("$") else f"${name}"
        if dollar in result:
            raise DataError(
                f"duplicate column {dollar!r}: {result[dollar]!r} and {column!r}; drop one of them"
            )
        result[dollar] = column
    return result


def _timestamps(column: Any, name: str, options: Options) -> Timestamps:
    try:
        times = decode_timestamps(_combined(column), options)
    except TypeError as error:
        raise DataError(f"column {name!r} cannot be the time: {error}") from error
    for _, row, message in times.wrong:
        raise DataError(f"row {row} of column {name!r}: {message}")
    for empty in np.flatnonzero(times.instants == NO_TIME):
        raise DataError(f"row {empty} of column {name!r} has no time; drop rows without one")
    if not len(times.instants):
        raise DataError("the frame has no rows; expected one for each tick")
    return times


def _zone(times: Timestamps, timezone: str | None) -> str | None:
    """Time zone to convert to; None if timestamps are local already."""
    if timezone is not None:
        return timezone
    zones = sorted(times.zones)
    if not zones or zones in (["naive"], ["UTC"]):
        return None
    if len(zones) > 1 or zones[0][0] in "+-":
        raise DataError(
            f"timestamps of {', '.join(zones)} do not determine the time zone of the market; pass "
            f"it by FrameIntraday(frame, timezone=...)"
        )
    return zones[0]


def _symbols(table: Any, column: str | None) -> tuple[Ints, list[str]]:
    if column is None:
        return np.zeros(table.num_rows, np.int64), [UNNAMED]
    try:
        codes, names = decode_names(table.column(column))
    except TypeError as error:
        raise DataError(f"column {column!r} cannot name symbols: {error}") from error
    for row in np.flatnonzero(codes < 0):
        raise DataError(f"row {row} of column {column!r} has no symbol; drop rows without one")
    return codes, names


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    kind = column.type
    wrong: Any = [0]
    if column_kind(kind) != "neither":
        numbers, wrong = decode_numbers(column)
    if len(wrong):
        example = column[int(wrong[0])].as_py() if len(column) else None
        raise DataError(
            f"column {name!r} of type {kind} has no number in row {int(wrong[0])}, got "
            f"{example!r}; convert or drop it"
        )
    return numbers


def _by_symbol(
    instants: Ints,
    zone: str | None,
    codes: Ints,
    symbols: list[str],
    values: dict[str, NDArray[np.float64]],
) -> dict[str, SymbolTicks]:
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(symbols) + 1))
    ticks = {}
    for index, symbol in sorted(enumerate(symbols), key=lambda pair: pair[1]):
        rows = order[bounds[index] : bounds[index + 1]]
        if not len(rows):
            continue
        own = instants[rows]
        _check_ascending(symbol, own)
        times = Calendar(own.astype("datetime64[ns]"), zone).local
        # Copied, because the frame may share its arrays.
        columns = {name: frozen(column[rows]) for name, column in values.items()}
        ticks[symbol] = SymbolTicks(frozen(np.asarray(times, "datetime64[ns]")), columns)
    return ticks


def _check_ascending(symbol: str, instants: Ints) -> None:
    for row in np.flatnonzero(np.diff(instants) <= 0)[:1]:
        before, after = instants[row : row + 2].astype("datetime64[ns]")
        if before == after:
            raise DataError(f"duplicate timestamp: {symbol} has two rows at {after}; drop one")
        raise DataError(
            f"unsorted timestamps: {symbol} has {after} after {before}; sort the frame by time"
        )


def _combined(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
