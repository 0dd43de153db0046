"""Cost model of a portfolio: commission, spread, impact, borrow, financing, delisting."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from quant_gym_rs._core import cost_kinds
from sekai.config.checked import CheckedConfig

__all__ = ["COST_FIELDS", "COST_KINDS", "Costs"]

COST_KINDS: tuple[str, ...] = tuple(cost_kinds())
"""Kinds of cost in infos and logs, in the order of the Rust core. Interest earned on cash is a
negative `financing` cost."""

COST_FIELDS: tuple[str, ...] = tuple(
    {"commission": "proportional", "spread": "half_spread"}.get(kind, kind) for kind in COST_KINDS
)
"""Field of `Costs` that sets each of `COST_KINDS`, in the same order."""

NOT_SCALED = ("interest", "delisting")
"""Fields that `Costs.times` leaves: they are not prices of trading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs(CheckedConfig):
    """Cost rates: shares of the value traded, and yearly rates of the value held.

    The defaults are those of a small fund in liquid stocks.
    """

    proportional: float = 0.0005
    """Commission, as a share of the value traded."""

    fixed: float = 0.0
    """Commission for each order that fills at all, in currency."""

    half_spread: float = 0.0005
    """Half of the bid-ask spread, as a share of the price."""

    impact: float | None = None
    """Coefficient of square-root market impact: multiplies the volatility of the last 20 rows
    times the root of (units traded / mean volume of those rows), at most half of the value.
    None is 1 where the data has volumes, and 0 where it has none."""

    borrow: float = 0.01
    """Yearly borrow rate of assets sold short, by calendar days."""

    financing: float = 0.05
    """Yearly interest rate on cash owed, by calendar days."""

    interest: float = 0.0
    """Yearly interest rate on cash held, by calendar days."""

    delisting: float = 0.3
    """Share of a position that is lost when its asset is delisted: about what Shumway (1997) found
    for stocks that were delisted for poor performance."""

    def times(self, multiple: float, has_volume: bool) -> Costs:
        """Costs of trading and borrowing multiplied, for a cost sensitivity analysis.

        Interest on cash held and the loss at a delisting stay as they are.
        """
        rates = self.settings(has_volume).items()
        return replace(
            self, **{name: rate * multiple for name, rate in rates if name not in NOT_SCALED}
        )

    def settings(self, has_volume: bool) -> dict[str, Any]:
        """Settings for the Rust core."""
        default_impact = 1.0 if has_volume else 0.0
        return {**asdict(self), "impact": default_impact if self.impact is None else self.impact}
