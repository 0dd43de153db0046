"""BasketExecution environment: execute one order of each asset of a basket, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.composed import action_interpreter
from sekai.compose.orders.config import OrderExecutionConfig
from sekai.compose.orders.interpreters import history_spaces, progress_spaces
from sekai.compose.orders.order import Order, OrderDir
from sekai.compose.orders.order_batch import (
    INFO,
    OrderBatch,
    TickTable,
    native_batch,
    shared_table,
)
from sekai.compose.orders.order_execution import OrderExecution
from sekai.compose.orders.random_orders import RandomOrders, days_of
from sekai.compose.orders.state import price_advantage
from sekai.envs.native_env import NativeEnv, resolve_config
from sekai.error import DataError
from sekai.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from sekai.vector.native_envs import native_vector

__all__ = [
    "BasketExecution",
    "BasketExecutionBatch",
    "BasketExecutionConfig",
    "basket_execution_vec",
]

SHOWN_STATES = ("full_history", "current_step")
SIMULATED_BASKET = ("SIM0", "SIM1", "SIM2", "SIM3")
SHOWN = (
    "amount", "position", "filled", "value", "cost", "market_volume", "market_price", "reward",
)  # fmt: skip
"""Numbers of an order in the info; no price after the current time is among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasketExecutionConfig(OrderExecutionConfig):
    """Settings of `BasketExecution`: those of `OrderExecution`, with built-in parts only."""

    orders: Sequence[Sequence[Order]] | None = None  # type: ignore[assignment]
    """Baskets of orders of which each episode draws one, all of the same size; None for random
    orders, one of each asset."""

    def __post_init__(self) -> None:
        OrderExecutionConfig.__post_init__(self)
        if self.state not in SHOWN_STATES:
            raise ValueError(f"state must be one of {list(SHOWN_STATES)}, got {self.state!r}")
        for name in ("action", "reward"):
            value = getattr(self, name)
            if not (isinstance(value, str) or (name == "reward" and value is None)):
                raise TypeError(f"{name} of a basket must be the name of a built-in, got {value!r}")

    def _check_orders(self) -> None:
        baskets: Any = self.orders
        if baskets is None:
            return
        for basket in baskets:
            if isinstance(basket, str) or not isinstance(basket, Sequence):
                raise TypeError(f"orders must be a list of baskets, got {basket!r} in it")
            if not all(isinstance(order, Order) for order in basket):
                raise TypeError(f"orders must be baskets of Order, got {basket!r} in it")
        if len(set(map(len, baskets))) != 1:
            raise ValueError("orders must be baskets of the same number of orders")
        object.__setattr__(self, "orders", tuple(map(tuple, baskets)))


