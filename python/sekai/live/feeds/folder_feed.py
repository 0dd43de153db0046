"""FolderFeed: bars from a folder of Parquet and JSON-lines files written by other programs."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sekai.data import Bar, MarketData
from sekai.data.market_data import PRICE_FIELDS
from sekai.data.reading.files import MARKET_PREFIX
from sekai.error import FeedError
from sekai.live.events import BarEvent, FeedEvent, bar_time
from sekai.live.feed import Feed
from sekai.live.feeds.decoder import (
    MAX_FRAME_BYTES,
    Malformed,
    invalid,
    parse_number,
    parse_timestamp,
    read_json,
    shown,
)
from sekai.live.feeds.timed_feed import count_received, end_task, notice
from sekai.storage.optional import optional_import

__all__ = ["FolderFeed"]

SUFFIXES = (".jsonl", ".parquet")
CHUNK_BYTES = 1 << 20
CHUNK_LINES = 1 << 16
TAIL_BYTES = 256
MASKS = ("listed", "quoted", "tradable")
MAX_AHEAD = 366 * 24 * 3600 * 10**9
"""Nanoseconds after the last row and after now: a later time is a mistake, and as a row it would
make all following rows late."""

FileStamp = tuple[int, int, int]
"""Inode, modification time and size: differs if a file was written or replaced."""


class FolderFeed(Feed):
    """Feed that follows a folder of Parquet and JSON-lines files: new files and appended lines.

    A line, or a row of a Parquet file, is one asset at one time: `time`, `asset`, the fields of
    the history, and optionally the masks `listed`, `quoted` and `tradable` and series
    `market/<name>`, as written by `MarketData.to_parquet`. Files are read in the order of their
    names, with ascending times. A bar is passed on when it has all assets, when a later time
    arrives, or `grace` seconds after the last line. A file that is replaced is read again, and
    gives the rows that are new.

    Args:
        path: an existing folder.
        history: data before the first event; defines assets, fields and series.
        poll_seconds: polling interval.
        grace: seconds after which a bar is passed on with assets missing.
        patience: seconds after which an incomplete Parquet file is skipped; until then later
            files wait.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        history: MarketData,
        *,
        poll_seconds: float = 0.25,
        grace: float = 5.0,
        patience: float = 60.0,
    ) -> None:
        super().__init__()
        if not (poll_seconds > 0 and grace > 0 and patience >= 0):
            raise ValueError(
                "poll_seconds and grace must be above 0 and patience at least 0, got "
                f"{poll_seconds}, {grace} and {patience}"
            )
        self._path = Path(path)
        if not self._path.is_dir():
            raise FileNotFoundError(f"no folder {str(path)!r}; create it first")
        self.history = history
        self._poll_seconds = poll_seconds
        self._grace = grace
        self._reader = _FolderReader(self._path, history, patience)
        self._ready: deque[FeedEvent] = deque()
        self._poll_task: asyncio.Task[None] | None = None
        self._last_read = time.monotonic()
        self._is_closed = False
        self._last = self._reader.assembler.last
        self.health.is_connected = True

    async def __anext__(self) -> FeedEvent:
        """Wait for the next bar."""
        while not self._ready:
            if self._is_closed:
                raise StopAsyncIteration
            if self._poll_task is None:
                self._poll_task = asyncio.create_task(self._poll())
            # The task continues if this wait is cancelled: no row that was read is lost.
            task = self._poll_task
            await asyncio.wait({task})
            self._poll_task = None
            if not task.cancelled():
                task.result()
        return self._pass_on()

    def take_ready(self) -> FeedEvent | None:
        """Return the next bar if it was already read, else None."""
        return self._pass_on() if self._ready else None

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """Bars after `exchange_time` that were passed on; reads the folder again."""
        bars = await asyncio.to_thread(self._read_again, exchange_time, self._last)
        return [_event(bar) for bar in bars]

    async def close(self) -> None:
        """Stop polling."""
        self._is_closed = True
        self._ready.clear()
        self.health.is_connected = False
        task, self._poll_task = self._poll_task, None
        if task is not None:
            await end_task(task)
        self._ready.clear()

    async def _poll(self) -> None:
        try:
            rows = await asyncio.to_thread(self._reader.read)
        except OSError as error:
            raise FeedError(f"cannot read folder {str(self._path)!r}: {error}") from error
        assembler = self._reader.assembler
        now = time.monotonic()
        is_idle = rows is None
        if rows is not None:
            self._last_read = now
        elif now - self._last_read > self._grace:
            rows = list(assembler.flush())
        for row in rows or ():
            if isinstance(row, Malformed):
                self.health.garbage += 1
                self._ready.append(notice("garbage", row.detail))
            else:
                self._ready.append(_event(row))
        if late := assembler.late - self.health.late:
            self.health.late += late
            self._ready.append(notice("late", f"{late} lines of bars that were passed on"))
        if duplicates := assembler.duplicates - self.health.duplicates:
            self.health.duplicates += duplicates
            self._ready.append(notice("duplicate", f"{duplicates} lines repeat an asset of a bar"))
        if is_idle:
            await asyncio.sleep(self._poll_seconds)

    def _pass_on(self) -> FeedEvent:
        event = self._ready.popleft()
        if isinstance(event, BarEvent):
            self._last = event.exchange_time
        return count_received(self.health, event)

    def _read_again(self, exchange_time: int, until: int) -> list[Bar]:
        assert self.history is not None, "set by the constructor"
        reader = _FolderReader(self._path, self.history, 0.0)
        bars: list[Bar] = []
        while (rows := reader.read()) is not None:
            bars.extend(row for row in rows if isinstance(row, Bar))
        bars.extend(reader.assembler.flush())
        return [bar for bar in bars if exchange_time < bar_time(bar) <= until]


