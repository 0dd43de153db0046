"""The orders that a paper broker has: which wait, which stand, and what they are filled with."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from sekai.data import Bar
from sekai.live.fill_sharing import share_cost, share_units
from sekai.live.orders import Order, OrderReport, OrderState, ReportKind
from sekai.live.paper_account import PaperAccount, PaperFill
from sekai.live.paper_faults import PaperFaults

__all__ = ["PaperOrders"]

REMEMBERED = 10_000
"""Orders that have ended and whose ids are known all the same: a session that runs for years must
not grow."""

_ROUNDING = 1e-12
"""What rounding can leave of an order that was filled, as a share of it."""


@dataclass(slots=True)
class _Taken:
    """An order as the broker has it."""

    order: Order
    due: int
    """The row in which it reaches the market."""

    is_open: bool = True
    is_standing: bool = False
    """Whether it has reached the market and waits there for the rest."""

    reason: str = ""
    """Why the account traded it though nobody asked; empty if somebody did."""

    owes_acknowledgement: bool = False
    filled: float = 0.0
    reports: list[OrderReport] = field(default_factory=list)

    @property
    def rest(self) -> float:
        return self.order.units - self.filled

    def state(self) -> OrderState:
        return OrderState(
            order=self.order,
            filled=self.filled,
            is_open=self.is_open,
            reports=tuple(self.reports),
        )


class PaperOrders:
    """Takes orders, trades them in rows and says what became of them.

    The same calls make the same reports: it draws nothing that its faults do not decide.
    """

    def __init__(self, account: PaperAccount, faults: PaperFaults, delay: int) -> None:
        """Begin with no orders.

        Args:
            account: what trades, at the rules of its market.
            faults: what goes wrong.
            delay: rows that an order waits beyond the next one.
        """
        self.account = account
        self.rows = 0
        self._faults = faults
        self._delay = delay
        self._keeps_rest = account.execution.unfilled == "carry"
        self._taken: dict[str, _Taken] = {}
        self._count = 0
        self._ended: deque[str] = deque()
        self._open: dict[str, _Taken] = {}
        self._own: dict[str, _Taken] = {}
        self._offered = 0
        # Assets in which the account must be told anew what stands.
        self._changed: set[str] = set()
        self._cancels: list[tuple[int, str]] = []

    def __contains__(self, order_id: str) -> bool:
        """Whether an order was taken before."""
        return order_id in self._taken

    def __len__(self) -> int:
        """How many were ever taken."""
        return self._count

    def state(self, order_id: str) -> OrderState | None:
        """All that is known of an order; None if it was never taken."""
        taken = self._taken.get(order_id) or self._own.get(order_id)
        return None if taken is None else taken.state()

    def is_open(self, order_id: str) -> bool:
        """Whether more of an order may be filled."""
        return order_id in self._open

    def open_units(self) -> dict[str, float]:
        """Of each asset: what stands of orders that have reached the market."""
        standing = _by_asset([one for one in self._open.values() if one.is_standing])
        if not standing:
            return {}
        # What the account was told it knows to the bit; the rest it will be told in the next row.
        told = self.account.open_units
        return {
            asset: math.fsum(_rests(group)) if asset in self._changed else told[asset]
            for asset, group in standing.items()
        }

    def take(self, order: Order, time: int) -> list[OrderReport]:
        """Have an order; one whose id was taken before is not taken again."""
        if order.id in self._taken:
            # By their words: NaN, which is no order of anything, is not even equal to itself.
            if repr(self._taken[order.id].order) != repr(order):
                raise ValueError(f"the same id is the same order, found another {order.id!r}")
            return []
        number, self._count = self._count, self._count + 1
        due = self.rows + 1 + self._delay + self._faults.rows_late(number)
        taken = self._taken[order.id] = _Taken(order, due)
        reason = self._flaw(order, number)
        if reason:
            return self._end(taken, "rejected", reason, time)
        self._open[order.id] = taken
        if self._faults.happens("fill_before_acknowledgement", number):
            taken.owes_acknowledgement = True
            return []
        return [_say(taken, "acknowledged", time)]

    def cancel(self, order_id: str, time: int) -> list[OrderReport]:
        """Fill no more of an order; one that is done or unknown is left alone.

        With a delay, it takes the wish as long to get there as it takes an order.
        """
        taken = self._open.get(order_id)
        if taken is None:
            return []
        if self._delay:
            self._cancels.append((self.rows + 1 + self._delay, order_id))
            return []
        if taken.is_standing:
            self._changed.add(taken.order.asset)
        return self._end(taken, "cancelled", "as asked", time)

    def see(self, bar: Bar, time: int) -> list[OrderReport]:
        """Trade in a row what is due; a row that the account refuses changes nothing."""
        row = self.rows + 1
        leaving, groups = self._sorted_for(row)
        offers, partial = self._offers_to_market(groups)
        told = self._changed | partial
        told.update(one.order.asset for one, _ in leaving if one.is_standing)
        told.update(asset for asset, group in groups.items() if not group[0].is_standing)
        fills = self.account.advance(
            bar, {asset: math.fsum(offers.get(asset, ())) for asset in sorted(told)}
        )
        self.rows = row
        self._offered += sum(map(len, groups.values()))
        self._changed = partial
        self._cancels = [(due, order_id) for due, order_id in self._cancels if due > row]
        reports: list[OrderReport] = []
        for one, reason in leaving:
            reports += self._end(one, "cancelled", reason, time)
        for fill in fills:
            reports += self._share_out(fill, groups, offers, time)
        kept = self.account.open_units if self._keeps_rest else {}
        for asset, group in groups.items():
            stands = bool(kept.get(asset)) or (self._keeps_rest and asset in partial)
            reports += self._finish(group, stands, time)
        return reports

    def _sorted_for(self, row: int) -> tuple[list[tuple[_Taken, str]], dict[str, list[_Taken]]]:
        """Which orders leave before a row, and why; and by asset, which are traded in it."""
        leaving: list[tuple[_Taken, str]] = []
        staying = list(self._open.values())
        if self._cancels:
            cancelled = {order_id for due, order_id in self._cancels if due <= row}
            leaving = [(one, "as asked") for one in staying if one.order.id in cancelled]
            staying = [one for one in staying if one.order.id not in cancelled]
        arriving = [one for one in staying if not one.is_standing and one.due <= row]
        newest = {one.order.asset: one.order.id for one in arriving}
        groups = _by_asset(arriving)
        for one in staying:
            if one.is_standing and one.order.asset in newest:
                leaving.append((one, f"replaced by {newest[one.order.asset]}"))
            elif one.is_standing:
                groups.setdefault(one.order.asset, []).append(one)
        return leaving, groups

    def _flaw(self, order: Order, number: int) -> str:
        if order.asset not in self.account.assets:
            return f"there is no asset {order.asset!r} here"
        if not math.isfinite(order.units) or order.units == 0.0:
            return f"units other than 0 were wanted, found {order.units}"
        return "rejected on purpose" if self._faults.happens("reject", number) else ""

    def _offers_to_market(
        self, groups: Mapping[str, list[_Taken]]
    ) -> tuple[dict[str, list[float]], set[str]]:
        """What of each order goes to the market, and the assets where that is not all of it.

        A small rest always does, so that it ends.
        """
        rests = {asset: _rests(group) for asset, group in groups.items()}
        if self._faults.partial_fill == 0.0:
            return rests, set()
        number = itertools.count(self._offered)
        offers = {
            asset: [
                one.rest * (share if abs(one.rest) > 0.01 * abs(one.order.units) else 1.0)
                for one, share in ((one, self._faults.offered(next(number))) for one in group)
            ]
            for asset, group in groups.items()
        }
        return offers, {asset for asset, offered in offers.items() if offered != rests[asset]}

    def _share_out(
        self,
        fill: PaperFill,
        groups: Mapping[str, list[_Taken]],
        offers: dict[str, list[float]],
        time: int,
    ) -> list[OrderReport]:
        group, asked = groups.get(fill.asset, []), offers.get(fill.asset, [])
        if asked == [fill.units] and not fill.is_delisting:
            return self._fill(group[0], fill.units, fill.price, fill.cost, time)
        if fill.is_delisting:
            asked = [0.0] * len(group)
        shares, excess = share_units(fill.units, asked)
        offers[fill.asset] = [units - share for units, share in zip(asked, shares, strict=True)]
        parts = [(one, share) for one, share in zip(group, shares, strict=True) if share]
        if excess:
            parts.append((self._unordered(fill, excess), excess))
        costs = share_cost(fill.cost, [share for _, share in parts])
        reports: list[OrderReport] = []
        for (one, share), cost in zip(parts, costs, strict=True):
            reports += self._fill(one, share, fill.price, cost, time)
        return reports

    def _unordered(self, fill: PaperFill, units: float) -> _Taken:
        """An order in the account's own name, for what it traded though nobody asked."""
        order = Order(
            id=f"account-{self.rows}-{fill.asset}",
            asset=fill.asset,
            units=units,
            reference_price=fill.price,
        )
        reason = "the asset was delisted" if fill.is_delisting else "margin was called"
        taken = self._own[order.id] = _Taken(order, self.rows, is_open=False, reason=reason)
        if len(self._own) > REMEMBERED:
            del self._own[next(iter(self._own))]
        return taken

    def _fill(
        self, one: _Taken, units: float, price: float, cost: float, time: int
    ) -> list[OrderReport]:
        one.filled = one.order.units if units == one.rest else one.filled + units
        report = _say(one, "filled", time, units=units, price=price, cost=cost)
        return [report, *_acknowledge(one, time)]

    def _finish(self, group: list[_Taken], stands: bool, time: int) -> list[OrderReport]:
        reports: list[OrderReport] = []
        for one in group:
            one.is_standing = True
            if one.rest and stands:
                continue
            if abs(one.rest) <= abs(one.order.units) * _ROUNDING:
                self._close(one)
            else:
                reports += self._end(one, "expired", "the rest found no trade", time)
        return reports

    def _close(self, one: _Taken) -> None:
        """Expect no more of an order; of those that ended long ago nothing is remembered."""
        one.is_open = False
        self._open.pop(one.order.id, None)
        self._ended.append(one.order.id)
        while len(self._ended) > REMEMBERED:
            del self._taken[self._ended.popleft()]

    def _end(self, one: _Taken, kind: ReportKind, reason: str, time: int) -> list[OrderReport]:
        self._close(one)
        return [_say(one, kind, time, reason=reason), *_acknowledge(one, time)]


def _by_asset(orders: list[_Taken]) -> dict[str, list[_Taken]]:
    groups: dict[str, list[_Taken]] = {}
    for one in orders:
        groups.setdefault(one.order.asset, []).append(one)
    return groups


def _rests(group: list[_Taken]) -> list[float]:
    return [one.rest for one in group]


def _acknowledge(one: _Taken, time: int) -> list[OrderReport]:
    """The acknowledgement that is still owed, if it is."""
    if not one.owes_acknowledgement:
        return []
    one.owes_acknowledgement = False
    return [_say(one, "acknowledged", time)]


def _say(
    one: _Taken,
    kind: ReportKind,
    time: int,
    *,
    reason: str = "",
    units: float = 0.0,
    price: float = 0.0,
    cost: float = 0.0,
) -> OrderReport:
    report = OrderReport(
        id=f"{one.order.id}:{len(one.reports)}",
        order_id=one.order.id,
        kind=kind,
        units=units,
        price=price,
        cost=cost,
        asset=one.order.asset if one.reason else "",
        reason=reason or one.reason,
        broker_time=time,
    )
    one.reports.append(report)
    return report
