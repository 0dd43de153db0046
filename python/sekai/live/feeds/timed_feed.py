"""A feed that waits with a time limit in the task of the one who asks."""

from __future__ import annotations

from abc import abstractmethod

from sekai.live.events import FeedEvent
from sekai.live.feed import Feed

__all__ = ["TimedFeed"]


class TimedFeed(Feed):
    """Hands a limit down to where the event comes from: nobody in between needs a task.

    A task for each wait would cost every event some turns of the loop.
    """

    @abstractmethod
    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next event; None if there is none when the loop's clock shows `deadline`.

        Others have a turn before that, even if it is over already. It may be cancelled, and no
        event is lost; `StopAsyncIteration` when there will be none.
        """

    async def __anext__(self) -> FeedEvent:
        """Wait for the next event."""
        event = await self.next_before(None)
        assert event is not None, "a wait without a deadline ends with an event"
        return event
