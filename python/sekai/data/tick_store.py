"""Tick store: ticks and features of many stocks in Parquet files, read a day at a time.

TickStore.build(data, "store", feature_columns=["$close", "$volume"])
store = TickStore("store")
ticks = store.day("AAA", np.datetime64("2020-01-02"))
today, yesterday = store.processed("AAA", ticks.times[0], ["$close"], ["$close_1"])
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, local_time
from sekai.data.intraday import (
    DayCache,
    DayTicks,
    FileVersion,
    Progress,
    TickSpan,
    day_of,
    file_version,
    is_settled,
    preload,
    reporter,
)
from sekai.data.market_data import MarketData
from sekai.data.qlib.provider import QlibProvider
from sekai.data.reading.decoding import arrow
from sekai.data.reading.files import readable
from sekai.error import DataError
from sekai.storage.files import replace_file
from sekai.storage.names import did_you_mean
from sekai.storage.optional import optional_import

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Times = NDArray[np.datetime64]
Columns = Sequence[str] | Mapping[str, str]

BACKTEST, FEATURE = "backtest", "feature"
TIME = "datetime"
YESTERDAY = "_1"
"""Suffix of columns of the day before."""
GROUP_ROWS = 4096
"""Rows of a Parquet row group: several days of minutes."""
PURPOSE = "sekai.data.TickStore"


class TickStore:
    """Folder with ticks to trade on and features to observe, a file per stock.

    `backtest/<stock>.parquet` has a column of timestamps, `datetime`, and columns such as
    `$close`; `feature/<stock>.parquet` likewise, and for each column one with the suffix `_1`, the
    value of the day before at the same time of day. Nothing is pickled. Days are cached, and read
    again when their file has changed.

    Args:
        folder: folder of the store.
        columns: columns that `day` returns; by default all.
        cache: cache of days, which can be shared; by default an own one.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        *,
        cache: DayCache | None = None,
    ) -> None:
        self.folder = os.path.abspath(folder)
        self.columns = None if columns is None else tuple(columns)
        self.cache = DayCache() if cache is None else cache
        self._files: dict[str, tuple[FileVersion, TickFile]] = {}
        if not any(os.path.isdir(os.path.join(self.folder, part)) for part in (BACKTEST, FEATURE)):
            raise DataError(
                f"{self.folder!r} is not a tick store: it has neither {BACKTEST} nor {FEATURE}; "
                f"create one by TickStore.build"
            )

    def __repr__(self) -> str:
        return f"TickStore({self.folder!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (type(self), self.folder, self.columns, self.cache)

    @classmethod
    def build(
        cls,
        source: MarketData | QlibProvider,
        folder: str | os.PathLike[str],
        *,
        stocks: Sequence[str] | None = None,
        backtest_columns: Columns | None = None,
        feature_columns: Columns | None = None,
        start: Any = None,
        end: Any = None,
        freq: str = "1min",
        known_after: timedelta = timedelta(0),
        missing: float = float("nan"),
        overwrite: bool = False,
        progress: Progress = False,
    ) -> TickStore:
        """Write a store and open it.

        Args:
            source: panel of ticks, or provider directory.
            folder: folder of the store; existing files raise an error unless `overwrite` is set.
            stocks: stocks to write; by default all.
            backtest_columns: columns such as `$close` to trade on, or expressions by name, which
                need a provider directory; by default all fields.
            feature_columns: columns of the features, likewise.
            start: first time.
            end: last time, inclusive.
            freq: frequency of the ticks of a provider directory.
            known_after: delay from the start of a row of a panel until it is known.
            missing: replacement for missing features.
            overwrite: replace existing files.
            progress: True for a progress bar on stderr, or a function of the done and the total
                count.
        """
        arguments = locals()
        options = {each.name: arguments[each.name] for each in dataclasses.fields(StoreOptions)}
        build(source, os.path.abspath(folder), StoreOptions(**options))
        return cls(folder)

    def stocks(self, part: str = BACKTEST) -> tuple[str, ...]:
        """Stocks with a file."""
        files = Path(self.folder, part).glob("*.parquet")
        return tuple(sorted(unquote(file.stem) for file in files if file.name[0] != "."))

    def dates(self, stock_id: str, part: str = BACKTEST) -> NDArray[np.datetime64]:
        """Days on which a stock has ticks."""
        return self._file(part, stock_id)[0].span.dates

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """Return the ticks of a stock on a day; raise `DataError` if there are none."""
        day = day_of(date)
        file, version = self._file(BACKTEST, stock_id)
        names = file.columns if self.columns is None else self.columns
        key = (self.folder, BACKTEST, version, stock_id, str(day), names)
        cached: DayTicks | None = self.cache.get(key)
        if cached is not None:
            return cached
        times, columns = file.read(day, names)
        if not len(times):
            raise DataError(f"{stock_id} has no ticks on {day} in {file.path!r}")
        ticks = DayTicks(stock_id, times, columns)
        self._store(key, version, ticks, times.nbytes * (1 + len(columns)))
        return ticks

    def has(self, stock_id: str, date: np.datetime64) -> bool:
        """Return True if a stock has ticks on a day."""
        return bool(np.isin(day_of(date), self.dates(stock_id)))

    def span(self, stock_id: str) -> TickSpan:
        """Range of the ticks of a stock."""
        return self._file(BACKTEST, stock_id)[0].span

    def processed(
        self,
        stock_id: str,
        date: np.datetime64,
        columns_today: Sequence[str],
        columns_yesterday: Sequence[str],
    ) -> tuple[Floats32, Floats32]:
        """Features of a day, ticks by columns, and those of the day before.

        Args:
            stock_id: stock.
            date: day.
            columns_today: columns such as `$close`.
            columns_yesterday: columns such as `$close_1`.

        Returns:
            Two read-only arrays with a row for each tick of the day.
        """
        day, today, yesterday = day_of(date), tuple(columns_today), tuple(columns_yesterday)
        file, version = self._file(FEATURE, stock_id)
        key = (self.folder, FEATURE, version, stock_id, str(day), today, yesterday)
        cached: tuple[Floats32, Floats32] | None = self.cache.get(key)
        if cached is not None:
            return cached
        times, columns = file.read(day, (*today, *yesterday))
        if not len(times):
            raise DataError(f"{stock_id} has no features on {day} in {file.path!r}")
        both = (_stacked(columns, today, len(times)), _stacked(columns, yesterday, len(times)))
        self._store(key, version, both, both[0].nbytes + both[1].nbytes)
        return both

    def feature_columns(self, stock_id: str) -> tuple[str, ...]:
        """Feature columns of a stock."""
        return self._file(FEATURE, stock_id)[0].columns

    def preload(
        self,
        stocks: Iterable[str],
        dates: Iterable[np.datetime64],
        *,
        workers: int = 1,
        progress: Progress = False,
    ) -> int:
        """Read days into the cache in advance; see `QlibIntraday.preload`."""
        return preload(self, stocks, dates, workers, progress)

    def _file(self, part: str, stock_id: str) -> tuple[TickFile, FileVersion]:
        path = store_path(self.folder, part, stock_id)
        try:
            version = file_version(path)
        except FileNotFoundError:
            known = did_you_mean(stock_id, self.stocks(part))
            raise DataError(f"no {part} of {stock_id!r} in {self.folder!r}{known}") from None
        cached = self._files.get(path)
        if cached is None or cached[0] != version:
            cached = (version, TickFile(path))
            if is_settled([version]):
                self._files[path] = cached
        return cached[1], version

    def _store(self, key: Any, version: FileVersion, value: Any, nbytes: int) -> None:
        path = store_path(self.folder, key[1], key[3])
        if is_settled([version]) and file_version(path) == version:
            self.cache.put(key, value, nbytes)


