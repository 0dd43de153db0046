"""Orders of a session: execution reports, the state machine of an order, and the order tracker.

| status | meaning |
|---|---|
| initialized | decided and journaled, not submitted yet |
| pending_new | submitted, not acknowledged |
| accepted | acknowledged by the broker, no fill yet |
| partially_filled | open, with fills |
| pending_cancel | cancellation requested, not confirmed |
| unknown | overdue, and the broker could not say what became of it |
| filled, cancelled, rejected, expired | ended at the broker |
| denied | ended here: the broker does not know it, and it will not be submitted |
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, Literal, get_args

from sekai.live.clock import Clock

__all__ = [
    "FILL_TOLERANCE",
    "FINAL_STATUSES",
    "ORDER_TRANSITIONS",
    "BrokerOrder",
    "ExecutionReport",
    "OrderState",
    "OrderStatus",
    "OrderTracker",
    "ReportKind",
    "TrackedOrder",
    "order_fields",
    "order_from_fields",
    "report_fields",
    "report_from_fields",
]

ReportKind = Literal[
    "acknowledged", "filled", "rejected", "cancelled", "expired", "cancel_rejected"
]
OrderStatus = Literal[
    "initialized",
    "pending_new",
    "accepted",
    "partially_filled",
    "pending_cancel",
    "unknown",
    "filled",
    "cancelled",
    "rejected",
    "expired",
    "denied",
]

FINAL_STATUSES: frozenset[OrderStatus] = frozenset(
    {"filled", "cancelled", "rejected", "expired", "denied"}
)

_AT_BROKER: frozenset[OrderStatus] = frozenset(
    {
        "accepted",
        "partially_filled",
        "pending_cancel",
        "unknown",
        "filled",
        "cancelled",
        "rejected",
        "expired",
    }
)

ORDER_TRANSITIONS: Mapping[OrderStatus, frozenset[OrderStatus]] = {
    "initialized": _AT_BROKER | {"pending_new", "denied"},
    "pending_new": _AT_BROKER | {"denied"},
    "accepted": _AT_BROKER | {"denied"},
    "partially_filled": _AT_BROKER - {"accepted"} | {"denied"},
    "pending_cancel": _AT_BROKER | {"denied"},
    "unknown": _AT_BROKER | {"denied"},
    # A fill that was on its way counts, whatever ended the order; the rest is final.
    "filled": frozenset(),
    "cancelled": frozenset({"filled"}),
    "rejected": frozenset({"filled"}),
    "expired": frozenset({"filled"}),
    "denied": frozenset({"filled"}),
}
"""Statuses that may follow each status; any other change is refused."""

FILL_TOLERANCE = 1e-12
"""Rounding left of an order that is filled, relative to its size."""

SAVED_ORDERS = 1_000
"""Ended orders in a state: reports of older ones are not expected any more."""


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
    """State of one of the session's own orders; see the module for its statuses."""

    order: BrokerOrder
    decided: int = 0
    """Time of the decision in nanoseconds since 1970, by this machine's clock."""

    status: OrderStatus = "initialized"
    since: int = 0
    """Boot time of the last change of the status, or of the last query, in nanoseconds."""

    queries: int = 0
    """Queries of an overdue order since its last change."""

    is_sent: bool = False
    """True if the broker is known to have it; it may have it all the same if False."""

    filled: float = 0.0
    """Filled units, signed as the order."""

    value: float = 0.0
    """Value of the fills without costs, negative for sales."""

    cost: float = 0.0
    reason: str = ""
    report_ids: set[str] = field(default_factory=set)

    @property
    def is_done(self) -> bool:
        """True if the order has ended."""
        return self.status in FINAL_STATUSES

    @property
    def remaining(self) -> float:
        """Units that may still be filled, signed as the order."""
        return 0.0 if self.is_done else self.order.units - self.filled

    @property
    def price(self) -> float:
        """Average fill price; 0 without fills."""
        return self.value / self.filled if self.filled else 0.0


