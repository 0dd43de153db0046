"""Risk engine: limits, the gate that checks orders against them, and exposure bounds."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sekai.config.checked import CheckedConfig
from sekai.config.convert import require_known
from sekai.live.account import BrokerAccount, valid_price
from sekai.live.orders import BrokerOrder

__all__ = ["ExposureBounds", "Refusal", "RiskGate", "RiskLimits", "RiskView"]

_OFF = "off"
_MINUTE = 60_000_000_000
_SECOND = 1_000_000_000
_POSITION_TOLERANCE = 1e-12
"""Rounding left of a closed position, relative to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskLimits(CheckedConfig):
    """Risk limits checked before an order is sent; None switches a limit off.

    They are a safety net and no part of the strategy: an order over a limit is refused, never
    reduced.
    """

    max_order_units: float | None = 1_000_000.0
    """Units ordered of one asset per decision, purchases and sales added up."""

    max_order_notional: float | None = 1_000_000.0
    """Value ordered of one asset per decision, in currency."""

    max_position_weight: float | None = 1.0
    """Value of one position over equity, for any subset of its orders filled."""

    max_gross_leverage: float | None = 2.0
    """Gross exposure over equity, for any subset of all orders filled: leave room for purchases
    that fill before the sales that pay for them."""

    max_orders_per_minute: int | None = 600
    """Orders within any 60 seconds; in a replay, of the replayed time."""

    price_collar: float | None = 0.2
    """Largest relative difference between an order's reference price and the latest price, and
    between the latest price and that of the row before."""

    max_daily_loss: float | None = 0.05
    """Loss since the day began, over the equity then."""

    max_drawdown: float | None = 0.25
    """Loss from the highest equity, over that equity."""

    max_staleness_seconds: float | None = 10.0
    """Seconds since the last row was received."""

    max_delay_seconds: float | None = None
    """Seconds between the timestamp of a row and its receipt. Off by default, since replayed
    rows are old."""

    max_open_orders: int | None = 100
    """Number of open orders."""

    def __post_init__(self) -> None:
        for name, limit in self._items():
            if limit is not None and not (_is_number(limit) and math.isfinite(limit) and limit > 0):
                raise ValueError(f"{name} must be a number above 0 or None, got {limit!r}")

    def to_dict(self) -> dict[str, Any]:
        """Limits by name for JSON and TOML, with `off` for None."""
        return {name: _OFF if limit is None else limit for name, limit in self._items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RiskLimits:
        """Limits from `to_dict`; missing ones keep their defaults, unknown ones are refused."""
        require_known(cls.__name__, values, [field.name for field in fields(cls)], ())
        return cls(**{name: None if limit == _OFF else limit for name, limit in values.items()})

    def _items(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskView:
    """Account and market at a risk check. Times are in nanoseconds since 1970 in UTC."""

    account: BrokerAccount
    prices: Mapping[str, float]
    """Latest price of each asset, halted ones included."""

    bar_time: int
    """Timestamp of the last row."""

    receive_time: int
    """Time of its receipt."""

    day_equity: float
    """Equity when the day began."""

    peak_equity: float
    """Highest equity so far."""

    previous_prices: Mapping[str, float] = field(default_factory=dict)
    """Prices of the row before; assets without one are missing."""

    open_units: Mapping[str, tuple[float, float]] | None = None
    """Units that open orders may sell and buy by asset (`OrderTracker.open_units`); those of the
    account if not given."""

    open_orders: int = 0
    """Number of open orders."""

    now: int = field(default_factory=time.time_ns)
    order_time: int | None = None
    """Time by which the order rate is measured: that of the row in a replay; `now` if None."""

    def price(self, asset: str) -> float:
        """Latest price of an asset; NaN if it has no valid one."""
        return valid_price(self.prices.get(asset, math.nan))

    def equity(self) -> float:
        """Equity at the latest prices; NaN if a position has no valid price."""
        return self.account.equity(self.prices)

    def open_range(self, asset: str) -> tuple[float, float]:
        """Units that open orders may still sell (negative) and buy."""
        if self.open_units is not None:
            return self.open_units.get(asset, (0.0, 0.0))
        units = self.account.open_units.get(asset, 0.0)
        return min(0.0, units), max(0.0, units)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Order refused by the risk gate."""

    order: BrokerOrder
    limit: str
    """Field of `RiskLimits` that it would break, or `order` if the order is invalid."""

    reason: str


class RiskGate:
    """Pre-trade risk gate: passes orders that keep every limit, whichever of them are filled.

    Orders that reduce a position are never refused because of position, leverage or loss limits.
    They are refused by the price collar, because a wrong price makes a wrong order in either
    direction; by staleness, because the market is unknown; and by the order rate, because a policy
    that buys and sells in a loop reduces with every other order.

    Args:
        limits: the limits; defaults if not given.
    """

    def __init__(self, limits: RiskLimits | None = None) -> None:
        self.limits = limits or RiskLimits()
        self._times: deque[int] = deque()

    def check(
        self, orders: Sequence[BrokerOrder], view: RiskView, *, flattening: bool = False
    ) -> tuple[list[BrokerOrder], list[Refusal]]:
        """Split orders into those that may be sent and those that are refused.

        Args:
            orders: orders of the policy.
            view: account and market.
            flattening: True when all positions are being closed: only reductions pass, without
                limits on the rate, on open orders, and on the sum of orders in an asset.
        """
        refusals: list[Refusal] = []
        valid: list[BrokerOrder] = []
        sizes: dict[str, float] = {}
        for order in orders:
            size = abs(order.units) + (0.0 if flattening else sizes.get(order.asset, 0.0))
            refusal = self._check_order(order, size, view)
            if refusal is None:
                sizes[order.asset] = size
                valid.append(order)
            else:
                refusals.append(refusal)
        allowed: list[BrokerOrder] = []
        order_time = view.now if view.order_time is None else view.order_time
        bounds, sent = ExposureBounds(view, valid), self._recent(order_time)
        for order in valid:
            refusal = None
            if not flattening:
                refusal = self._check_rate(order, view.open_orders, sent, len(allowed))
            refusal = refusal or self._check_exposure(order, bounds, view, flattening)
            if refusal is None:
                bounds.add(order)
                allowed.append(order)
            else:
                refusals.append(refusal)
        self.count(order_time, len(allowed))
        return allowed, refusals

    def count(self, time: int, orders: int = 1) -> None:
        """Count orders towards the rate, such as those sent before a restart."""
        self._times.extend([time] * orders)
        self._recent(time)

    def _recent(self, now: int) -> int:
        """Number of orders in the last minute."""
        while self._times and abs(now - self._times[0]) >= _MINUTE:
            self._times.popleft()
        return len(self._times)

    def _check_order(self, order: BrokerOrder, size: float, view: RiskView) -> Refusal | None:
        """Check limits that do not depend on the account."""
        if not math.isfinite(order.units) or order.units == 0.0:
            return Refusal(order, "order", f"units must be finite and not 0, got {order.units}")
        return (
            self._check_staleness(order, view)
            or self._check_price(order, view)
            or self._check_size(order, size, view)
        )

    def _check_staleness(self, order: BrokerOrder, view: RiskView) -> Refusal | None:
        limit = self.limits.max_staleness_seconds
        age = (view.now - view.receive_time) / _SECOND
        if limit is not None and age > limit:
            return Refusal(
                order, "max_staleness_seconds", f"last row is {age:.1f} s old, limit {limit} s"
            )
        limit = self.limits.max_delay_seconds
        delay = (view.receive_time - view.bar_time) / _SECOND
        if limit is not None and delay > limit:
            return Refusal(
                order, "max_delay_seconds", f"rows are delayed by {delay:.1f} s, limit {limit} s"
            )
        return None

    def _check_price(self, order: BrokerOrder, view: RiskView) -> Refusal | None:
        price, reference = view.price(order.asset), order.reference_price
        if math.isnan(price) or not 0.0 < reference < math.inf:
            return Refusal(order, "order", f"prices must be positive, got {price} and {reference}")
        collar = self.limits.price_collar
        if collar is None:
            return None
        previous = view.previous_prices.get(order.asset, price)
        for name, base, value in (("reference", price, reference), ("latest", previous, price)):
            if not abs(value / base - 1.0) <= collar:
                return Refusal(
                    order,
                    "price_collar",
                    f"{name} price {value} is more than {collar:.1%} from {base}",
                )
        return None

    def _check_size(self, order: BrokerOrder, size: float, view: RiskView) -> Refusal | None:
        notional = size * max(view.price(order.asset), order.reference_price)
        for name, value in (("max_order_units", size), ("max_order_notional", notional)):
            limit = getattr(self.limits, name)
            if limit is not None and value > limit:
                return Refusal(order, name, f"order of {value:g} of {order.asset}, limit {limit:g}")
        return None

    def _check_rate(
        self, order: BrokerOrder, open_orders: int, sent: int, count: int
    ) -> Refusal | None:
        total, limit = open_orders + count, self.limits.max_open_orders
        if limit is not None and total >= limit:
            return Refusal(order, "max_open_orders", f"{total} orders are open, limit {limit}")
        rate = self.limits.max_orders_per_minute
        if rate is not None and sent + count >= rate:
            return Refusal(
                order, "max_orders_per_minute", f"{rate} orders were sent within a minute"
            )
        return None

    def _check_exposure(
        self, order: BrokerOrder, bounds: ExposureBounds, view: RiskView, flattening: bool
    ) -> Refusal | None:
        """Check limits together with the orders that are allowed already."""
        if bounds.is_reduction(order):
            return None
        if flattening:
            return Refusal(order, "order", "only reductions are sent while positions are closed")
        return self._check_loss(order, view, bounds.equity) or self._check_position(order, bounds)

    def _check_loss(self, order: BrokerOrder, view: RiskView, equity: float) -> Refusal | None:
        pairs = (
            ("max_daily_loss", view.day_equity, "at the start of the day"),
            ("max_drawdown", view.peak_equity, "at the peak"),
        )
        for name, base, when in pairs:
            limit = getattr(self.limits, name)
            # Negated, so that an unknown equity (NaN) is refused.
            if limit is not None and not equity >= base * (1.0 - limit):
                return Refusal(
                    order, name, f"equity {equity:g}, {base:g} {when}, limit {limit:.1%} loss"
                )
        return None

    def _check_position(self, order: BrokerOrder, bounds: ExposureBounds) -> Refusal | None:
        pairs = (
            ("max_position_weight", bounds.weight_with, f"position in {order.asset}"),
            ("max_gross_leverage", bounds.leverage_with, "gross exposure"),
        )
        for name, value_with, quantity in pairs:
            limit = getattr(self.limits, name)
            if limit is not None and not (value := value_with(order)) <= limit:
                return Refusal(
                    order, name, f"{quantity} could reach {value:.3f} of equity, limit {limit:.3f}"
                )
        return None


class ExposureBounds:
    """Bounds on positions and equity over every subset of the open orders filled.

    Args:
        view: account, prices and open orders.
        orders: orders that may be added; equity includes their worst loss against the latest
            price.
    """

    def __init__(self, view: RiskView, orders: Collection[BrokerOrder]) -> None:
        self._view = view
        units = view.account.units
        waiting = view.account.open_units if view.open_units is None else view.open_units
        assets = {*units, *waiting, *(order.asset for order in orders)}
        self._held = {asset: units.get(asset, 0.0) for asset in assets}
        self._low = {asset: self._held[asset] + view.open_range(asset)[0] for asset in assets}
        self._high = {asset: self._held[asset] + view.open_range(asset)[1] for asset in assets}
        self._gross = sum(self._value(asset) for asset in assets)
        self.equity = view.equity() - sum(_worst_loss(order, view) for order in orders)

    def is_reduction(self, order: BrokerOrder) -> bool:
        """Return True if an order moves its position towards 0 and not past it, in every case."""
        slack = abs(self._held[order.asset]) * _POSITION_TOLERANCE
        if order.units > 0.0:
            return self._high[order.asset] + order.units <= slack
        return self._low[order.asset] + order.units >= -slack

    def weight_with(self, order: BrokerOrder) -> float:
        """Largest weight of the position on the order's side."""
        ends = self._high if order.units > 0.0 else self._low
        units = abs(ends[order.asset] + order.units)
        return _share(units * self._view.price(order.asset), self.equity)

    def leverage_with(self, order: BrokerOrder) -> float:
        """Largest gross exposure over equity."""
        low, high = self._ends_with(order)
        value = max(abs(low), abs(high)) * self._view.price(order.asset)
        return _share(self._gross - self._value(order.asset) + value, self.equity)

    def add(self, order: BrokerOrder) -> None:
        """Include an allowed order."""
        before = self._value(order.asset)
        self._low[order.asset], self._high[order.asset] = self._ends_with(order)
        self._gross += self._value(order.asset) - before

    def _ends_with(self, order: BrokerOrder) -> tuple[float, float]:
        low, high = self._low[order.asset], self._high[order.asset]
        if order.units > 0.0:
            return low, high + order.units
        return low + order.units, high

    def _value(self, asset: str) -> float:
        units = max(abs(self._low[asset]), abs(self._high[asset]))
        return units * self._view.price(asset) if units else 0.0


def _share(value: float, equity: float) -> float:
    return value / equity if equity > 0.0 else float("inf")


def _worst_loss(order: BrokerOrder, view: RiskView) -> float:
    """Loss at the latest price if the order fills at its reference price."""
    return max(0.0, order.units * (order.reference_price - view.price(order.asset)))


def _is_number(limit: object) -> bool:
    return isinstance(limit, (int, float)) and not isinstance(limit, bool)
