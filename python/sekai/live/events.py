"""Feed events: trades, quotes, candles, rows of bars, and notices about the feed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from sekai.data import Bar

__all__ = [
    "BarEvent",
    "CandleEvent",
    "FeedEvent",
    "FeedNotice",
    "NoticeKind",
    "QuoteEvent",
    "TradeEvent",
    "bar_fields",
    "bar_from_fields",
    "bar_time",
]

NoticeKind = Literal[
    "connected",
    "disconnected",
    "gap",
    "duplicate",
    "late",
    "stale",
    "fresh",
    "garbage",
    "clock_jump",
    "overflow",
    "outlier",
    "crossed",
]

NANOSECONDS = np.dtype("datetime64[ns]")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    """Event of a feed with its times."""

    exchange_time: int
    """Time of the event at the venue, in nanoseconds since 1970 in UTC."""

    receive_time: int = field(default_factory=time.time_ns)
    """Time of receipt by this machine's clock, in the same unit."""

    arrival: int = field(default_factory=time.perf_counter_ns, compare=False)
    """Time of receipt by the monotonic clock; latencies are measured from it."""

    sequence: int | None = None
    """Sequence number of the venue, if it has one."""

    is_late: bool = field(default=False, compare=False)
    """True if it was missed and fetched afterwards: it is not traded on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeEvent(FeedEvent):
    """Trade at a venue."""

    symbol: str
    price: float
    size: float
    is_buy: bool | None = None
    """True if the taker bought; None if unknown."""

    trade_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteEvent(FeedEvent):
    """Best bid and ask."""

    symbol: str
    bid: float
    bid_size: float
    ask: float
    ask_size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CandleEvent(FeedEvent):
    """Closed candle of one asset."""

    symbol: str
    begin: int
    """Begin of the candle in nanoseconds; it ends at `exchange_time`."""

    open: float
    high: float
    low: float
    close: float
    volume: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BarEvent(FeedEvent):
    """Row of bars of all assets: one step of `Portfolio-v0`."""

    bar: Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedNotice(FeedEvent):
    """Notice about the feed itself, such as a gap or a lost connection."""

    kind: NoticeKind
    detail: str


def bar_time(bar: Bar) -> int:
    """Timestamp of a row in nanoseconds since 1970 in UTC."""
    return int(np.asarray(bar.time, NANOSECONDS).astype(np.int64))


def bar_fields(bar: Bar) -> dict[str, Any]:
    """Fields of a row, for journals and wire formats; masks that are None are left out."""
    masks = {name: np.asarray(mask) for name, mask in bar.masks().items() if mask is not None}
    return {
        "time": bar_time(bar),
        "values": np.asarray(bar.values, dtype=np.float64),
        "market": {name: float(value) for name, value in bar.market.items()},
        **masks,
    }


def bar_from_fields(fields: Mapping[str, Any]) -> Bar:
    """Row from `bar_fields`; other fields are ignored."""
    from sekai.data import Bar

    return Bar(
        time=np.datetime64(int(fields["time"]), "ns"),
        values=fields["values"],
        listed=fields.get("listed"),
        quoted=fields.get("quoted"),
        tradable=fields.get("tradable"),
        market=fields["market"],
    )
