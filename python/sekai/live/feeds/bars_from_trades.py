"""Rows of bars out of a stream of trades, and a history out of the same trades."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from sekai.data import Bar, Frequency, MarketData
from sekai.data.calendar import DAY, YEAR_DAYS
from sekai.error import FeedError
from sekai.live.events import BarEvent, FeedEvent, FeedNotice, NoticeKind, TradeEvent
from sekai.live.feed import Feed
from sekai.live.feeds.reading import Reading, count_received
from sekai.live.feeds.span_builder import BAR_FIELDS, EmptySpan, SpanBuilder
from sekai.live.feeds.timed_feed import TimedFeed

__all__ = ["BarsFromTrades", "bars_of"]

KEPT_ROWS = 1024
"""Rows that `since` can give again, beside the history."""

LONGEST_SILENCE = 100_000
"""Spans without a trade that are believed; a trade beyond is a clock that jumped."""

JUMPS_BELIEVED = 3
"""Trades in a row after which it is no mistake of one of them."""

HELD_UP = 0.02
"""Seconds: a span that is closed so much too late shows that nobody could read in the meantime."""

CATCH_UP = 0.05
"""Seconds for what came in the meantime to be read."""


class BarsFromTrades(TimedFeed):
    """Turns the trades of another feed into rows of all assets, and passes on its notices.

    A span is closed by a trade of a later one, or `grace` seconds after its end: by the venue's
    clock as the last trade told it, which goes on at the pace of ours. It stands still from a
    notice that the feed is disconnected or stale to the next trade, so that what was missed can
    still be handed in. Spans without any trade are rows too.

    Trades of closed spans are counted as late and left out; so are those of other symbols,
    uncounted. Without a history the first row is of the span of the first trade, of which some
    may have been before it.
    """

    def __init__(
        self,
        feed: Feed,
        assets: Sequence[str],
        seconds: float,
        history: MarketData | None = None,
        fields: Sequence[str] = BAR_FIELDS,
        *,
        grace: float = 1.0,
        empty: EmptySpan = "hole",
    ) -> None:
        """Take the feed.

        Args:
            feed: what brings the trades.
            assets: the symbols of the rows, in order.
            seconds: the length of a span.
            history: rows before the first, such as `bars_of` makes; it ends where the stream is
                to go on.
            fields: which of open, high, low, close and volume, in order.
            grace: seconds after the end of a span to wait for its last trades.
            empty: what becomes of an asset without a trade in a span: `hole` says it is not
                quoted, `carry` quotes its last close with a volume of 0.
        """
        super().__init__()
        if not grace >= 0:
            raise ValueError(f"grace must be at least 0 seconds, was {grace}")
        self._feed = feed
        self._reading = Reading(feed, self.health)
        self._builder = SpanBuilder(assets, seconds, fields, empty)
        if history is not None and len(history):
            self._builder.follow(history)
        self.history = history
        self._grace = round(grace * 1e9)
        self._trade: TradeEvent | None = None
        self._clock: tuple[int, int] | None = None
        self._jumps = 0
        self._has_caught_up = False
        self._notices: deque[FeedNotice] = deque()
        self._kept: deque[BarEvent] = deque(maxlen=KEPT_ROWS)

    async def open(self) -> None:
        """Open the feed."""
        await self._feed.open()

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next row, or a notice; see `TimedFeed`."""
        loop = asyncio.get_running_loop()
        while (ready := self.take_ready()) is None:
            left = self._seconds_left()
            closing = None if left is None else loop.time() + left
            if closing is None or (deadline is not None and deadline < closing):
                event = await self._reading.next_before(deadline)
                if event is None:
                    return None
            else:
                event = await self._next_in_span(closing)
                if event is None:
                    return count_received(self.health, self._row(None))
            self._take(event)
        return ready

    def take_ready(self) -> FeedEvent | None:
        """The next row or notice, if what it is made of is here already."""
        while (ready := self._work()) is None:
            event = self._reading.take_ready()
            if event is None:
                return None
            self._take(event)
        return count_received(self.health, ready)

    async def subscribe(self, symbols: Collection[str]) -> None:
        """Ask the feed for more symbols."""
        await self._feed.subscribe(symbols)

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """The last rows that were handed on, at most 1,024 of them."""
        return [event for event in self._kept if event.exchange_time > exchange_time]

    async def close(self) -> None:
        """Close the feed; the open span is given up."""
        self._trade = None
        self._notices.clear()
        await self._reading.close()

    async def _next_in_span(self, closing: float) -> FeedEvent | None:
        """What comes before the clock closes the open span; None if nothing does."""
        event = await self._reading.next_before(closing)
        if event is not None:
            return event
        late = asyncio.get_running_loop().time() - closing
        is_held_up = late > HELD_UP
        if is_held_up and not self._has_caught_up:
            # The process was busy with something else: trades of the span may wait in a socket.
            event = await self._reading.next_before(closing + late + CATCH_UP)
        self._has_caught_up = is_held_up
        return event

    def _work(self) -> FeedEvent | None:
        """What can be handed on of what was read."""
        if self._notices:
            return self._notices.popleft()
        if self._trade is not None:
            if self._builder.is_ahead(self._trade):
                return self._row(self._trade)
            self._builder.add(self._trade)
            self._trade = None
        return None

    def _take(self, event: FeedEvent) -> None:
        if type(event) is TradeEvent:
            builder = self._builder
            if not builder.knows(event.symbol):
                return
            if builder.is_late(event):
                self._leave_out("late", f"trade of {event.symbol} after its span was closed")
                self.health.late += 1
            elif builder.is_ahead(event):
                self._step(event)
            else:
                builder.add(event)
                self._jumps = 0
                self._clock = (event.exchange_time, event.arrival)
        elif isinstance(event, FeedNotice):
            self.health.is_stale = self._feed.health.is_stale
            self._notices.append(event)
            if event.kind in ("disconnected", "stale"):
                # Spans that end now may not have been empty: what was missed may come yet.
                self._clock = None

    def _step(self, trade: TradeEvent) -> None:
        """Go on to the span of a trade, unless nobody can believe its time."""
        end = self._builder.end
        assert end is not None, "only a trade after an open span is ahead of it"
        spans = (trade.exchange_time - end) // self._builder.span
        if spans <= LONGEST_SILENCE:
            self._jumps = 0
            self._trade = trade
            self._clock = (trade.exchange_time, trade.arrival)
            return
        self._jumps += 1
        self.health.clock_jumps += 1
        if self._jumps >= JUMPS_BELIEVED:
            raise FeedError(
                f"trades within {LONGEST_SILENCE} rows of the last were wanted, found them {spans} "
                "rows later: begin again with a history that reaches further"
            )
        self._leave_out("clock_jump", f"trade of {trade.symbol} {spans} rows after the last")

    def _leave_out(self, kind: NoticeKind, detail: str) -> None:
        self._notices.append(FeedNotice(exchange_time=time.time_ns(), kind=kind, detail=detail))

    def _seconds_left(self) -> float | None:
        """Until the open span is closed by the clock; below 0 if that should have been before."""
        if self._clock is None or self._builder.end is None:
            return None
        told, arrival = self._clock
        now = told + time.perf_counter_ns() - arrival
        return (self._builder.end + self._grace - now) / 1e9

    def _row(self, closed_by: TradeEvent | None) -> BarEvent:
        stamp = self._builder.end
        assert stamp is not None, "what closes a span came after its first trade"
        bar = self._builder.close()
        # Where more than one row is closed at once, the market has moved on since the first.
        if closed_by is None:
            is_late = (self._seconds_left() or 0.0) < 0
            event = BarEvent(exchange_time=stamp, bar=bar, is_late=is_late)
        else:
            # Latencies count from the news that made the row complete.
            event = BarEvent(
                exchange_time=stamp, receive_time=closed_by.receive_time,
                arrival=closed_by.arrival, bar=bar,
                is_late=closed_by.is_late or self._builder.is_ahead(closed_by),
            )  # fmt: skip
        self._kept.append(event)
        return event


