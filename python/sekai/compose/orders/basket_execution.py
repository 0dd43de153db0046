"""BasketExecution environment: execute one order of each asset of a basket, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import OrderExecutionBatch
from sekai.compose.orders.data import as_intraday
from sekai.compose.orders.interpreters import progress_spaces
from sekai.compose.orders.order import Order, OrderDir
from sekai.compose.orders.order_batch import (
    INFO,
    OrderBatch,
    TickTable,
    given_order,
    native_settings,
)
from sekai.compose.orders.order_execution import (
    OrderExecution,
    OrderExecutionConfig,
    RandomOrders,
)
from sekai.compose.orders.state import price_advantage
from sekai.core.result import ResetResult, StepResult
from sekai.envs.native_env import NativeEnv, resolve_config
from sekai.error import DataError
from sekai.spaces import Box, Dict, MultiDiscrete, Space
from sekai.vector.native_envs import native_vector

__all__ = [
    "BasketExecution",
    "BasketExecutionBatch",
    "BasketExecutionConfig",
    "basket_execution_vec",
]

SIMULATED_BASKET = ("SIM0", "SIM1", "SIM2", "SIM3")
SHOWN = ("amount", "position", "filled", "value", "cost", "market_price", "reward")
"""Numbers of an order in the info; no price after the current time is among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasketExecutionConfig(OrderExecutionConfig):
    """Settings of `BasketExecution`: those of `OrderExecution`, with built-in parts only."""

    orders: Sequence[Sequence[Order]] | None = None  # type: ignore[assignment]
    """Baskets of orders of which each episode draws one, all of the same size; None for random
    orders, one of each asset."""

    def __post_init__(self) -> None:
        OrderExecutionConfig.__post_init__(self)
        for name in ("state", "action", "reward"):
            value = getattr(self, name)
            if not (isinstance(value, str) or (name == "reward" and value is None)):
                raise TypeError(f"{name} of a basket must be the name of a built-in, got {value!r}")
        if self.state == "dummy":
            raise ValueError("state must be 'full_history' or 'current_step', got 'dummy'")
        if self.orders is not None and len({len(basket) for basket in self.orders}) != 1:
            raise ValueError("orders must be baskets of the same number of orders")


class BasketExecution(NativeEnv[dict[str, NDArray[Any]], NDArray[Any]]):
    """Execute one order of each asset of a basket: choose the amount of each order in each step.

    Random orders have their own amount and direction, and the same window of the same day. An
    order that is filled before the end waits for the others; its actions are ignored.

    Info: `amount` and `position` (left) of each order, `filled`, `value` and `cost` of its fills
    so far, `market_price` (mean so far), `reward` of the step, and `price_advantage` over the mean
    price so far, in basis points; `direction`, 1 to buy.

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
        days = as_intraday(config.simulated if config.data is None else config.data)
        table = TickTable(config, days)
        draws = _draws(config, table)
        values = native_settings(config, table.day_ticks)
        count = draws["assets"] if config.orders is None else len(config.orders[0])
        native = OrderExecutionBatch(
            table.native,
            values | {"basket": count},
            num_envs,
            num_threads,
            max_episode_steps,
            **draws,
        )
        batch = BasketExecutionBatch(native, table, config.reward)
        return batch, _observations(config, table, count), _actions(values["shares"], count)


basket_execution_vec = native_vector("sekai.compose.orders.basket_execution:BasketExecution")
"""Vector entry point."""


class BasketExecutionBatch(OrderBatch):
    """Native batch of baskets, whose infos have a number for each order."""

    def reset_one(self, seed: int | None = None) -> ResetResult[dict[str, NDArray[Any]]]:
        """Start an episode of a batch of one."""
        result = self.native.reset_one(seed)
        return ResetResult(result.observation, self._info())

    def step_one(self, action: Any) -> StepResult[dict[str, NDArray[Any]]]:
        """Step a batch of one."""
        result = self.native.step_one(action)
        flags = result.terminated, result.truncated
        return StepResult(result.observation, result.reward, *flags, self._info())

    def _info(self) -> dict[str, NDArray[Any]]:
        return {name: values[0] for name, values in self.infos().items()}

    def _columns(self, numbers: NDArray[np.float64]) -> Mapping[str, Any]:
        # Sums over no ticks are negative zeros, and their mean is NaN.
        shown = np.nan_to_num(numbers) + 0.0
        columns: dict[str, NDArray[Any]] = {name: shown[:, :, INFO[name]] for name in SHOWN}
        columns["direction"] = numbers[:, :, INFO["direction"]].astype(np.int64)
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


def _draws(config: BasketExecutionConfig, table: TickTable) -> dict[str, Any]:
    """Days on which every asset has the same ticks, or the given baskets."""
    if config.orders is not None:
        return {"orders": [_given_basket(config, table, basket) for basket in config.orders]}
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


def _given_basket(
    config: BasketExecutionConfig, table: TickTable, basket: Sequence[Order]
) -> list[tuple[Any, ...]]:
    """Orders of a native batch; all of them step at the same times, so that none sees ahead."""
    orders = [given_order(config, table, order) for order in basket]
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
    is_full = config.state == "full_history"
    spaces: dict[str, Any] = {}
    if is_full:
        shape = (count, table.day_ticks, len(config.columns))
        spaces = {
            "data_processed": Box(-np.inf, np.inf, shape, np.float32),
            "data_processed_prev": Box(-np.inf, np.inf, shape, np.float32),
            "cur_tick": Box(0, table.day_ticks - 1, (count,), np.int32),
            "position_history": Box(0.0, np.inf, (count, steps), np.float32),
        }
    progress = progress_spaces(steps, steps - 1 if is_full else steps)
    rows = {
        name: MultiDiscrete([2] * count)
        if name == "acquiring"
        else Box(space.low.item(), space.high.item(), (count,), space.dtype)
        for name, space in progress.items()
    }
    return Dict({**spaces, **rows})


def _actions(shares: Sequence[float] | None, count: int) -> Space[Any]:
    if shares is None:
        return Box(0.0, np.inf, (count,), np.float32)
    return MultiDiscrete([len(shares)] * count)
