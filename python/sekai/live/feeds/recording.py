"""Recording and replay of feeds: event codec, recorder, and feeds of recordings and panels."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import io
import json
import math
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np

from sekai.core.base import Closeable
from sekai.data import Bar, MarketData
from sekai.error import FeedError
from sekai.live.events import (
    BarEvent,
    CandleEvent,
    FeedEvent,
    FeedNotice,
    NoticeKind,
    QuoteEvent,
    TradeEvent,
    bar_time,
)
from sekai.live.feed import Feed
from sekai.live.feeds.decoder import (
    LAST_NANOSECOND,
    MAX_FRAME_BYTES,
    Decoder,
    Malformed,
    invalid,
    read_json,
)
from sekai.live.feeds.timed_feed import count_received, notice
from sekai.storage.files import rename_file

__all__ = ["EventRecorder", "RecordedFeed", "ReplayFeed", "event_from_json", "event_to_json"]

CLASSES: Mapping[str, type[FeedEvent]] = {
    "trade": TradeEvent,
    "quote": QuoteEvent,
    "candle": CandleEvent,
    "bar": BarEvent,
    "notice": FeedNotice,
}
DECLARED = {kind: {each.name: str(each.type) for each in fields(kind)} for kind in CLASSES.values()}
NAMES = {kind: name for name, kind in CLASSES.items()}
EXCLUDED = ("arrival", "is_late", "bar", "kind")
"""`arrival` is meaningless in another process; a late event need not be late when replayed."""

TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "int | None": (int, type(None)),
    "float": (float, int),
    "str": (str,),
    "bool | None": (bool, type(None)),
    "NoticeKind": (str,),
}
MASKS = ("listed", "quoted", "tradable")
YIELD_EVERY = 64
"""Events after which other tasks run, in a replay without pacing."""


class EventRecorder(Closeable):
    """Recorder that writes events to a JSON-lines file, gzip-compressed if it ends in `.gz`.

    Until `close` the file has the suffix `.part`, which `RecordedFeed` can read after a crash; a
    file with its final name is always complete.

    Args:
        path: file to create; an existing file is not replaced.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.part = self.path.with_name(self.path.name + ".part")
        for file in (self.path, self.part):
            if file.exists():
                raise FileExistsError(f"file exists: {str(file)!r}; move it or choose another name")
        self._raw = self.part.open("xb")
        is_gzip = self.path.suffix == ".gz"
        self._file: io.IOBase = (
            gzip.GzipFile(fileobj=self._raw, mode="wb") if is_gzip else self._raw
        )
        self.count = 0

    def record(self, event: FeedEvent) -> None:
        """Write an event."""
        self._file.write(event_to_json(event).encode() + b"\n")
        self.count += 1

    def flush(self) -> None:
        """Write buffered events to the operating system, so that they survive a killed process."""
        self._file.flush()
        self._raw.flush()

    def close(self) -> None:
        """Complete the file and rename it to its final name; a second call does nothing."""
        if self._raw.closed:
            return
        if self._file is not self._raw:
            self._file.close()
        self._raw.close()
        rename_file(self.part, self.path)


