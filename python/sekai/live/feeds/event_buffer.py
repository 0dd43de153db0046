"""Events between the one who reads and the one who acts: bounded, and nobody blocks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Literal

from sekai.error import FeedError
from sekai.live.events import BarEvent, FeedEvent, FeedNotice
from sekai.live.feed_health import FeedHealth

__all__ = ["BufferPolicy", "EventBuffer"]

BufferPolicy = Literal["drop_oldest", "latest", "stop"]
POLICIES = ("drop_oldest", "latest", "stop")
Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Future[bool]]


class EventBuffer:
    """Takes events from any thread or loop, and gives them to one who waits.

    What happens when the one who acts is slow is the policy: `drop_oldest` gives up the oldest,
    counts them and says so by a notice where they would have been; `latest` keeps of each symbol
    and kind only the newest, in the place of the one that it follows, so that each has its turn;
    rows of bars and notices are never conflated; `stop` takes no more, and raises once what is
    here is drained.
    """

    def __init__(self, capacity: int, policy: BufferPolicy, health: FeedHealth) -> None:
        """Begin empty.

        Args:
            capacity: how many events there can be.
            policy: what happens when there are more.
            health: where to count what is given up.
        """
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 event, was {capacity}")
        if policy not in POLICIES:
            raise ValueError(f"policy must be one of {POLICIES}, was {policy!r}")
        self.capacity = capacity
        self.policy: BufferPolicy = policy
        self._health = health
        self._lock = threading.Lock()
        self._events: dict[object, FeedEvent] = {}
        self._next_key = 0
        self._given_up = 0
        self._end: BaseException | None = None
        self._waiter: Waiter | None = None

    def __len__(self) -> int:
        """How many events are here."""
        return len(self._events)

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will be taken."""
        return self._end is not None

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the next event."""
        return self._waiter is not None

    def put(self, event: FeedEvent) -> bool:
        """Take an event, without ever waiting; False if it was not taken."""
        with self._lock:
            if self._end is not None:
                return False
            taken = self._place(event)
            waiter, self._waiter = self._waiter, None
        _wake(waiter)
        return taken

    def finish(self, error: BaseException | None = None) -> None:
        """Take no more; those who wait get what is here, then the error or the end."""
        with self._lock:
            if self._end is None:
                self._end = error or StopAsyncIteration()
            waiter, self._waiter = self._waiter, None
        _wake(waiter)

    def discard(self) -> None:
        """Finish, and give up what is here."""
        self.finish()
        with self._lock:
            self._events.clear()
            self._given_up = 0
            self._end = StopAsyncIteration()

    def take(self) -> FeedEvent | None:
        """The next event; None if there is none now."""
        with self._lock:
            if self._given_up:
                return self._overflow()
            if not self._events:
                return None
            return self._events.pop(next(iter(self._events)))

    async def get(self, deadline: float | None = None) -> FeedEvent | None:
        """Wait for the next event; None if there is none when the loop's clock shows `deadline`.

        It may be cancelled, and then none is lost.
        """
        while (event := self.take()) is None:
            if not await self._change(deadline):
                # It may have come together with the timer.
                return self.take()
        return event

    async def _change(self, deadline: float | None) -> bool:
        """Wait until something has come; False if the deadline came first."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._events or self._given_up:
                return True
            if isinstance(self._end, StopAsyncIteration):
                raise StopAsyncIteration
            if self._end is not None:
                # Anew: it would grow by a traceback each time.
                raise self._end.with_traceback(None)
            if self._waiter is not None and not self._waiter[1].done():
                raise FeedError("one who waits for events was wanted, found a second")
            future: asyncio.Future[bool] = loop.create_future()
            waiter = self._waiter = (loop, future)
        # Even if it is over: what waits in a socket is read before the timer has its turn.
        timer = None if deadline is None else loop.call_at(deadline, _resolve, future, False)
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                if self._waiter is waiter:
                    self._waiter = None

    def _place(self, event: FeedEvent) -> bool:
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
                f"room for {self.capacity} events was wanted, found none: the one who reads them "
                "is too slow, make capacity larger or let the buffer drop some"
            )
            return False
        del self._events[next(iter(self._events))]
        self._given_up += 1
        return True

    def _overflow(self) -> FeedNotice:
        given_up, self._given_up = self._given_up, 0
        return FeedNotice(
            exchange_time=time.time_ns(), kind="overflow",
            detail=f"{given_up} events were given up: more than {self.capacity} were waiting",
        )  # fmt: skip


def _wake(waiter: Waiter | None) -> None:
    if waiter is None:
        return
    loop, future = waiter
    if _is_here(loop):
        _resolve(future, True)
        return
    # A loop that has ended has nobody waiting.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_resolve, future, True)


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop runs what runs now: then it needs no signal, which costs a system call."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _resolve(future: asyncio.Future[bool], has_come: bool) -> None:
    if not future.done():
        future.set_result(has_come)
