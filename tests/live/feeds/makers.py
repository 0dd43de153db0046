"""Events, panels and readers shared by the feed tests."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest

from sekai.data import Bar, MarketData
from sekai.live.events import BarEvent, CandleEvent, FeedEvent, FeedNotice, QuoteEvent, TradeEvent
from sekai.live.feed import Feed
from tests.live.simulation.virtual import VirtualClock, VirtualLoop

SECOND = 10**9
BEGIN = 1_700_000_000 * SECOND
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], seconds: float = 20.0) -> T:
    """Run to the end, and see that nothing was left running."""

    async def watched() -> T:
        result = await asyncio.wait_for(work, seconds)
        # What was told to stop has this moment to do so.
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks are left: {left}"
        return result

    return asyncio.run(watched())


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run on virtual time, in which a wait takes as long as it says however busy the machine is.

    For feeds that wait for timers and for events of this loop alone. `time.sleep` is a call that
    keeps the loop from running.
    """
    clock = VirtualClock(BEGIN)
    loop = VirtualLoop(clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter_ns", clock.monotonic_ns)
        patch.setattr(time, "sleep", lambda seconds: clock.advance(round(seconds * SECOND)))
        try:
            return loop.run_until_complete(work)
        finally:
            loop.close()


def trade(number: int, price: float = 100.0, symbol: str = "AAA", **changes: Any) -> TradeEvent:
    made: dict[str, Any] = {
        "exchange_time": BEGIN + number * SECOND, "receive_time": BEGIN + number * SECOND,
        "sequence": number, "trade_id": number, "symbol": symbol, "price": price, "size": 1.0,
        "arrival": time.perf_counter_ns(), **changes,
    }  # fmt: skip
    return TradeEvent(**made)


def quote(number: int, bid: float = 99.0, ask: float = 101.0, **changes: Any) -> QuoteEvent:
    made: dict[str, Any] = {
        "exchange_time": BEGIN + number * SECOND, "receive_time": BEGIN + number * SECOND,
        "sequence": number, "symbol": "AAA", "bid": bid, "bid_size": 1.0, "ask": ask,
        "ask_size": 1.0, **changes,
    }  # fmt: skip
    return QuoteEvent(**made)


def candle(number: int, **changes: Any) -> CandleEvent:
    end = BEGIN + number * 60 * SECOND
    made: dict[str, Any] = {
        "exchange_time": end, "receive_time": end, "begin": end - 60 * SECOND, "symbol": "AAA",
        "open": 10.0, "high": 12.0, "low": 9.0, "close": 11.0, "volume": 5.0, **changes,
    }  # fmt: skip
    return CandleEvent(**made)


def bar_event(number: int, close: float = 100.0, sequence: int | None = None) -> BarEvent:
    stamp = BEGIN + number * 60 * SECOND
    bar = Bar(np.datetime64(stamp, "ns"), np.array([[close], [2.0]]))
    return BarEvent(exchange_time=stamp, receive_time=stamp, sequence=sequence, bar=bar)


def notice(kind: Any) -> FeedNotice:
    return FeedNotice(exchange_time=BEGIN, kind=kind, detail="told")


def panel(rows: int = 20, minutes: int = 1) -> MarketData:
    rng = np.random.default_rng(3)
    times = np.datetime64(BEGIN, "ns") + np.arange(rows) * np.timedelta64(60 * minutes, "s")
    values = 100 + rng.random((rows, 2, 2))
    return MarketData(times, ["AAA", "BBB"], ["close", "volume"], values)


def frame(event: TradeEvent) -> str:
    """The trade as Binance would write it."""
    told = {
        "e": "trade", "E": event.exchange_time // 10**6, "s": event.symbol, "t": event.trade_id,
        "p": f"{event.price:.8f}", "q": f"{event.size:.8f}", "T": event.exchange_time // 10**6,
        "m": False, "M": True,
    }  # fmt: skip
    return json.dumps(told)


async def collect(feed: Feed, count: int | None = None) -> list[FeedEvent]:
    """All events, or so many."""
    found: list[FeedEvent] = []
    if count == 0:
        return found
    async for event in feed:
        found.append(event)
        if len(found) == count:
            break
    return found


def kinds(events: Sequence[FeedEvent]) -> list[str]:
    """Notices by their kind, other events by their number or time."""
    return [
        event.kind if isinstance(event, FeedNotice) else str(event.sequence) for event in events
    ]


class ListFeed(Feed):
    """Hands on a list; `since` gives what another list holds."""

    def __init__(
        self, events: Sequence[FeedEvent], known: Sequence[FeedEvent] = (),
        history: MarketData | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.history = history
        self._events = list(events)
        self.known = list(known)
        self.asked: list[int] = []

    async def __anext__(self) -> FeedEvent:
        if not self._events:
            raise StopAsyncIteration
        await asyncio.sleep(0)
        return self._events.pop(0)

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        self.asked.append(exchange_time)
        await asyncio.sleep(0)
        return [event for event in self.known if event.exchange_time > exchange_time]