def _event(bar: Bar) -> BarEvent:
    return BarEvent(exchange_time=bar_time(bar), bar=bar)


@dataclass(slots=True)
class _FileOffset:
    """Read position of a JSON-lines file."""

    offset: int = 0
    tail: bytes = b""
    """Last bytes before `offset`: if they differ, the file was replaced."""

    stamp: FileStamp | None = None
    """Stamp of the file when it was read completely."""

    is_repeated: bool = False
    """True while a replaced file is read again."""


class _FolderReader:
    """Reads new rows of the files of a folder in name order; blocking, to be run in a thread.

    A line is complete with its newline, a Parquet file with its footer; incomplete ones are read
    later. Names that begin with a dot or an underscore are drafts and skipped.
    """

    def __init__(self, path: Path, history: MarketData, patience: float) -> None:
        self.assembler = RowAssembler(history)
        self._path = path
        self._patience = patience
        self._offsets: dict[str, _FileOffset] = {}
        self._done: dict[str, FileStamp] = {}
        self._skipped: dict[str, FileStamp] = {}
        self._first_seen: dict[str, float] = {}
        self._lines: deque[Any] = deque()
        self._is_repeated = False

    def read(self) -> list[Bar | Malformed] | None:
        """Read the next lines, up to some megabytes; None if there is nothing new."""
        if not self._lines:
            self._read_lines()
        if not self._lines:
            return None
        rows: list[Bar | Malformed] = []
        late, duplicates = self.assembler.late, self.assembler.duplicates
        while self._lines and len(rows) < CHUNK_LINES:
            line = self._lines.popleft()
            try:
                if isinstance(line, Malformed):
                    rows.append(line)
                else:
                    values = read_json(line) if isinstance(line, bytes) else line
                    rows.extend(self.assembler.add(values))
            except FeedError as error:
                rows.append(Malformed(str(error)))
        if self._is_repeated:
            # They were on time when they were read first.
            self.assembler.late, self.assembler.duplicates = late, duplicates
        return rows

    def _read_lines(self) -> None:
        names = sorted(
            file.name
            for file in self._path.iterdir()
            if file.suffix in SUFFIXES and file.name[0] not in "._"
        )
        for known in (self._offsets, self._done, self._skipped, self._first_seen):
            # A new file may take the name of a removed one.
            for removed in known.keys() - set(names):
                del known[removed]
        for name in names:
            file = self._path / name
            self._is_repeated = False
            self._lines.extend(self._json(file) if file.suffix == ".jsonl" else self._parquet(file))
            # Later files wait for an incomplete Parquet file.
            if self._lines or name in self._first_seen:
                return

    def _json(self, file: Path) -> Iterable[bytes | Malformed]:
        position = self._offsets.setdefault(file.name, _FileOffset())
        try:
            stamp = _stamp(file)
            if stamp == position.stamp:
                return []
            with file.open("rb") as opened:
                chunk = self._chunk(opened, position)
        except FileNotFoundError:
            # Removed since the folder was listed.
            return []
        self._is_repeated = position.is_repeated
        if len(chunk) < CHUNK_BYTES:
            position.stamp, position.is_repeated = stamp, False
        is_within_line = position.tail[-1:] not in (b"", b"\n")
        length = chunk.rfind(b"\n") + 1
        is_too_long = length == 0 and len(chunk) >= MAX_FRAME_BYTES
        if is_too_long:
            length = len(chunk)
        position.offset += length
        position.tail = (position.tail + chunk[:length])[-TAIL_BYTES:]
        if is_too_long:
            detail = f"line longer than {MAX_FRAME_BYTES} bytes in {shown(file.name)}"
            return [] if is_within_line else [Malformed(detail)]
        # The rest of a line that is too long is skipped.
        lines = chunk[:length].split(b"\n")[is_within_line:]
        return (line for line in lines if line.strip())

    def _chunk(self, opened: BinaryIO, position: _FileOffset) -> bytes:
        """Read the next bytes of a file; from its start if it was replaced."""
        opened.seek(position.offset - len(position.tail))
        content = opened.read(len(position.tail) + CHUNK_BYTES)
        if content.startswith(position.tail):
            return content[len(position.tail) :]
        position.offset, position.tail, position.is_repeated = 0, b"", True
        opened.seek(0)
        return opened.read(CHUNK_BYTES)

    def _parquet(self, file: Path) -> list[Any]:
        parquet = optional_import("pyarrow.parquet", "data", "FolderFeed")
        arrow = optional_import("pyarrow", "data", "FolderFeed")
        name = file.name
        try:
            stamp = _stamp(file)
            if stamp in (self._done.get(name), self._skipped.get(name)):
                return []
            table = parquet.read_table(file)
            rows: list[Any] = _with_nanoseconds(arrow, table).to_pylist()
        except FileNotFoundError:
            return []
        except (arrow.ArrowException, OSError, ValueError) as error:
            return self._incomplete(name, stamp, error)
        self._first_seen.pop(name, None)
        self._is_repeated = name in self._done
        self._done[name] = stamp
        return rows

    def _incomplete(self, name: str, stamp: FileStamp, error: Exception) -> list[Any]:
        """Wait for the rest of a Parquet file up to `patience`, then skip and report it once."""
        if name in self._skipped:
            self._skipped[name] = stamp
            return []
        first = self._first_seen.setdefault(name, time.monotonic())
        if time.monotonic() - first < self._patience:
            return []
        del self._first_seen[name]
        self._skipped[name] = stamp
        return [Malformed(f"{shown(name)} is not a Parquet file: {type(error).__name__}")]