class OrderTracker:
    """Order tracker: state of a session's own orders.

    Every report counts once, in whatever order reports arrive. Orders that ended long ago are
    dropped, so that memory stays bounded.

    Args:
        keep: number of ended orders to keep.
        clock: clock of the deadlines.
    """

    def __init__(self, keep: int = 10_000, clock: Clock | None = None) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.orders: dict[str, TrackedOrder] = {}
        self.dropped = 0
        """Number of ended orders that are no longer kept."""

        self.sent = self.fills = 0
        """Orders received by the broker, and fills, since the session began."""

        self.closing = 0
        """Number of the watchdog's orders that are tracked, since the session began."""

        self.alerts: deque[str] = deque(maxlen=1000)
        """Alerts for operators, oldest first; the reader removes them."""

        self._clock = clock or Clock()
        self._keep = keep
        self._ended: deque[str] = deque()
        self._open: dict[str, TrackedOrder] = {}
        self._unordered: dict[str, None] = {}
        self._unconfirmed: dict[str, None] = {}

    def __getitem__(self, order_id: str) -> TrackedOrder:
        """Tracked order by id."""
        return self.orders[order_id]

    def open_orders(self) -> list[BrokerOrder]:
        """Orders that have not ended."""
        return [tracked.order for tracked in self._open.values()]

    def unresolved(self) -> list[BrokerOrder]:
        """Orders to settle with the broker after a crash or a lost connection.

        Open orders, and orders that ended unfilled since the last `confirm`: their end may have
        been received although an earlier fill was lost.
        """
        return [*self.open_orders(), *(self.orders[name].order for name in self._unconfirmed)]

    def unconfirmed(self) -> list[str]:
        """Ids of orders that ended unfilled since the last `confirm`."""
        return list(self._unconfirmed)

    def confirm(self) -> None:
        """Mark all ended orders as final: the broker told their fills, or its account agrees."""
        self._unconfirmed.clear()

    def open_units(self) -> dict[str, tuple[float, float]]:
        """Units that open orders may still sell and buy, by asset."""
        totals: dict[str, tuple[float, float]] = {}
        for tracked in self._open.values():
            sold, bought = totals.get(tracked.order.asset, (0.0, 0.0))
            units = tracked.remaining
            totals[tracked.order.asset] = (sold + min(0.0, units), bought + max(0.0, units))
        return totals

    def overdue(self, limits: Mapping[OrderStatus, float]) -> list[TrackedOrder]:
        """Open orders that have been in their status for longer than its limit in seconds."""
        if not self._open:
            return []
        now = self._clock.boot_ns()
        return [
            tracked
            for tracked in self._open.values()
            if now - tracked.since > 1e9 * limits.get(tracked.status, math.inf)
        ]

    def note_query(self, tracked: TrackedOrder) -> None:
        """Begin the deadline of an order anew, after the broker was asked about it."""
        tracked.queries += 1
        tracked.since = self._clock.boot_ns()

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
            tracked = TrackedOrder(order, decided, since=self._clock.boot_ns())
            self.orders[order.id] = self._open[order.id] = tracked
        elif known.order != order:
            raise ValueError(f"order id {order.id!r} is taken by another order; ids must be unique")

    def intend_closing(self, order: BrokerOrder, decided: int = 0) -> None:
        """Track an order that the watchdog submits."""
        self.closing += 1
        self.intend(order, decided)
        self.submit(order.id)

    def submit(self, order_id: str) -> None:
        """Mark an order as submitted: from now on the broker may have it."""
        tracked = self.orders[order_id]
        if tracked.status == "initialized":
            self._change(tracked, "pending_new")

    def send(self, order_id: str) -> None:
        """Mark an order as received by the broker."""
        tracked = self.orders[order_id]
        self.sent += not tracked.is_sent
        tracked.is_sent = True
        self.submit(order_id)

    def cancel(self, order_id: str) -> None:
        """Mark an order as requested to cancel."""
        tracked = self.orders[order_id]
        if not tracked.is_done and tracked.status != "pending_cancel":
            self._change(tracked, "pending_cancel")

    def deny(self, order_id: str, reason: str) -> None:
        """End an order that the broker does not know and that will not be submitted."""
        tracked = self.orders[order_id]
        if not tracked.is_done:
            self._end(tracked, "denied", reason)

    def mark_unknown(self, order_id: str, reason: str) -> bool:
        """Mark an open order whose state the broker could not tell; return True if it is new."""
        tracked = self.orders[order_id]
        if tracked.is_done or tracked.status == "unknown":
            return False
        tracked.reason = reason
        self._change(tracked, "unknown")
        return True

    def resolve(self, state: OrderState) -> bool:
        """Take over the broker's state of an order; return True if its reports did not explain it.

        Call it after the reports of `state` were applied. Fills without a report cannot be booked:
        they appear as a difference of the account.
        """
        tracked = self.orders[state.order.id]
        if tracked.is_done:
            return False
        missing = abs(state.filled - tracked.filled) > FILL_TOLERANCE * abs(tracked.order.units)
        if not state.is_open:
            self._alert_order(tracked, f"closed at the broker with {state.filled} filled")
            self._end(tracked, "cancelled", "closed at the broker without a report")
            return True
        if missing:
            self._alert_order(tracked, f"filled {state.filled} at the broker, reports lack fills")
        if tracked.status in ("pending_new", "initialized", "unknown"):
            self._change(tracked, "partially_filled" if tracked.filled else "accepted")
        return missing

    def apply(self, report: ExecutionReport) -> bool:
        """Apply an execution report; return True if it was new."""
        tracked = self.orders.get(report.order_id)
        if tracked is None:
            return self._apply_unordered(report)
        if report.id in tracked.report_ids:
            return False
        tracked.report_ids.add(report.id)
        self.sent += not tracked.is_sent
        tracked.is_sent = True
        if tracked.status == "denied":
            self._alert(f"{report.kind} report {report.id} of a denied order", report)
        if report.kind not in get_args(ReportKind) or not _is_sound(report):
            # Neither an end nor a fill that can be booked: the broker is asked.
            self._alert(f"unusable report of kind {report.kind!r}", report)
            self.mark_unknown(report.order_id, f"unusable report of kind {report.kind!r}")
        elif report.kind == "filled":
            self._fill(tracked, report)
        elif not tracked.is_done:
            self._follow(tracked, report)
        return True

    def replay(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Apply a journal record; kinds that are not about orders are ignored."""
        if kind == "order":
            self.intend_closing(order_from_fields(fields))
        elif kind == "report":
            self.apply(report_from_fields(fields))
        elif kind in ("sent", "cancel", "denied") and fields["id"] in self.orders:
            if kind == "sent":
                self.send(fields["id"])
            elif kind == "cancel":
                self.cancel(fields["id"])
            else:
                self.deny(fields["id"], fields["reason"])

    def state_dict(self) -> dict[str, Any]:
        """State with all open and unconfirmed orders, and the last ended ones."""
        kept = {*self._open, *self._unconfirmed, *islice(reversed(self._ended), SAVED_ORDERS)}
        return {
            "orders": [_saved(self.orders[name]) for name in self.orders if name in kept],
            "ended": [name for name in self._ended if name in kept],
            "unconfirmed": list(self._unconfirmed),
            "unordered": list(self._unordered)[-SAVED_ORDERS:],
            "counts": [self.sent, self.fills, self.closing, len(self._ended) + self.dropped],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; deadlines begin anew."""
        now = self._clock.boot_ns()
        self.orders = {}
        for values in state["orders"]:
            order = order_from_fields(values["order"])
            rest = {name: values[name] for name in _SAVED_FIELDS}
            self.orders[order.id] = TrackedOrder(
                order, since=now, report_ids=set(values["report_ids"]), **rest
            )
        self._open = {name: item for name, item in self.orders.items() if not item.is_done}
        self._ended = deque(state["ended"])
        self._unconfirmed = dict.fromkeys(state["unconfirmed"])
        self._unordered = dict.fromkeys(state["unordered"])
        self.sent, self.fills, self.closing, ended = state["counts"]
        self.dropped = ended - len(self._ended)

    def _follow(self, tracked: TrackedOrder, report: ExecutionReport) -> None:
        """Apply a report other than a fill to an open order."""
        if report.kind == "acknowledged":
            if tracked.status in ("initialized", "pending_new", "unknown"):
                self._change(tracked, "accepted")
        elif report.kind == "cancel_rejected":
            self._alert("cancellation rejected", report)
            self._change(tracked, "partially_filled" if tracked.filled else "accepted")
        elif report.kind != "filled":
            self._end(tracked, report.kind, report.reason)

    def _apply_unordered(self, report: ExecutionReport) -> bool:
        """Count a fill that no order asked for, such as a margin call; alert on any other."""
        if report.id in self._unordered:
            return False
        self._unordered[report.id] = None
        while len(self._unordered) > self._keep:
            del self._unordered[next(iter(self._unordered))]
        self._alert(f"{report.kind} report {report.id} of an unknown order", report)
        if report.kind == "filled" and report.asset and _is_sound(report):
            self.fills += 1
            return True
        return False

    def _fill(self, tracked: TrackedOrder, report: ExecutionReport) -> None:
        ordered = tracked.order.units
        tracked.filled += report.units
        tracked.value += report.units * report.price
        tracked.cost += report.cost
        self.fills += 1
        share = tracked.filled / ordered
        if share >= 1.0 - FILL_TOLERANCE:
            if tracked.is_done:
                tracked.status = "filled"
            else:
                self._end(tracked, "filled", "")
        elif not tracked.is_done and tracked.status != "pending_cancel":
            self._change(tracked, "partially_filled")
        if not -FILL_TOLERANCE <= share <= 1.0 + FILL_TOLERANCE:
            self._alert(f"filled {tracked.filled} of an order of {ordered}", report)

    def _change(self, tracked: TrackedOrder, status: OrderStatus) -> None:
        if status != tracked.status and status not in ORDER_TRANSITIONS[tracked.status]:
            raise RuntimeError(
                f"order {tracked.order.id} cannot become {status} after {tracked.status}"
            )
        tracked.status, tracked.since, tracked.queries = status, self._clock.boot_ns(), 0

    def _end(self, tracked: TrackedOrder, status: OrderStatus, reason: str) -> None:
        self._change(tracked, status)
        tracked.reason = reason
        self._ended.append(tracked.order.id)
        self._open.pop(tracked.order.id, None)
        if status in ("cancelled", "expired"):
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

    def _alert_order(self, tracked: TrackedOrder, problem: str) -> None:
        self.alerts.append(f"order {tracked.order.id} of {tracked.order.units}: {problem}")


def _is_sound(report: ExecutionReport) -> bool:
    """Return True unless a fill has numbers that cannot be booked."""
    numbers = (report.units, report.price, report.cost)
    return report.kind != "filled" or all(map(math.isfinite, numbers))


_SAVED_FIELDS = ("decided", "status", "is_sent", "filled", "value", "cost", "reason")


def _saved(tracked: TrackedOrder) -> dict[str, Any]:
    return {
        "order": order_fields(tracked.order),
        "report_ids": sorted(tracked.report_ids),
        **{name: getattr(tracked, name) for name in _SAVED_FIELDS},
    }


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
