"""Orders, and what brokers say about them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Order", "OrderReport", "OrderState", "ReportKind"]

ReportKind = Literal["acknowledged", "filled", "rejected", "cancelled", "expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Trade so many units of an asset at the next price that the market gives."""

    id: str
    """The same id is the same order, however often it is sent."""

    asset: str
    units: float
    """Bought if positive, sold if negative; never 0."""

    reference_price: float
    """The last price that was known when it was decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    """What a broker says has become of an order."""

    id: str
    """A report's own id: the same report may come twice, and counts once."""

    order_id: str
    kind: ReportKind
    units: float = 0.0
    """Of a fill: what was traded in it, signed as the order."""

    price: float = 0.0
    cost: float = 0.0
    """Of a fill: commission and all else that was paid for it, in currency."""

    asset: str = ""
    """Of a fill that no order asked for, such as a margin call or a delisting: its asset."""

    reason: str = ""
    broker_time: int = 0
    """By the broker's clock, in nanoseconds."""

    arrival: int = field(default_factory=time.perf_counter_ns, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderState:
    """All that a broker knows of an order."""

    order: Order
    filled: float = 0.0
    """Units, signed as the order."""

    is_open: bool = True
    reports: tuple[OrderReport, ...] = ()
    """Everything it has said about it, in order."""
