"""Orders of a paper broker: matching with rows, fill allocation and execution reports."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sekai.data import Bar
from sekai.live.instruments import Instrument, round_orders
from sekai.live.orders import (
    FILL_TOLERANCE,
    BrokerOrder,
    ExecutionReport,
    OrderState,
    ReportKind,
)
from sekai.live.paper.account import PaperAccount, PaperFill
from sekai.live.paper.faults import PaperFaults

__all__ = ["PaperOrders", "allocate_cost", "allocate_fill"]

MAX_ENDED_ORDERS = 10_000
"""Number of ended orders to keep, so that memory stays bounded."""

SUM_TOLERANCE = 1e-15
"""Rounding of a sum of orders, relative to it."""


@dataclass(slots=True)
class _PaperOrder:
    """Order at the broker."""

    order: BrokerOrder
    due: int
    """Row in which it reaches the market."""

    is_open: bool = True
    is_resting: bool = False
    """True if it has reached the market and waits for the rest of its fill."""

    reason: str = ""
    """Reason of a fill without an order, such as a margin call."""

    owes_acknowledgement: bool = False
    filled: float = 0.0
    reports: list[ExecutionReport] = field(default_factory=list)

    @property
    def remaining(self) -> float:
        return self.order.units - self.filled

    def state(self) -> OrderState:
        return OrderState(
            order=self.order,
            filled=self.filled,
            is_open=self.is_open,
            reports=tuple(self.reports),
        )


class PaperOrders:
    """Order book of a paper broker: accepts orders, fills them in rows, and reports.

    Deterministic: the same calls give the same reports.

    Args:
        account: fills the orders by the rules of its market.
        faults: faults to inject.
        delay: delay of orders in rows.
        instruments: lots and minimum sizes by asset; orders that do not keep them are rejected.
    """

    def __init__(
        self,
        account: PaperAccount,
        faults: PaperFaults,
        delay: int,
        instruments: Mapping[str, Instrument] | None = None,
    ) -> None:
        self.account = account
        self._instruments = instruments or {}
        self.rows = 0
        self._faults = faults
        self._delay = delay
        self._carries = account.execution.unfilled == "carry"
        self._accepted: dict[str, _PaperOrder] = {}
        self._count = 0
        self._ended: deque[str] = deque()
        self._open: dict[str, _PaperOrder] = {}
        self._unordered: dict[str, _PaperOrder] = {}
        self._offered = 0
        # Assets whose carried units in the account are out of date.
        self._changed: set[str] = set()
        self._cancels: list[tuple[int, str]] = []

    def __contains__(self, order_id: str) -> bool:
        """Return True if an order was accepted before."""
        return order_id in self._accepted

    def __len__(self) -> int:
        """Number of orders ever accepted."""
        return self._count

    def state(self, order_id: str) -> OrderState | None:
        """State of an order; None if it is unknown."""
        item = self._accepted.get(order_id) or self._unordered.get(order_id)
        return None if item is None else item.state()

    def is_open(self, order_id: str) -> bool:
        """Return True if more of an order may be filled."""
        return order_id in self._open

    def open_orders(self) -> list[BrokerOrder]:
        """Orders that may still be filled."""
        return [item.order for item in self._open.values()]

    def open_units(self) -> dict[str, float]:
        """Unfilled units of resting orders by asset."""
        resting = _by_asset([item for item in self._open.values() if item.is_resting])
        if not resting:
            return {}
        # The account has them to the bit, except where they changed since the last row.
        carried = self.account.open_units
        return {
            asset: math.fsum(_remaining(group)) if asset in self._changed else carried[asset]
            for asset, group in resting.items()
        }

    def submit(self, order: BrokerOrder, time: int) -> list[ExecutionReport]:
        """Accept an order; one whose id was accepted before has no effect."""
        if order.id in self._accepted:
            # Compared by repr: an invalid order with NaN is not equal to itself.
            if repr(self._accepted[order.id].order) != repr(order):
                raise ValueError(f"order id {order.id!r} is taken by another order")
            return []
        number, self._count = self._count, self._count + 1
        due = self.rows + 1 + self._delay + self._faults.rows_late(number)
        item = self._accepted[order.id] = _PaperOrder(order, due)
        reason = self._reason_to_reject(order, number)
        if reason:
            return self._end(item, "rejected", reason, time)
        self._open[order.id] = item
        if self._faults.happens("fill_before_acknowledgement", number):
            item.owes_acknowledgement = True
            return []
        return [_report(item, "acknowledged", time)]

    def cancel(self, order_id: str, time: int) -> list[ExecutionReport]:
        """Cancel an order; one that has ended or is unknown is ignored.

        A cancellation is delayed by as many rows as an order.
        """
        item = self._open.get(order_id)
        if item is None:
            return []
        if self._delay:
            self._cancels.append((self.rows + 1 + self._delay, order_id))
            return []
        if item.is_resting:
            self._changed.add(item.order.asset)
        return self._end(item, "cancelled", "as requested", time)

    def fill_row(self, bar: Bar, time: int) -> list[ExecutionReport]:
        """Fill due orders in a row; a row that the account refuses changes nothing."""
        row = self.rows + 1
        leaving, groups = self._sorted_for(row)
        offers, partial = self._offers_to_market(groups)
        updated = self._changed | partial
        updated.update(item.order.asset for item, _ in leaving if item.is_resting)
        updated.update(asset for asset, group in groups.items() if not group[0].is_resting)
        fills = self.account.advance(
            bar, {asset: math.fsum(offers.get(asset, ())) for asset in sorted(updated)}
        )
        self.rows = row
        self._offered += sum(map(len, groups.values()))
        self._changed = partial
        self._cancels = [(due, order_id) for due, order_id in self._cancels if due > row]
        reports: list[ExecutionReport] = []
        for item, reason in leaving:
            reports += self._end(item, "cancelled", reason, time)
        for fill in fills:
            reports += self._allocate(fill, groups, offers, time)
        carried = self.account.open_units if self._carries else {}
        for asset, group in groups.items():
            rests = bool(carried.get(asset)) or (self._carries and asset in partial)
            reports += self._finish(group, rests, time)
        return reports

    def state_dict(self) -> dict[str, Any]:
        """State of all orders as plain values, one row for each order."""
        return {
            "rows": self.rows,
            "count": self._count,
            "offered": self._offered,
            "changed": sorted(self._changed),
            "cancels": [list(cancel) for cancel in self._cancels],
            "ended": list(self._ended),
            "accepted": [_order_row(item) for item in self._accepted.values()],
            "unordered": [_order_row(item) for item in self._unordered.values()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; the account has one of its own."""
        self.rows, self._count = state["rows"], state["count"]
        self._offered, self._changed = state["offered"], set(state["changed"])
        self._cancels = [(due, order_id) for due, order_id in state["cancels"]]
        self._ended = deque(state["ended"])
        self._accepted = {row[0][0]: _order_from_row(row) for row in state["accepted"]}
        self._open = {name: item for name, item in self._accepted.items() if item.is_open}
        self._unordered = {row[0][0]: _order_from_row(row) for row in state["unordered"]}

    def _sorted_for(
        self, row: int
    ) -> tuple[list[tuple[_PaperOrder, str]], dict[str, list[_PaperOrder]]]:
        """Orders that leave before a row with the reason, and orders to fill in it by asset."""
        leaving: list[tuple[_PaperOrder, str]] = []
        staying = list(self._open.values())
        if self._cancels:
            cancelled = {order_id for due, order_id in self._cancels if due <= row}
            leaving = [(item, "as requested") for item in staying if item.order.id in cancelled]
            staying = [item for item in staying if item.order.id not in cancelled]
        arriving = [item for item in staying if not item.is_resting and item.due <= row]
        newest = {item.order.asset: item.order.id for item in arriving}
        groups = _by_asset(arriving)
        for item in staying:
            if item.is_resting and item.order.asset in newest:
                leaving.append((item, f"replaced by {newest[item.order.asset]}"))
            elif item.is_resting:
                groups.setdefault(item.order.asset, []).append(item)
        return leaving, groups

    def _reason_to_reject(self, order: BrokerOrder, number: int) -> str:
        if order.asset not in self.account.assets:
            return f"unknown asset {order.asset!r}"
        if not math.isfinite(order.units) or order.units == 0.0:
            return f"units must be finite and not 0, got {order.units}"
        _, residuals = round_orders([order], self._instruments)
        if residuals:
            return f"units {order.units} break the rules of {order.asset}: {residuals[0].text}"
        return "injected fault" if self._faults.happens("reject", number) else ""

    def _offers_to_market(
        self, groups: Mapping[str, list[_PaperOrder]]
    ) -> tuple[dict[str, list[float]], set[str]]:
        """Offered units of each order, and the assets in which a fault withholds a part.

        A small rest is always offered in full, so that orders end.
        """
        remaining = {asset: _remaining(group) for asset, group in groups.items()}
        if self._faults.partial_fill == 0.0:
            return remaining, set()
        number = itertools.count(self._offered)
        offers = {
            asset: [self._offer(item, next(number)) for item in group]
            for asset, group in groups.items()
        }
        return offers, {asset for asset, offered in offers.items() if offered != remaining[asset]}

    def _offer(self, item: _PaperOrder, number: int) -> float:
        share = self._faults.offered(number)
        is_small = abs(item.remaining) <= 0.01 * abs(item.order.units)
        return item.remaining * (1.0 if is_small else share)

    def _allocate(
        self,
        fill: PaperFill,
        groups: Mapping[str, list[_PaperOrder]],
        offers: dict[str, list[float]],
        time: int,
    ) -> list[ExecutionReport]:
        """Allocate a fill of the account to the orders in its asset."""
        group, offered = groups.get(fill.asset, []), offers.get(fill.asset, [])
        if offered == [fill.units] and not fill.is_delisting:
            return self._fill(group[0], fill.units, fill.price, fill.cost, time)
        if fill.is_delisting:
            offered = [0.0] * len(group)
        shares, excess = allocate_fill(fill.units, offered)
        offers[fill.asset] = [units - share for units, share in zip(offered, shares, strict=True)]
        parts = [(item, share) for item, share in zip(group, shares, strict=True) if share]
        if excess:
            parts.append((self._add_unordered(fill, excess), excess))
        costs = allocate_cost(fill.cost, [share for _, share in parts])
        reports: list[ExecutionReport] = []
        for (item, share), cost in zip(parts, costs, strict=True):
            reports += self._fill(item, share, fill.price, cost, time)
        return reports

    def _add_unordered(self, fill: PaperFill, units: float) -> _PaperOrder:
        """Add an order of the account itself, for a margin call or a delisting."""
        order = BrokerOrder(
            id=f"account-{self.rows}-{fill.asset}",
            asset=fill.asset,
            units=units,
            reference_price=fill.price,
        )
        reason = "asset delisted" if fill.is_delisting else "margin call"
        item = _PaperOrder(order, self.rows, is_open=False, reason=reason)
        self._unordered[order.id] = item
        if len(self._unordered) > MAX_ENDED_ORDERS:
            del self._unordered[next(iter(self._unordered))]
        return item

    def _fill(
        self, item: _PaperOrder, units: float, price: float, cost: float, time: int
    ) -> list[ExecutionReport]:
        item.filled = item.order.units if units == item.remaining else item.filled + units
        report = _report(item, "filled", time, units=units, price=price, cost=cost)
        return [report, *_owed_acknowledgement(item, time)]

    def _finish(self, group: list[_PaperOrder], rests: bool, time: int) -> list[ExecutionReport]:
        reports: list[ExecutionReport] = []
        for item in group:
            item.is_resting = True
            if item.remaining and rests:
                continue
            if abs(item.remaining) <= abs(item.order.units) * FILL_TOLERANCE:
                self._close(item)
            else:
                reports += self._end(item, "expired", "remainder not filled", time)
        return reports

    def _close(self, item: _PaperOrder) -> None:
        item.is_open = False
        self._open.pop(item.order.id, None)
        self._ended.append(item.order.id)
        while len(self._ended) > MAX_ENDED_ORDERS:
            del self._accepted[self._ended.popleft()]

    def _end(
        self, item: _PaperOrder, kind: ReportKind, reason: str, time: int
    ) -> list[ExecutionReport]:
        self._close(item)
        return [_report(item, kind, time, reason=reason), *_owed_acknowledgement(item, time)]


