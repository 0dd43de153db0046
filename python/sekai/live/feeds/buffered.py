"""Event buffers: bounded queues of events with an overflow policy, and the feeds built on them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Literal

from sekai.data import MarketData
from sekai.error import FeedError
from sekai.live.events import BarEvent, FeedEvent, FeedNotice
from sekai.live.feed import Feed, FeedHealth
from sekai.live.feeds.timed_feed import FeedWrapper, TimedFeed, count_received, end_task, notice

__all__ = ["BufferFeed", "BufferPolicy", "Buffered", "EventBuffer", "QueueFeed"]

BufferPolicy = Literal["drop_oldest", "latest", "stop"]
POLICIES = ("drop_oldest", "latest", "stop")
Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Future[bool]]


class EventBuffer:
    """Bounded, thread-safe buffer of events for one reader.

    The policy applies when the reader is slow. `drop_oldest` drops the oldest events, counts them
    and reports them by a notice in their place. `latest` keeps only the newest event of each
    symbol and kind, at the queue position of the one it replaces; bars and notices are never
    conflated. `stop` accepts no more events, and raises once the buffer is drained.

    Args:
        capacity: largest number of events.
        policy: overflow policy.
        health: health counts for dropped and conflated events.
    """

    def __init__(self, capacity: int, policy: BufferPolicy, health: FeedHealth) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 event, got {capacity}")
        if policy not in POLICIES:
            raise ValueError(f"policy must be one of {POLICIES}, got {policy!r}")
        self.capacity = capacity
        self.policy: BufferPolicy = policy
        self._health = health
        self._lock = threading.Lock()
        self._events: dict[object, FeedEvent] = {}
        self._next_key = 0
        self._dropped = 0
        self._end: BaseException | None = None
        self._waiter: Waiter | None = None

    def __len__(self) -> int:
        """Number of buffered events."""
        return len(self._events)

    @property
    def is_finished(self) -> bool:
        """True if no more events are accepted."""
        return self._end is not None

    @property
    def is_awaited(self) -> bool:
        """True if a reader waits for the next event."""
        return self._waiter is not None

    def put(self, event: FeedEvent) -> bool:
        """Add an event without blocking; False if it was not accepted."""
        with self._lock:
            if self._end is not None:
                return False
            is_accepted = self._insert(event)
            waiter, self._waiter = self._waiter, None
        _wake(waiter)
        return is_accepted

    def finish(self, error: BaseException | None = None) -> None:
        """Accept no more events; the reader gets the buffered ones, then `error` or the end."""
        with self._lock:
            if self._end is None:
                self._end = error or StopAsyncIteration()
            waiter, self._waiter = self._waiter, None
        _wake(waiter)

    def discard(self) -> None:
        """Finish, and discard the buffered events."""
        self.finish()
        with self._lock:
            self._events.clear()
            self._dropped = 0
            self._end = StopAsyncIteration()

    def take(self) -> FeedEvent | None:
        """Return the next event; None if the buffer is empty."""
        with self._lock:
            if self._dropped:
                return self._overflow()
            if not self._events:
                return None
            return self._events.pop(next(iter(self._events)))

    async def get(self, deadline: float | None = None) -> FeedEvent | None:
        """Wait for the next event; None if the loop's clock reaches `deadline` first.

        Cancelling loses no event.
        """
        while (event := self.take()) is None:
            if not await self._wait(deadline):
                # An event may have arrived together with the timer.
                return self.take()
        return event

    async def _wait(self, deadline: float | None) -> bool:
        """Wait for an event; False if the deadline came first."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._events or self._dropped:
                return True
            if isinstance(self._end, StopAsyncIteration):
                raise StopAsyncIteration
            if self._end is not None:
                # Without the traceback, which would grow with each raise.
                raise self._end.with_traceback(None)
            if self._waiter is not None and not self._waiter[1].done():
                raise FeedError("a second reader waits for events; an EventBuffer has one reader")
            future: asyncio.Future[bool] = loop.create_future()
            waiter = self._waiter = (loop, future)
        # Also with a deadline in the past: data waiting in a socket is read before the timer runs.
        timer = None if deadline is None else loop.call_at(deadline, _resolve, future, False)
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                if self._waiter is waiter:
                    self._waiter = None

    def _insert(self, event: FeedEvent) -> bool:
        key: object = None
        if self.policy == "latest" and not isinstance(event, (BarEvent, FeedNotice)):
            key = (type(event), getattr(event, "symbol", None))
            if key in self._events:
                self._health.conflated += 1
                self._events[key] = event
                return True
        if key is None:
            key = self._next_key
            self._next_key += 1
        if len(self._events) >= self.capacity and not self._make_room():
            return False
        self._events[key] = event
        return True

    def _make_room(self) -> bool:
        self._health.dropped += 1
        if self.policy == "stop":
            self._end = FeedError(
                f"event buffer overflow: more than {self.capacity} events; the reader is too slow, "
                "increase capacity or choose another policy"
            )
            return False
        del self._events[next(iter(self._events))]
        self._dropped += 1
        return True

    def _overflow(self) -> FeedNotice:
        dropped, self._dropped = self._dropped, 0
        return notice("overflow", f"{dropped} events dropped: more than {self.capacity} buffered")


