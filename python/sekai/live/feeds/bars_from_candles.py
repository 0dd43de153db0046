"""Rows of bars out of the candles of several symbols, which close one after the other."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sekai.data import Bar, MarketData
from sekai.data.panel_checks import checked_names
from sekai.live.events import BarEvent, CandleEvent, FeedEvent, FeedNotice, NoticeKind
from sekai.live.feed import Feed
from sekai.live.feed_health import FeedHealth
from sekai.live.feeds.reading import Reading, count_received
from sekai.live.feeds.span_builder import BAR_FIELDS, Mask
from sekai.live.feeds.timed_feed import TimedFeed

__all__ = ["BarsFromCandles"]

KEPT_ROWS = 1024
"""Rows that `since` can give again."""

TIMER_SLACK = 20_000_000
"""Nanoseconds that the timer is behind the wait: what was read before its end is taken first, in a
replay at the recorded pace too."""


class BarsFromCandles(TimedFeed):
    """Align candles of several symbols to rows of all assets, and pass on notices.

    A row is of one close time. It is handed on, in the order of time,

    * when every symbol has its candle, or those of a later row: candles of a symbol come in order,
      so that none of a time before can be on its way;
    * `wait_seconds` after its first candle was read, or that of a later row;
    * when a candle comes that closed `wait_seconds` later by the venue's own times: such a row is
      marked as late, as is one behind which a later one has begun, and nothing is decided on it;
    * at the end of the feed.

    A symbol without a candle is not quoted in the row: nothing is filled. It is listed from its
    first candle on, or as the last row of the history says. A time without a candle of any symbol
    is no row.

    Told by a notice, counted and left out are: a candle whose row was handed on (`late`); the same
    candle again (`duplicate`); one of another length than `seconds`, or off the grid of the history
    (`garbage`); one that closes after the time it was read (`clock_jump`). A candle again with
    other values is told as `duplicate` too, and counts in place of the first until its row is
    handed on. What the history has already, and other symbols, are passed over. Candles that are
    not closed yet are no events: decoders leave them out.

    In which order the symbols close within the wait does not show in the rows. When rows are handed
    on follows from the times at which candles were read, so that a recording gives the same rows
    again, at its own pace or faster.
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
        """Take the feed.

        Args:
            feed: what brings the candles.
            assets: the symbols of the rows, in order.
            seconds: the length of a candle.
            history: rows before the first; candles close at multiples of `seconds` after its last.
            fields: which of open, high, low, close and volume, in order; those of the history, or
                all of them, if not given.
            wait_seconds: how long a row waits for symbols after its first candle.
            clock_limit: seconds by which a candle may close after it was read, since the clocks
                of the venue and of this machine differ; None for any number.
        """
        super().__init__()
        self.history = history
        self._feed = feed
        self._reading = Reading(feed, self.health)
        names = (BAR_FIELDS if history is None else history.fields) if fields is None else fields
        self._aligner = _Aligner(assets, seconds, names, wait_seconds, clock_limit, self.health)
        if history is not None and len(history):
            self._aligner.follow(history)
        self._kept: deque[BarEvent] = deque(maxlen=KEPT_ROWS)

    async def open(self) -> None:
        """Open the feed."""
        await self._feed.open()

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next row, or a notice; see `TimedFeed`."""
        loop = asyncio.get_running_loop()
        while (ready := self.take_ready()) is None:
            left = self._aligner.seconds_left()
            closing = None if left is None else loop.time() + left
            is_closing = closing is not None and (deadline is None or closing <= deadline)
            try:
                event = await self._reading.next_before(closing if is_closing else deadline)
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
        """The next row or notice, if what it is made of is here already."""
        ready = self._aligner.ready
        while not ready:
            event = self._reading.take_ready()
            if event is None:
                return None
            self._take(event)
        first = ready.popleft()
        if isinstance(first, BarEvent):
            self._kept.append(first)
        return count_received(self.health, first)

    async def subscribe(self, symbols: Collection[str]) -> None:
        """Ask the feed for more symbols."""
        await self._feed.subscribe(symbols)

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """The last rows that were handed on, at most 1,024 of them."""
        return [event for event in self._kept if event.exchange_time > exchange_time]

    async def close(self) -> None:
        """Close the feed; rows that wait are given up."""
        self._aligner.discard()
        await self._reading.close()

    def _take(self, event: FeedEvent) -> None:
        if isinstance(event, CandleEvent):
            self._aligner.take(event)
        elif isinstance(event, FeedNotice):
            self.health.is_stale = self._feed.health.is_stale
            self._aligner.ready.append(event)


@dataclass(slots=True)
class _OpenRow:
    """Candles of one close time."""

    deadline: int
    """When the wait is over, by the clock that stamps what is read."""

    arrival: int
    """When the first candle came, by a clock that never jumps."""

    candles: dict[int, CandleEvent] = field(default_factory=dict)
    """By the place of the symbol."""


class _Aligner:
    """The rules of `BarsFromCandles`, without waiting: what is handed on lies in `ready`."""

    def __init__(
        self, assets: Sequence[str], seconds: float, fields: Sequence[str], wait_seconds: float,
        clock_limit: float | None, health: FeedHealth,
    ) -> None:  # fmt: skip
        self.assets = checked_names("assets", assets)
        self.fields = checked_names("fields", fields)
        unknown = sorted(set(fields) - set(BAR_FIELDS))
        if unknown:
            raise ValueError(f"fields among {BAR_FIELDS} were wanted, found {unknown}")
        if not 1e-9 <= seconds < 1e9 or not 0 < wait_seconds < 1e9:
            raise ValueError(
                f"seconds and wait_seconds must be above 0, were {seconds} and {wait_seconds}"
            )
        if clock_limit is not None and not 0 <= clock_limit < 1e9:
            raise ValueError(f"clock_limit must be at least 0 seconds, was {clock_limit}")
        self.ready: deque[FeedEvent] = deque()
        self._health = health
        self._span, self._wait = round(seconds * 1e9), round(wait_seconds * 1e9)
        self._clock_limit = None if clock_limit is None else round(clock_limit * 1e9)
        self._places = {name: place for place, name in enumerate(self.assets)}
        self._open: dict[int, _OpenRow] = {}
        self._last: tuple[int, dict[int, CandleEvent]] | None = None
        self._known_until: int | None = None
        self._grid: int | None = None
        self._listed = [False] * len(self.assets)
        self._listed_mask, self._quoted_mask = Mask(), Mask()

    def follow(self, history: MarketData) -> None:
        """Go on after the last row of a history."""
        if history.assets != self.assets or history.fields != self.fields:
            raise ValueError(
                f"a history of {self.assets} and {self.fields} was wanted, found one of "
                f"{history.assets} and {history.fields}"
            )
        self._grid = self._known_until = int(history.calendar.nanoseconds[-1])
        self._listed = [bool(is_listed) for is_listed in history.listed[-1]]

    def take(self, candle: CandleEvent) -> None:
        """Take in a candle, and hand on what it makes whole, or whose wait is over."""
        self._expire_before(candle.receive_time)
        place, closed = self._places.get(candle.symbol), candle.exchange_time
        if place is None or (self._known_until is not None and closed <= self._known_until):
            return
        if not self._is_sound(candle):
            return
        if self._last is not None and closed <= self._last[0]:
            self._refuse_late(candle, place)
            return
        overdue = [stamp for stamp in self._open if stamp + self._wait <= closed]
        if overdue:
            self._close_up_to(max(overdue), candle.receive_time, candle.arrival, is_late=True)
        self._add(candle, place)
        if len(self._open[closed].candles) == len(self.assets):
            self._close_up_to(closed, candle.receive_time, candle.arrival)

    def seconds_left(self) -> float | None:
        """Until the clock ends a wait; None if nothing waits."""
        if not self._open:
            return None
        first = min(row.arrival for row in self._open.values())
        return (first + self._wait + TIMER_SLACK - time.perf_counter_ns()) / 1e9

    def expire(self) -> None:
        """Hand on the row whose wait the clock has ended, and those before it."""
        stamp = min(self._open, key=lambda stamp: (self._open[stamp].deadline, stamp))
        self._close_up_to(stamp, self._open[stamp].deadline)

    def end(self) -> bool:
        """Hand on what waits, since nothing more will come; False if nothing does."""
        waits = bool(self._open)
        while self._open:
            self.expire()
        return waits

    def discard(self) -> None:
        """Give up what waits."""
        self._open.clear()
        self.ready.clear()

    def _expire_before(self, moment: int) -> None:
        """Hand on rows whose wait was over when something was read."""
        while self._open and min(row.deadline for row in self._open.values()) < moment:
            self.expire()

    def _is_sound(self, candle: CandleEvent) -> bool:
        """Whether a candle can be true; one that can not is told."""
        closed, length = candle.exchange_time, candle.exchange_time - candle.begin
        limit = self._clock_limit
        if length != self._span:
            wanted = f"a candle of {self._span / 1e9:g} s was wanted, found {length / 1e9:g} s"
            self._refuse("garbage", candle, wanted)
        elif self._grid is not None and (closed - self._grid) % self._span:
            grid = np.datetime64(self._grid, "ns")
            self._refuse("garbage", candle, f"a close on the grid of {grid} was wanted")
        elif limit is not None and closed > candle.receive_time + limit:
            ahead = (closed - candle.receive_time) / 1e9
            self._refuse("clock_jump", candle, f"it closes {ahead:.3f} s after it was read")
        else:
            self._grid = closed
            return True
        return False

    def _refuse_late(self, candle: CandleEvent, place: int) -> None:
        assert self._last is not None, "a row was handed on"
        stamp, candles = self._last
        known = candles.get(place) if stamp == candle.exchange_time else None
        if known is not None and _content(known) == _content(candle):
            self._refuse("duplicate", candle, "it came before")
        else:
            self._refuse("late", candle, "its row was handed on, or a later one")

    def _add(self, candle: CandleEvent, place: int) -> None:
        row = self._open.get(candle.exchange_time)
        if row is None:
            row = _OpenRow(candle.receive_time + self._wait, candle.arrival)
            self._open[candle.exchange_time] = row
        known = row.candles.get(place)
        if known is not None:
            is_same = _content(known) == _content(candle)
            words = "it came before" if is_same else "it came before with other values"
            self._refuse("duplicate", candle, words)
        row.candles[place] = candle

    def _refuse(self, kind: NoticeKind, candle: CandleEvent, words: str) -> None:
        counted = {"duplicate": "duplicates", "clock_jump": "clock_jumps"}.get(kind, str(kind))
        setattr(self._health, counted, getattr(self._health, counted) + 1)
        stamp = np.datetime64(candle.exchange_time, "ns")
        detail = f"candle of {candle.symbol} at {stamp}: {words}"
        self.ready.append(FeedNotice(exchange_time=time.time_ns(), kind=kind, detail=detail))

    def _close_up_to(
        self, stamp: int, receive_time: int, arrival: int | None = None, *, is_late: bool = False
    ) -> None:
        for one in sorted(self._open):
            if one <= stamp:
                self._hand_on(one, receive_time, arrival, is_late=is_late)

    def _hand_on(
        self, stamp: int, receive_time: int, arrival: int | None, *, is_late: bool = False
    ) -> None:
        candles = self._open.pop(stamp).candles
        self._last = (stamp, candles)
        # Where a later row has begun, the market has moved on.
        is_late |= bool(self._open) or any(candle.is_late for candle in candles.values())
        clock: dict[str, Any] = {} if arrival is None else {"arrival": arrival}
        self.ready.append(
            BarEvent(
                exchange_time=stamp, receive_time=receive_time, bar=self._bar(stamp, candles),
                is_late=is_late, **clock,
            )
        )  # fmt: skip

    def _bar(self, stamp: int, candles: dict[int, CandleEvent]) -> Bar:
        values = np.full((len(self.assets), len(self.fields)), np.nan)
        for place, candle in candles.items():
            values[place] = [getattr(candle, name) for name in self.fields]
            self._listed[place] = True
        quoted = self._quoted_mask.of([place in candles for place in self._places.values()])
        listed = self._listed_mask.of(list(self._listed))
        return Bar(np.datetime64(stamp, "ns"), values, listed, quoted, quoted)


def _content(candle: CandleEvent) -> tuple[float, ...]:
    return candle.open, candle.high, candle.low, candle.close, candle.volume
