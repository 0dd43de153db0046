"""How a live session is doing: what its process writes and those who watch read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from sekai.live.feed_health import FeedHealth
from sekai.storage.strict_json import parsed

__all__ = ["LatencySummary", "OrderLine", "SessionStatus", "State"]

State = Literal["starting", "trading", "halted", "killed", "stopped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySummary:
    """How long something takes, in milliseconds."""

    count: int = 0
    p50: float = 0.0
    p99: float = 0.0
    p999: float = 0.0
    largest: float = 0.0
    buckets: tuple[tuple[float, int], ...] = ()
    """Upper ends in milliseconds, and how many took no longer: they add up, as Prometheus does."""

    total: float = 0.0
    """All of them together, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLine:
    """An order, for a table."""

    time: str
    id: str
    asset: str
    units: float
    filled: float
    price: float
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """Everything that those who watch are told."""

    session: str
    state: State
    reason: str = ""
    """Why it does not trade, if it does not."""

    updated: str = ""
    """In UTC, ISO 8601 with milliseconds."""

    bars: int = 0
    decisions: int = 0
    orders_sent: int = 0
    orders_refused: int = 0
    fills: int = 0
    equity: float = 0.0
    cash: float = 0.0
    profit: float = 0.0
    """Since the session began."""

    drawdown: float = 0.0
    gross: float = 0.0
    """All positions without their signs, as a share of equity."""

    net: float = 0.0
    """All positions, as a share of equity."""

    costs: Mapping[str, float] = field(default_factory=dict)
    positions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of each asset held: units, price, value, weight."""

    orders: tuple[OrderLine, ...] = ()
    """The latest, newest first; at most 50."""

    equity_times: tuple[str, ...] = ()
    equity_values: tuple[float, ...] = ()
    """The way of equity, thinned to at most 1,000 points."""

    latency: Mapping[str, LatencySummary] = field(default_factory=dict)
    """By name: feed_to_decision; of that, what the broker took to tell of the row, row_to_account;
    decision_to_order, order_to_fill."""

    feed: FeedHealth = field(default_factory=FeedHealth)
    alerts: tuple[str, ...] = ()
    """What a person should know, newest first; at most 50."""

    def to_json(self) -> str:
        """As text."""
        # `asdict` would copy every point of the way of equity: ten times as long, and meanwhile
        # the thread that trades waits.
        words: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        words["orders"] = [_words(order) for order in self.orders]
        words["latency"] = {name: _words(one) for name, one in self.latency.items()}
        words["feed"] = self.feed.to_dict()
        words["costs"] = dict(self.costs)
        words["positions"] = {asset: dict(one) for asset, one in self.positions.items()}
        return json.dumps(words, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> SessionStatus:
        """What `to_json` gave; what cannot be read is a `ValueError`."""
        found: dict[str, Any] = parsed(text)
        try:
            latency = {name: _latency(one) for name, one in found.pop("latency").items()}
            orders = tuple(OrderLine(**one) for one in found.pop("orders"))
            feed = FeedHealth.from_dict(found.pop("feed"))
            rows: dict[str, Any] = {name: tuple(found.pop(name)) for name in _ROWS}
            return cls(latency=latency, orders=orders, feed=feed, **rows, **found)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"the status of a session was wanted, found {text[:80]!r}") from error


_ROWS = ("equity_times", "equity_values", "alerts")


def _words(one: Any) -> dict[str, Any]:
    return {part.name: getattr(one, part.name) for part in fields(one)}


def _latency(found: Mapping[str, Any]) -> LatencySummary:
    buckets = tuple((float(end), int(count)) for end, count in found["buckets"])
    return LatencySummary(**{**found, "buckets": buckets})
