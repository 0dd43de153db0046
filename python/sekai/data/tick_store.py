"""Ticks and features of many stocks in Parquet files, read a day at a time.

TickStore.build(data, "store", feature_columns=["$close", "$volume"])
store = TickStore("store")
ticks = store.day("AAA", np.datetime64("2020-01-02"))
today, yesterday = store.processed("AAA", ticks.times[0], ["$close"], ["$close_1"])
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from sekai.data.day_cache import DayCache
from sekai.data.file_stamp import Stamp, is_settled, stamp_of
from sekai.data.intraday import DayTicks
from sekai.data.near_names import near
from sekai.data.preloading import day_of, preload
from sekai.data.progress import Progress
from sekai.data.tick_file import TickFile
from sekai.error import DataError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sekai.data.market_data import MarketData
    from sekai.data.qlib.provider import QlibProvider
    from sekai.data.tick_store_building import BuildOptions

__all__ = ["TickStore"]

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
BACKTEST, FEATURE = "backtest", "feature"


class TickStore:
    """A folder with the ticks to trade on and the features to look at, a file a stock.

    `backtest/<stock>.parquet` has a column of stamps, `datetime`, and columns such as `$close`;
    `feature/<stock>.parquet` likewise, and for each column one with `_1` at its end, the value of
    the day before at the same time of day. Nothing in it is a pickle. Days that were read are
    kept within the bounds of the cache, and read again as soon as their file is another.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        *,
        cache: DayCache | None = None,
    ) -> None:
        """Open a store that `build` made.

        Args:
            folder: where it is.
            columns: those that `day` gives; all if not given.
            cache: what keeps days; one of its own if not given. It can be shared.
        """
        self.folder = os.path.abspath(folder)
        self.columns = None if columns is None else tuple(columns)
        self.cache = DayCache() if cache is None else cache
        self._files: dict[str, tuple[Stamp, TickFile]] = {}
        if not any(os.path.isdir(os.path.join(self.folder, part)) for part in (BACKTEST, FEATURE)):
            raise DataError(
                f"a store of ticks was wanted, {self.folder!r} has neither {BACKTEST} nor "
                f"{FEATURE}: make one by TickStore.build"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (type(self), self.folder, self.columns, self.cache)

    @classmethod
    def build(
        cls,
        source: MarketData | QlibProvider,
        folder: str | os.PathLike[str],
        **options: Unpack[BuildOptions],
    ) -> TickStore:
        """Write a store, file by file, and open it.

        Args:
            source: a panel of ticks, or a provider directory.
            folder: where to; files that are there are refused unless `overwrite` says so.
            **options: what is written, see `StoreOptions`.
        """
        from sekai.data.tick_store_building import build

        build(source, os.path.abspath(folder), options)
        return cls(folder)

    def stocks(self, part: str = BACKTEST) -> tuple[str, ...]:
        """The stocks of which there is a file."""
        files = Path(self.folder, part).glob("*.parquet")
        return tuple(sorted(unquote(file.stem) for file in files if file.name[0] != "."))

    def dates(self, stock_id: str, part: str = BACKTEST) -> NDArray[np.datetime64]:
        """The days on which a stock has ticks."""
        return self._file(part, stock_id)[0].days

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """The ticks of a stock on a day; a `DataError` where there are none."""
        day = day_of(date)
        file, stamp = self._file(BACKTEST, stock_id)
        names = file.columns if self.columns is None else self.columns
        key = (self.folder, BACKTEST, stamp, stock_id, str(day), names)
        kept: DayTicks | None = self.cache.get(key)
        if kept is not None:
            return kept
        times, columns = file.read(day, names)
        if not len(times):
            raise DataError(f"{stock_id} has no ticks on {day} in {file.path!r}")
        ticks = DayTicks(stock_id, times, columns)
        self._keep(key, stamp, ticks, times.nbytes * (1 + len(columns)))
        return ticks

    def has(self, stock_id: str, date: np.datetime64) -> bool:
        """Whether a stock has ticks on a day."""
        return bool(np.isin(day_of(date), self.dates(stock_id)))

    def processed(
        self,
        stock_id: str,
        date: np.datetime64,
        columns_today: Sequence[str],
        columns_yesterday: Sequence[str],
    ) -> tuple[Floats32, Floats32]:
        """The features of a day, ticks by columns, and those of the day before.

        Args:
            stock_id: which stock.
            date: which day.
            columns_today: such as `$close`.
            columns_yesterday: such as `$close_1`.

        Returns:
            Two arrays that nobody can write into, of as many rows as the day has ticks.
        """
        day, today, yesterday = day_of(date), tuple(columns_today), tuple(columns_yesterday)
        file, stamp = self._file(FEATURE, stock_id)
        key = (self.folder, FEATURE, stamp, stock_id, str(day), today, yesterday)
        kept: tuple[Floats32, Floats32] | None = self.cache.get(key)
        if kept is not None:
            return kept
        times, columns = file.read(day, (*today, *yesterday))
        if not len(times):
            raise DataError(f"{stock_id} has no features on {day} in {file.path!r}")
        both = (_stacked(columns, today, len(times)), _stacked(columns, yesterday, len(times)))
        self._keep(key, stamp, both, both[0].nbytes + both[1].nbytes)
        return both

    def feature_columns(self, stock_id: str) -> tuple[str, ...]:
        """The columns of a stock's features."""
        return self._file(FEATURE, stock_id)[0].columns

    def preload(
        self,
        stocks: Iterable[str],
        dates: Iterable[np.datetime64],
        *,
        workers: int = 1,
        progress: Progress = False,
    ) -> int:
        """Read days before they are needed; see `QlibIntraday.preload`."""
        return preload(self, stocks, dates, workers, progress)

    def _file(self, part: str, stock_id: str) -> tuple[TickFile, Stamp]:
        path = store_path(self.folder, part, stock_id)
        try:
            stamp = stamp_of(path)
        except FileNotFoundError:
            there = near(stock_id, self.stocks(part))
            raise DataError(f"no {part} of {stock_id!r} in {self.folder!r}{there}") from None
        kept = self._files.get(path)
        if kept is None or kept[0] != stamp:
            kept = (stamp, TickFile(path))
            if is_settled([stamp]):
                self._files[path] = kept
        return kept[1], stamp

    def _keep(self, key: Any, stamp: Stamp, value: Any, nbytes: int) -> None:
        if is_settled([stamp]) and stamp_of(store_path(self.folder, key[1], key[3])) == stamp:
            self.cache.put(key, value, nbytes)


def store_path(folder: str, part: str, stock_id: str) -> str:
    """The file of a stock; whatever its name is, the file is in the folder."""
    if not isinstance(stock_id, str) or not stock_id or len(stock_id) > 80:
        raise DataError(f"a stock with a name of 1 to 80 letters was wanted, found {stock_id!r}")
    name = quote(stock_id, safe=" ^+=&,;@!()[]")
    return os.path.join(folder, part, f"{'%2E' + name[1:] if name[0] == '.' else name}.parquet")


def _stacked(columns: Mapping[str, Floats], names: Sequence[str], rows: int) -> Floats32:
    stacked = np.empty((rows, len(names)), np.float32)
    for place, name in enumerate(names):
        stacked[:, place] = columns[name]
    stacked.flags.writeable = False
    return stacked


def _opened(
    kind: type[TickStore], folder: str, columns: tuple[str, ...] | None, cache: DayCache
) -> TickStore:
    return kind(folder, columns, cache=cache)
