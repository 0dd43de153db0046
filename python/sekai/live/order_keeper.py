"""What became of a session's own orders, from what was written and what the broker said."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from sekai.live.accruals import accrued
from sekai.live.broker import BrokerAccount
from sekai.live.journal import Record
from sekai.live.order_records import order_from, report_from
from sekai.live.orders import Order, OrderReport

__all__ = ["KeptOrder", "OrderEnd", "OrderKeeper"]

OrderEnd = Literal["filled", "rejected", "cancelled", "expired", "abandoned"]

_ROUNDING = 1e-12
"""What rounding can leave of an order that was filled, as a share of it."""


@dataclass(slots=True)
class KeptOrder:
    """An order, and all that is known of it."""

    order: Order
    decided: int = 0
    """When, in nanoseconds since 1970 by this machine's clock."""

    is_sent: bool = False
    """Whether the broker took it as far as we know; it may have it though it is not."""

    is_acknowledged: bool = False
    cancel_asked: bool = False
    filled: float = 0.0
    """Units, signed as the order."""

    value: float = 0.0
    """What was paid for them without costs, negative if they were sold."""

    cost: float = 0.0
    end: OrderEnd | None = None
    """How it ended; None while more may come."""

    reason: str = ""
    report_ids: set[str] = field(default_factory=set)

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to be expected of it."""
        return self.end is not None

    @property
    def state(self) -> str:
        """Where it is, in a word."""
        if self.end is not None:
            return self.end
        if self.filled:
            return "part filled"
        if self.is_acknowledged:
            return "open"
        return "sent" if self.is_sent else "intended"

    @property
    def rest(self) -> float:
        """Units that may still be filled, signed as the order."""
        return 0.0 if self.is_done else self.order.units - self.filled

    @property
    def price(self) -> float:
        """What a unit was traded at on average; 0 if none was."""
        return self.value / self.filled if self.filled else 0.0


class OrderKeeper:
    """The book of a session's own orders: every report counts once, in whatever order they come.

    Orders that ended long ago are folded into sums, so that it stays small.
    """

    def __init__(self, keep: int = 10_000) -> None:
        """Begin with nothing.

        Args:
            keep: how many orders that have ended are remembered one by one.
        """
        if keep < 1:
            raise ValueError(f"at least one finished order must be kept, was {keep}")
        self.units: dict[str, float] = {}
        """Of each asset: what is held by all fills since `rebase`."""

        self.cash = 0.0
        """What is left by all fills since `rebase`."""

        self.accrued = 0.0
        """What the broker had taken for holding and borrowing when it was last believed."""

        self.orders: dict[str, KeptOrder] = {}
        self.folded = 0
        """How many orders are remembered in the sums alone."""

        self.fills = 0
        self.alerts: deque[str] = deque(maxlen=1000)
        """What a person should know, oldest first; whoever tells them takes them out."""

        self._keep = keep
        self._ended: deque[str] = deque()
        self._open: dict[str, KeptOrder] = {}
        self._unordered: dict[str, None] = {}
        self._unconfirmed: dict[str, None] = {}

    def __getitem__(self, order_id: str) -> KeptOrder:
        """One order."""
        return self.orders[order_id]

    def rebase(self, account: BrokerAccount) -> None:
        """Believe the broker: what fills add up to is counted from here."""
        self.cash = account.cash
        self.units = dict(account.units)
        self.accrued = accrued(account)

    def open_orders(self) -> list[Order]:
        """The orders that have not ended."""
        return [kept.order for kept in self._open.values()]

    def unresolved(self) -> list[Order]:
        """The orders about which the broker has to be asked after a crash or a lost connection.

        Those that have not ended; and those that ended unfilled since the last `confirm`, since
        their end can be heard though a fill before it was lost.
        """
        return [*self.open_orders(), *(self.orders[name].order for name in self._unconfirmed)]

    def confirm(self) -> None:
        """Trust what was heard of all orders that have ended: the broker's account agrees."""
        self._unconfirmed.clear()

    def open_units(self) -> dict[str, tuple[float, float]]:
        """Of each asset: what may still be sold and bought by orders that have not ended."""
        rests: dict[str, tuple[float, float]] = {}
        for kept in self._open.values():
            sold, bought = rests.get(kept.order.asset, (0.0, 0.0))
            rest = kept.rest
            rests[kept.order.asset] = (sold + min(0.0, rest), bought + max(0.0, rest))
        return rests

    def latest(self, count: int) -> list[KeptOrder]:
        """The last orders that are remembered, newest first."""
        return list(islice(reversed(self.orders.values()), count))

    def intend(self, order: Order, decided: int = 0) -> None:
        """Note an order before it is sent; the same again changes nothing.

        Args:
            order: what will be sent.
            decided: when, in nanoseconds since 1970.
        """
        known = self.orders.get(order.id)
        if known is None:
            self.orders[order.id] = self._open[order.id] = KeptOrder(order, decided)
        elif known.order != order:
            raise ValueError(f"an order of its own for each id was wanted, found two: {order.id!r}")

    def send(self, order_id: str) -> None:
        """Note that the broker took it."""
        self.orders[order_id].is_sent = True

    def cancel(self, order_id: str) -> None:
        """Note that the broker was asked to fill no more of it."""
        self.orders[order_id].cancel_asked = True

    def abandon(self, order_id: str, reason: str) -> None:
        """Note that it never reached the broker and will not be sent again."""
        kept = self.orders[order_id]
        if not kept.is_done:
            self._end(kept, "abandoned", reason)

    def take(self, report: OrderReport) -> bool:
        """Count a report; whether it was new."""
        kept = self.orders.get(report.order_id)
        if kept is None:
            return self._take_unordered(report)
        if report.id in kept.report_ids:
            return False
        kept.report_ids.add(report.id)
        kept.is_sent = True
        if kept.end == "abandoned":
            self._alert(f"{report.kind} report {report.id} of an order that was abandoned", report)
        if report.kind == "acknowledged":
            kept.is_acknowledged = True
        elif report.kind == "filled":
            self._fill(kept, report)
        elif not kept.is_done:
            self._end(kept, report.kind, report.reason)
        return True

    def read(self, records: Iterable[Record]) -> None:
        """Take in what was written before; kinds that are not about orders are passed over."""
        for record in records:
            self._read_one(record.kind, record.fields)

    def _read_one(self, kind: str, fields: Mapping[str, Any]) -> None:
        if kind == "order":
            self.intend(order_from(fields))
        elif kind == "report":
            self.take(report_from(fields))
        elif kind in ("sent", "cancel", "abandoned") and fields["id"] in self.orders:
            if kind == "sent":
                self.send(fields["id"])
            elif kind == "cancel":
                self.cancel(fields["id"])
            else:
                self.abandon(fields["id"], fields["reason"])

    def _take_unordered(self, report: OrderReport) -> bool:
        """Count a fill that the broker says no order asked for; anything else is a riddle."""
        if report.id in self._unordered:
            return False
        self._unordered[report.id] = None
        while len(self._unordered) > self._keep:
            del self._unordered[next(iter(self._unordered))]
        self._alert(f"{report.kind} report {report.id} of an order nobody sent", report)
        if report.kind == "filled" and report.asset:
            self._count(report.asset, report)
            return True
        return False

    def _count(self, asset: str, report: OrderReport) -> None:
        self.units[asset] = self.units.get(asset, 0.0) + report.units
        self.cash -= report.units * report.price + report.cost
        self.fills += 1

    def _fill(self, kept: KeptOrder, report: OrderReport) -> None:
        ordered = kept.order.units
        kept.filled += report.units
        kept.value += report.units * report.price
        kept.cost += report.cost
        self._count(kept.order.asset, report)
        share, slack = kept.filled / ordered, _ROUNDING
        if share >= 1.0 - slack and not kept.is_done:
            self._end(kept, "filled", "")
        if not -slack <= share <= 1.0 + slack:
            self._alert(f"{kept.filled} filled of an order of {ordered}", report)

    def _end(self, kept: KeptOrder, end: OrderEnd, reason: str) -> None:
        kept.end = end
        kept.reason = reason
        self._ended.append(kept.order.id)
        self._open.pop(kept.order.id, None)
        if end in ("cancelled", "expired"):
            self._unconfirmed[kept.order.id] = None
        while len(self._ended) > self._keep:
            oldest = self._ended.popleft()
            del self.orders[oldest]
            self._unconfirmed.pop(oldest, None)
            self.folded += 1

    def _alert(self, what: str, report: OrderReport) -> None:
        self.alerts.append(
            f"{what}: {report.order_id}, {report.units} units at {report.price}"
            + (f" ({report.reason})" if report.reason else "")
        )
