"""Feed interface: an async iterator of market data events, and its health counters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sekai.error import FeedEndedError
from sekai.live.events import BarEvent, FeedEvent

if TYPE_CHECKING:
    from sekai.data import Bar, MarketData

__all__ = ["Feed", "FeedHealth"]


@dataclass(slots=True)
class FeedHealth:
    """Health counters of a feed, and the times of its last event."""

    received: int = 0
    """Events passed on."""

    duplicates: int = 0
    late: int = 0
    """Events dropped because later ones came before them."""

    gaps: int = 0
    missing: int = 0
    """Events that the venue numbered and that never arrived."""

    garbage: int = 0
    """Malformed frames."""

    dropped: int = 0
    """Events dropped by a full buffer."""

    conflated: int = 0
    """Events replaced by newer ones in a `latest` buffer."""

    clock_jumps: int = 0
    outliers: int = 0
    """Events whose price is too far from the previous one."""

    crossed: int = 0
    """Quotes whose bid is not below the ask."""

    reconnects: int = 0
    is_connected: bool = False
    is_stale: bool = False
    last_exchange_time: int = 0
    last_receive_time: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Counters by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FeedHealth:
        """Health from `to_dict`."""
        return cls(**values)


class Feed(ABC):
    """Market data feed: `async for event in feed`.

    `__anext__` may be cancelled while it waits without losing an event.
    """

    history: MarketData | None = None
    """Data before the first event; envs start from it."""

    is_replay: bool = False
    """True if events are of the past: the order rate is then measured by their own times."""

    def __init__(self) -> None:
        self.health = FeedHealth()

    def __repr__(self) -> str:
        known = 0 if self.history is None else len(self.history)
        return f"<{type(self).__name__}: {known:,} rows of history>"

    @abstractmethod
    async def __anext__(self) -> FeedEvent:
        """Wait for the next event; `StopAsyncIteration` at the end of the feed."""

    def take_ready(self) -> FeedEvent | None:
        """Next event if it has arrived already, else None."""
        return None

    async def open(self) -> None:
        """Connect; otherwise done by the first `__anext__`."""
        return

    async def close(self) -> None:
        """Release all resources. Closing twice is no error."""
        return

    async def subscribe(self, symbols: Collection[str]) -> None:
        """Subscribe to more symbols, now and after every reconnect, where the feed supports it."""
        raise NotImplementedError(f"{type(self).__name__} cannot subscribe to {sorted(symbols)}")

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """Events after a time that may have been missed; empty where the feed has no history."""
        return []

    async def next_bar(self) -> Bar:
        """Wait for the next row; other events are skipped.

        Raises:
            FeedEndedError: the feed ended.
        """
        async for event in self:
            if isinstance(event, BarEvent):
                return event.bar
        raise FeedEndedError("the feed ended before the next row")

    def __aiter__(self) -> Feed:
        """Return the feed itself."""
        return self

    async def __aenter__(self) -> Feed:
        """Open the feed."""
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the feed."""
        await self.close()