def allocate_fill(traded: float, offered: Sequence[float]) -> tuple[list[float], float]:
    """Allocate traded units to orders first come first served; also return the excess.

    The shares and the excess add up to `traded` within half a unit in the last place. Filled
    orders get exactly what they offered. Between buyers and sellers, the smaller side is filled by
    the larger one.

    Args:
        traded: traded units, signed.
        offered: units of each order, signed, oldest first.
    """
    total = math.fsum(offered)
    if traded == 0.0 or traded * total <= 0.0:
        return [0.0] * len(offered), traded
    if abs(traded) >= abs(total):
        excess = traded - total
        return list(offered), excess if abs(excess) > abs(total) * SUM_TOLERANCE else 0.0
    shares = [units if units * total < 0.0 else 0.0 for units in offered]
    for index, units in enumerate(offered):
        if units * total < 0.0:
            continue
        left = math.fsum([traded, *(-share for share in shares)])
        if left * total <= 0.0:
            break
        shares[index] = units if abs(left) >= abs(units) else left
    return shares, 0.0


def allocate_cost(cost: float, units: Sequence[float]) -> list[float]:
    """Allocate a cost to fills in proportion to their size; the shares add up to it."""
    traded = math.fsum(abs(size) for size in units)
    shares = [cost * (abs(size) / traded) for size in units]
    shares[-1] += math.fsum([cost, *(-share for share in shares)])
    return shares


