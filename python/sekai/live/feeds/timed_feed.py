"""Feeds with deadlines, and the reader and base class of feeds that wrap another feed."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Collection
from dataclasses import fields
from typing import Any, TypeVar

from sekai.data import MarketData
from sekai.error import FeedError
from sekai.live.events import FeedEvent, FeedNotice, NoticeKind
from sekai.live.feed import Feed, FeedHealth

__all__ = [
    "FeedReader",
    "FeedWrapper",
    "TimedFeed",
    "call_within",
    "count_received",
    "end_task",
    "is_done_before",
    "notice",
]

T = TypeVar("T")
OPEN_SECONDS = 30.0
"""Longest time to open a feed, to subscribe and to fetch missed events."""

CLOSE_SECONDS = 5.0
"""Longest time to close a feed, and to end a task of it."""

COUNTS = tuple(
    field.name
    for field in fields(FeedHealth)
    if field.type == "int" and field.name != "received" and not field.name.startswith("last_")
)


class TimedFeed(Feed):
    """Feed whose reads take a deadline, which wrappers pass on to the source of the events.

    Reading with a deadline in a task of its own would cost several event-loop turns per event.
    """

    @abstractmethod
    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next event; None if the loop's clock reaches `deadline` first.

        Other tasks run at least once, even if the deadline has passed. Cancelling loses no event.
        Raises `StopAsyncIteration` at the end of the feed.
        """

    async def __anext__(self) -> FeedEvent:
        """Wait for the next event."""
        event = await self.next_before(None)
        assert event is not None, "a wait without a deadline ends with an event"
        return event


class FeedReader:
    """Reads a feed with deadlines, without losing events, and adds up its health counts.

    A feed that only has `__anext__` is read in a task that continues after the deadline.

    Args:
        feed: the feed to read.
        health: health of the wrapper, to which the counts of `feed` are added.
    """

    def __init__(self, feed: Feed, health: FeedHealth) -> None:
        self.feed = feed
        self._health = health
        self._seen = FeedHealth()
        # A subclass that overrides `__anext__` must be read through it.
        is_plain = type(feed).__anext__ is TimedFeed.__anext__
        self._timed = feed if isinstance(feed, TimedFeed) and is_plain else None
        self._task: asyncio.Task[FeedEvent] | None = None

    def take_ready(self) -> FeedEvent | None:
        """Return the next event if it is available without waiting, else None."""
        if self._task is None:
            event = self.feed.take_ready()
        elif self._task.done() and not self._task.cancelled() and self._task.exception() is None:
            event, self._task = self._task.result(), None
        else:
            return None
        if isinstance(event, FeedNotice):
            self.update_health()
        return event

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next event; None if the loop's clock reaches `deadline` first."""
        if (self._timed is None and deadline is not None) or self._task is not None:
            return await self._next_in_task(deadline)
        try:
            if self._timed is None:
                return await self.feed.__anext__()
            return await self._timed.next_before(deadline)
        finally:
            self.update_health()

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
        self.update_health()
        if task.cancelled():
            # The feed was closed in the meantime.
            raise StopAsyncIteration
        return task.result()

    def update_health(self) -> None:
        """Add the counts of the feed since the last call."""
        inner = self.feed.health
        for name in COUNTS:
            current = getattr(inner, name)
            increase = current - getattr(self._seen, name)
            if increase:
                setattr(self._health, name, getattr(self._health, name) + increase)
                setattr(self._seen, name, current)
        self._health.is_connected = inner.is_connected

    async def close(self) -> None:
        """Stop reading and close the feed."""
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)
        try:
            await call_within(self.feed.close(), CLOSE_SECONDS, "close() of the feed")
        finally:
            self.update_health()


class FeedWrapper(TimedFeed):
    """Base class of feeds around another feed, to which open, subscribe and since are passed on."""

    def __init__(self, feed: Feed, history: MarketData | None) -> None:
        super().__init__()
        self.history, self.is_replay = history, feed.is_replay
        self._feed = feed
        self._reader = FeedReader(feed, self.health)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._feed!r}>"

    async def open(self) -> None:
        """Open the wrapped feed."""
        await call_within(self._feed.open(), OPEN_SECONDS, "open() of the feed")

    async def subscribe(self, symbols: Collection[str]) -> None:
        """Subscribe the wrapped feed to more symbols."""
        await call_within(self._feed.subscribe(symbols), OPEN_SECONDS, "subscribe() of the feed")

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """Events of the wrapped feed after `exchange_time`."""
        return await call_within(
            self._feed.since(exchange_time), OPEN_SECONDS, "since() of the feed"
        )

    async def close(self) -> None:
        """Close the wrapped feed."""
        await self._reader.close()


async def is_done_before(task: asyncio.Task[Any], deadline: float | None) -> bool:
    """Wait for a task until the loop's clock reaches `deadline`; the task continues after it."""
    now = asyncio.get_running_loop().time()
    timeout = None if deadline is None else max(0.0, deadline - now)
    # A finished task may belong to a closed loop, which cannot be waited on.
    if not task.done():
        await asyncio.wait({task}, timeout=timeout)
    return task.done()


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task, wait for its end and discard its result; one that does not end is left."""
    task.cancel()
    task.add_done_callback(_discard_result)
    await asyncio.wait({task}, timeout=CLOSE_SECONDS)


async def call_within(call: Awaitable[T], seconds: float, name: str) -> T:
    """Await a call of a feed with a deadline.

    Unlike `asyncio.wait_for` it also returns if the call does not obey its cancellation.

    Raises:
        FeedError: the call did not return in time; it is cancelled.
    """
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_discard_result)
    if not task.done():
        raise FeedError(
            f"{name} did not return; expected it within {seconds:g} s, see the connection or disk"
        )
    return task.result()


def count_received(health: FeedHealth, event: FeedEvent) -> FeedEvent:
    """Count an event that is passed on, unless it is a notice, and return it."""
    if not isinstance(event, FeedNotice):
        health.received += 1
        health.last_exchange_time = event.exchange_time
        health.last_receive_time = event.receive_time
    return event


def notice(kind: NoticeKind, detail: str) -> FeedNotice:
    """Create a notice with the current time."""
    return FeedNotice(exchange_time=time.time_ns(), kind=kind, detail=detail)


def _discard_result(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def _next_of(feed: Feed) -> FeedEvent:
    return await feed.__anext__()
