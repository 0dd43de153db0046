"""Replays a file of recorded events."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import os
import time
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from sekai.data import MarketData
from sekai.error import FeedError
from sekai.live.events import FeedEvent, FeedNotice
from sekai.live.feed import Feed
from sekai.live.feeds.decoder import Decoder
from sekai.live.feeds.event_lines import event_from_json
from sekai.live.feeds.frame import LARGEST_FRAME, LATEST, bad_frame
from sekai.live.feeds.garbage import Garbage
from sekai.live.feeds.pacing import Pacing
from sekai.live.feeds.reading import count_received

__all__ = ["RecordedFeed"]


class RecordedFeed(Feed):
    """Hands on what `EventRecorder` wrote, or raw lines `<local nanoseconds> <frame>`.

    Times are the recorded ones, but for `arrival`, which is now. Lines that cannot be read are
    counted and told, and so is a file that was cut off.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        decoder: Decoder | None = None,
        *,
        speed: float | None = None,
        history: MarketData | None = None,
    ) -> None:
        """Take the file.

        Args:
            path: a file of lines, packed by gzip if its name says so.
            decoder: what reads the frames of raw lines.
            speed: how many times as fast as it was received; None for as fast as asked for.
            history: what was known before the first event.
        """
        super().__init__()
        self.history = history
        self._path = Path(path)
        if not self._path.is_file():
            raise FileNotFoundError(f"a file of events was wanted, there is no {str(path)!r}")
        self._decoder = decoder
        self._pacing = Pacing(speed)
        self._events: Iterator[FeedEvent | Garbage] | None = self._read()
        self._ahead: deque[FeedEvent | Garbage] = deque()
        self._given = 0
        self.health.is_connected = True

    async def __anext__(self) -> FeedEvent:
        """Wait until the next event is due."""
        if not self._fill():
            raise StopAsyncIteration
        due = self._ahead[0]
        # What cannot be read has no time to wait for.
        if not isinstance(due, Garbage):
            await self._pacing.wait(due.receive_time)
        if not self._ahead:
            raise StopAsyncIteration
        return self._hand_on()

    def take_ready(self) -> FeedEvent | None:
        """The next event, if there is no pace to keep."""
        return self._hand_on() if self._pacing.is_free() and self._fill() else None

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """The events after that time that have been handed on; the file is read again."""
        return await asyncio.to_thread(self._again, exchange_time, self._given)

    async def close(self) -> None:
        """Hand on nothing more."""
        self._events = None
        self._ahead.clear()
        self.health.is_connected = False

    def _hand_on(self) -> FeedEvent:
        event = self._ahead.popleft()
        self._given += 1
        if isinstance(event, Garbage):
            event = FeedNotice(exchange_time=time.time_ns(), kind="garbage", detail=event.detail)
        elif self._pacing.speed is not None:
            # It was read before it was due, and arrives now.
            event = dataclasses.replace(event, arrival=time.perf_counter_ns())
        if isinstance(event, FeedNotice) and event.kind == "garbage":
            self.health.garbage += 1
        return count_received(self.health, event)

    def _fill(self) -> bool:
        if not self._ahead and self._events is not None:
            event = next(self._events, None)
            if event is None:
                self._events = None
                self.health.is_connected = False
            else:
                self._ahead.append(event)
        return bool(self._ahead)

    def _again(self, exchange_time: int, given: int) -> list[FeedEvent]:
        found: list[FeedEvent] = []
        for number, event in enumerate(self._read()):
            if number >= given:
                break
            if isinstance(event, (FeedNotice, Garbage)):
                continue
            if event.exchange_time > exchange_time:
                found.append(event)
        return found

    def _read(self) -> Iterator[FeedEvent | Garbage]:
        packed = ".gz" in self._path.suffixes
        with gzip.open(self._path) if packed else self._path.open("rb") as file:
            try:
                # Longer lines come in parts, none of which can be read: memory stays bounded.
                while line := file.readline(LARGEST_FRAME + 64):
                    yield from self._events_of(line)
            except (EOFError, zlib.error, gzip.BadGzipFile):
                yield Garbage(f"a whole file was wanted, {self._path.name!r} is cut off")

    def _events_of(self, line: bytes) -> Iterator[FeedEvent | Garbage]:
        try:
            if not line[:1].isdigit():
                if line.strip():
                    yield event_from_json(line)
                return
            yield from self._decoded(line)
        except FeedError as error:
            yield Garbage(str(error))

    def _decoded(self, line: bytes) -> list[FeedEvent]:
        if self._decoder is None:
            raise FeedError("a decoder for the frames of raw lines was wanted, found none")
        stamp, _, frame = line.rstrip().partition(b" ")
        if not stamp.isdigit() or len(stamp) > 19 or int(stamp) > LATEST:
            raise bad_frame("a local time in nanoseconds", line)
        try:
            text = frame.decode()
        except UnicodeDecodeError:
            raise bad_frame("UTF-8", line) from None
        return self._decoder.decode(text, int(stamp), time.perf_counter_ns())
