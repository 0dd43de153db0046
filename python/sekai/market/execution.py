"""Execution of portfolio orders: fill price, sizing, delay and participation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from sekai.config.checked import CheckedConfig

__all__ = ["Execution"]


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

    def settings(self) -> dict[str, Any]:
        """Settings for the Rust core."""
        return asdict(self)
