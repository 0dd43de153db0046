"""Intraday data: ticks of one asset on one day, their sources, cache and preloading."""

from __future__ import annotations

import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import Duration, as_timedelta, local_time
from sekai.data.market_data import MarketData, frozen
from sekai.error import DataError
from sekai.storage.display import brief_repr
from sekai.storage.names import did_you_mean

Report = Callable[[int, int], None]
Progress = bool | Report
"""True for a progress bar on stderr, or a function of the done and the total count."""

FileVersion = tuple[int, int, int]
"""Version of a file: inode, modification time in nanoseconds, size."""

MTIME_RESOLUTION = 50_000_000
"""Nanoseconds within which a file system may give two writes the same modification time."""
BAR_WIDTH = 30
BAR_INTERVAL = 0.1
"""Seconds between two updates of the progress bar."""


@dataclass(frozen=True, slots=True, eq=False)
class DayTicks:
    """Ticks of one asset on one day, usually minute bars.

    Columns carry Qlib's names with a leading dollar: `$close`, `$volume`, `$bid`. Missing values
    are NaN.
    """

    stock_id: str
    times: NDArray[np.datetime64]
    """Start of each tick, in nanoseconds, ascending."""
    columns: Mapping[str, NDArray[np.float64]]

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        times = frozen(np.asarray(self.times, dtype="datetime64[ns]"))
        if times.ndim != 1 or not len(times) or np.any(np.diff(times) <= np.timedelta64(0)):
            raise DataError(f"{self.stock_id}: ticks must be at least one, strictly ascending")
        if len(np.unique(times.astype("datetime64[D]"))) > 1:
            raise DataError(f"{self.stock_id}: ticks must be of one day, got several days")
        columns = {}
        for name, values in self.columns.items():
            columns[name] = frozen(np.asarray(values, dtype=np.float64))
            if columns[name].shape != times.shape:
                raise DataError(
                    f"{self.stock_id}: column {name!r} must have shape {times.shape}, got "
                    f"{columns[name].shape}"
                )
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "columns", MappingProxyType(columns))

    def __len__(self) -> int:
        return len(self.times)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.stock_id, self.times, dict(self.columns))

    def __deepcopy__(self, memo: dict[int, Any]) -> DayTicks:
        # Immutable, so a copy is not needed.
        return self

    def column(self, name: str) -> NDArray[np.float64]:
        """Values of a column, one per tick; see `resolve_column`."""
        key = resolve_column(self.columns, name)
        if key is None:
            raise DataError(
                f"{self.stock_id}: unknown column {name!r}; expected one of {sorted(self.columns)}"
            )
        return self.columns[key]


def resolve_column(columns: Mapping[str, Any], name: str) -> str | None:
    """Resolve a column name, also with the trailing 0 of Qlib's processed files."""
    return next((key for key in (name, f"{name}0") if key in columns), None)


@dataclass(frozen=True, slots=True, eq=False)
class TickSpan:
    """Range of the ticks of an asset: the first and the last, days and times of day."""

    first: np.datetime64 | None
    """First tick; None for ticks without beginning and end."""
    last: np.datetime64 | None
    dates: NDArray[np.datetime64]
    """Days with ticks, ascending."""
    clock: NDArray[np.timedelta64]
    """Different times of day, ascending."""

    def __repr__(self) -> str:
        return (
            f"TickSpan({self.first!s:.16} to {self.last!s:.16}, {len(self.dates):,} days, "
            f"{len(self.clock):,} times of day)"
        )

    @classmethod
    def of(cls, times: NDArray[np.datetime64]) -> TickSpan:
        """Range of ticks at ascending times, at least one."""
        dates: NDArray[np.datetime64] = times.astype("datetime64[D]")
        clock: NDArray[np.timedelta64] = np.unique(times - dates)
        return cls(times[0], times[-1], frozen(np.unique(dates)), frozen(clock))


@runtime_checkable
class IntradayData(Protocol):
    """Interface of sources of ticks by asset and day.

    A source may also have `has(stock_id, date)`, and `span(stock_id)` that returns a `TickSpan`.
    """

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """Return the ticks of an asset on a day; raise `DataError` if there are none."""


