"""Rows from a folder that others write into."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from pathlib import Path

from sekai.data import Bar, MarketData
from sekai.error import FeedError
from sekai.live.bar_records import bar_time
from sekai.live.events import BarEvent, FeedEvent, FeedNotice, NoticeKind
from sekai.live.feed import Feed
from sekai.live.feeds.folder_reader import FolderReader
from sekai.live.feeds.garbage import Garbage
from sekai.live.feeds.reading import count_received, end_task

__all__ = ["FolderFeed"]


class FolderFeed(Feed):
    """Follows a folder of Parquet and JSON-lines files: new files, and lines that are appended.

    A line, or a row of a Parquet file, is one asset at one time: `time`, `asset` and the fields
    of the history, and the masks `listed`, `quoted` and `tradable` and series `market/<name>`
    where there are any: what `MarketData.to_parquet` writes. Files are read in the order of their
    names, times ascend. A row is handed on when all assets have come, when a later time comes, or
    `grace` seconds after the last that was read. A file that is replaced or written anew is read
    again, and gives what has not come yet.
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
        """Take the folder.

        Args:
            path: the folder; it must be there.
            history: what was known before, and what the rows are of.
            poll_seconds: how often to look.
            grace: seconds after which a row is handed on though assets are missing.
            patience: seconds after which a Parquet file that is not whole is given up; until
                then what comes after it waits.
        """
        super().__init__()
        if not (poll_seconds > 0 and grace > 0 and patience >= 0):
            raise ValueError(
                f"poll_seconds and grace above 0 and patience of at least 0 were wanted, found "
                f"{poll_seconds}, {grace} and {patience}"
            )
        self._path = Path(path)
        if not self._path.is_dir():
            raise FileNotFoundError(f"a folder was wanted, there is no {str(path)!r}")
        self.history = history
        self._poll_seconds = poll_seconds
        self._grace = grace
        self._patience = patience
        self._reader = FolderReader(self._path, history, patience)
        self._ready: deque[FeedEvent] = deque()
        self._poll: asyncio.Task[None] | None = None
        self._news = time.monotonic()
        self._is_closed = False
        self._last = self._reader.assembler.last
        self.health.is_connected = True

    async def __anext__(self) -> FeedEvent:
        """Wait for the next row."""
        while not self._ready:
            if self._is_closed:
                raise StopAsyncIteration
            if self._poll is None:
                self._poll = asyncio.create_task(self._look())
            # It goes on when the one who waits is cancelled: what a thread has read is kept.
            poll = self._poll
            await asyncio.wait({poll})
            self._poll = None
            if not poll.cancelled():
                poll.result()
        return self._hand_on()

    def take_ready(self) -> FeedEvent | None:
        """The next row if it was read already."""
        return self._hand_on() if self._ready else None

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """The rows after that time that have been handed on; the folder is read again."""
        found = await asyncio.to_thread(self._again, exchange_time, self._last)
        return [_event(bar) for bar in found]

    async def close(self) -> None:
        """Look no more."""
        self._is_closed = True
        self._ready.clear()
        self.health.is_connected = False
        poll, self._poll = self._poll, None
        if poll is not None:
            await end_task(poll)
        self._ready.clear()

    async def _look(self) -> None:
        try:
            found = await asyncio.to_thread(self._reader.read)
        except OSError as error:
            raise FeedError(f"the folder {str(self._path)!r} cannot be read: {error}") from error
        assembler = self._reader.assembler
        now = time.monotonic()
        is_idle = found is None
        if found is not None:
            self._news = now
        elif now - self._news > self._grace:
            found = list(assembler.flush())
        for one in found or ():
            if isinstance(one, Garbage):
                self.health.garbage += 1
                self._tell("garbage", one.detail)
            else:
                self._ready.append(_event(one))
        if late := assembler.late - self.health.late:
            self.health.late += late
            self._tell("late", f"{late} lines of rows that were handed on without them")
        if twice := assembler.duplicates - self.health.duplicates:
            self.health.duplicates += twice
            self._tell("duplicate", f"{twice} lines of assets that the row has already")
        if is_idle:
            await asyncio.sleep(self._poll_seconds)

    def _tell(self, kind: NoticeKind, detail: str) -> None:
        self._ready.append(FeedNotice(exchange_time=time.time_ns(), kind=kind, detail=detail))

    def _hand_on(self) -> FeedEvent:
        event = self._ready.popleft()
        if isinstance(event, BarEvent):
            self._last = event.exchange_time
        return count_received(self.health, event)

    def _again(self, exchange_time: int, until: int) -> list[Bar]:
        assert self.history is not None, "it was taken at the beginning"
        reader = FolderReader(self._path, self.history, 0.0)
        bars: list[Bar] = []
        while (found := reader.read()) is not None:
            bars.extend(one for one in found if isinstance(one, Bar))
        bars.extend(reader.assembler.flush())
        return [bar for bar in bars if exchange_time < bar_time(bar) <= until]


def _event(bar: Bar) -> BarEvent:
    return BarEvent(exchange_time=bar_time(bar), bar=bar)
