"""What trading and holding a portfolio costs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["Costs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Rates of all costs: shares of the value traded, yearly rates of the value held.

    The defaults are those of a small fund in liquid stocks. None of them is zero by oversight: a
    portfolio that earns nothing after them has earned nothing.
    """

    proportional: float = 0.0005
    """Commission, as a share of the value traded."""

    fixed: float = 0.0
    """Commission for each order that fills at all, in currency."""

    half_spread: float = 0.0005
    """Half of the distance between bid and ask, as a share of the price."""

    impact: float | None = None
    """Cost of size, by the square-root law: this many times the volatility of the last 20 rows
    times the root of (units traded / mean volume of those rows), at most half of the value.
    None is 1 where the data has volumes, and 0 where it has none."""

    borrow: float = 0.01
    """What lenders of assets that are sold short ask, yearly, by calendar days."""

    financing: float = 0.05
    """What lenders of cash ask, yearly, by calendar days."""

    interest: float = 0.0
    """What cash that is not owed to anybody earns, yearly, by calendar days."""

    delisting: float = 0.3
    """What is lost of a position in an asset that is delisted, as a share: about what Shumway
    (1997) found for stocks that were delisted for poor performance."""

    def times(self, multiple: float, has_volume: bool) -> Costs:
        """The same with all that is paid for trading and borrowing multiplied.

        What cash earns and what a delisting takes are no prices of trading, and stay.
        """
        impact = self.settings(has_volume)["impact"] * multiple
        return replace(
            self, proportional=self.proportional * multiple, fixed=self.fixed * multiple,
            half_spread=self.half_spread * multiple, impact=impact, borrow=self.borrow * multiple,
            financing=self.financing * multiple,
        )  # fmt: skip

    def settings(self, has_volume: bool) -> dict[str, Any]:
        """What the Rust core is given."""
        impact = self.impact
        if impact is None:
            impact = 1.0 if has_volume else 0.0
        return {**asdict(self), "impact": impact}
