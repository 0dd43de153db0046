"""What is expected of a feed, and what becomes of that which is not as expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sekai.live.events import BarEvent, CandleEvent, FeedEvent, QuoteEvent, TradeEvent

__all__ = ["KINDS", "EventKind", "FeedRules", "Treatment"]

EventKind = Literal["trade", "quote", "candle", "bar"]
Treatment = Literal["leave_out", "pass_on"]
KINDS: Mapping[type[FeedEvent], EventKind] = {
    TradeEvent: "trade",
    QuoteEvent: "quote",
    CandleEvent: "candle",
    BarEvent: "bar",
}
TREATMENTS = ("duplicate", "late", "clock_jump", "outlier", "crossed")
SECONDS = ("bar_seconds", "stale_after", "clock_limit", "overlap", "backfill_timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRules:
    """The rules of a `CheckedFeed`; whatever breaks one is counted and told by a notice."""

    contiguous: tuple[EventKind, ...] = ("trade", "bar")
    """Kinds whose `sequence` goes up by one, symbol by symbol: a jump is a gap. That of other
    kinds only rises. Candles that are named here follow each other without a space."""

    bar_seconds: float | None = None
    """The distance of rows in a market that never closes: more than half of it beyond is a gap."""

    stale_after: float | None = None
    """Seconds without an event after which the feed is stale."""

    clock_limit: float | None = None
    """Seconds by which the venue's clock and ours may differ; not for replays."""

    price_factor: float | None = 10.0
    """A price that is so many times the one before, or so small a part of it, is an outlier."""

    confirmations: int = 3
    """Outliers in a row that agree with each other after which they are the price."""

    overlap: float = 5.0
    """Seconds before the last event from which to ask again after a reconnect."""

    backfill_timeout: float = 10.0
    """Seconds that `since` may take."""

    most_streams: int = 10_000
    """Symbols times kinds of events that are kept apart; those of more are left out."""

    duplicate: Treatment = "leave_out"
    late: Treatment = "leave_out"
    clock_jump: Treatment = "pass_on"
    outlier: Treatment = "leave_out"
    crossed: Treatment = "leave_out"

    def __post_init__(self) -> None:
        strangers = set(self.contiguous) - set(KINDS.values())
        if strangers:
            raise ValueError(f"contiguous takes {sorted(KINDS.values())}, was {self.contiguous}")
        for name in TREATMENTS:
            if getattr(self, name) not in ("leave_out", "pass_on"):
                raise ValueError(
                    f"{name} must be leave_out or pass_on, was {getattr(self, name)!r}"
                )
        for name in SECONDS:
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e9:
                raise ValueError(f"{name} must be above 0 seconds, was {value}")
        if self.price_factor is not None and not self.price_factor > 1:
            raise ValueError(f"price_factor must be above 1, was {self.price_factor}")
        if self.confirmations < 1 or self.most_streams < 1:
            raise ValueError(
                f"confirmations and most_streams must be at least 1, were {self.confirmations} and "
                f"{self.most_streams}"
            )

    def leaves_out(self, name: str) -> bool:
        """Whether events of that kind of problem are left out."""
        return bool(getattr(self, name) == "leave_out")
