"""Events from the same process: somebody puts them, from any thread or loop."""

from __future__ import annotations

from sekai.data import MarketData
from sekai.live.events import FeedEvent
from sekai.live.feeds.event_buffer import BufferPolicy, EventBuffer
from sekai.live.feeds.reading import count_received
from sekai.live.feeds.timed_feed import TimedFeed

__all__ = ["QueueFeed"]


class QueueFeed(TimedFeed):
    """A bounded queue; `put` never blocks, and may be called from any thread or loop."""

    def __init__(
        self,
        history: MarketData | None = None,
        capacity: int = 10_000,
        policy: BufferPolicy = "drop_oldest",
    ) -> None:
        """Begin empty.

        Args:
            history: what was known before the first event.
            capacity: how many events may wait.
            policy: what happens when there are more, see `EventBuffer`.
        """
        super().__init__()
        self.history = history
        self.health.is_connected = True
        self._buffer = EventBuffer(capacity, policy, self.health)

    def __len__(self) -> int:
        """How many events wait."""
        return len(self._buffer)

    def put(self, event: FeedEvent) -> bool:
        """Add an event; False if it was not taken: the queue is finished, closed or stopped."""
        return self._buffer.put(event)

    def finish(self, error: BaseException | None = None) -> None:
        """There will be no more: who reads gets what waits, then the error or the end."""
        self._buffer.finish(error)

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """See `TimedFeed`."""
        event = await self._buffer.get(deadline)
        return event if event is None else count_received(self.health, event)

    def take_ready(self) -> FeedEvent | None:
        """The next event if it is here already."""
        event = self._buffer.take()
        return event if event is None else count_received(self.health, event)

    async def close(self) -> None:
        """Take no more, and give up what waits."""
        self.health.is_connected = False
        self._buffer.discard()