def store_path(folder: str, part: str, stock_id: str) -> str:
    """Path of a stock, quoted so that it cannot leave the folder."""
    if not isinstance(stock_id, str) or not stock_id or len(stock_id) > 80:
        raise DataError(f"stock_id must be a name of 1 to 80 characters, got {stock_id!r}")
    name = quote(stock_id, safe=" ^+=&,;@!()[]")
    return os.path.join(folder, part, f"{'%2E' + name[1:] if name[0] == '.' else name}.parquet")


def _stacked(columns: Mapping[str, Floats], names: Sequence[str], rows: int) -> Floats32:
    stacked = np.empty((rows, len(names)), np.float32)
    for index, name in enumerate(names):
        stacked[:, index] = columns[name]
    stacked.flags.writeable = False
    return stacked


def _opened(
    kind: type[TickStore], folder: str, columns: tuple[str, ...] | None, cache: DayCache
) -> TickStore:
    return kind(folder, columns, cache=cache)


class TickFile:
    """Parquet file of ticks: columns, and time bounds of each row group from its footer.

    Raises:
        DataError: if it is not a Parquet file of ticks.
    """

    def __init__(self, path: str) -> None:
        self._parquet = optional_import("pyarrow.parquet", "data", PURPOSE)
        self.path = path
        with readable(Path(path)):
            self._metadata = self._parquet.read_metadata(path)
            schema = self._metadata.schema.to_arrow_schema()
        self._check(schema)
        self.columns = tuple(name for name in schema.names if name != TIME)
        self._time_index = schema.names.index(TIME)
        self._bounds = [self._bound(group) for group in range(self._metadata.num_row_groups)]

    def read(self, day: np.datetime64, columns: Sequence[str]) -> tuple[Times, dict[str, Floats]]:
        """Read times and columns of a day; empty if the day is missing."""
        for name in columns:
            if name not in self.columns:
                known = did_you_mean(name, self.columns)
                raise DataError(f"{self.path}: unknown column {name!r}{known}")
        first, last = day.astype("datetime64[ns]"), (day + 1).astype("datetime64[ns]")
        groups = [
            group
            for group, (low, high) in enumerate(self._bounds)
            if low is None or high is None or (low < last and high >= first)
        ]
        table = self._rows(groups, [TIME, *dict.fromkeys(columns)])
        times = self._times(table)
        begin, stop = np.searchsorted(times, [first, last])
        values = {name: _numbers(table.column(name))[begin:stop] for name in columns}
        return times[begin:stop], values

    @cached_property
    def span(self) -> TickSpan:
        """Range of the ticks."""
        times = self._times(self._rows(list(range(self._metadata.num_row_groups)), [TIME]))
        if not len(times):
            raise DataError(f"{self.path}: the file has no ticks; build the store again")
        return TickSpan.of(times)

    def _rows(self, groups: list[int], columns: list[str]) -> Any:
        with readable(Path(self.path)):
            file = self._parquet.ParquetFile(self.path, metadata=self._metadata, pre_buffer=False)
            with file:
                return file.read_row_groups(groups, columns, use_threads=False)

    def _times(self, table: Any) -> Times:
        column = table.column(TIME)
        times: Times = column.to_numpy().astype("datetime64[ns]")
        if column.null_count or np.any(np.diff(times) <= np.timedelta64(0)):
            raise DataError(f"{self.path}: timestamps must be strictly ascending")
        return times

    def _check(self, schema: Any) -> None:
        pa = arrow()
        kind = schema.field(TIME).type if TIME in schema.names else None
        if kind is None or not pa.types.is_timestamp(kind) or kind.tz is not None:
            raise DataError(
                f"{self.path}: column {TIME!r} must hold timestamps without a time zone, got "
                f"{kind or ', '.join(schema.names)}"
            )
        for name in schema.names:
            kind = schema.field(name).type
            if name != TIME and not pa.types.is_floating(kind):
                raise DataError(f"{self.path}: column {name!r} must be numeric, got {kind}")

    def _bound(self, group: int) -> tuple[np.datetime64 | None, np.datetime64 | None]:
        statistics = self._metadata.row_group(group).column(self._time_index).statistics
        if statistics is None or not statistics.has_min_max:
            return None, None
        low, high = statistics.min_raw, statistics.max_raw
        unit = self._metadata.schema.to_arrow_schema().field(TIME).type.unit
        return np.datetime64(low, unit), np.datetime64(high, unit)


