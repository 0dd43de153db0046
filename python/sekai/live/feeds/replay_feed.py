"""Rows of a panel as if they came in now."""

from __future__ import annotations

from sekai.data import Bar, MarketData
from sekai.live.events import BarEvent, FeedEvent
from sekai.live.feed import Feed
from sekai.live.feeds.pacing import Pacing
from sekai.live.feeds.reading import count_received

__all__ = ["ReplayFeed"]


class ReplayFeed(Feed):
    """Hands on the rows of a panel; those before the first are its history.

    The `sequence` of an event is the number of its row in the panel.
    """

    def __init__(
        self,
        data: MarketData,
        start_row: int,
        speed: float | None = None,
        *,
        stop_row: int | None = None,
    ) -> None:
        """Take the panel.

        Args:
            data: what to replay.
            start_row: the first row to hand on.
            speed: how many times as fast as it happened, such as 60.0 for a minute a second;
                None for as fast as rows are asked for.
            stop_row: the row to stop before; the end of the panel if not given.
        """
        super().__init__()
        stop = len(data) if stop_row is None else stop_row
        if not 0 <= start_row <= stop <= len(data):
            raise IndexError(
                f"rows from 0 to {len(data)} were wanted, found start_row {start_row} and "
                f"stop_row {stop}"
            )
        self.history = data.rows(0, start_row) if start_row else None
        self._data = data
        self._row = start_row
        self._stop = stop
        self._times = data.calendar.nanoseconds
        self._pacing = Pacing(speed)
        self.health.is_connected = True

    async def __anext__(self) -> FeedEvent:
        """Wait until the next row is due."""
        if self._row < self._stop:
            await self._pacing.wait(int(self._times[self._row]))
        # Asked again: it may have been closed in the meantime.
        if self._row >= self._stop:
            self.health.is_connected = False
            raise StopAsyncIteration
        event = self._event(self._row)
        self._row += 1
        return count_received(self.health, event)

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """The rows after that time that have been handed on: never one from the future."""
        first = int(self._times.searchsorted(exchange_time, side="right"))
        return [self._event(row) for row in range(first, self._row)]

    async def close(self) -> None:
        """Hand on nothing more."""
        self._stop = self._row
        self.health.is_connected = False

    def _event(self, row: int) -> BarEvent:
        bar = next(Bar.each(self._data, row, row + 1))
        return BarEvent(exchange_time=int(self._times[row]), sequence=row, bar=bar)
