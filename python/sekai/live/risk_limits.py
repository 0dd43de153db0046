"""What a live session may do at most."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["RiskLimits"]

_OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskLimits:
    """Limits that every order is held against before it is sent; None switches one off.

    They are a net under the policy and under mistakes of our own, not a part of the strategy: what
    is over them is refused and never made smaller.
    """

    max_order_units: float | None = 1_000_000.0
    """Units ordered of one asset at a time, bought and sold added up."""

    max_order_notional: float | None = 1_000_000.0
    """The same in currency."""

    max_position_weight: float | None = 1.0
    """Value of one position as a share of equity, were any of the orders in it filled alone."""

    max_gross_leverage: float | None = 2.0
    """Value of all positions, long and short, as a share of equity, were any of the orders filled
    and any not: leave room for purchases that are filled before the sales that shall pay them."""

    max_orders_per_minute: int | None = 600
    """Orders within any 60 seconds."""

    price_collar: float | None = 0.2
    """How far an order's reference price may be from the latest price of its asset, and the latest
    from that of the row before, as a share: beyond it a price is more likely wrong than news."""

    max_daily_loss: float | None = 0.05
    """Loss since the day began, as a share of equity then."""

    max_drawdown: float | None = 0.25
    """Loss since equity was at its highest, as a share of it."""

    max_staleness_seconds: float | None = 10.0
    """Seconds since the latest row was received."""

    max_delay_seconds: float | None = None
    """Seconds between what a row is stamped with and when it was received. Off unless given: rows
    of history are as old as they are."""

    max_open_orders: int | None = 100
    """Orders that have not ended."""

    def __post_init__(self) -> None:
        for name, limit in self._items():
            if limit is not None and not (_is_number(limit) and math.isfinite(limit) and limit > 0):
                raise ValueError(f"{name} must be a number above 0 or None, was {limit!r}")

    def to_dict(self) -> dict[str, Any]:
        """The same by name, fit for JSON and TOML: `off` where there is no limit."""
        return {name: _OFF if limit is None else limit for name, limit in self._items()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> RiskLimits:
        """What `to_dict` gave; what is left out keeps its default, what nobody knows is refused."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(found) - set(known))
        if unknown:
            raise ValueError(f"limits are {', '.join(known)}; found {', '.join(unknown)}")
        return cls(**{name: None if limit == _OFF else limit for name, limit in found.items()})

    def _items(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


def _is_number(limit: object) -> bool:
    return isinstance(limit, (int, float)) and not isinstance(limit, bool)
