"""Settings of order execution: data, orders, matching, observation, action and reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sekai.compose.interpreter import ActionInterpreter, StateInterpreter
from sekai.compose.orders.data import OrderData, SimulatedMinutes
from sekai.compose.orders.interpreters import action_shares
from sekai.compose.orders.order import Order, is_number
from sekai.compose.orders.simulators import OrderCosts, check_threshold
from sekai.compose.orders.state import check_price_type
from sekai.compose.reward import Reward
from sekai.config.checked import CheckedConfig

__all__ = ["OrderExecutionConfig"]

STATES = ("full_history", "current_step", "dummy")
ACTIONS = ("categorical", "twap_relative")
REWARDS = ("shortfall", "pa_penalty", "ppo")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderExecutionConfig(CheckedConfig):
    """Settings of `OrderExecution`: data, orders, matching, observation, action and reward."""

    data: OrderData | None = None
    """Source of ticks: a panel, a frame of minutes, the folder of a `TickStore` or anything that
    has days; None for synthetic minutes."""

    simulated: SimulatedMinutes = field(default_factory=SimulatedMinutes)
    """Settings of synthetic minutes."""

    orders: Sequence[Order] | None = None
    """Orders of which each episode draws one; None for random orders."""

    assets: Sequence[str] | None = None
    """Assets of random orders; None for all of the data, where it lists them."""

    days: Sequence[Any] | None = None
    """Days of random orders; None for all of the data, where it lists them."""

    amount: tuple[float, float] = (1_000.0, 20_000.0)
    """Smallest and largest amount of random orders."""

    direction: Literal["buy", "sell"] | None = None
    """Direction of random orders; None for either."""

    order_steps: int = 6
    """Steps of a random order, or most steps of a given one."""

    ticks_per_step: int = 30
    """Ticks in a step."""

    deal_price_type: str = "close"
    """`close`, `bid_or_ask` or `bid_or_ask_fill`."""

    vol_threshold: float | None = None
    """Largest share of a tick's volume that is filled."""

    costs: OrderCosts = field(default_factory=OrderCosts)
    """Costs of fills."""

    state: str | StateInterpreter[Any, Any] = "full_history"
    """Observation: `full_history`, `current_step`, `dummy`, or an interpreter."""

    columns: tuple[str, ...] = ("$close", "$volume")
    """Columns of ticks in `full_history`, relative to the day's first value."""

    day_ticks: int | None = None
    """Ticks of a day in `full_history`; no day may have more. None for the number of different
    times of day in the data."""

    action: str | ActionInterpreter[Any, Any, float] = "categorical"
    """Action: `categorical` (a share of the order), `twap_relative`, or an interpreter."""

    action_values: int | tuple[float, ...] = 6
    """Shares of `categorical`, or the number of parts of the order."""

    reward: str | Reward[Any] | None = "shortfall"
    """Reward: `shortfall` (against the first price), `pa_penalty` and `ppo` (against means that
    include later prices), a reward object, or None."""

    penalty: float = 0.0
    """Penalty of trading all in one tick, in basis points; for the first two rewards."""

    def __post_init__(self) -> None:
        for name in ("order_steps", "ticks_per_step", "day_ticks"):
            value = getattr(self, name)
            if value is not None or name != "day_ticks":
                _check_count(name, value)
        _check_amounts(self.amount)
        if self.direction not in (None, "buy", "sell"):
            raise ValueError(f"direction must be 'buy', 'sell' or None, got {self.direction!r}")
        if not is_number(self.penalty):
            raise ValueError(f"penalty must be a finite number, got {self.penalty!r}")
        check_threshold(self.vol_threshold)
        check_price_type(self.deal_price_type)
        for name, kind in (("costs", OrderCosts), ("simulated", SimulatedMinutes)):
            if not isinstance(getattr(self, name), kind):
                raise TypeError(
                    f"{name} must be of type {kind.__name__}, got {getattr(self, name)!r}"
                )
        self._check_parts()
        for name in ("orders", "assets", "days", "columns"):
            object.__setattr__(self, name, _items(name, getattr(self, name)))
        self._check_orders()

    def _check_parts(self) -> None:
        for name, known, kind in (
            ("state", STATES, StateInterpreter),
            ("action", ACTIONS, ActionInterpreter),
            ("reward", REWARDS, Reward),
        ):
            value = getattr(self, name)
            if isinstance(value, str) and value not in known:
                raise ValueError(f"{name} must be one of {list(known)}, got {value!r}")
            is_part = isinstance(value, (str, kind)) or (name == "reward" and value is None)
            if not is_part:
                raise TypeError(
                    f"{name} must be one of {list(known)} or a {kind.__name__}, got {value!r}"
                )
        action_shares("action_values", self.action_values)

    def _check_orders(self) -> None:
        for order in self.orders or ():
            if not isinstance(order, Order):
                raise TypeError(f"orders must be a list of Order, got {order!r} in it")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def _check_amounts(amount: Any) -> None:
    is_pair = isinstance(amount, Sequence) and len(amount) == 2 and all(map(is_number, amount))
    if not is_pair or not 0 < amount[0] <= amount[1]:
        raise ValueError(f"amount must be two ascending numbers above 0, got {amount!r}")


def _items(name: str, value: Any) -> tuple[Any, ...] | None:
    if value is None and name != "columns":
        return None
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise TypeError(f"{name} must be a list, got {value!r}")
    if not len(value):
        raise ValueError(f"{name} must have at least one item, got none")
    return tuple(value)