def bars_of(
    trades: Iterable[FeedEvent],
    assets: Sequence[str],
    seconds: float,
    fields: Sequence[str] = BAR_FIELDS,
    *,
    empty: EmptySpan = "hole",
) -> MarketData:
    """The closed spans of trades that are at hand, as `BarsFromTrades` would have made them.

    The span of the last trade is left out, since more of it may be to come: a `BarsFromTrades`
    that has this history goes on with it. Events that are not trades of the assets are passed
    over, and so are trades of closed spans.
    """
    builder = SpanBuilder(assets, seconds, fields, empty)
    bars: list[Bar] = []
    for trade in trades:
        if not isinstance(trade, TradeEvent) or not builder.knows(trade.symbol):
            continue
        if builder.is_late(trade):
            continue
        while builder.is_ahead(trade):
            bars.append(builder.close())
        builder.add(trade)
    if not bars:
        raise FeedError("trades of at least two spans were wanted, found fewer")
    return MarketData(
        np.array([bar.time for bar in bars]), builder.assets, builder.fields,
        np.stack([np.asarray(bar.values) for bar in bars]),
        listed=np.stack([np.asarray(bar.listed) for bar in bars]),
        quoted=np.stack([np.asarray(bar.quoted) for bar in bars]),
        tradable=np.stack([np.asarray(bar.tradable) for bar in bars]),
        frequency=Frequency(builder.span, DAY * YEAR_DAYS / builder.span),
    )  # fmt: skip
