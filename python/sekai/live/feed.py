"""Where events come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from types import TracebackType

from sekai.data import Bar, MarketData
from sekai.error import FeedEndedError
from sekai.live.events import BarEvent, FeedEvent
from sekai.live.feed_health import FeedHealth

__all__ = ["Feed"]


class Feed(ABC):
    """Brings events one after the other: `async for event in feed`.

    `__anext__` may be cancelled while it waits, and then no event is lost.
    """

    history: MarketData | None = None
    """What was known before the first event; envs need it to begin with."""

    def __init__(self) -> None:
        """Begin with nothing received."""
        self.health = FeedHealth()

    @abstractmethod
    async def __anext__(self) -> FeedEvent:
        """Wait for the next event; `StopAsyncIteration` when there will be none."""

    def take_ready(self) -> FeedEvent | None:
        """The next event if it is here already; None if one would have to wait, or at the end."""
        return None

    async def open(self) -> None:
        """Connect; the first `__anext__` does it otherwise."""
        return

    async def close(self) -> None:
        """Let go of everything. Closing twice is no error."""
        return

    async def subscribe(self, symbols: Collection[str]) -> None:
        """Ask for more symbols, now and after every reconnect; feeds of fixed content refuse."""
        raise NotImplementedError(f"{type(self).__name__} cannot take on {sorted(symbols)}")

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """What came after that time and may have been missed; nothing where nobody knows."""
        return []

    async def next_bar(self) -> Bar:
        """Wait for the next row of all assets; events between are passed over.

        Raises:
            FeedEndedError: there will be none.
        """
        async for event in self:
            if isinstance(event, BarEvent):
                return event.bar
        raise FeedEndedError("the next row was wanted, found the end of the feed")

    def __aiter__(self) -> Feed:
        """Itself."""
        return self

    async def __aenter__(self) -> Feed:
        """Open."""
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()
