"""Execution of portfolio orders: fill price, sizing, delay and participation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from sekai.config.checked import CheckedConfig
from sekai.market.costs import AssetRate, rate_by_asset


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(CheckedConfig):
    """Execution settings: how a decision on a row becomes fills on later rows."""

    fill: Literal["next_open", "next_close"] = "next_open"
    """Fill price in the next row: no order fills at a price that was known at the decision."""

    sizing: Literal["fill", "decision"] = "fill"
    """Prices at which target weights become units. `fill`: those of the fill, so that the weights
    are met. `decision`: the last known at the decision, as in an order to a broker; the weight
    moves with the price until the fill."""

    delay: int = 0
    """Rows of delay beyond the next row."""

    participation: float | None = None
    """Largest share of a row's volume that can be traded; None for no limit."""

    unfilled: Literal["drop", "carry"] = "drop"
    """Unfilled units, because of volume or a halt: `drop` cancels them, `carry` keeps them until
    they fill or another order in the asset replaces them."""

    smallest_trade: float = 1e-6
    """Smallest trade as a share of equity, at the prices of `sizing`, with a tolerance of 1e-12;
    trades that close a position are exempt."""

    lot_size: AssetRate | None = None
    """Units of a lot, one number for all assets or by asset: orders are whole lots. None for
    fractional units. Orders are rounded towards the position held, so that never more is traded
    than wanted and the rest stays in cash; closing a position trades its odd remainder too, and
    reductions under a margin call are rounded up."""

    def settings(self, assets: Sequence[str]) -> dict[str, Any]:
        """Settings for the Rust core with these assets."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.lot_size is not None:
            values["lot_size"] = rate_by_asset("lot_size", self.lot_size, assets)
        return values
