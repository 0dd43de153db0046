"""Hold orders against limits before they are sent."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from sekai.live.orders import Order
from sekai.live.risk_limits import RiskLimits
from sekai.live.risk_view import RiskView
from sekai.live.worst_case import WorstCase

__all__ = ["Refusal", "RiskGate"]

_MINUTE = 60_000_000_000
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """An order that must not be sent."""

    order: Order
    limit: str
    """The field of `RiskLimits` that it would break, or `order` if it makes no sense."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Breach:
    limit: str
    reason: str


class RiskGate:
    """Lets through what keeps every limit, whichever of the orders are filled.

    What brings a position nearer to nothing, and not past it, is never refused because of
    position, leverage or loss: those limits exist to get there. It is refused by the collar,
    because a wrong price makes a wrong order in either direction; by staleness, because nobody
    knows what a market is doing that is not seen; and by the rate, because a policy that sells and
    buys in a loop reduces with every other order.
    """

    def __init__(self, limits: RiskLimits | None = None) -> None:
        """Begin with no order counted.

        Args:
            limits: what is allowed at most; the defaults if not given.
        """
        self.limits = limits or RiskLimits()
        self._times: deque[int] = deque()

    def check(
        self, orders: Sequence[Order], view: RiskView, *, flattening: bool = False
    ) -> tuple[list[Order], list[Refusal]]:
        """What may be sent, in the order given, and what must not be.

        Args:
            orders: what the policy wants.
            view: the account and the market now.
            flattening: a kill switch or a shutdown closes positions: no limit on the rate, on how
                many are open, or on what all orders in an asset add up to, but only reductions.
        """
        refusals: list[Refusal] = []
        fit: list[Order] = []
        sizes: dict[str, float] = {}
        for order in orders:
            size = abs(order.units) + (0.0 if flattening else sizes.get(order.asset, 0.0))
            breach = self._unfit(order, size, view)
            if breach is None:
                sizes[order.asset] = size
                fit.append(order)
            else:
                refusals.append(Refusal(order, breach.limit, breach.reason))
        allowed: list[Order] = []
        worst, sent = WorstCase(view, fit), self._recent(view.now)
        for order in fit:
            crowd = None if flattening else self._crowded(view.open_orders, sent, len(allowed))
            breach = crowd or self._too_much(order, worst, view, flattening)
            if breach is None:
                worst.add(order)
                allowed.append(order)
            else:
                refusals.append(Refusal(order, breach.limit, breach.reason))
        self.count(view.now, len(allowed))
        return allowed, refusals

    def halt(self, view: RiskView) -> str | None:
        """Why nothing new may be begun at all; None if it may."""
        breach = self._old(view) or self._lost(view, view.equity())
        return None if breach is None else breach.reason

    def count(self, time: int, orders: int = 1) -> None:
        """Count orders towards the rate, such as those that were sent before a restart."""
        self._times.extend([time] * orders)
        self._recent(time)

    def _recent(self, now: int) -> int:
        """Orders within a minute; what is further away is forgotten."""
        while self._times and abs(now - self._times[0]) >= _MINUTE:
            self._times.popleft()
        return len(self._times)

    def _unfit(self, order: Order, size: float, view: RiskView) -> _Breach | None:
        """What is wrong with an order, whatever the account has."""
        if not math.isfinite(order.units) or order.units == 0.0:
            return _Breach("order", f"units other than 0 were wanted, found {order.units}")
        return self._old(view) or self._off_price(order, view) or self._too_large(order, size, view)

    def _old(self, view: RiskView) -> _Breach | None:
        pairs = (
            ("max_staleness_seconds", view.now - view.receive_time, "the latest row came"),
            ("max_delay_seconds", view.receive_time - view.bar_time, "rows come late by"),
        )
        for name, age, what in pairs:
            limit = getattr(self.limits, name)
            if limit is not None and age > limit * _SECOND:
                text = f"{what} {age / _SECOND:.1f} s" + (" ago" if "latest" in what else "")
                return _Breach(name, f"{text}, {limit} s is allowed")
        return None

    def _off_price(self, order: Order, view: RiskView) -> _Breach | None:
        price, reference = view.price(order.asset), order.reference_price
        if math.isnan(price) or not 0.0 < reference < math.inf:
            return _Breach("order", f"prices above 0 were wanted, found {price} and {reference}")
        collar = self.limits.price_collar
        if collar is None:
            return None
        previous = view.previous_prices.get(order.asset, price)
        for what, base, found in (("reference", price, reference), ("latest", previous, price)):
            if not abs(found / base - 1.0) <= collar:
                return _Breach(
                    "price_collar",
                    f"the {what} price {found} is more than {collar:.1%} away from {base}",
                )
        return None

    def _too_large(self, order: Order, size: float, view: RiskView) -> _Breach | None:
        notional = size * max(view.price(order.asset), order.reference_price)
        for name, found in (("max_order_units", size), ("max_order_notional", notional)):
            limit = getattr(self.limits, name)
            if limit is not None and found > limit:
                return _Breach(name, f"{found:g} of {order.asset} ordered, {limit:g} is allowed")
        return None

    def _too_much(
        self, order: Order, worst: WorstCase, view: RiskView, flattening: bool
    ) -> _Breach | None:
        """What an order would break together with those that are allowed already."""
        if worst.is_reduction(order):
            return None
        if flattening:
            return _Breach("order", "only what closes positions is sent while they are closed")
        return self._lost(view, worst.equity) or self._exposed(order, worst)

    def _crowded(self, open_orders: int, sent: int, count: int) -> _Breach | None:
        opened, open_limit = open_orders + count, self.limits.max_open_orders
        if open_limit is not None and opened >= open_limit:
            return _Breach("max_open_orders", f"{opened} orders are open, {open_limit} may be")
        rate = self.limits.max_orders_per_minute
        if rate is not None and sent + count >= rate:
            return _Breach("max_orders_per_minute", f"{rate} orders were sent within a minute")
        return None

    def _lost(self, view: RiskView, equity: float) -> _Breach | None:
        pairs = (
            ("max_daily_loss", view.day_equity, "since the day began"),
            ("max_drawdown", view.peak_equity, "from the highest equity"),
        )
        for name, base, what in pairs:
            limit = getattr(self.limits, name)
            # Written so that an equity that nobody knows is a loss.
            if limit is not None and not equity >= base * (1.0 - limit):
                return _Breach(
                    name, f"{equity:g} is left of {base:g} {what}: over {limit:.1%} lost"
                )
        return None

    def _exposed(self, order: Order, worst: WorstCase) -> _Breach | None:
        pairs = (
            ("max_position_weight", worst.weight_with, f"the position in {order.asset}"),
            ("max_gross_leverage", worst.leverage_with, "all positions"),
        )
        for name, value_with, what in pairs:
            limit = getattr(self.limits, name)
            if limit is not None and not (found := value_with(order)) <= limit:
                return _Breach(
                    name, f"{what} could be {found:.3f} of equity, {limit:.3f} is allowed"
                )
        return None
