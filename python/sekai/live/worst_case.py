"""The most that can become of an account if any of its orders are filled and any are not."""

from __future__ import annotations

from collections.abc import Collection

from sekai.live.orders import Order
from sekai.live.risk_view import RiskView

__all__ = ["WorstCase"]

_ROUNDING = 1e-12
"""What rounding can leave of a position that was sold, as a share of it."""


class WorstCase:
    """The furthest each position can get, and the least that equity can become."""

    def __init__(self, view: RiskView, orders: Collection[Order]) -> None:
        """Begin with what is held and what stands of earlier orders.

        Args:
            view: the account and its prices.
            orders: all that may be added, at whose reference prices equity is lost at most.
        """
        self._view = view
        units = view.account.units
        waiting = view.account.open_units if view.open_units is None else view.open_units
        assets = {*units, *waiting, *(order.asset for order in orders)}
        self._held = {asset: units.get(asset, 0.0) for asset in assets}
        self._low = {asset: self._held[asset] + view.waiting(asset)[0] for asset in assets}
        self._high = {asset: self._held[asset] + view.waiting(asset)[1] for asset in assets}
        self._gross = sum(self._value(asset) for asset in assets)
        self.equity = view.equity() - sum(_loss(order, view) for order in orders)

    def is_reduction(self, order: Order) -> bool:
        """Whether the position comes nearer to nothing and not past it, whatever else is filled."""
        slack = abs(self._held[order.asset]) * _ROUNDING
        if order.units > 0.0:
            return self._high[order.asset] + order.units <= slack
        return self._low[order.asset] + order.units >= -slack

    def weight_with(self, order: Order) -> float:
        """The position's furthest value on the order's side, as a share of equity."""
        ends = self._high if order.units > 0.0 else self._low
        units = abs(ends[order.asset] + order.units)
        return _share(units * self._view.price(order.asset), self.equity)

    def leverage_with(self, order: Order) -> float:
        """The largest value of all positions together, as a share of equity."""
        low, high = self._ends_with(order)
        value = max(abs(low), abs(high)) * self._view.price(order.asset)
        return _share(self._gross - self._value(order.asset) + value, self.equity)

    def add(self, order: Order) -> None:
        """Count an order that is allowed."""
        before = self._value(order.asset)
        self._low[order.asset], self._high[order.asset] = self._ends_with(order)
        self._gross += self._value(order.asset) - before

    def _ends_with(self, order: Order) -> tuple[float, float]:
        low, high = self._low[order.asset], self._high[order.asset]
        if order.units > 0.0:
            return low, high + order.units
        return low + order.units, high

    def _value(self, asset: str) -> float:
        units = max(abs(self._low[asset]), abs(self._high[asset]))
        return units * self._view.price(asset) if units else 0.0


def _share(value: float, equity: float) -> float:
    return value / equity if equity > 0.0 else float("inf")


def _loss(order: Order, view: RiskView) -> float:
    """What is lost at the latest price if the order is filled at its own."""
    return max(0.0, order.units * (order.reference_price - view.price(order.asset)))