class DayCache:
    """Least-recently-used cache bounded by bytes and entries.

    It is thread-safe and can be shared by sources with distinct keys. A copy or a pickle has the
    same bounds and is empty.

    Args:
        max_bytes: most bytes of arrays to keep; 0 keeps none.
        max_entries: most values to keep.
    """

    def __init__(self, max_bytes: int = 256 << 20, max_entries: int = 100_000) -> None:
        for name, bound in (("max_bytes", max_bytes), ("max_entries", max_entries)):
            if bound < 0:
                raise ValueError(f"{name} must be at least 0, got {bound}")
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"DayCache({len(self):,} entries, {self.nbytes:,} of {self.max_bytes:,} bytes)"

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Bytes of the cached arrays."""
        return self._bytes

    def get(self, key: Hashable) -> Any:
        """Return the value of a key, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Store a value unless it exceeds the bounds by itself."""
        with self._lock:
            self._drop(key)
            if nbytes > self.max_bytes or self.max_entries == 0:
                return
            self._entries[key] = (value, nbytes)
            self._bytes += nbytes
            while self._bytes > self.max_bytes or len(self._entries) > self.max_entries:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _drop(self, key: Hashable) -> None:
        _, nbytes = self._entries.pop(key, (None, 0))
        self._bytes -= nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.max_bytes, self.max_entries)


class _Days(Protocol):
    def day(self, stock_id: str, date: np.datetime64) -> DayTicks: ...
    def has(self, stock_id: str, date: np.datetime64) -> bool: ...


def day_of(date: Any) -> np.datetime64:
    """Convert a date or a time of a day to that day."""
    try:
        day: np.datetime64 = local_time(date).astype("datetime64[D]")
    except (ValueError, TypeError) as error:
        raise ValueError(f"date must be a day or a time, got {date!r}; {error}") from error
    return day


def preload(
    source: _Days, stocks: Iterable[str], dates: Iterable[Any], workers: int, progress: Progress
) -> int:
    """Read days into the cache of a source; see `QlibIntraday.preload`."""
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
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


class MarketIntraday:
    """Intraday data from a panel: its field `close` is the column `$close`.

    Ticks carry the local time of their start. Rows in which an asset is not listed give no tick.

    Args:
        data: panel, usually of minutes.
        known_after: delay from the start of a row to its timestamp, as passed to the reader.
    """

    def __init__(self, data: MarketData, *, known_after: Duration = timedelta(0)) -> None:
        self.data = data
        self.known_after = as_timedelta(known_after)

    def __repr__(self) -> str:
        return f"MarketIntraday({self.data!r})"

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """Return the ticks of an asset on a day; raise `DataError` if there are none."""
        if stock_id not in self._columns:
            raise DataError(f"unknown asset {stock_id!r}{did_you_mean(stock_id, self._columns)}")
        column, day = self._columns[stock_id], day_of(date)
        begin, stop = np.searchsorted(self._beginnings, [day, day + np.timedelta64(1, "D")])
        rows = begin + np.flatnonzero(self.data.listed[begin:stop, column])
        if not len(rows):
            raise DataError(f"{stock_id} has no ticks on {day}: {self._listing(column)}")
        values = self.data.values[rows, column]
        columns = {f"${name}": values[:, index] for index, name in enumerate(self.data.fields)}
        return DayTicks(stock_id, self._beginnings[rows], columns)

    def span(self, stock_id: str) -> TickSpan:
        """Range of the rows of the panel, the same for every asset."""
        return self._span

    @cached_property
    def _span(self) -> TickSpan:
        return TickSpan.of(self._beginnings)

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.data.assets)}

    @cached_property
    def _beginnings(self) -> NDArray[np.datetime64]:
        starts: NDArray[np.datetime64] = self.data.calendar.local - np.timedelta64(self.known_after)
        return starts

    def _listing(self, column: int) -> str:
        listed: Any = self._beginnings[self.data.listed[:, column]]
        return f"it is listed from {listed[0]} to {listed[-1]}" if len(listed) else "never listed"


def file_version(path: str | os.PathLike[str]) -> FileVersion:
    """Version of a file, which changes when the file is rewritten."""
    status = os.stat(path)
    return status.st_ino, status.st_mtime_ns, status.st_size


def is_settled(versions: Iterable[FileVersion]) -> bool:
    """Return True if a later write of these files is certain to change their versions.

    File systems have a coarse clock and reuse inodes: a file written just now could be rewritten
    without a trace, so it must not be cached.
    """
    latest = time.time_ns() - MTIME_RESOLUTION
    return all(written < latest for _, written, _ in versions)


def reporter(progress: Progress, what: str) -> Report:
    """Return a function that reports the done and the total count."""
    if callable(progress):
        return progress
    return _bar(what) if progress else _silent


def _silent(done: int, total: int) -> None:
    pass


def _bar(label: str) -> Report:
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done < total and now - last < BAR_INTERVAL:
            return
        last = now
        filled = BAR_WIDTH * done // max(1, total)
        end = "\n" if done >= total else ""
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        sys.stderr.write(f"\r{label} [{bar}] {done}/{total}{end}")
        sys.stderr.flush()

    return report
