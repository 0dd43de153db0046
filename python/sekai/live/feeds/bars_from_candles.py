"""Bars from candles: alignment of the candles of several symbols."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sekai.data import Bar, MarketData
from sekai.live.events import BarEvent, CandleEvent, FeedEvent, FeedNotice, NoticeKind
from sekai.live.feed import Feed, FeedHealth
from sekai.live.feeds.bars_from_trades import (
    BAR_FIELDS,
    BarAggregator,
    BarBuilder,
    ahead_check,
)
from sekai.live.feeds.feed_rules import CONFIRMATIONS
from sekai.live.feeds.timed_feed import count_received, notice

__all__ = ["BarsFromCandles"]

TIMER_SLACK = 20_000_000
"""Nanoseconds that the timer is behind the wait: candles read before its end are added first, in a
replay at recorded speed too."""


class BarsFromCandles(BarAggregator):
    """Feed that aligns the candles of several symbols to bars of all assets, and passes on notices.

    A bar has one close time. Bars are passed on in order of time,

    * when every symbol has its candle, or one of a later bar: candles of a symbol arrive in order;
    * `wait_seconds` after the first candle of the bar, or of a later bar, was received;
    * when a candle arrives that closed `wait_seconds` later by exchange time: such a bar is marked
      as late, as is one after which a later bar has begun, and no decision is taken on it;
    * at the end of the feed.

    A symbol without a candle is not quoted in the bar, so its orders are not filled. It is listed
    from its first candle on, or as in the last row of the history. A time without any candle is no
    bar.

    Left out, counted and reported by a notice are: a candle of a bar that was passed on (`late`);
    a repeated candle (`duplicate`); one of another length than `seconds`, or off the grid of the
    history (`garbage`); one that closes after it was received (`clock_jump`). A repeated candle
    with other values is reported as `duplicate` too, and replaces the first until its bar is
    passed on. Rows of the history and other symbols are ignored. Decoders leave out open candles.

    The order in which symbols close within the wait does not affect the bars. They depend on the
    receive times of candles only, so that a recording gives the same bars at any speed.

    Args:
        feed: feed of candles.
        assets: symbols of the bars, in order.
        seconds: length of a candle.
        history: bars before the first; candles close at multiples of `seconds` after its last.
        fields: some of open, high, low, close and volume, in order; by default those of the
            history, or all.
        wait_seconds: time that a bar waits for symbols after its first candle.
        clock_limit: seconds that a candle may close after it was received, because the clocks of
            venue and machine differ; None for no limit.
    """

    def __init__(
        self,
        feed: Feed,
        assets: Sequence[str],
        seconds: float,
        history: MarketData | None = None,
        fields: Sequence[str] | None = None,
        *,
        wait_seconds: float = 5.0,
        clock_limit: float | None = 5.0,
    ) -> None:
        super().__init__(feed, history)
        names = (BAR_FIELDS if history is None else history.fields) if fields is None else fields
        self._aligner = _CandleAligner(
            assets, seconds, names, wait_seconds, clock_limit, self.health
        )
        if history is not None and len(history):
            self._aligner.follow(history)

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next bar or notice; see `TimedFeed`."""
        loop = asyncio.get_running_loop()
        while (ready := self.take_ready()) is None:
            remaining = self._aligner.seconds_remaining()
            closing = None if remaining is None else loop.time() + remaining
            is_closing = closing is not None and (deadline is None or closing <= deadline)
            try:
                event = await self._reader.next_before(closing if is_closing else deadline)
            except StopAsyncIteration:
                if not self._aligner.end():
                    raise
                continue
            if event is not None:
                self._take(event)
            elif is_closing:
                self._aligner.expire()
            else:
                return None
        return ready

    def take_ready(self) -> FeedEvent | None:
        """Return the next bar or notice if it is available without waiting, else None."""
        ready = self._aligner.ready
        while not ready:
            event = self._reader.take_ready()
            if event is None:
                return None
            self._take(event)
        first = ready.popleft()
        if isinstance(first, BarEvent):
            self._recent.append(first)
        return count_received(self.health, first)

    async def close(self) -> None:
        """Close the feed and discard open bars."""
        self._aligner.discard()
        await super().close()

    def _take(self, event: FeedEvent) -> None:
        if isinstance(event, CandleEvent):
            self._aligner.add(event)
        elif isinstance(event, FeedNotice):
            self.health.is_stale = self._feed.health.is_stale
            self._aligner.ready.append(event)


