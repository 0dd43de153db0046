"""Orders that close every position, each small enough to be let through."""

from __future__ import annotations

import math

from sekai.live.broker import BrokerAccount
from sekai.live.orders import Order
from sekai.live.risk_limits import RiskLimits
from sekai.live.risk_view import RiskView

__all__ = ["flattening_orders"]


def flattening_orders(prefix: str, view: RiskView, limits: RiskLimits) -> list[Order]:
    """What sells all that is held and buys back all that is owed; cancel open orders before.

    Assets without a price are left out: there is nothing to hold their orders against.

    Args:
        prefix: what the ids begin with; the same prefix gives the same ids.
        view: the account and the latest prices.
        limits: how large one order may be.
    """
    orders: list[Order] = []
    for asset, units in sorted(_held(view.account).items()):
        price = view.price(asset)
        if math.isnan(price):
            continue
        parts = _parts(abs(units), price, limits)
        for number in range(parts):
            # Cut at shares of the whole, so that rounding cannot add up past it.
            part = units * ((number + 1) / parts) - units * (number / parts)
            orders.append(
                Order(
                    id=f"{prefix}-{asset}-{number}", asset=asset, units=-part, reference_price=price
                )
            )
    return orders


def _held(account: BrokerAccount) -> dict[str, float]:
    return {asset: units for asset, units in account.units.items() if units}


def _parts(units: float, price: float, limits: RiskLimits) -> int:
    caps = [math.inf]
    if limits.max_order_units is not None:
        caps.append(limits.max_order_units)
    if limits.max_order_notional is not None:
        caps.append(limits.max_order_notional / price)
    # A little below the cap: a part must not be over it by rounding.
    return max(1, math.ceil(units / (min(caps) * (1.0 - 1e-9))))
