"""What the fills of an order cost."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

__all__ = ["OrderCosts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderCosts:
    """Commission and impact of every fill: `max(value * rate, min_cost)`, 0 if nothing traded."""

    open_cost: float = 0.0
    """The rate of purchases."""

    close_cost: float = 0.0
    """The rate of sales."""

    min_cost: float = 0.0
    """The least that a fill costs."""

    impact_cost: float = 0.0
    """Added to the rate, times the square of the fill's share of what the market trades."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and at least 0, was {value}")
