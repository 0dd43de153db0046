"""Orders, execution reports, and the tracker of a session's own orders."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, Literal

from sekai.live.account import BrokerAccount

__all__ = [
    "FILL_TOLERANCE",
    "BrokerOrder",
    "ExecutionReport",
    "OrderOutcome",
    "OrderState",
    "OrderTracker",
    "ReportKind",
    "TrackedOrder",
    "order_fields",
    "order_from_fields",
    "report_fields",
    "report_from_fields",
]

ReportKind = Literal["acknowledged", "filled", "rejected", "cancelled", "expired"]
OrderOutcome = Literal["filled", "rejected", "cancelled", "expired", "abandoned"]

FILL_TOLERANCE = 1e-12
"""Rounding left of an order that is filled, relative to its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOrder:
    """Market order for a number of units of an asset."""

    id: str
    """Client order id: the same id is the same order, however often it is submitted."""

    asset: str
    units: float
    """Positive to buy, negative to sell; never 0."""

    reference_price: float
    """Last known price at the decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionReport:
    """Execution report of a broker: acknowledgement, fill or end of an order."""

    id: str
    """Report id: a report may arrive twice and counts once."""

    order_id: str
    kind: ReportKind
    units: float = 0.0
    """Filled units, signed as the order."""

    price: float = 0.0
    cost: float = 0.0
    """Commission and other costs of the fill, in currency."""

    asset: str = ""
    """Asset of a fill that no order asked for, such as a margin call or a delisting."""

    reason: str = ""
    broker_time: int = 0
    """Broker time in nanoseconds."""

    arrival: int = field(default_factory=time.perf_counter_ns, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderState:
    """State of an order at the broker."""

    order: BrokerOrder
    filled: float = 0.0
    """Filled units, signed as the order."""

    is_open: bool = True
    reports: tuple[ExecutionReport, ...] = ()
    """All reports of the order, oldest first."""


@dataclass(slots=True)
class TrackedOrder:
    """State of one of the session's own orders."""

    order: BrokerOrder
    decided: int = 0
    """Time of the decision in nanoseconds since 1970, by this machine's clock."""

    is_sent: bool = False
    """True if the broker is known to have it; it may have it all the same if False."""

    is_acknowledged: bool = False
    cancel_requested: bool = False
    filled: float = 0.0
    """Filled units, signed as the order."""

    value: float = 0.0
    """Value of the fills without costs, negative for sales."""

    cost: float = 0.0
    outcome: OrderOutcome | None = None
    """Final state; None while more fills may come."""

    reason: str = ""
    report_ids: set[str] = field(default_factory=set)

    @property
    def is_done(self) -> bool:
        """True if the order has ended."""
        return self.outcome is not None

    @property
    def state(self) -> str:
        """State of the order in one word, for tables."""
        if self.outcome is not None:
            return self.outcome
        if self.filled:
            return "part filled"
        if self.is_acknowledged:
            return "open"
        return "sent" if self.is_sent else "intended"

    @property
    def remaining(self) -> float:
        """Units that may still be filled, signed as the order."""
        return 0.0 if self.is_done else self.order.units - self.filled

    @property
    def price(self) -> float:
        """Average fill price; 0 without fills."""
        return self.value / self.filled if self.filled else 0.0


