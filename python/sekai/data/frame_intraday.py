"""Days of ticks out of a frame of pandas, polars or pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import Calendar
from sekai.data.day_cache import DayCache
from sekai.data.intraday import DayTicks
from sekai.data.market_data import frozen
from sekai.data.near_names import near
from sekai.data.preloading import day_of
from sekai.data.reading.columns import find_columns
from sekai.data.reading.frames import to_arrow
from sekai.data.reading.numbers import decode_names, decode_numbers, holds
from sekai.data.reading.options import Options
from sekai.data.reading.stamps import NO_TIME, Stamps, decode_stamps
from sekai.error import DataError

if TYPE_CHECKING:
    from sekai.data.qlib.frame_provider import FrameProvider

__all__ = ["FrameIntraday", "SymbolTicks"]

Times = NDArray[np.datetime64]
Ints = NDArray[np.int64]
UNNAMED = "asset"


class SymbolTicks(NamedTuple):
    """All ticks of one symbol."""

    times: Times
    """Beginnings of ticks on the market's clock, in nanoseconds, ascending."""
    columns: dict[str, NDArray[np.float64]]
    """Values by name, such as `$close`."""


class FrameIntraday:
    """Ticks in a frame of pandas, polars or pyarrow, read once and given out a day at a time.

    Columns are fields such as `close` or `$close0`. The time is a column or the index; several
    symbols need a column, or a level of the index, that names them, while the ticks of a frame
    without one serve any symbol. Naive stamps are times on the market's clock, as in a
    `TickStore`; stamps with a zone are shown on the clocks of that zone. Later changes of the
    frame are not seen.
    """

    def __init__(
        self,
        frame: Any,
        *,
        time: str | None = None,
        asset: str | None = None,
        timezone: str | None = None,
    ) -> None:
        """Read the frame.

        Args:
            frame: a row for each tick of a symbol, ascending for each symbol.
            time: the column of stamps; found if it is time, date, datetime or timestamp.
            asset: the column of symbols; found if it is symbol, ticker, asset, tic, code or
                instrument.
            timezone: the zone of the market's clock, if the stamps are of another zone.

        Raises:
            DataError: when a column is missing or holds no numbers, or stamps are missing, not
                ascending or there twice.
        """
        table = to_arrow(frame)
        names = list(table.schema.names)
        if time is None and "datetime" in names and "date" in names:
            # Frames of Qlib name the day of each stamp beside it.
            names.remove("date")
        options = Options(time=time, asset=asset, timezone=timezone)
        found = find_columns(names, options)
        stamps = _stamps(table.column(found.time), found.time, options)
        codes, symbols = _symbols(table, found.asset)
        self.is_named = found.asset is not None
        values = {
            name: _numbers(table.column(column), column)
            for name, column in _dollars({**found.fields, **found.masks}).items()
        }
        self._ticks = _by_symbol(stamps.instants, _zone(stamps, timezone), codes, symbols, values)
        self._cache = DayCache()
        self._providers: dict[str, FrameProvider] = {}

    @property
    def assets(self) -> tuple[str, ...]:
        """Symbols that the frame has ticks of; one that stands for any if it names none."""
        return tuple(self._ticks)

    @property
    def dates(self) -> Times:
        """Days on which any symbol has ticks."""
        days = [np.unique(ticks.times.astype("datetime64[D]")) for ticks in self._ticks.values()]
        return np.unique(np.concatenate(days))

    def ticks(self, stock_id: str) -> SymbolTicks:
        """All ticks of a symbol."""
        if not self.is_named:
            return self._ticks[UNNAMED]
        if stock_id not in self._ticks:
            raise DataError(f"no ticks of {stock_id!r} in the frame{near(stock_id, self._ticks)}")
        return self._ticks[stock_id]

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """The ticks of a symbol on a day; a `DataError` where there are none."""
        day = day_of(date)
        kept: DayTicks | None = self._cache.get((stock_id, str(day)))
        if kept is not None:
            return kept
        times, columns = self.ticks(stock_id)
        begin, stop = np.searchsorted(times, [day, day + np.timedelta64(1, "D")])
        if begin == stop:
            raise DataError(
                f"{stock_id} has no ticks on {day}: the frame has some from {times[0]} to "
                f"{times[-1]}"
            )
        found = {name: column[begin:stop] for name, column in columns.items()}
        ticks = DayTicks(stock_id, times[begin:stop], found)
        self._cache.put((stock_id, str(day)), ticks, int(stop - begin) * 8 * (1 + len(columns)))
        return ticks

    def has(self, stock_id: str, date: np.datetime64) -> bool:
        """Whether a symbol has ticks on a day."""
        day, times = day_of(date), self.ticks(stock_id).times
        begin, stop = np.searchsorted(times, [day, day + np.timedelta64(1, "D")])
        return bool(begin < stop)

    def provider(self, freq: str = "1min") -> FrameProvider:
        """The same ticks as a provider of Qlib, of which expressions can be computed."""
        from sekai.data.qlib.frame_provider import FrameProvider

        if freq not in self._providers:
            self._providers[freq] = FrameProvider(self, freq)
        return self._providers[freq]