class BufferFeed(TimedFeed):
    """Base class of feeds whose events are read from an `EventBuffer`."""

    _buffer: EventBuffer
    _task: asyncio.Task[None] | None = None
    """Task that fills the buffer."""

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next event; see `TimedFeed`."""
        if self._task is None:
            await self.open()
        event = await self._buffer.get(deadline)
        return event if event is None else count_received(self.health, event)

    def take_ready(self) -> FeedEvent | None:
        """Return the next event if it is available without waiting, else None."""
        event = self._buffer.take()
        return event if event is None else count_received(self.health, event)


class Buffered(BufferFeed, FeedWrapper):
    """Feed that reads another feed in a task of its own into an `EventBuffer`.

    Args:
        feed: the feed to read.
        capacity: largest number of buffered events.
        policy: overflow policy.
    """

    def __init__(
        self, feed: Feed, capacity: int = 10_000, policy: BufferPolicy = "drop_oldest"
    ) -> None:
        super().__init__(feed, feed.history)
        self._buffer = EventBuffer(capacity, policy, self.health)

    async def open(self) -> None:
        """Open the feed and start reading it."""
        if self._task is None and not self._buffer.is_finished:
            await self._feed.open()
            self._task = asyncio.create_task(self._read())

    async def close(self) -> None:
        """Stop reading and discard the buffered events."""
        self._buffer.discard()
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)
        await super().close()

    async def _read(self) -> None:
        number = 0
        try:
            while not self._buffer.is_finished:
                event = await self._reader.next_before(None)
                self.health.is_stale = self._feed.health.is_stale
                if event is not None:
                    self._buffer.put(event)
                number += 1
                if number % 64 == 0:
                    # A feed that always has events must not block other tasks.
                    await asyncio.sleep(0)
        except StopAsyncIteration:
            self._buffer.finish()
        except Exception as error:
            # Raised to the reader of the buffer.
            self._buffer.finish(error)


class QueueFeed(BufferFeed):
    """Feed of events from the same process; `put` never blocks and is thread-safe.

    Args:
        history: data before the first event.
        capacity: largest number of buffered events.
        policy: overflow policy, see `EventBuffer`.
    """

    def __init__(
        self,
        history: MarketData | None = None,
        capacity: int = 10_000,
        policy: BufferPolicy = "drop_oldest",
    ) -> None:
        super().__init__()
        self.history = history
        self.health.is_connected = True
        self._buffer = EventBuffer(capacity, policy, self.health)

    def __len__(self) -> int:
        """Number of buffered events."""
        return len(self._buffer)

    def put(self, event: FeedEvent) -> bool:
        """Add an event; False if the queue is finished, closed or stopped."""
        return self._buffer.put(event)

    def finish(self, error: BaseException | None = None) -> None:
        """Accept no more events; the reader gets the buffered ones, then `error` or the end."""
        self._buffer.finish(error)

    async def close(self) -> None:
        """Accept no more events, and discard the buffered ones."""
        self.health.is_connected = False
        self._buffer.discard()


def _wake(waiter: Waiter | None) -> None:
    if waiter is None:
        return
    loop, future = waiter
    if _is_running_loop(loop):
        _resolve(future, True)
        return
    # A closed loop has no waiting reader.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_resolve, future, True)


def _is_running_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if called from this loop: then no wakeup signal, a system call, is needed."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _resolve(future: asyncio.Future[bool], has_event: bool) -> None:
    if not future.done():
        future.set_result(has_event)
