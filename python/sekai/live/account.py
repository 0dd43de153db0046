"""Broker account: the one account type, from the broker to risk checks, journal and status page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sekai.market.costs import TRADING_COSTS
from sekai.storage.display import brief_repr

if TYPE_CHECKING:
    from sekai.envs.portfolio.batch import AccountReport

__all__ = ["AccountDifference", "BrokerAccount"]


ROUNDING_UNITS = 1e-12
"""Position that is left of a closed one by rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BrokerAccount:
    """Account as reported by a broker: cash, positions, open orders and costs."""

    __repr__ = brief_repr

    cash: float
    units: Mapping[str, float]
    """Position of each asset in units; assets that are missing are not held."""

    open_units: Mapping[str, float] = field(default_factory=dict)
    """Unfilled units of open orders by asset, signed."""

    costs: Mapping[str, float] = field(default_factory=dict)
    """Total costs so far by kind, named as the fields of `sekai.market.Costs`."""

    row_costs: Mapping[str, float] = field(default_factory=dict)
    """Costs of the last row by kind, where the broker reports them."""

    carried_units: Mapping[str, float] | None = None
    """Part of `open_units` that was already due in the last row, where the broker reports it."""

    row_traded: float = 0.0
    """Value traded in the last row, where the broker reports it."""

    time: int = 0
    """Broker time in nanoseconds."""

    @property
    def holding_costs(self) -> float:
        """Total financing and borrow costs: costs that no fill reports."""
        return sum(paid for kind, paid in self.costs.items() if kind not in TRADING_COSTS)

    @property
    def is_flat(self) -> bool:
        """True if no position is held."""
        return not any(self.units.values())

    def equity(self, prices: Mapping[str, float]) -> float:
        """Cash plus positions at `prices`; NaN if a held asset has no valid price."""
        held = ((asset, units) for asset, units in self.units.items() if units)
        return self.cash + math.fsum(
            units * valid_price(prices.get(asset, math.nan)) for asset, units in held
        )

    def positions(self, prices: Mapping[str, float], equity: float) -> dict[str, dict[str, float]]:
        """Units, price, value and weight of each held asset that has a price."""
        positions = {}
        for asset, price in prices.items():
            units = self.units.get(asset, 0.0)
            if abs(units) > ROUNDING_UNITS and math.isfinite(price):
                value = units * price
                weight = value / equity if equity > 0 else 0.0
                positions[asset] = {
                    "units": units,
                    "price": price,
                    "value": value,
                    "weight": weight,
                }
        return positions

    def report(self, assets: Sequence[str]) -> AccountReport:
        """Account report for an env that trades `assets`."""
        from sekai.envs.portfolio.batch import AccountReport

        units, carried = self.arrays(assets)
        return AccountReport(
            cash=self.cash,
            units=units,
            open_units=carried,
            costs=self.row_costs,
            traded=self.row_traded,
        )

    def arrays(self, assets: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positions and carried units in the order of `assets`."""
        carried = self.open_units if self.carried_units is None else self.carried_units
        return (
            np.array([self.units.get(asset, 0.0) for asset in assets]),
            np.array([carried.get(asset, 0.0) for asset in assets]),
        )


@dataclass(frozen=True, slots=True)
class AccountDifference:
    """Difference between the expected and the reported account."""

    name: str
    """Asset, or `cash`."""

    expected: float
    reported: float

    def __str__(self) -> str:
        return f"{self.name}: expected {self.expected!r}, the broker reports {self.reported!r}"


def valid_price(price: float) -> float:
    """Return `price` if it is positive and finite, else NaN."""
    return price if 0.0 < price < math.inf else math.nan
