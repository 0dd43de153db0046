"""What an env asks of a stream of rows."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from sekai.data.bar import Bar
from sekai.data.market_data import MarketData

__all__ = ["BarFeed"]


@runtime_checkable
class BarFeed(Protocol):
    """Rows that are still to come, after a history that is known. See `sekai.live.Feed`."""

    history: MarketData | None
    """What is known before the first row."""

    async def next_bar(self) -> Bar:
        """Wait for the next row; `FeedEndedError` when there will be none.

        Whoever waits may be cancelled, and then no row is lost.
        """
