"""Risk engine: limits, the gate that checks orders against them, and exposure bounds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sekai.config.checked import CheckedConfig
from sekai.config.convert import require_known
from sekai.error import StateError
from sekai.live.account import BrokerAccount, valid_price
from sekai.live.instruments import Instrument, round_orders
from sekai.live.orders import BrokerOrder

__all__ = ["ExposureBounds", "Refusal", "RiskGate", "RiskLimits", "RiskView", "closing_orders"]

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
    """Orders within any 60 seconds, by a clock that does not step; in a replay, of the replayed
    time. A tenth of them is reserved for reductions."""

    price_collar: float | None = 0.2
    """Largest relative difference between an order's reference price and the latest price, between
    the latest price and that of the row before, and between a new price and the median of several
    rows."""

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
    """Number of open orders; as many again are reserved for reductions."""

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
    """Accounts and market at a risk check. Times are in nanoseconds."""

    account: BrokerAccount
    """Account that positions are closed by."""

    other_accounts: tuple[BrokerAccount, ...] = ()
    """Further opinions of the same account, such as that of the ledger: an order has to keep every
    limit in each of them."""

    assets: Collection[str] | None = None
    """Assets of the session. Positions in others are foreign: they have no price and are left out
    of equity and exposure. None if there are no foreign ones."""

    prices: Mapping[str, float]
    """Latest validated price of each asset, halted ones included."""

    suspects: Collection[str] = ()
    """Assets whose latest price is not validated (`PriceValidator`): they are not traded."""

    previous_prices: Mapping[str, float] = field(default_factory=dict)
    """Prices of the row before; assets without one are missing."""

    instruments: Mapping[str, Instrument] = field(default_factory=dict)
    """Instruments of the venue, for their price bands."""

    bar_time: int
    """Timestamp of the last row, since 1970 in UTC."""

    receive_time: int
    """Time of its receipt, since 1970 in UTC."""

    day_equity: float
    """Equity when the day began."""

    peak_equity: float
    """Highest equity so far."""

    open_units: Mapping[str, tuple[float, float]] | None = None
    """Units that open orders may sell and buy by asset (`OrderTracker.open_units`); those of the
    account if not given."""

    open_orders: int = 0
    """Number of open orders."""

    now: int
    """Time of the check by a clock that does not step, such as `Clock.boot_ns`."""

    arrival: int | None = None
    """Receipt of the last row by the clock of `now`; `receive_time` if None."""

    order_time: int | None = None
    """Time by which the order rate is measured: that of the row in a replay; `now` if None."""

    @property
    def accounts(self) -> tuple[BrokerAccount, ...]:
        """All opinions of the account."""
        return (self.account, *self.other_accounts)

    def price(self, asset: str) -> float:
        """Latest price of an asset; NaN if it has no valid one."""
        return valid_price(self.prices.get(asset, math.nan))

    def equity(self) -> float:
        """Smallest equity of all accounts at the latest prices; NaN if one is unknown."""
        equities = [self.equity_of(account) for account in self.accounts]
        return math.nan if any(map(math.isnan, equities)) else min(equities)

    def equity_of(self, account: BrokerAccount) -> float:
        """Equity of an account without foreign positions.

        NaN if a position has no valid price, or if a foreign one is short: a foreign position that
        is left out makes equity smaller than it is, a debt that is left out would make it larger.
        """
        foreign = {asset: units for asset, units in account.units.items() if self.is_foreign(asset)}
        if any(not units >= 0.0 for units in foreign.values()):
            return math.nan
        if foreign:
            own = {asset: units for asset, units in account.units.items() if asset not in foreign}
            account = replace(account, units=own)
        return account.equity(self.prices)

    def is_foreign(self, asset: str) -> bool:
        """Return True if an asset is not of this session."""
        return self.assets is not None and asset not in self.assets

    def open_range(self, asset: str, account: BrokerAccount | None = None) -> tuple[float, float]:
        """Units that open orders may still sell (negative) and buy."""
        if self.open_units is not None:
            return self.open_units.get(asset, (0.0, 0.0))
        units = (account or self.account).open_units.get(asset, 0.0)
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

    They keep it in every account of the view: in that of the venue, which may lag behind fills, and
    in that of the ledger, which may miss some.

    Orders that reduce a position in every account are never refused because of position, leverage
    or loss limits. They are refused by the price collar, because a wrong price makes a wrong order
    in either direction; by staleness, because the market is unknown; and by the rate and number of
    reductions, because a policy that buys and sells in a loop reduces with every other order.

    Args:
        limits: the limits; defaults if not given.
    """

    def __init__(self, limits: RiskLimits | None = None) -> None:
        self.limits = limits or RiskLimits()
        self._times: deque[int] = deque()
        self._now = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.limits!r})"

    def check(
        self,
        orders: Sequence[BrokerOrder],
        view: RiskView,
        *,
        reducing: bool = False,
    ) -> tuple[list[BrokerOrder], list[Refusal]]:
        """Split orders into those that may be sent and those that are refused.

        Args:
            orders: orders of the policy.
            view: accounts and market.
            reducing: True if only reductions may pass, within all limits.
        """
        refusals: list[Refusal] = []
        valid: list[BrokerOrder] = []
        sizes: dict[str, float] = {}
        for order in orders:
            size = abs(order.units) + sizes.get(order.asset, 0.0)
            refusal = self._check_order(order, size, view)
            if refusal is None:
                sizes[order.asset] = size
                valid.append(order)
            else:
                refusals.append(refusal)
        allowed: list[BrokerOrder] = []
        order_time = view.now if view.order_time is None else view.order_time
        self._forget_old(order_time)
        bounds = [ExposureBounds(view, valid, account) for account in view.accounts]
        for order in valid:
            is_reduction = all(bound.is_reduction(order) for bound in bounds)
            refusal = self._check_rate(order, view.open_orders + len(allowed), is_reduction)
            if refusal is None and not is_reduction:
                refusal = self._check_exposure(order, bounds, view, reducing)
            if refusal is None:
                for bound in bounds:
                    bound.add(order)
                allowed.append(order)
                self._times.append(self._now)
            else:
                refusals.append(refusal)
        return allowed, refusals

    def count(self, time: int, orders: int = 1) -> None:
        """Count orders towards the rate, such as those sent before a restart, oldest first."""
        if time >= self._now:
            self._forget_old(time)
        self._times.extend([time] * orders)

    def order_times(self) -> list[int]:
        """Times of the orders that count towards the rate, by the clock of the views."""
        return list(self._times)

    def state_dict(self) -> dict[str, Any]:
        """State of the order rate, from which `load_state_dict` continues."""
        return {"now": self._now, "times": self.order_times()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the order rate from a saved state; a refused one changes nothing."""
        try:
            times = deque(map(int, state["times"]))
            now = int(state["now"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"not the state of a risk gate: {error!r}") from error
        self._times, self._now = times, now

    def _forget_old(self, now: int) -> None:
        """Forget orders of more than a minute ago."""
        if now < self._now:
            # The clock stepped back, or is that of another boot: orders keep their age.
            self._times = deque(time + now - self._now for time in self._times)
        self._now = now
        # In order of counting, so that one that was counted late may stay a little longer.
        while self._times and now - self._times[0] >= _MINUTE:
            self._times.popleft()

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
        age = (view.now - (view.receive_time if view.arrival is None else view.arrival)) / _SECOND
        # A negative age is an unknown one: the clock stepped.
        if limit is not None and not 0.0 <= age <= limit:
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
        instrument = view.instruments.get(order.asset)
        if instrument is not None and not (
            instrument.has_price(price) and instrument.has_price(reference)
        ):
            return Refusal(
                order, "order", f"price {reference} is outside the band of the venue: {instrument}"
            )
        collar = self.limits.price_collar
        if collar is None:
            return None
        if order.asset in view.suspects:
            return Refusal(
                order, "price_collar", f"the latest price of {order.asset} is not validated yet"
            )
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
        self, order: BrokerOrder, open_orders: int, is_reduction: bool
    ) -> Refusal | None:
        limit = self.limits.max_open_orders
        # Twice as many for reductions: orders that never end must not lock positions in.
        if limit is not None and open_orders >= limit * (2 if is_reduction else 1):
            return Refusal(
                order, "max_open_orders", f"{open_orders} orders are open, limit {limit}"
            )
        rate = self.limits.max_orders_per_minute
        if rate is not None and len(self._times) >= rate - (0 if is_reduction else rate // 10):
            return Refusal(
                order,
                "max_orders_per_minute",
                f"{len(self._times)} orders were sent within a minute, limit {rate}",
            )
        return None

    def _check_exposure(
        self,
        order: BrokerOrder,
        bounds: Sequence[ExposureBounds],
        view: RiskView,
        only_reductions: bool,
    ) -> Refusal | None:
        """Check limits of an order that is no reduction, with those that are allowed already."""
        if only_reductions:
            return Refusal(order, "order", "only reductions are sent, see the session state")
        for bound in bounds:
            refusal = self._check_loss(order, view, bound) or self._check_position(order, bound)
            if refusal is not None:
                return refusal
        return None

    def _check_loss(
        self, order: BrokerOrder, view: RiskView, bounds: ExposureBounds
    ) -> Refusal | None:
        pairs = (
            ("max_daily_loss", view.day_equity, "at the start of the day"),
            ("max_drawdown", view.peak_equity, "at the peak"),
        )
        equity = bounds.equity
        for name, base, when in pairs:
            limit = getattr(self.limits, name)
            # Negated, so that an unknown equity (NaN) is refused.
            if limit is not None and not equity >= base * (1.0 - limit):
                reason = f"equity {equity:g}, {base:g} {when}, limit {limit:.1%} loss"
                return Refusal(order, name, bounds.unknown_equity() or reason)
        return None

    def _check_position(self, order: BrokerOrder, bounds: ExposureBounds) -> Refusal | None:
        pairs = (
            ("max_position_weight", bounds.weight_with, f"position in {order.asset}"),
            ("max_gross_leverage", bounds.leverage_with, "gross exposure"),
        )
        for name, value_with, quantity in pairs:
            limit = getattr(self.limits, name)
            if limit is not None and not (value := value_with(order)) <= limit:
                reason = f"{quantity} could reach {value:.3f} of equity, limit {limit:.3f}"
                return Refusal(order, name, bounds.unknown_equity() or reason)
        return None


class ExposureBounds:
    """Bounds on positions and equity over every subset of the open orders filled.

    Args:
        view: prices and open orders.
        orders: orders that may be added; equity includes their worst loss against the latest
            price.
        account: one of the accounts of the view; the first if not given.
    """

    def __init__(
        self,
        view: RiskView,
        orders: Collection[BrokerOrder],
        account: BrokerAccount | None = None,
    ) -> None:
        account = account or view.account
        self._view, self._account = view, account
        units = {asset: held for asset, held in account.units.items() if not view.is_foreign(asset)}
        waiting = account.open_units if view.open_units is None else view.open_units
        assets = {*units, *waiting, *(order.asset for order in orders)}
        ranges = {asset: view.open_range(asset, account) for asset in assets}
        self._held = {asset: units.get(asset, 0.0) for asset in assets}
        self._low = {asset: self._held[asset] + ranges[asset][0] for asset in assets}
        self._high = {asset: self._held[asset] + ranges[asset][1] for asset in assets}
        self._gross = sum(self._value(asset) for asset in assets)
        self.equity = view.equity_of(account) - sum(_worst_loss(order, view) for order in orders)

    def unknown_equity(self) -> str:
        """Reason why equity is unknown; empty if it is known."""
        if not math.isnan(self.equity):
            return ""
        unpriced, short = [], []
        for asset, units in sorted(self._account.units.items()):
            if self._view.is_foreign(asset):
                short += [asset] if not units >= 0.0 else []
            elif units and math.isnan(units * self._view.price(asset)):
                unpriced.append(asset)
        reasons = [f"no valid price or position of {unpriced}"] if unpriced else []
        reasons += [f"short positions in foreign assets {short}"] if short else []
        return f"equity is unknown: {' and '.join(reasons) or 'cash is not a number'}"

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


def closing_orders(
    prefix: str,
    units: Mapping[str, float],
    prices: Mapping[str, float],
    limits: RiskLimits,
    instruments: Mapping[str, Instrument],
    most: int,
) -> list[BrokerOrder]:
    """Orders that close positions, each within the order limits, rounded to lots.

    Args:
        prefix: prefix of the order ids; the same prefix gives the same ids.
        units: positions to close.
        prices: last valid prices; an asset without one is closed by units alone.
        limits: bounds on the size of an order.
        instruments: lots and minimum sizes.
        most: largest number of orders; the rest follows when these have ended.
    """
    orders: list[BrokerOrder] = []
    for asset, held in sorted(units.items()):
        price = prices.get(asset, math.nan)
        parts = _order_count(abs(held), price, limits)
        for number in range(min(parts, most - len(orders))):
            # Differences of cumulative shares, so that rounding cannot exceed the position.
            part = held * ((number + 1) / parts) - held * (number / parts)
            orders.append(
                BrokerOrder(
                    id=f"{prefix}-{asset}-{number}",
                    asset=asset,
                    units=-part,
                    reference_price=price if price > 0.0 else 1.0,
                )
            )
    rounded, _ = round_orders(orders, instruments)
    return list(rounded)


def _order_count(units: float, price: float, limits: RiskLimits) -> int:
    caps = [math.inf]
    if limits.max_order_units is not None:
        caps.append(limits.max_order_units)
    if limits.max_order_notional is not None and price > 0.0:
        caps.append(limits.max_order_notional / price)
    # Slightly below the cap, so that rounding cannot exceed it.
    return max(1, math.ceil(units / (min(caps) * (1.0 - 1e-9))))