@dataclass(slots=True)
class _OpenBar:
    deadline: int
    """End of the wait, as a receive time."""

    arrival: int
    """Arrival of the first candle by the monotonic clock."""

    candles: dict[int, CandleEvent] = field(default_factory=dict)
    """Candles by index of the asset."""


class _CandleAligner(BarBuilder):
    """Alignment rules of `BarsFromCandles`, without waiting; finished bars are in `ready`."""

    def __init__(
        self,
        assets: Sequence[str],
        seconds: float,
        fields: Sequence[str],
        wait_seconds: float,
        clock_limit: float | None,
        health: FeedHealth,
    ) -> None:
        super().__init__(assets, seconds, fields)
        if not 0 < wait_seconds < 1e9:
            raise ValueError(f"wait_seconds must be above 0, got {wait_seconds}")
        self.ready: deque[FeedEvent] = deque()
        self._health = health
        self._wait = round(wait_seconds * 1e9)
        self._ahead = ahead_check(clock_limit)
        self._late_run = 0
        self._open: dict[int, _OpenBar] = {}
        self._last: tuple[int, dict[int, CandleEvent]] | None = None
        self._history_end: int | None = None
        self._grid: int | None = None
        self._listed = [False] * len(self.assets)

    def follow(self, history: MarketData) -> None:
        """Continue after the last row of a history."""
        self._grid = self._history_end = self._check_history(history)
        self._listed = [bool(is_listed) for is_listed in history.listed[-1]]

    def add(self, candle: CandleEvent) -> None:
        """Add a candle, and pass on the bars that it completes or whose wait is over."""
        self._expire_before(candle.receive_time)
        index, closed = self._index.get(candle.symbol), candle.exchange_time
        if index is None or (self._history_end is not None and closed <= self._history_end):
            return
        if not self._is_valid(candle):
            return
        if self._last is not None and closed <= self._last[0]:
            if not self._is_wrong(self._last[0], candle):
                self._reject_late(candle, index, self._last)
                return
            self._last = None
        self._late_run = 0
        overdue = [close_time for close_time in self._open if close_time + self._wait <= closed]
        if overdue:
            self._close_until(max(overdue), candle.receive_time, candle.arrival, is_late=True)
        self._insert(candle, index)
        if len(self._open[closed].candles) == len(self.assets):
            self._close_until(closed, candle.receive_time, candle.arrival)

    def seconds_remaining(self) -> float | None:
        """Seconds until the timer ends a wait; None if no bar is open."""
        if not self._open:
            return None
        first = min(bar.arrival for bar in self._open.values())
        return (first + self._wait + TIMER_SLACK - time.perf_counter_ns()) / 1e9

    def expire(self) -> None:
        """Pass on the bar whose wait ends first, and those before it."""
        close_time = min(self._open, key=lambda each: (self._open[each].deadline, each))
        self._close_until(close_time, self._open[close_time].deadline)

    def end(self) -> bool:
        """Pass on all open bars at the end of the feed; False if there are none."""
        has_bars = bool(self._open)
        while self._open:
            self.expire()
        return has_bars

    def discard(self) -> None:
        """Discard open and finished bars."""
        self._open.clear()
        self.ready.clear()

    def _expire_before(self, receive_time: int) -> None:
        while self._open and min(bar.deadline for bar in self._open.values()) < receive_time:
            self.expire()

    def _is_valid(self, candle: CandleEvent) -> bool:
        closed, length = candle.exchange_time, candle.exchange_time - candle.begin
        if length != self.span:
            detail = f"length {length / 1e9:g} s, expected {self.span / 1e9:g} s"
            self._reject("garbage", candle, detail)
        elif self._grid is not None and (closed - self._grid) % self.span:
            detail = f"close is off the grid of {np.datetime64(self._grid, 'ns')}"
            self._reject("garbage", candle, detail)
        elif (ahead := self._ahead_problem(candle)) is not None:
            self._reject("clock_jump", candle, ahead)
        else:
            self._grid = closed
            return True
        return False

    def _ahead_problem(self, candle: CandleEvent) -> str | None:
        if self._ahead is None:
            return None
        return self._ahead.problem(candle.exchange_time, candle.receive_time)

    def _is_wrong(self, last: int, candle: CandleEvent) -> bool:
        """Return True if the last bar was in the future, and several candles since then are not."""
        is_ahead = self._ahead is not None and self._ahead.exceeds(last, candle.receive_time)
        self._late_run = self._late_run + 1 if is_ahead else 0
        if self._late_run < CONFIRMATIONS:
            return False
        detail = f"the last bar, {np.datetime64(last, 'ns')}, was in the future; bars continue here"
        self._reject("clock_jump", candle, detail)
        return True

    def _reject_late(
        self, candle: CandleEvent, index: int, last: tuple[int, dict[int, CandleEvent]]
    ) -> None:
        close_time, candles = last
        known = candles.get(index) if close_time == candle.exchange_time else None
        if known is not None and _values(known) == _values(candle):
            self._reject("duplicate", candle, "repeated candle")
        else:
            self._reject("late", candle, "its bar, or a later one, was passed on")

    def _insert(self, candle: CandleEvent, index: int) -> None:
        bar = self._open.get(candle.exchange_time)
        if bar is None:
            bar = _OpenBar(candle.receive_time + self._wait, candle.arrival)
            self._open[candle.exchange_time] = bar
        known = bar.candles.get(index)
        if known is not None:
            is_same = _values(known) == _values(candle)
            detail = "repeated candle" if is_same else "repeated candle with other values"
            self._reject("duplicate", candle, detail)
        bar.candles[index] = candle

    def _reject(self, kind: NoticeKind, candle: CandleEvent, reason: str) -> None:
        name = {"duplicate": "duplicates", "clock_jump": "clock_jumps"}.get(kind, str(kind))
        setattr(self._health, name, getattr(self._health, name) + 1)
        close_time = np.datetime64(candle.exchange_time, "ns")
        self.ready.append(notice(kind, f"candle of {candle.symbol} at {close_time}: {reason}"))

    def _close_until(
        self,
        close_time: int,
        receive_time: int,
        arrival: int | None = None,
        *,
        is_late: bool = False,
    ) -> None:
        for each in sorted(self._open):
            if each <= close_time:
                self._close(each, receive_time, arrival, is_late=is_late)

    def _close(
        self, close_time: int, receive_time: int, arrival: int | None, *, is_late: bool
    ) -> None:
        candles = self._open.pop(close_time).candles
        self._last = (close_time, candles)
        # If a later bar has begun, the market has moved on.
        is_late |= bool(self._open) or any(candle.is_late for candle in candles.values())
        clock: dict[str, Any] = {} if arrival is None else {"arrival": arrival}
        event = BarEvent(
            exchange_time=close_time,
            receive_time=receive_time,
            bar=self._bar(close_time, candles),
            is_late=is_late,
            **clock,
        )
        self.ready.append(event)

    def _bar(self, close_time: int, candles: dict[int, CandleEvent]) -> Bar:
        values = np.full((len(self.assets), len(self.fields)), np.nan)
        for index, candle in candles.items():
            values[index] = [getattr(candle, name) for name in self.fields]
            self._listed[index] = True
        quoted = self._quoted_mask.of([index in candles for index in self._index.values()])
        listed = self._listed_mask.of(list(self._listed))
        return Bar(np.datetime64(close_time, "ns"), values, listed, quoted, quoted)


def _values(candle: CandleEvent) -> tuple[float, ...]:
    return candle.open, candle.high, candle.low, candle.close, candle.volume
