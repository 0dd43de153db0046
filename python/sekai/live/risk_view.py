"""What limits are held against: an account, prices, and how old they are."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from sekai.live.broker import BrokerAccount

__all__ = ["RiskView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskView:
    """What is known when orders are checked. All times are in nanoseconds since 1970 in UTC."""

    account: BrokerAccount
    prices: Mapping[str, float]
    """Of each asset the latest that is known, also of those that are halted."""

    bar_time: int
    """What the latest row is stamped with."""

    receive_time: int
    """When it was received."""

    day_equity: float
    """Equity when the day began."""

    peak_equity: float
    """The highest equity so far."""

    previous_prices: Mapping[str, float] = field(default_factory=dict)
    """Those of the row before; an asset that is not named had none."""

    open_units: Mapping[str, tuple[float, float]] | None = None
    """Of each asset: what may still be sold and bought by open orders (`OrderKeeper.open_units`);
    what the broker says of orders that stand if not given."""

    open_orders: int = 0
    """Orders that have not ended."""

    now: int = field(default_factory=time.time_ns)

    def price(self, asset: str) -> float:
        """The latest of an asset; NaN if there is none that makes sense."""
        price = self.prices.get(asset, math.nan)
        return price if 0.0 < price < math.inf else math.nan

    def waiting(self, asset: str) -> tuple[float, float]:
        """What may still be sold, as a negative number, and bought by orders that are open."""
        if self.open_units is not None:
            return self.open_units.get(asset, (0.0, 0.0))
        units = self.account.open_units.get(asset, 0.0)
        return min(0.0, units), max(0.0, units)

    def equity(self) -> float:
        """Cash and what is held at the latest prices; NaN if something held has no price."""
        held = ((asset, units) for asset, units in self.account.units.items() if units)
        return self.account.cash + math.fsum(units * self.price(asset) for asset, units in held)
