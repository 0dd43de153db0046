"""Writes a store of ticks from a panel or a provider directory."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY
from sekai.data.market_data import MarketData
from sekai.data.progress import Progress, reporter
from sekai.data.qlib.provider import QlibProvider
from sekai.data.tick_file import TIME, write_ticks
from sekai.data.tick_store import BACKTEST, FEATURE, store_path
from sekai.error import DataError

__all__ = ["BuildOptions", "StoreOptions", "build"]

Times = NDArray[np.datetime64]
Floats = NDArray[np.float64]
Columns = Sequence[str] | Mapping[str, str]
YESTERDAY = "_1"


class BuildOptions(TypedDict, total=False):
    """The keywords of `TickStore.build`; see `StoreOptions` for what each says."""

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """What is written to a store."""

    stocks: Sequence[str] | None = None
    """Which; all if not given."""
    backtest_columns: Columns | None = None
    """Columns such as `$close` to trade on, or expressions by the name they are to have, which
    need a provider directory; all fields if not given."""
    feature_columns: Columns | None = None
    """Columns of the features, likewise."""
    start: Any = None
    """The first moment."""
    end: Any = None
    """The last moment, included."""
    freq: str = "1min"
    """The frequency of a provider directory's ticks."""
    known_after: timedelta = timedelta(0)
    """How long after its beginning a row of a panel is known."""
    missing: float = float("nan")
    """What stands for a feature that is not there."""
    overwrite: bool = False
    """Replace files that are there."""
    progress: Progress = False
    """True for a bar on the standard error stream, or a function of how many stocks are done and
    how many there are."""


def build(source: MarketData | QlibProvider, folder: str, given: Mapping[str, Any]) -> None:
    """See `TickStore.build`."""
    options = _options(given)
    reader = (
        _Panel(source, options) if isinstance(source, MarketData) else _Provider(source, options)
    )
    stocks = reader.stocks() if options.stocks is None else list(options.stocks)
    paths = {stock: [store_path(folder, part, stock) for part in (BACKTEST, FEATURE)]
             for stock in stocks}  # fmt: skip
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
    """Columns, and those of the day before at the same time of day, with `_1` at their ends.

    The day before is the last one that has ticks.
    """
    moments = times.astype("datetime64[ns]").astype(np.int64)
    _, days = np.unique(moments // DAY, return_inverse=True)
    keys = days * DAY + moments % DAY
    places = np.minimum(np.searchsorted(keys, keys - DAY), len(keys) - 1)
    hit = keys[places] == keys - DAY
    before = {f"{name}{YESTERDAY}": np.where(hit, column[places], np.nan)
              for name, column in columns.items()}  # fmt: skip
    return {name: np.where(np.isnan(column), missing, column).astype(np.float32)
            for name, column in {**columns, **before}.items()}  # fmt: skip


class _Panel:
    """Reads stocks out of a panel."""

    def __init__(self, data: MarketData, options: StoreOptions) -> None:
        for columns in (options.backtest_columns, options.feature_columns):
            if isinstance(columns, Mapping):
                raise TypeError("names of columns were wanted: a panel computes no expressions")
        self._data = data
        self._beginnings: Times = data.calendar.local - np.timedelta64(options.known_after)
        self._inside = np.ones(len(data), np.bool_)
        if options.start is not None:
            self._inside &= self._beginnings >= np.datetime64(options.start, "ns")
        if options.end is not None:
            self._inside &= self._beginnings <= np.datetime64(options.end, "ns")

    def stocks(self) -> list[str]:
        return list(self._data.assets)

    def read(self, stock: str, columns: Columns | None) -> tuple[Times, dict[str, Floats]]:
        names = [f"${name}" for name in self._data.fields] if columns is None else columns
        try:
            place = self._data.asset(stock)
            fields = {name: self._data.field(name.removeprefix("$")) for name in names}
        except KeyError as error:
            raise DataError(error.args[0]) from None
        rows = np.flatnonzero(self._data.listed[:, place] & self._inside)
        return self._beginnings[rows], {name: one[rows, place] for name, one in fields.items()}


class _Provider:
    """Reads stocks out of a provider directory."""

    def __init__(self, provider: QlibProvider, options: StoreOptions) -> None:
        if not isinstance(provider, QlibProvider):
            raise TypeError(
                f"a MarketData or a QlibProvider was wanted, found {type(provider).__name__}"
            )
        self._provider = provider
        self._options = options

    def stocks(self) -> list[str]:
        return list(self._provider.instruments("all", self._options.freq))

    def read(self, stock: str, columns: Columns | None) -> tuple[Times, dict[str, Floats]]:
        freq = self._options.freq
        names = self._provider.fields(stock, freq) if columns is None else columns
        texts = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
        wanted = list(dict.fromkeys(texts.values()))
        table = self._provider.features(
            [stock], wanted, self._options.start, self._options.end, freq
        )
        return table["datetime"], {name: table[text] for name, text in texts.items()}


def _options(given: Mapping[str, Any]) -> StoreOptions:
    known = {option.name for option in dataclasses.fields(StoreOptions)}
    if unknown := sorted(given.keys() - known):
        raise TypeError(f"options among {sorted(known)} were wanted, found {unknown}")
    options = StoreOptions(**given)
    for columns in (options.backtest_columns, options.feature_columns):
        if isinstance(columns, str):
            raise TypeError(f"a list of columns was wanted, found {columns!r}")
        if TIME in (columns or ()) or any(name.endswith(YESTERDAY) for name in columns or ()):
            raise DataError(
                f"columns that are neither {TIME!r} nor end in {YESTERDAY!r} were wanted, as that "
                f"names the day before, found {list(columns or ())}"
            )
    return options


def _check(paths: Mapping[str, Sequence[str]], overwrite: bool) -> None:
    if not paths:
        raise DataError("at least one stock was wanted, found none")
    there = next((path for both in paths.values() for path in both if os.path.exists(path)), None)
    if there is not None and not overwrite:
        raise FileExistsError(
            f"new files were wanted, {there!r} is there: name another folder, or overwrite=True"
        )


def _write(
    reader: _Panel | _Provider, stock: str, paths: Sequence[str], options: StoreOptions
) -> None:
    times, columns = reader.read(stock, options.backtest_columns)
    seen, features = reader.read(stock, options.feature_columns)
    if not len(times) or not len(seen):
        raise DataError(f"ticks of {stock} were wanted, found none between start and end")
    write_ticks(paths[1], seen, with_yesterday(seen, features, options.missing))
    write_ticks(paths[0], times, columns)