class BasketExecution(NativeEnv[dict[str, NDArray[Any]], NDArray[Any]]):
    """Execute one order of each asset of a basket: choose the amount of each order in each step.

    Random orders have their own amount and direction, and the same window of the same day. An
    order that is filled before the end waits for the others; its actions are ignored.

    Info: `amount` and `position` (left) of each order, `filled`, `value` and `cost` of its fills
    so far, `market_volume` (sum so far), `market_price` (mean so far), `reward` of the step, and
    `price_advantage` over the mean price so far, in basis points; `direction`, 1 to buy;
    `exceeds_volume` of a finished order that is larger than the market volume of its ticks.

    Observation: that of `OrderExecution`, with a row for each order.
    Action: for each order a share of it out of a list, or a multiple of TWAP.
    Reward: the sum of the rewards of all orders.
    Terminates: when nothing of any order is left, or the window is over.
    Truncates: never.

    Args:
        config: settings.
        **settings: fields of the config, instead of it.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "stochastic": True,
        "renderer": "sekai.compose.orders.basket_renderer:BasketRenderer",
    }
    # It never changes, and holds all the data.
    state_excludes = ("config",)
    shared_options = staticmethod(OrderExecution.shared_options)

    def __init__(self, config: BasketExecutionConfig | None = None, **settings: Any) -> None:
        self.config = resolve_config(BasketExecutionConfig, config, settings)
        super().__init__(*self.make_batch(1, config=self.config))

    @staticmethod
    def make_batch(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        config: BasketExecutionConfig | None = None,
        **settings: Any,
    ) -> tuple[BasketExecutionBatch, Dict, Space[Any]]:
        """Batch of many envs, with the observation and action space of one."""
        config = resolve_config(BasketExecutionConfig, config, settings)
        table = shared_table(config, days_of(config), _draws)
        count = table.draws["assets"] if config.orders is None else len(config.orders[0])
        native = native_batch(table, num_envs, num_threads, max_episode_steps, basket=count)
        batch = BasketExecutionBatch(native, table)
        return batch, _observations(config, table, count), _actions(config, count)


basket_execution_vec = native_vector("sekai.compose.orders.basket_execution:BasketExecution")
"""Vector entry point."""


class BasketExecutionBatch(OrderBatch):
    """Native batch of baskets, whose infos have a number for each order."""

    def _shown(self, observation: Any) -> Any:
        return observation

    def _info(self, values: Mapping[str, float]) -> dict[str, Any]:
        # By name there is one order only.
        return {name: values[0] for name, values in self.infos().items()}

    def _columns(self, numbers: NDArray[np.float64]) -> Mapping[str, Any]:
        # Sums over no ticks are negative zeros, and their mean is NaN.
        shown = np.nan_to_num(numbers) + 0.0
        columns: dict[str, NDArray[Any]] = {name: shown[:, :, INFO[name]] for name in SHOWN}
        columns["direction"] = numbers[:, :, INFO["direction"]].astype(np.int64)
        is_larger = columns["amount"] > columns["market_volume"]
        columns["exceeds_volume"] = is_larger & (numbers[:, :, INFO["done"]] > 0)
        columns["price_advantage"] = advantages(
            columns["value"], columns["filled"], columns["market_price"], columns["direction"]
        )
        return columns


def advantages(value: Any, filled: Any, market_price: Any, direction: Any) -> NDArray[np.float64]:
    """Price advantage of fills over a market price in basis points; 0 without fills."""
    price = np.divide(value, filled, out=np.zeros_like(value), where=filled > 0)
    # Relative to a price of 1, so that the formula of one order serves arrays.
    market = np.where(market_price > 0, market_price, np.inf)
    relative = np.where(market_price > 0, price / market, 0.0)
    bought, sold = (price_advantage(relative, 1.0, side) for side in (OrderDir.BUY, OrderDir.SELL))
    result: NDArray[np.float64] = np.where(direction == OrderDir.BUY, bought, sold)
    return result


def _draws(table: TickTable) -> dict[str, Any]:
    """Days on which every asset has the same ticks, or the given baskets."""
    config: Any = table.config
    if config.orders is not None:
        return {"orders": [_given_basket(table, basket) for basket in config.orders]}
    orders = RandomOrders(config, table.days)
    synthetic = config.data is None and config.assets is None
    assets = SIMULATED_BASKET if synthetic else tuple(map(str, orders.assets))
    by_date = [_basket_day(table, assets, date) for date in orders.dates]
    found = [days for days in by_date if days is not None]
    if not any(len(table.ticks[days[0]]) >= orders.order_ticks for days in found):
        raise DataError(
            f"no day has {orders.order_ticks} ticks at the same times for all of {list(assets)}; "
            "choose assets= and days=, fewer steps by order_steps=, or a panel of one calendar "
            "(Policies(calendars='union'))"
        )
    nothing = [None] * len(assets)
    by_asset = zip(*(nothing if days is None else days for days in by_date), strict=True)
    return {"candidates": [day for days in by_asset for day in days], "assets": len(assets)}


def _given_basket(table: TickTable, basket: Sequence[Order]) -> list[tuple[Any, ...]]:
    """Orders of a native batch; all of them step at the same times, so that none sees ahead."""
    orders = [table.add_order(order) for order in basket]
    times = [table.ticks[order[0]].times for order in orders]
    for order, own, clock in zip(basket, orders, times, strict=True):
        if own[3] != orders[0][3] or not np.array_equal(clock, times[0]):
            raise DataError(
                f"orders of a basket must have the same ticks and start; those of "
                f"{order.stock_id} differ from those of {basket[0].stock_id}: pass orders with one "
                "start, on a panel of one calendar (Policies(calendars='union'))"
            )
    return orders


def _basket_day(table: TickTable, assets: Sequence[str], date: np.datetime64) -> list[int] | None:
    """Ticks of all assets on a day; None if one has none, or at other times."""
    days: list[int] = []
    for asset in assets:
        index = table.add_day(asset, date)
        if index is None:
            return None
        if days and not np.array_equal(table.ticks[index].times, table.ticks[days[0]].times):
            return None
        days.append(index)
    return days


def _observations(config: BasketExecutionConfig, table: TickTable, count: int) -> Dict:
    steps = config.order_steps
    if config.state == "full_history":
        return Dict(history_spaces(steps, table.day_ticks, len(config.columns), (count,)))
    return Dict(progress_spaces(steps, steps, (count,)))


def _actions(config: BasketExecutionConfig, count: int) -> Space[Any]:
    space = action_interpreter(config).action_space
    if isinstance(space, Discrete):
        return MultiDiscrete([space.n] * count)
    return Box(0.0, np.inf, (count,), np.float32)