def _dollars(fields: dict[str, str]) -> dict[str, str]:
    """Columns by the names that ticks have, with a dollar in front."""
    named: dict[str, str] = {}
    for name, column in fields.items():
        dollar = name if name.startswith("$") else f"${name}"
        if dollar in named:
            raise DataError(
                f"two columns are {dollar!r}: {named[dollar]!r} and {column!r}; drop one of them"
            )
        named[dollar] = column
    return named


def _stamps(column: Any, name: str, options: Options) -> Stamps:
    try:
        stamps = decode_stamps(_whole(column), options)
    except TypeError as error:
        raise DataError(f"the column {name!r} cannot be the time: {error}") from error
    for _, row, found in stamps.wrong:
        raise DataError(f"row {row} of the column {name!r}: {found}")
    for empty in np.flatnonzero(stamps.instants == NO_TIME):
        raise DataError(f"row {empty} of the column {name!r} has no time; drop rows without one")
    if not len(stamps.instants):
        raise DataError("the frame has no rows; expected one for each tick")
    return stamps


def _zone(stamps: Stamps, timezone: str | None) -> str | None:
    """The zone on whose clocks stamps are shown; None if they are there already."""
    if timezone is not None:
        return timezone
    found = sorted(stamps.zones)
    if not found or found in (["naive"], ["UTC"]):
        return None
    if len(found) > 1 or found[0][0] in "+-":
        raise DataError(
            f"stamps of {', '.join(found)} do not tell the zone of the market's clock; name it by "
            f"FrameIntraday(frame, timezone=...)"
        )
    return found[0]


def _symbols(table: Any, column: str | None) -> tuple[Ints, list[str]]:
    if column is None:
        return np.zeros(table.num_rows, np.int64), [UNNAMED]
    try:
        codes, names = decode_names(table.column(column))
    except TypeError as error:
        raise DataError(f"the column {column!r} cannot name symbols: {error}") from error
    for row in np.flatnonzero(codes < 0):
        raise DataError(f"row {row} of the column {column!r} has no symbol; drop rows without one")
    return codes, names


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    kind = column.type
    wrong: Any = [0]
    if holds(kind) != "neither":
        numbers, wrong = decode_numbers(column)
    if len(wrong):
        example = column[int(wrong[0])].as_py() if len(column) else None
        raise DataError(
            f"the column {name!r} of {kind} has no number in row {int(wrong[0])}, found "
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
    for place, symbol in sorted(enumerate(symbols), key=lambda pair: pair[1]):
        rows = order[bounds[place] : bounds[place + 1]]
        if not len(rows):
            continue
        own = instants[rows]
        _check_ascending(symbol, own)
        times = Calendar(own.astype("datetime64[ns]"), zone).local
        # Of arrays that the frame may share with its owner.
        columns = {name: frozen(column[rows]) for name, column in values.items()}
        ticks[symbol] = SymbolTicks(frozen(np.asarray(times, "datetime64[ns]")), columns)
    return ticks


def _check_ascending(symbol: str, instants: Ints) -> None:
    steps = np.diff(instants)
    for row in np.flatnonzero(steps <= 0)[:1]:
        before, after = instants[row : row + 2].astype("datetime64[ns]")
        _refuse_order(symbol, before, after)


def _refuse_order(symbol: str, before: np.datetime64, after: np.datetime64) -> NoReturn:
    if before == after:
        raise DataError(f"duplicate stamps: {symbol} has two rows at {after}; keep one of them")
    raise DataError(
        f"unsorted stamps: {symbol} has {after} after {before}; sort the frame by time first"
    )


def _whole(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