def write_ticks(path: str, times: Times, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write a Parquet file of ticks atomically."""
    pa, parquet = arrow(), optional_import("pyarrow.parquet", "data", PURPOSE)
    timestamps = pa.array(times.astype("datetime64[ns]"), pa.timestamp("ns"))
    arrays = {name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()}
    table = pa.table({TIME: timestamps, **arrays})
    with replace_file(path, ".parquet") as draft:
        parquet.write_table(table, draft, row_group_size=GROUP_ROWS, version="2.6")


def _numbers(column: Any) -> Floats:
    numbers: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Options of `TickStore.build`, which documents them."""

    stocks: Sequence[str] | None
    backtest_columns: Columns | None
    feature_columns: Columns | None
    start: Any
    end: Any
    freq: str
    known_after: timedelta
    missing: float
    overwrite: bool
    progress: Progress

    def __post_init__(self) -> None:
        for columns in (self.backtest_columns, self.feature_columns):
            if isinstance(columns, str):
                raise TypeError(f"columns must be a list, got {columns!r}")
            if TIME in (columns or ()) or any(name.endswith(YESTERDAY) for name in columns or ()):
                raise DataError(
                    f"columns must neither be {TIME!r} nor end in {YESTERDAY!r}, which marks the "
                    f"day before, got {list(columns or ())}"
                )


def build(source: MarketData | QlibProvider, folder: str, options: StoreOptions) -> None:
    """Write the files of a store, see `TickStore.build`."""
    reader = (
        _PanelReader(source, options)
        if isinstance(source, MarketData)
        else _ProviderReader(source, options)
    )
    stocks = reader.stocks() if options.stocks is None else list(options.stocks)
    paths = {
        stock: [store_path(folder, part, stock) for part in (BACKTEST, FEATURE)] for stock in stocks
    }
    _check(paths, options.overwrite)
    for part in (BACKTEST, FEATURE):
        os.makedirs(os.path.join(folder, part), exist_ok=True)
    report = reporter(options.progress, "build")
    report(0, len(stocks))
    for done, stock in enumerate(stocks, 1):
        _write(reader, stock, paths[stock], options)
        report(done, len(stocks))


def with_yesterday(
    times: Times, columns: Mapping[str, Floats], missing: float
) -> dict[str, Floats]:
    """Add columns of the day before at the same time of day, with the suffix `_1`.

    The day before is the last one with ticks.
    """
    moments = times.astype("datetime64[ns]").astype(np.int64)
    _, days = np.unique(moments // DAY, return_inverse=True)
    keys = days * DAY + moments % DAY
    indices = np.minimum(np.searchsorted(keys, keys - DAY), len(keys) - 1)
    exists = keys[indices] == keys - DAY
    before = {
        f"{name}{YESTERDAY}": np.where(exists, column[indices], np.nan)
        for name, column in columns.items()
    }
    return {
        name: np.where(np.isnan(column), missing, column).astype(np.float32)
        for name, column in {**columns, **before}.items()
    }


class _PanelReader:
    def __init__(self, data: MarketData, options: StoreOptions) -> None:
        for columns in (options.backtest_columns, options.feature_columns):
            if isinstance(columns, Mapping):
                raise TypeError("columns must be names: expressions need a provider directory")
        self._data = data
        self._starts: Times = data.calendar.local - np.timedelta64(options.known_after)
        self._selected = np.ones(len(data), np.bool_)
        if options.start is not None:
            self._selected &= self._starts >= local_time(options.start)
        if options.end is not None:
            self._selected &= self._starts <= local_time(options.end)

    def stocks(self) -> list[str]:
        return list(self._data.assets)

    def read(self, stock: str, columns: Columns | None) -> tuple[Times, dict[str, Floats]]:
        names = [f"${name}" for name in self._data.fields] if columns is None else columns
        try:
            index = self._data.asset(stock)
            fields = {name: self._data.field(name.removeprefix("$")) for name in names}
        except KeyError as error:
            raise DataError(error.args[0]) from None
        rows = np.flatnonzero(self._data.listed[:, index] & self._selected)
        return self._starts[rows], {name: values[rows, index] for name, values in fields.items()}


class _ProviderReader:
    def __init__(self, provider: QlibProvider, options: StoreOptions) -> None:
        if not isinstance(provider, QlibProvider):
            raise TypeError(
                f"source must be a MarketData or a QlibProvider, got {type(provider).__name__}"
            )
        self._provider = provider
        self._options = options

    def stocks(self) -> list[str]:
        return list(self._provider.instruments("all", self._options.freq))

    def read(self, stock: str, columns: Columns | None) -> tuple[Times, dict[str, Floats]]:
        freq = self._options.freq
        names = self._provider.fields(stock, freq) if columns is None else columns
        texts = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
        fields = list(dict.fromkeys(texts.values()))
        start, end = self._options.start, self._options.end
        table = self._provider.features([stock], fields, start, end, freq)
        return table["datetime"], {name: table[text] for name, text in texts.items()}


def _check(paths: Mapping[str, Sequence[str]], overwrite: bool) -> None:
    if not paths:
        raise DataError("at least one stock is required, got none")
    paths_in_use = (path for both in paths.values() for path in both if os.path.exists(path))
    existing = next(paths_in_use, None)
    if existing is not None and not overwrite:
        raise FileExistsError(f"{existing!r} exists; choose another folder, or pass overwrite=True")


def _write(
    reader: _PanelReader | _ProviderReader, stock: str, paths: Sequence[str], options: StoreOptions
) -> None:
    times, columns = reader.read(stock, options.backtest_columns)
    seen, features = reader.read(stock, options.feature_columns)
    if not len(times) or not len(seen):
        raise DataError(f"{stock} has no ticks between start and end")
    write_ticks(paths[1], seen, with_yesterday(seen, features, options.missing))
    write_ticks(paths[0], times, columns)