class OrderTracker:
    """Order tracker: state of a session's own orders, and the position their fills add up to.

    Every report counts once, in whatever order reports arrive. Orders that ended long ago are
    dropped, so that memory stays bounded.

    Args:
        keep: number of ended orders to keep.
    """

    def __init__(self, keep: int = 10_000) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.units: dict[str, float] = {}
        """Expected positions: those of `rebase` plus all fills since."""

        self.cash = 0.0
        """Expected cash: that of `rebase` less the cost of all fills since."""

        self.holding_costs = 0.0
        """Holding costs of the account at `rebase`."""

        self.orders: dict[str, TrackedOrder] = {}
        self.dropped = 0
        """Number of ended orders that are no longer kept."""

        self.sent = self.fills = 0
        """Orders received by the broker, and fills, since the session began."""

        self.alerts: deque[str] = deque(maxlen=1000)
        """Alerts for operators, oldest first; the reader removes them."""

        self._keep = keep
        self._ended: deque[str] = deque()
        self._open: dict[str, TrackedOrder] = {}
        self._unordered: dict[str, None] = {}
        self._unconfirmed: dict[str, None] = {}

    def __getitem__(self, order_id: str) -> TrackedOrder:
        """Tracked order by id."""
        return self.orders[order_id]

    def rebase(self, account: BrokerAccount) -> None:
        """Take positions and cash from the broker; fills are added from here."""
        self.cash = account.cash
        self.units = dict(account.units)
        self.holding_costs = account.holding_costs

    def open_orders(self) -> list[BrokerOrder]:
        """Orders that have not ended."""
        return [tracked.order for tracked in self._open.values()]

    def unresolved(self) -> list[BrokerOrder]:
        """Orders to settle with the broker after a crash or a lost connection.

        Open orders, and orders that ended unfilled since the last `confirm`: their end may have
        been received although an earlier fill was lost.
        """
        return [*self.open_orders(), *(self.orders[name].order for name in self._unconfirmed)]

    def confirm(self) -> None:
        """Mark all ended orders as final: the broker's account agrees with them."""
        self._unconfirmed.clear()

    def open_units(self) -> dict[str, tuple[float, float]]:
        """Units that open orders may still sell and buy, by asset."""
        totals: dict[str, tuple[float, float]] = {}
        for tracked in self._open.values():
            sold, bought = totals.get(tracked.order.asset, (0.0, 0.0))
            units = tracked.remaining
            totals[tracked.order.asset] = (sold + min(0.0, units), bought + max(0.0, units))
        return totals

    def latest(self, count: int) -> list[TrackedOrder]:
        """Last `count` orders, newest first."""
        return list(islice(reversed(self.orders.values()), count))

    def intend(self, order: BrokerOrder, decided: int = 0) -> None:
        """Track an order before it is submitted; repeating it has no effect.

        Args:
            order: order to be submitted.
            decided: time of the decision in nanoseconds since 1970.
        """
        known = self.orders.get(order.id)
        if known is None:
            self.orders[order.id] = self._open[order.id] = TrackedOrder(order, decided)
        elif known.order != order:
            raise ValueError(f"order id {order.id!r} is taken by another order; ids must be unique")

    def send(self, order_id: str) -> None:
        """Mark an order as received by the broker."""
        tracked = self.orders[order_id]
        self.sent += not tracked.is_sent
        tracked.is_sent = True

    def cancel(self, order_id: str) -> None:
        """Mark an order as requested to cancel."""
        self.orders[order_id].cancel_requested = True

    def abandon(self, order_id: str, reason: str) -> None:
        """End an order that never reached the broker and will not be submitted."""
        tracked = self.orders[order_id]
        if not tracked.is_done:
            self._end(tracked, "abandoned", reason)

    def apply(self, report: ExecutionReport) -> bool:
        """Apply an execution report; return True if it was new."""
        tracked = self.orders.get(report.order_id)
        if tracked is None:
            return self._apply_unordered(report)
        if report.id in tracked.report_ids:
            return False
        tracked.report_ids.add(report.id)
        tracked.is_sent = True
        if tracked.outcome == "abandoned":
            self._alert(f"{report.kind} report {report.id} of an abandoned order", report)
        if report.kind == "acknowledged":
            tracked.is_acknowledged = True
        elif report.kind == "filled":
            self._fill(tracked, report)
        elif not tracked.is_done:
            self._end(tracked, report.kind, report.reason)
        return True

    def replay(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Apply a journal record; kinds that are not about orders are ignored."""
        if kind == "order":
            self.intend(order_from_fields(fields))
        elif kind == "report":
            self.apply(report_from_fields(fields))
        elif kind in ("sent", "cancel", "abandoned") and fields["id"] in self.orders:
            if kind == "sent":
                self.send(fields["id"])
            elif kind == "cancel":
                self.cancel(fields["id"])
            else:
                self.abandon(fields["id"], fields["reason"])

    def _apply_unordered(self, report: ExecutionReport) -> bool:
        """Count a fill that no order asked for, such as a margin call; alert on any other."""
        if report.id in self._unordered:
            return False
        self._unordered[report.id] = None
        while len(self._unordered) > self._keep:
            del self._unordered[next(iter(self._unordered))]
        self._alert(f"{report.kind} report {report.id} of an unknown order", report)
        if report.kind == "filled" and report.asset:
            self._count(report.asset, report)
            return True
        return False

    def _count(self, asset: str, report: ExecutionReport) -> None:
        self.units[asset] = self.units.get(asset, 0.0) + report.units
        self.cash -= report.units * report.price + report.cost
        self.fills += 1

    def _fill(self, tracked: TrackedOrder, report: ExecutionReport) -> None:
        ordered = tracked.order.units
        tracked.filled += report.units
        tracked.value += report.units * report.price
        tracked.cost += report.cost
        self._count(tracked.order.asset, report)
        share = tracked.filled / ordered
        if share >= 1.0 - FILL_TOLERANCE and not tracked.is_done:
            self._end(tracked, "filled", "")
        if not -FILL_TOLERANCE <= share <= 1.0 + FILL_TOLERANCE:
            self._alert(f"filled {tracked.filled} of an order of {ordered}", report)

    def _end(self, tracked: TrackedOrder, outcome: OrderOutcome, reason: str) -> None:
        tracked.outcome = outcome
        tracked.reason = reason
        self._ended.append(tracked.order.id)
        self._open.pop(tracked.order.id, None)
        if outcome in ("cancelled", "expired"):
            self._unconfirmed[tracked.order.id] = None
        while len(self._ended) > self._keep:
            oldest = self._ended.popleft()
            del self.orders[oldest]
            self._unconfirmed.pop(oldest, None)
            self.dropped += 1

    def _alert(self, problem: str, report: ExecutionReport) -> None:
        self.alerts.append(
            f"{problem}: {report.order_id}, {report.units} units at {report.price}"
            + (f" ({report.reason})" if report.reason else "")
        )


_ORDER_FIELDS = tuple(part.name for part in fields(BrokerOrder))
# The arrival differs between processes.
_REPORT_FIELDS = tuple(part.name for part in fields(ExecutionReport) if part.name != "arrival")


def order_fields(order: BrokerOrder) -> dict[str, Any]:
    """Fields of an order, for journals and wire formats."""
    return {name: getattr(order, name) for name in _ORDER_FIELDS}


def order_from_fields(fields: Mapping[str, Any]) -> BrokerOrder:
    """Order from `order_fields`; other fields are ignored."""
    return BrokerOrder(**{name: fields[name] for name in _ORDER_FIELDS})


def report_fields(report: ExecutionReport) -> dict[str, Any]:
    """Fields of a report without its arrival, for journals and wire formats."""
    return {name: getattr(report, name) for name in _REPORT_FIELDS}


def report_from_fields(fields: Mapping[str, Any]) -> ExecutionReport:
    """Execution report from `report_fields`; other fields are ignored."""
    return ExecutionReport(**{name: fields[name] for name in _REPORT_FIELDS})
