"""A read of a feed that outlives those who wait for it, and what wrappers count of it."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any

from sekai.live.events import FeedEvent, FeedNotice
from sekai.live.feed import Feed
from sekai.live.feed_health import FeedHealth
from sekai.live.feeds.timed_feed import TimedFeed

__all__ = ["Reading", "count_received", "end_task", "is_done_before"]

COUNTS = tuple(
    one.name for one in fields(FeedHealth) if one.type == "int" and one.name != "received"
    and not one.name.startswith("last_")
)  # fmt: skip


class Reading:
    """Reads a feed for a wrapper: with time limits, and without losing an event to them.

    A feed that only has `__anext__` is read in a task that outlives the limit. Counts of the feed
    that is read are added to those of the wrapper as they grow.
    """

    def __init__(self, feed: Feed, health: FeedHealth) -> None:
        """Take the feed, and where the wrapper counts."""
        self.feed = feed
        self._health = health
        self._seen = FeedHealth()
        # One that waits in another way than its parent is read in that way.
        is_plain = type(feed).__anext__ is TimedFeed.__anext__
        self._timed = feed if isinstance(feed, TimedFeed) and is_plain else None
        self._task: asyncio.Task[FeedEvent] | None = None

    def take_ready(self) -> FeedEvent | None:
        """The next event if it is here already."""
        if self._task is None:
            event = self.feed.take_ready()
        elif self._task.done() and not self._task.cancelled() and self._task.exception() is None:
            event, self._task = self._task.result(), None
        else:
            return None
        if isinstance(event, FeedNotice):
            self.follow()
        return event

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next event; None if there is none when the loop's clock shows `deadline`."""
        if (self._timed is None and deadline is not None) or self._task is not None:
            return await self._next_in_task(deadline)
        try:
            if self._timed is None:
                return await self.feed.__anext__()
            return await self._timed.next_before(deadline)
        finally:
            self.follow()

    async def _next_in_task(self, deadline: float | None) -> FeedEvent | None:
        event = self.take_ready()
        if event is not None:
            return event
        if self._task is None:
            self._task = asyncio.ensure_future(_next_of(self.feed))
        task = self._task
        if not await is_done_before(task, deadline):
            return None
        self._task = None
        self.follow()
        if task.cancelled():
            # It was closed by somebody else in the meantime.
            raise StopAsyncIteration
        return task.result()

    def follow(self) -> None:
        """Add what the feed has counted since this was last asked."""
        inner = self.feed.health
        for name in COUNTS:
            now = getattr(inner, name)
            grown = now - getattr(self._seen, name)
            if grown:
                setattr(self._health, name, getattr(self._health, name) + grown)
                setattr(self._seen, name, now)
        self._health.is_connected = inner.is_connected

    async def close(self) -> None:
        """Stop reading, and close the feed."""
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)
        await self.feed.close()
        self.follow()


async def is_done_before(task: asyncio.Task[Any], deadline: float | None) -> bool:
    """Wait for a task, which goes on if the loop's clock shows `deadline` before it is done."""
    now = asyncio.get_running_loop().time()
    left = None if deadline is None else max(0.0, deadline - now)
    # One that is done may be of a loop that has ended, where nobody can wait any more.
    if not task.done():
        await asyncio.wait({task}, timeout=left)
    return task.done()


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is over; how it ended is of no interest any more."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


async def _next_of(feed: Feed) -> FeedEvent:
    return await feed.__anext__()


def count_received(health: FeedHealth, event: FeedEvent) -> FeedEvent:
    """The event that is handed on, counted unless it is a notice."""
    if not isinstance(event, FeedNotice):
        health.received += 1
        health.last_exchange_time = event.exchange_time
        health.last_receive_time = event.receive_time
    return event
