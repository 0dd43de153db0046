"""How an episode of `OrderExecution` is drawn, matched, shown and rewarded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sekai.compose.interpreter import ActionInterpreter, StateInterpreter
from sekai.compose.orders.costs import OrderCosts
from sekai.compose.orders.day_source import OrderData
from sekai.compose.orders.order import Order
from sekai.compose.orders.simulated_minutes import SimulatedMinutes
from sekai.compose.reward import Reward

__all__ = ["OrderExecutionConfig"]

STATES = ("full_history", "current_step", "dummy")
ACTIONS = ("categorical", "twap_relative")
REWARDS = ("shortfall", "pa_penalty", "ppo")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderExecutionConfig:
    """How an episode of `OrderExecution` is drawn, matched, shown and rewarded."""

    data: OrderData | None = None
    """Source of ticks: a panel, a frame of minutes, the folder of a `TickStore` or anything that
    has days; None for simulated minutes."""

    simulated: SimulatedMinutes = field(default_factory=SimulatedMinutes)
    """What made-up minutes are like."""

    orders: Sequence[Order] | None = None
    """Orders of which each episode draws one; None to draw everything about them."""

    assets: Sequence[str] | None = None
    """Which assets orders are drawn for; None for all that the data names."""

    days: Sequence[Any] | None = None
    """Which days; None for all that the data names."""

    amount: tuple[float, float] = (1_000.0, 20_000.0)
    """The least and the largest amount that is drawn."""

    direction: Literal["buy", "sell"] | None = None
    """Which way orders go; None to draw it."""

    order_steps: int = 6
    """How many steps an order has that is drawn, or the most that one has that is given."""

    ticks_per_step: int = 30
    """How many ticks a step has."""

    deal_price_type: str = "close"
    """`close`, `bid_or_ask` or `bid_or_ask_fill`."""

    vol_threshold: float | None = None
    """The most that is filled in a tick, as a share of its volume."""

    costs: OrderCosts = field(default_factory=OrderCosts)
    """What fills cost."""

    state: str | StateInterpreter[Any, Any] = "full_history"
    """What is shown: `full_history`, `current_step`, `dummy`, or an interpreter."""

    columns: tuple[str, ...] = ("$close", "$volume")
    """What `full_history` shows of ticks, relative to the day's first."""

    day_ticks: int = 240
    """How many ticks of a day `full_history` shows; no day may have more."""

    action: str | ActionInterpreter[Any, Any, float] = "categorical"
    """What is decided: `categorical` (a share of the order), `twap_relative`, or an interpreter."""

    action_values: int | tuple[float, ...] = 6
    """The shares that `categorical` offers, or into how many parts it cuts the order."""

    reward: str | Reward[Any] | None = "shortfall"
    """What is paid: `shortfall` (against the first price), `pa_penalty` and `ppo` (against means
    that know the future), a reward, or nothing."""

    penalty: float = 0.0
    """What trading all in one tick costs, in basis points; for the first two rewards."""

    def __post_init__(self) -> None:
        for name in ("order_steps", "ticks_per_step", "day_ticks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, was {getattr(self, name)}")
        least, most = self.amount
        if not (0 < least <= most and math.isfinite(most)):
            raise ValueError(f"amount must be two ascending numbers above 0, was {self.amount}")
        if self.direction not in (None, "buy", "sell"):
            raise ValueError(f"direction must be 'buy', 'sell' or None, was {self.direction!r}")
        for name, known in (("state", STATES), ("action", ACTIONS), ("reward", REWARDS)):
            given = getattr(self, name)
            if isinstance(given, str) and given not in known:
                raise ValueError(f"{name} must be one of {list(known)}, was {given!r}")
        if self.orders is not None and not len(self.orders):
            raise ValueError("orders must be one or more, or None to draw them")
