"""Bars from trades: aggregation of a live trade stream, and of recorded trades to a history."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sekai.data import Bar, Frequency, MarketData
from sekai.data.calendar import DAY, YEAR_DAYS
from sekai.data.market_data import checked_names
from sekai.error import FeedError
from sekai.live.events import BarEvent, FeedEvent, FeedNotice, TradeEvent
from sekai.live.feed import Feed
from sekai.live.feeds.feed_rules import CONFIRMATIONS, AheadCheck
from sekai.live.feeds.timed_feed import FeedWrapper, count_received, notice

__all__ = [
    "BAR_FIELDS",
    "BarAggregator",
    "BarBuilder",
    "BarsFromTrades",
    "ahead_check",
    "bars_of",
]

BAR_FIELDS = ("open", "high", "low", "close", "volume")
EmptySpan = Literal["hole", "carry"]
NO_TRADE = (float("nan"), float("nan"), float("nan"), float("nan"), 0.0)

RECENT_BARS = 1024
"""Bars that `since` can return, beside the history."""

MAX_EMPTY_BARS = 100_000
"""Empty bars before a trade; a trade further ahead is a clock jump."""

MAX_CLOCK_JUMPS = 3
"""Consecutive clock jumps after which the feed fails."""

BUSY_SECONDS = 0.02
"""A bar closed later than this by the timer shows that the process was busy and read nothing."""

SHIFT_NANOSECONDS = 5 * 10**9
"""Time over which all events must be ahead before the clocks are taken to differ."""

CATCH_UP_SECONDS = 0.05
"""Time to read what arrived while the process was busy."""


class BarAggregator(FeedWrapper):
    """Base class of feeds that aggregate the events of another feed to bars of all assets."""

    def __init__(self, feed: Feed, history: MarketData | None) -> None:
        super().__init__(feed, history)
        self._recent: deque[BarEvent] = deque(maxlen=RECENT_BARS)

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """Bars after `exchange_time`, of the last 1,024."""
        return [event for event in self._recent if event.exchange_time > exchange_time]


class BarBuilder:
    """Base class of builders of bars: assets, fields, interval and masks."""

    def __init__(self, assets: Sequence[str], seconds: float, fields: Sequence[str]) -> None:
        self.assets = checked_names("assets", assets)
        self.fields = checked_names("fields", fields)
        unknown = sorted(set(fields) - set(BAR_FIELDS))
        if unknown:
            raise ValueError(f"unknown fields {unknown}; expected some of {BAR_FIELDS}")
        if not 1e-9 <= seconds < 1e9:
            raise ValueError(f"seconds must be above 0, got {seconds}")
        self.span = round(seconds * 1e9)
        self._index = {name: index for index, name in enumerate(self.assets)}
        self._listed_mask, self._quoted_mask = _SharedMask(), _SharedMask()

    def _check_history(self, history: MarketData) -> int:
        """Check assets and fields of a history, and return the time of its last row."""
        if history.assets != self.assets or history.fields != self.fields:
            raise ValueError(
                f"history has assets {history.assets} and fields {history.fields}; expected "
                f"{self.assets} and {self.fields}"
            )
        return int(history.calendar.nanoseconds[-1])


class BarsFromTrades(BarAggregator):
    """Feed that aggregates trades to bars of all assets, and passes on notices.

    A bar is closed by a trade of a later bar, or `grace` seconds after its end. The end is measured
    by the exchange time of the last trade, advanced by the local clock; this clock stands still
    from a disconnect or stale notice to the next trade, so that missing trades can still be
    backfilled. Intervals without any trade are bars too.

    Trades of closed bars are counted as late and left out; trades of other symbols are ignored.
    Without a history the first bar is that of the first trade, and may be incomplete.

    Args:
        feed: feed of trades.
        assets: symbols of the bars, in order.
        seconds: length of a bar.
        history: bars before the first, such as from `bars_of`; the stream continues at its end.
        fields: some of open, high, low, close and volume, in order.
        grace: seconds to wait for trades after the end of a bar.
        empty: `hole` marks an asset without a trade as not quoted, `carry` quotes its last close
            with a volume of 0.
        clock_limit: seconds that a trade may be stamped after it was received, because the clocks
            of venue and machine differ; trades further ahead are left out, unless all trades of
            several seconds are as far ahead; None for no limit.
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
        clock_limit: float | None = 5.0,
    ) -> None:
        super().__init__(feed, history)
        self._ahead = ahead_check(clock_limit)
        self._late_run = 0
        if not grace >= 0:
            raise ValueError(f"grace must be at least 0 seconds, got {grace}")
        self._builder = _TradeBars(assets, seconds, fields, empty)
        if history is not None and len(history):
            self._builder.follow(history)
        self._grace = round(grace * 1e9)
        self._trade: TradeEvent | None = None
        self._clock: tuple[int, int] | None = None
        self._jumps = 0
        self._has_caught_up = False
        self._notices: deque[FeedNotice] = deque()

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next bar or notice; see `TimedFeed`."""
        loop = asyncio.get_running_loop()
        while (ready := self.take_ready()) is None:
            remaining = self._seconds_remaining()
            closing = None if remaining is None else loop.time() + remaining
            if closing is None or (deadline is not None and deadline < closing):
                event = await self._reader.next_before(deadline)
                if event is None:
                    return None
            else:
                event = await self._next_in_bar(closing)
                if event is None:
                    return count_received(self.health, self._close_bar(None))
            self._take(event)
        return ready

    def take_ready(self) -> FeedEvent | None:
        """Return the next bar or notice if it is available without waiting, else None."""
        while (ready := self._next_ready()) is None:
            event = self._reader.take_ready()
            if event is None:
                return None
            self._take(event)
        return count_received(self.health, ready)

    async def close(self) -> None:
        """Close the feed and discard the open bar."""
        self._trade = None
        self._notices.clear()
        await super().close()

    async def _next_in_bar(self, closing: float) -> FeedEvent | None:
        """Wait for the next event; None if the timer closes the open bar first."""
        event = await self._reader.next_before(closing)
        if event is not None:
            return event
        delay = asyncio.get_running_loop().time() - closing
        was_busy = delay > BUSY_SECONDS
        if was_busy and not self._has_caught_up:
            # Trades of the bar may be waiting in a socket.
            event = await self._reader.next_before(closing + delay + CATCH_UP_SECONDS)
        self._has_caught_up = was_busy
        return event

    def _next_ready(self) -> FeedEvent | None:
        if self._notices:
            return self._notices.popleft()
        if self._trade is not None:
            if self._builder.is_ahead(self._trade):
                return self._close_bar(self._trade)
            self._builder.add(self._trade)
            self._trade = None
        return None

    def _take(self, event: FeedEvent) -> None:
        if type(event) is TradeEvent:
            builder = self._builder
            if not builder.has_asset(event.symbol):
                return
            if self._is_from_future(event):
                return
            if builder.is_late(event):
                self._take_late(event)
            elif builder.is_ahead(event):
                self._advance(event)
            else:
                builder.add(event)
                self._jumps = self._late_run = 0
                self._clock = (event.exchange_time, event.arrival)
        elif isinstance(event, FeedNotice):
            self.health.is_stale = self._feed.health.is_stale
            self._notices.append(event)
            if event.kind in ("disconnected", "stale"):
                # Bars that end now may not be empty: their trades may still be backfilled.
                self._clock = None

    def _is_from_future(self, trade: TradeEvent) -> bool:
        if self._ahead is None:
            return False
        problem = self._ahead.problem(trade.exchange_time, trade.receive_time)
        if problem is not None:
            self.health.clock_jumps += 1
            detail = f"trade of {trade.symbol} {problem}; left out"
            self._notices.append(notice("clock_jump", detail))
        return problem is not None

    def _take_late(self, trade: TradeEvent) -> None:
        """Leave out a late trade; if the open bar is in the future, return after several."""
        begin = self._builder.begin
        is_wrong = self._ahead is not None and self._ahead.exceeds(begin, trade.receive_time)
        self._late_run = self._late_run + 1 if is_wrong else 0
        if self._late_run >= CONFIRMATIONS and self._builder.return_to(trade):
            self._late_run = 0
            self.health.clock_jumps += 1
            self._clock = (trade.exchange_time, trade.arrival)
            wrong = np.datetime64(begin, "ns")
            detail = f"the open bar of {wrong} was in the future; bars continue at {trade.symbol}'s"
            self._notices.append(notice("clock_jump", f"{detail} trade"))
            return
        self._notices.append(notice("late", f"trade of {trade.symbol} of a closed bar"))
        self.health.late += 1

    def _advance(self, trade: TradeEvent) -> None:
        """Advance to the bar of a trade, unless its time is a clock jump."""
        end = self._builder.end
        assert end is not None, "only a trade after an open bar is ahead of it"
        bars = (trade.exchange_time - end) // self._builder.span
        if bars <= MAX_EMPTY_BARS:
            self._jumps = self._late_run = 0
            self._trade = trade
            self._clock = (trade.exchange_time, trade.arrival)
            return
        self._jumps += 1
        self.health.clock_jumps += 1
        if self._jumps >= MAX_CLOCK_JUMPS:
            raise FeedError(
                f"trades are {bars} bars after the last one, at most {MAX_EMPTY_BARS} are allowed; "
                "start again with a history that ends later: klines of the venue (fetch_klines), "
                "rows of the feed (collect_history), or [history] in a feed file"
            )
        detail = f"trade of {trade.symbol} {bars} bars after the last"
        self._notices.append(notice("clock_jump", detail))

    def _seconds_remaining(self) -> float | None:
        """Seconds until the timer closes the open bar; negative if it is overdue."""
        if self._clock is None or self._builder.end is None:
            return None
        exchange_time, arrival = self._clock
        now = exchange_time + time.perf_counter_ns() - arrival
        return (self._builder.end + self._grace - now) / 1e9

    def _close_bar(self, closed_by: TradeEvent | None) -> BarEvent:
        end = self._builder.end
        assert end is not None, "a bar is closed after its first trade"
        bar = self._builder.close()
        # Of several bars closed at once, all but the last are late: the market has moved on.
        if closed_by is None:
            is_late = (self._seconds_remaining() or 0.0) < 0
            event = BarEvent(exchange_time=end, bar=bar, is_late=is_late)
        else:
            # Latency is measured from the trade that completed the bar.
            event = BarEvent(
                exchange_time=end,
                receive_time=closed_by.receive_time,
                arrival=closed_by.arrival,
                bar=bar,
                is_late=closed_by.is_late or self._builder.is_ahead(closed_by),
            )
        self._recent.append(event)
        return event


def ahead_check(clock_limit: float | None) -> AheadCheck | None:
    """Check of events that are stamped in the future; None without a limit in seconds."""
    if clock_limit is None:
        return None
    if not 0 <= clock_limit < 1e9:
        raise ValueError(f"clock_limit must be at least 0 seconds, got {clock_limit}")
    return AheadCheck(round(clock_limit * 1e9), SHIFT_NANOSECONDS)


def bars_of(
    trades: Iterable[FeedEvent],
    assets: Sequence[str],
    seconds: float,
    fields: Sequence[str] = BAR_FIELDS,
    *,
    empty: EmptySpan = "hole",
) -> MarketData:
    """Aggregate recorded trades to bars, as `BarsFromTrades` does.

    The bar of the last trade is left out, because it may be incomplete: a `BarsFromTrades` with
    this history continues with it. Other events, other symbols and late trades are ignored.
    """
    builder = _TradeBars(assets, seconds, fields, empty)
    bars: list[Bar] = []
    for trade in trades:
        if not isinstance(trade, TradeEvent) or not builder.has_asset(trade.symbol):
            continue
        if builder.is_late(trade):
            continue
        while builder.is_ahead(trade):
            bars.append(builder.close())
        builder.add(trade)
    if not bars:
        raise FeedError("too few trades: they must cover at least two bars")
    return MarketData(
        np.array([bar.time for bar in bars]),
        builder.assets,
        builder.fields,
        np.stack([np.asarray(bar.values) for bar in bars]),
        listed=np.stack([np.asarray(bar.listed) for bar in bars]),
        quoted=np.stack([np.asarray(bar.quoted) for bar in bars]),
        tradable=np.stack([np.asarray(bar.tradable) for bar in bars]),
        frequency=Frequency(builder.span, DAY * YEAR_DAYS / builder.span),
    )


class _TradeBars(BarBuilder):
    """Builds one bar after the other from trades; bars begin at multiples of their length.

    A trade at the end of a bar belongs to the next. Assets are listed from their first trade on.
    """

    def __init__(
        self, assets: Sequence[str], seconds: float, fields: Sequence[str], empty: EmptySpan
    ) -> None:
        super().__init__(assets, seconds, fields)
        if empty not in ("hole", "carry"):
            raise ValueError(f"empty must be hole or carry, got {empty!r}")
        self.empty = empty
        self.end: int | None = None
        """End of the open bar in nanoseconds; None before the first."""
        self._first_end: int | None = None
        self._cells: list[list[float] | None] = [None] * len(self.assets)
        self._closes: list[float | None] = [None] * len(self.assets)
        # None for all fields in order.
        columns = [BAR_FIELDS.index(name) for name in self.fields]
        self._columns = None if self.fields == BAR_FIELDS else columns

    def follow(self, history: MarketData) -> None:
        """Continue with the bar after the last row of a history."""
        last = self._check_history(history)
        if last % self.span:
            raise ValueError(
                f"history ends at {history.times[-1]}; expected rows at multiples of "
                f"{self.span / 1e9} s"
            )
        self.end = self._first_end = last + self.span
        if "close" in self.fields:
            closes = history.field("close")
            for index in range(len(self.assets)):
                quoted = np.flatnonzero(np.isfinite(closes[:, index]))
                if quoted.size:
                    self._closes[index] = float(closes[quoted[-1], index])

    @property
    def begin(self) -> int:
        """Begin of the open bar in nanoseconds."""
        assert self.end is not None, "a bar is open after the first trade"
        return self.end - self.span

    def return_to(self, trade: TradeEvent) -> bool:
        """Discard the open bar and open that of an earlier trade; False if the history has it."""
        end = trade.exchange_time // self.span * self.span + self.span
        if self._first_end is not None and end < self._first_end:
            return False
        self.end, self._cells = None, [None] * len(self.assets)
        self.add(trade)
        return True

    def has_asset(self, symbol: str) -> bool:
        """Return True if the symbol is one of the assets."""
        return symbol in self._index

    def is_late(self, trade: TradeEvent) -> bool:
        """Return True if the bar of the trade is closed."""
        return self.end is not None and trade.exchange_time < self.end - self.span

    def is_ahead(self, trade: TradeEvent) -> bool:
        """Return True if the open bar has to be closed before the trade is added."""
        return self.end is not None and trade.exchange_time >= self.end

    def add(self, trade: TradeEvent) -> None:
        """Add a trade of the open bar, or the first trade."""
        if self.end is None:
            self.end = trade.exchange_time // self.span * self.span + self.span
        index = self._index[trade.symbol]
        cell = self._cells[index]
        price, size = trade.price, trade.size
        if cell is None:
            self._cells[index] = [price, price, price, price, size, 0.0]
            return
        if price > cell[1]:
            cell[1] = price
        elif price < cell[2]:
            cell[2] = price
        cell[3] = price
        # Neumaier summation: the volume does not depend on the order and number of trades.
        previous = cell[4]
        total = previous + size
        cell[5] += (previous - total) + size if previous >= size else (size - total) + previous
        cell[4] = total

    def close(self) -> Bar:
        """Close the open bar and open the next."""
        assert self.end is not None, "a bar is open after the first trade"
        rows: list[Sequence[float]] = []
        listed, quoted = [], []
        for index, cell in enumerate(self._cells):
            last = self._closes[index]
            if cell is not None:
                row = (cell[0], cell[1], cell[2], cell[3], cell[4] + cell[5])
                self._closes[index] = cell[3]
            elif self.empty == "carry" and last is not None:
                row = (last, last, last, last, 0.0)
            else:
                row = NO_TRADE
            columns = self._columns
            rows.append(row if columns is None else [row[column] for column in columns])
            quoted.append(row[3] == row[3])
            listed.append(self._closes[index] is not None)
        listed_mask, quoted_mask = self._listed_mask.of(listed), self._quoted_mask.of(quoted)
        end = np.datetime64(self.end, "ns")
        self._cells = [None] * len(self.assets)
        self.end += self.span
        return Bar(end, np.array(rows), listed_mask, quoted_mask, quoted_mask)


class _SharedMask:
    """Read-only mask array that is reused until the flags change: saves an array per decision."""

    def __init__(self) -> None:
        self._flags: list[bool] = []
        self._array = np.array(self._flags)

    def of(self, flags: list[bool]) -> NDArray[np.bool_]:
        """Return the flags as a read-only array."""
        if flags != self._flags:
            self._flags, self._array = flags, np.array(flags)
            self._array.flags.writeable = False
        return self._array