class RowAssembler:
    """Assembles lines of single assets to bars of all assets.

    A bar is complete when every asset has a line. A line of a later time ends it too; missing
    assets are NaN.

    Args:
        history: data before the first bar; defines assets, fields and series.
    """

    def __init__(self, history: MarketData) -> None:
        self.last = int(history.calendar.nanoseconds[-1]) if len(history) else 0
        """Time of the last bar."""
        self.late = 0
        """Lines of bars that were passed on, without those of the history."""
        self.duplicates = 0
        self._begin = self.last
        self._index = {name: index for index, name in enumerate(history.assets)}
        self._fields = history.fields
        self._market = tuple(history.market)
        self._time: int | None = None
        self._lines: dict[int, Mapping[str, Any]] = {}

    def add(self, line: Any) -> Iterator[Bar]:
        """Add a line, and yield the bars that it completes.

        Raises:
            FeedError: malformed line: unknown asset, invalid time or invalid numbers.
        """
        if not isinstance(line, dict):
            raise invalid("an object with time, asset and fields", line)
        timestamp = parse_timestamp(line.get("time"))
        asset = line.get("asset")
        index = self._index.get(asset) if isinstance(asset, str) else None
        if index is None:
            raise FeedError(f"unknown asset {shown(asset)}; expected an asset of the history")
        values = self._parse(line)
        if timestamp <= self.last or (self._time is not None and timestamp < self._time):
            self.late += timestamp > self._begin
            return
        if timestamp > max(self.last, time.time_ns()) + MAX_AHEAD:
            raise invalid("a time less than a year ahead", str(line.get("time")))
        if self._time is not None and timestamp > self._time:
            yield from self.flush()
        if index in self._lines:
            self.duplicates += 1
            return
        self._time = timestamp
        self._lines[index] = values
        if len(self._lines) == len(self._index):
            yield from self.flush()

    def flush(self) -> Iterator[Bar]:
        """Yield the incomplete bar, if there is one."""
        if self._time is None:
            return
        timestamp, lines = self._time, self._lines
        self.last, self._time, self._lines = timestamp, None, {}
        yield self._bar(timestamp, lines)

    def _bar(self, timestamp: int, lines: Mapping[int, Mapping[str, Any]]) -> Bar:
        values = np.full((len(self._index), len(self._fields)), np.nan)
        market = dict.fromkeys(self._market, math.nan)
        masks: dict[str, Any] = {}
        for index, line in lines.items():
            values[index] = [line.get(name, math.nan) for name in self._fields]
            market.update({name: line[name] for name in self._market if name in line})
        for name in MASKS:
            if any(name in line for line in lines.values()):
                flags = [lines.get(index, {}).get(name, False) for index in range(len(values))]
                masks[name] = np.array(flags)
        return Bar(np.datetime64(timestamp, "ns"), values, **masks, market=market)

    def _parse(self, line: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in self._fields:
            if name in PRICE_FIELDS and name not in line and line.get("quoted") is not False:
                raise FeedError(
                    f"missing price {name!r}; expected the fields {', '.join(self._fields)}, null "
                    "where an asset has no price"
                )
            value = _number_or_nan(line.get(name))
            if name in PRICE_FIELDS and value <= 0:
                raise FeedError(f"{name} must be above 0, got {value}")
            values[name] = value
        for name in self._market:
            if MARKET_PREFIX + name in line:
                values[name] = _number_or_nan(line[MARKET_PREFIX + name])
        for name in MASKS:
            if name in line:
                if not isinstance(line[name], bool):
                    raise invalid(f"true or false for {name}", line[name])
                values[name] = line[name]
        return values


def _number_or_nan(value: Any) -> float:
    # Parquet has NaN where JSON has null.
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    return parse_number(value)


def _stamp(file: Path) -> FileStamp:
    status = file.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _with_nanoseconds(arrow: Any, table: Any) -> Any:
    """Convert the time column to integers: Python's datetime has no nanoseconds."""
    column = table.schema.get_field_index("time")
    if column < 0 or not arrow.types.is_timestamp(table.schema.field(column).type):
        return table
    times = table.column(column).cast(arrow.timestamp("ns", "UTC")).cast(arrow.int64())
    return table.set_column(column, "time", times)