class RecordedFeed(Feed):
    """Feed that replays a file of `EventRecorder`, or raw lines `<local nanoseconds> <frame>`.

    Times are the recorded ones, except `arrival`, which is the time of the replay. Malformed lines
    and a truncated file are counted and reported by notices.

    Args:
        path: file of lines, gzip-compressed if its name contains `.gz`.
        decoder: decoder of the frames of raw lines.
        speed: multiple of the recorded speed; None for as fast as possible.
        history: data before the first event.
    """

    is_replay = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        decoder: Decoder | None = None,
        *,
        speed: float | None = None,
        history: MarketData | None = None,
    ) -> None:
        super().__init__()
        self.history = history
        self._path = Path(path)
        if not self._path.is_file():
            raise FileNotFoundError(f"no file of events {str(path)!r}")
        self._decoder = decoder
        self._pacing = _Pacing(speed)
        self._events: Iterator[FeedEvent | Malformed] | None = self._read()
        self._next: FeedEvent | Malformed | None = None
        self._count = 0
        self.health.is_connected = True

    async def __anext__(self) -> FeedEvent:
        """Wait until the next event is due."""
        if not self._fill():
            raise StopAsyncIteration
        # A malformed line has no time to wait for.
        if not isinstance(self._next, Malformed) and self._next is not None:
            await self._pacing.wait(self._next.receive_time)
        if self._next is None:
            raise StopAsyncIteration
        return self._pass_on(self._next)

    def take_ready(self) -> FeedEvent | None:
        """Return the next event in a replay without pacing, else None."""
        if self._pacing.is_free() and self._fill() and self._next is not None:
            return self._pass_on(self._next)
        return None

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """Events after `exchange_time` that were passed on; reads the file again."""
        return await asyncio.to_thread(self._read_again, exchange_time, self._count)

    async def close(self) -> None:
        """End the replay."""
        self._events = self._next = None
        self.health.is_connected = False

    def _pass_on(self, event: FeedEvent | Malformed) -> FeedEvent:
        self._next = None
        self._count += 1
        if isinstance(event, Malformed):
            event = notice("garbage", event.detail)
        elif self._pacing.speed is not None:
            # It was read before it was due, and arrives now.
            event = dataclasses.replace(event, arrival=time.perf_counter_ns())
        if isinstance(event, FeedNotice) and event.kind == "garbage":
            self.health.garbage += 1
        return count_received(self.health, event)

    def _fill(self) -> bool:
        if self._next is None and self._events is not None:
            self._next = next(self._events, None)
            if self._next is None:
                self._events = None
                self.health.is_connected = False
        return self._next is not None

    def _read_again(self, exchange_time: int, count: int) -> list[FeedEvent]:
        events: list[FeedEvent] = []
        for index, event in enumerate(self._read()):
            if index >= count:
                break
            if isinstance(event, (FeedNotice, Malformed)):
                continue
            if event.exchange_time > exchange_time:
                events.append(event)
        return events

    def _read(self) -> Iterator[FeedEvent | Malformed]:
        is_gzip = ".gz" in self._path.suffixes
        with gzip.open(self._path) if is_gzip else self._path.open("rb") as file:
            try:
                # Longer lines are read in parts, all of them malformed: memory stays bounded.
                while line := file.readline(MAX_FRAME_BYTES + 64):
                    yield from self._parse(line)
            except (EOFError, zlib.error, gzip.BadGzipFile):
                yield Malformed(f"truncated file {self._path.name!r}")

    def _parse(self, line: bytes) -> Iterator[FeedEvent | Malformed]:
        try:
            if not line[:1].isdigit():
                if line.strip():
                    yield event_from_json(line)
                return
            yield from self._decode(line)
        except FeedError as error:
            yield Malformed(str(error))

    def _decode(self, line: bytes) -> list[FeedEvent]:
        if self._decoder is None:
            raise FeedError("no decoder for raw lines; pass decoder= to RecordedFeed")
        timestamp, _, frame = line.rstrip().partition(b" ")
        if not timestamp.isdigit() or len(timestamp) > 19 or int(timestamp) > LAST_NANOSECOND:
            raise invalid("a local time in nanoseconds", line)
        try:
            text = frame.decode()
        except UnicodeDecodeError:
            raise invalid("UTF-8", line) from None
        return self._decoder.decode(text, int(timestamp), time.perf_counter_ns())


class ReplayFeed(Feed):
    """Feed that replays the rows of a panel; the rows before `start_row` are its history.

    The `sequence` of an event is its row in the panel.

    Args:
        data: the panel to replay.
        start_row: first row to replay.
        speed: multiple of real time, such as 60.0 for a minute per second; None for as fast as
            possible.
        stop_row: row to stop before; the end of the panel if None.
    """

    is_replay = True

    def __init__(
        self,
        data: MarketData,
        start_row: int,
        speed: float | None = None,
        *,
        stop_row: int | None = None,
    ) -> None:
        super().__init__()
        stop = len(data) if stop_row is None else stop_row
        if not 0 <= start_row <= stop <= len(data):
            raise IndexError(
                f"start_row and stop_row must be in order from 0 to {len(data)}, got {start_row} "
                f"and {stop}"
            )
        self.history = data.rows(0, start_row) if start_row else None
        self._data = data
        self._row = start_row
        self._stop = stop
        self._times = data.calendar.nanoseconds
        self._pacing = _Pacing(speed)
        self.health.is_connected = True

    async def __anext__(self) -> FeedEvent:
        """Wait until the next row is due."""
        if self._row < self._stop:
            await self._pacing.wait(int(self._times[self._row]))
        # Checked again: the feed may have been closed in the meantime.
        if self._row >= self._stop:
            self.health.is_connected = False
            raise StopAsyncIteration
        event = self._event(self._row)
        self._row += 1
        return count_received(self.health, event)

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """Rows after `exchange_time` that were passed on, never a future one."""
        first = int(self._times.searchsorted(exchange_time, side="right"))
        return [self._event(row) for row in range(first, self._row)]

    async def close(self) -> None:
        """End the replay."""
        self._stop = self._row
        self.health.is_connected = False

    def _event(self, row: int) -> BarEvent:
        bar = next(Bar.each(self._data, row, row + 1))
        return BarEvent(exchange_time=int(self._times[row]), sequence=row, bar=bar)