def _order_row(item: _PaperOrder) -> list[Any]:
    order = [getattr(item.order, name) for name in _ORDER_FIELDS]
    reports = [[getattr(report, name) for name in _REPORT_FIELDS] for report in item.reports]
    return [order, reports, *(getattr(item, name) for name in _STATE_FIELDS)]


def _order_from_row(row: Sequence[Any]) -> _PaperOrder:
    fields, reports, *state = row
    order = BrokerOrder(**dict(zip(_ORDER_FIELDS, fields, strict=True)))
    made = [
        ExecutionReport(
            id=f"{order.id}:{number}",
            order_id=order.id,
            **dict(zip(_REPORT_FIELDS, report, strict=True)),
        )
        for number, report in enumerate(reports)
    ]
    return _PaperOrder(order, reports=made, **dict(zip(_STATE_FIELDS, state, strict=True)))


_ORDER_FIELDS = ("id", "asset", "units", "reference_price")
# Ids follow from the order and the number of the report.
_REPORT_FIELDS = ("kind", "units", "price", "cost", "asset", "reason", "broker_time")
_STATE_FIELDS = ("due", "is_open", "is_resting", "reason", "owes_acknowledgement", "filled")


def _by_asset(orders: list[_PaperOrder]) -> dict[str, list[_PaperOrder]]:
    groups: dict[str, list[_PaperOrder]] = {}
    for item in orders:
        groups.setdefault(item.order.asset, []).append(item)
    return groups


def _remaining(group: list[_PaperOrder]) -> list[float]:
    return [item.remaining for item in group]


def _owed_acknowledgement(item: _PaperOrder, time: int) -> list[ExecutionReport]:
    """Acknowledgement that a fault delayed, if there is one."""
    if not item.owes_acknowledgement:
        return []
    item.owes_acknowledgement = False
    return [_report(item, "acknowledged", time)]


def _report(
    item: _PaperOrder,
    kind: ReportKind,
    time: int,
    *,
    reason: str = "",
    units: float = 0.0,
    price: float = 0.0,
    cost: float = 0.0,
) -> ExecutionReport:
    report = ExecutionReport(
        id=f"{item.order.id}:{len(item.reports)}",
        order_id=item.order.id,
        kind=kind,
        units=units,
        price=price,
        cost=cost,
        asset=item.order.asset if item.reason else "",
        reason=reason or item.reason,
        broker_time=time,
    )
    item.reports.append(report)
    return report
