"""What a feed brings: trades, quotes, candles, rows of bars, and notices about the feed itself."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from sekai.data import Bar

__all__ = [
    "BarEvent",
    "CandleEvent",
    "FeedEvent",
    "FeedNotice",
    "NoticeKind",
    "QuoteEvent",
    "TradeEvent",
]

NoticeKind = Literal[
    "connected", "disconnected", "gap", "duplicate", "late", "stale", "fresh", "garbage",
    "clock_jump", "overflow", "outlier", "crossed",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    """Something that a venue told, and when."""

    exchange_time: int
    """When it happened as the venue says, in nanoseconds since 1970 in UTC."""

    receive_time: int = field(default_factory=time.time_ns)
    """When it was read here, by this machine's clock, in the same unit."""

    arrival: int = field(default_factory=time.perf_counter_ns, compare=False)
    """The same by a clock that never jumps: latencies are measured from here."""

    sequence: int | None = None
    """The venue's own count of what it sends, if it counts."""

    is_late: bool = field(default=False, compare=False)
    """Whether it was missed when it happened and asked for again: the market has moved on, and
    nothing is decided on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeEvent(FeedEvent):
    """Two parties agreed on a price."""

    symbol: str
    price: float
    size: float
    is_buy: bool | None = None
    """Whether the one who did not wait bought, if it is known."""

    trade_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteEvent(FeedEvent):
    """The best prices that are offered."""

    symbol: str
    bid: float
    bid_size: float
    ask: float
    ask_size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CandleEvent(FeedEvent):
    """What one asset did in a span of time that is over."""

    symbol: str
    begin: int
    """When the span began, in nanoseconds; it ended with `exchange_time`."""

    open: float
    high: float
    low: float
    close: float
    volume: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BarEvent(FeedEvent):
    """A row of all assets: what `Portfolio-v0` steps on."""

    bar: Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedNotice(FeedEvent):
    """Something that the one who listens should know about the feed; no news of the market."""

    kind: NoticeKind
    detail: str