class _Pacing:
    """Waits until a recorded event is due, at a multiple of the recorded speed or at once."""

    def __init__(self, speed: float | None) -> None:
        if speed is not None and not 0 < speed < float("inf"):
            raise ValueError(f"speed must be above 0 or None, got {speed}")
        self.speed = speed
        self._origin: tuple[float, int] | None = None
        self._count = 0

    def is_free(self) -> bool:
        """Return True if the next event needs no wait, and other tasks have had their turn."""
        if self.speed is not None or self._count % YIELD_EVERY == YIELD_EVERY - 1:
            return False
        self._count += 1
        return True

    async def wait(self, event_time: int) -> None:
        """Wait until an event is due; the first is due at once."""
        if self.speed is None:
            self._count += 1
            if self._count % YIELD_EVERY == 0:
                await asyncio.sleep(0)
            return
        now = asyncio.get_running_loop().time()
        if self._origin is None:
            self._origin = (now, event_time)
        begin, first = self._origin
        due = begin + (event_time - first) / 1e9 / self.speed
        if due > now:
            await asyncio.sleep(due - now)


def event_to_json(event: FeedEvent) -> str:
    """Encode an event as a line of JSON, without the newline.

    Raises:
        FeedError: a number is infinite.
    """
    values: dict[str, Any] = {"event": NAMES[type(event)]}
    for each in fields(event):
        if each.name not in EXCLUDED:
            values[each.name] = getattr(event, each.name)
    if isinstance(event, FeedNotice):
        values["kind"] = event.kind
    if isinstance(event, BarEvent):
        values["bar"] = _bar_to_dict(event.bar)
    try:
        return json.dumps(values, allow_nan=False)
    except ValueError as error:
        raise FeedError(
            f"cannot encode {NAMES[type(event)]}: numbers must be finite or NaN"
        ) from error


def event_from_json(line: str | bytes) -> FeedEvent:
    """Decode a line of `event_to_json`; `arrival` is the current time.

    Raises:
        FeedError: the line is malformed.
    """
    values = read_json(line)
    name = values.pop("event", None) if isinstance(values, dict) else None
    kind = CLASSES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise invalid("a recorded event", line)
    try:
        checked = {name: _checked(name, value, kind) for name, value in values.items()}
        return kind(**checked, arrival=time.perf_counter_ns())
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        error = invalid(f"a recorded {NAMES[kind]}", line)
    raise error


def _checked(name: str, value: Any, kind: type[FeedEvent]) -> Any:
    if name == "bar":
        return _bar_from_dict(value)
    declared = DECLARED[kind][name]
    types = TYPES[declared]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise TypeError(name)
    if isinstance(value, (int, float)) and declared == "float":
        return _finite(value)
    if declared == "NoticeKind" and value not in get_args(NoticeKind):
        raise ValueError(name)
    if type(value) is int and abs(value) >= 2**63:
        raise ValueError(name)
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("number is not finite")
    return float(value)


def _bar_to_dict(bar: Bar) -> dict[str, Any]:
    rows = np.asarray(bar.values, np.float64).tolist()
    values = [[_null_if_nan(value) for value in row] for row in rows]
    masks = {
        name: np.asarray(mask).tolist() for name, mask in bar.masks().items() if mask is not None
    }
    market = {name: _null_if_nan(float(value)) for name, value in bar.market.items()}
    return {"time": bar_time(bar), "values": values, **masks, "market": market}


def _bar_from_dict(content: Any) -> Bar:
    if type(content["time"]) is not int or not isinstance(content["values"], list):
        raise TypeError("bar")
    rows = [[_nan_if_null(value) for value in row] for row in content["values"]]
    values = np.array(rows, np.float64)
    if values.ndim != 2:
        raise ValueError("values must be assets by fields")
    masks: dict[str, Any] = {}
    for name in MASKS:
        if name in content:
            masks[name] = np.array(content[name])
            if masks[name].dtype != np.bool_ or masks[name].shape != values.shape[:1]:
                raise ValueError(name)
    market = {name: _nan_if_null(value) for name, value in content["market"].items()}
    return Bar(np.datetime64(content["time"], "ns"), values, **masks, market=market)


def _null_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _nan_if_null(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("not a number")
    return _finite(value)
