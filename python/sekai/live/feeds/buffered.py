"""A feed that is read as fast as it comes, however slow the one who acts is."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from sekai.live.events import FeedEvent
from sekai.live.feed import Feed
from sekai.live.feeds.event_buffer import BufferPolicy, EventBuffer
from sekai.live.feeds.reading import Reading, count_received, end_task
from sekai.live.feeds.timed_feed import TimedFeed

__all__ = ["Buffered"]


class Buffered(TimedFeed):
    """Reads another feed in a task of its own into a bounded buffer; see `EventBuffer`."""

    def __init__(
        self, feed: Feed, capacity: int = 10_000, policy: BufferPolicy = "drop_oldest"
    ) -> None:
        """Take the feed.

        Args:
            feed: what to read.
            capacity: how many events may wait.
            policy: what happens when there are more.
        """
        super().__init__()
        self.history = feed.history
        self._feed = feed
        self._buffer = EventBuffer(capacity, policy, self.health)
        self._reading = Reading(feed, self.health)
        self._pump: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the feed, and begin to read it."""
        if self._pump is None and not self._buffer.is_finished:
            await self._feed.open()
            self._pump = asyncio.create_task(self._read())

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """See `TimedFeed`."""
        if self._pump is None:
            await self.open()
        event = await self._buffer.get(deadline)
        return event if event is None else count_received(self.health, event)

    def take_ready(self) -> FeedEvent | None:
        """The next event if it is here already."""
        event = self._buffer.take()
        return event if event is None else count_received(self.health, event)

    async def subscribe(self, symbols: Collection[str]) -> None:
        """Ask the feed for more symbols."""
        await self._feed.subscribe(symbols)

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """What the feed knows to have come after that time."""
        return await self._feed.since(exchange_time)

    async def close(self) -> None:
        """Stop reading, and give up what waits."""
        self._buffer.discard()
        pump, self._pump = self._pump, None
        if pump is not None:
            await end_task(pump)
        await self._reading.close()

    async def _read(self) -> None:
        number = 0
        try:
            while not self._buffer.is_finished:
                event = await self._reading.next_before(None)
                self.health.is_stale = self._feed.health.is_stale
                if event is not None:
                    self._buffer.put(event)
                number += 1
                if number % 64 == 0:
                    # A feed that always has something must not keep everybody else waiting.
                    await asyncio.sleep(0)
        except StopAsyncIteration:
            self._buffer.finish()
        except Exception as error:
            # It is raised where it can be dealt with: at the one who reads the buffer.
            self._buffer.finish(error)
