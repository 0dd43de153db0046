"""OrderExecution environment: execute an order of one asset within its window, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.backend import Backend
from sekai.compose.orders.baselines import almgren_chriss_amounts
from sekai.compose.orders.composed import (
    ComposedOrderExecution,
    action_interpreter,
    state_interpreter,
)
from sekai.compose.orders.config import OrderExecutionConfig
from sekai.compose.orders.data import as_intraday, times_of_day
from sekai.compose.orders.order_batch import OrderBatch, TickTable, native_batch, shared_table
from sekai.compose.orders.random_orders import RandomOrders, days_of
from sekai.compose.orders.simulators import OrderSimulator
from sekai.core.autoreset import Autoreset
from sekai.core.result import ResetResult, StepResult
from sekai.data.intraday import IntradayData
from sekai.data.market_data import MarketData
from sekai.envs.native_env import NativeEnv, resolve_config
from sekai.error import ResetRequired
from sekai.registry import spec
from sekai.rendering.renderer import Frame
from sekai.spaces import Space
from sekai.vector.make_vec import make_vec
from sekai.vector.native import NativeVecEnv
from sekai.vector.vec_env import VecEnv
from sekai.wrappers import ValidateAction

__all__ = ["OrderExecution", "is_native", "order_execution_vec", "synthetic_market"]

MOST_DAYS = 50_000
"""Days of assets up to which all ticks are kept in memory; beyond, envs read them day by day."""

SPREAD_SHARE = 0.01
"""Share of the volume that moves the price by one spread, as a rule of thumb."""


RISK_AVERSION = 1e-6
"""Default cost of a unit of variance of the optimal schedule."""


class OrderExecution(NativeEnv[Any, Any]):
    """Execute an order of one asset within its window: choose the amount of each step.

    Observation: the day's ticks so far and those of the day before, direction, progress and
        amount left; or that of another interpreter.
    Action: a share of the order out of a list; or a multiple of TWAP.
    Reward: negative implementation shortfall in basis points, with costs.
    Terminates: when nothing is left, or the window is over.
    Truncates: never.

    When an order is done, its metrics are in `info["log"]`. There `pa` is relative to the TWAP of
    the ticks until then, without later prices; `env.simulator.metrics` has the one of the whole
    window.

    It is a native batch of one. With interpreters or rewards of your own, and on more than 50,000
    days of assets, which are read day by day, it is a `ComposedOrderExecution` inside.

    Args:
        config: settings.
        **settings: fields of the config, instead of it.
    """

    metadata = ComposedOrderExecution.metadata
    # It never changes, and holds all the data.
    state_excludes = ("config",)
    batch: OrderBatch | _ComposedOrder

    def __init__(self, config: OrderExecutionConfig | None = None, **settings: Any) -> None:
        self.config = resolve_config(OrderExecutionConfig, config, settings)
        days = days_of(self.config)
        if is_native(self.config, days):
            super().__init__(*_native(self.config, days, 1, None, None))
            return
        composed = ComposedOrderExecution(self.config)
        spaces = composed.observation_space, composed.action_space
        super().__init__(_ComposedOrder(composed), *spaces)

    @staticmethod
    def shared_options(data: MarketData, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options that envs on parts of `data` must share: the ticks of a day."""
        if options.get("day_ticks") is not None:
            return {}
        return {"day_ticks": times_of_day(as_intraday(data), data.assets)}

    @property
    def simulator(self) -> OrderSimulator | None:
        """Simulator of the order with its fills and metrics; None before the first reset.

        That of a native batch is a copy: stepping it changes nothing in the env.
        """
        try:
            return self.batch.simulator()
        except ResetRequired:
            return None

    def render(self, width: int = 640, height: int = 800) -> Frame:
        """Render prices, fills, volumes and the amount left, up to now."""
        return self._working("render").render(width, height)

    def close(self) -> None:
        """Reject all calls from now on. Closing twice is no error."""
        super().close()
        if isinstance(self.batch, _ComposedOrder):
            self.batch.env.close()

    def optimal_schedule(
        self,
        *,
        risk_aversion: float = RISK_AVERSION,
        temporary_impact: float | None = None,
        permanent_impact: float = 0.0,
        volatility: float | None = None,
    ) -> NDArray[np.float64]:
        """Optimal amount of each step left by Almgren and Chriss, in closed form.

        Args:
            risk_aversion: cost of a unit of variance.
            temporary_impact: temporary price impact per share per tick. By default, for synthetic
                minutes only: a hundredth of the volume costs a spread.
            permanent_impact: permanent price impact per share.
            volatility: volatility of the price per tick, in currency. By default that of
                synthetic minutes.

        Raises:
            ValueError: impact or volatility are missing and the data is not synthetic.
        """
        state = self._working("optimal_schedule").get_state()
        market = synthetic_market(self.config)
        given = {"temporary_impact": temporary_impact, "volatility": volatility}
        market |= {name: value for name, value in given.items() if value is not None}
        if len(market) < len(given):
            raise ValueError(
                "temporary_impact and volatility are known for synthetic minutes only; pass both"
            )
        return almgren_chriss_amounts(
            state, risk_aversion=risk_aversion, permanent_impact=permanent_impact, **market
        )

    def _working(self, method: str) -> OrderSimulator:
        simulator = self.simulator
        if simulator is None:
            raise ResetRequired(f"{method}() was called before reset(): call reset() first")
        return simulator


def synthetic_market(config: OrderExecutionConfig) -> dict[str, float]:
    """Impact and volatility of synthetic minutes; empty for other data."""
    if config.data is not None:
        return {}
    minutes = config.simulated
    spread = 2 * minutes.half_spread * minutes.price
    volume = minutes.daily_volume / minutes.ticks
    return {
        "temporary_impact": spread / (SPREAD_SHARE * volume),
        "volatility": minutes.price * minutes.tick_volatility,
    }


class _ComposedOrder:
    """Batch of one around a composed env."""

    def __init__(self, env: ComposedOrderExecution) -> None:
        self.env = ValidateAction(env)

    def reset_one(self, seed: int | None = None) -> ResetResult[Any]:
        return self.env.reset(seed=seed)

    def step_one(self, action: Any) -> StepResult[Any]:
        return self.env.step(action)

    def state_dict(self) -> dict[str, Any]:
        return self.env.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.env.load_state_dict(state)

    def simulator(self) -> OrderSimulator | None:
        simulator: OrderSimulator | None = self.env.get_attr("simulator")
        return simulator


def order_execution_vec(
    num_envs: int,
    *,
    num_threads: int | None = None,
    max_episode_steps: int | None = None,
    autoreset: Autoreset = "same_step",
    backend: Backend = "numpy",
    copy: bool = True,
    config: OrderExecutionConfig | None = None,
    **settings: Any,
) -> VecEnv:
    """Make a vector env of `OrderExecution`: one native batch, or envs composed of own parts."""
    config = resolve_config(OrderExecutionConfig, config, settings)
    shared: dict[str, Any] = {"autoreset": autoreset, "backend": backend, "copy": copy}
    days = days_of(config)
    if not is_native(config, days):
        single = replace(spec("OrderExecution-v0"), vector_entry_point=None)
        limits = {"max_episode_steps": max_episode_steps, **shared}
        return make_vec(single, num_envs, config=config, **limits)
    parts = _native(config, days, num_envs, num_threads, max_episode_steps)
    return NativeVecEnv(*parts, **shared)


def is_native(config: OrderExecutionConfig, days: IntradayData) -> bool:
    """Return True if envs are native: of built-in parts, and on ticks that fit the memory."""
    is_built_in = isinstance(config.state, str) and isinstance(config.action, str)
    if not is_built_in or not (config.reward is None or isinstance(config.reward, str)):
        return False
    return RandomOrders(config, days).num_days <= MOST_DAYS


def _native(
    config: OrderExecutionConfig,
    days: IntradayData,
    num_envs: int,
    num_threads: int | None,
    max_episode_steps: int | None,
) -> tuple[OrderBatch, Space[Any], Space[Any]]:
    """Native batch, with the observation and action space of one env."""
    table = shared_table(config, days, _draws)
    batch = OrderBatch(native_batch(table, num_envs, num_threads, max_episode_steps), table)
    observations = state_interpreter(config, table.days).observation_space
    return batch, observations, action_interpreter(config).action_space


def _draws(table: TickTable) -> dict[str, Any]:
    """Days of random orders, or the given orders, by the index of their ticks."""
    if table.config.orders is not None:
        return {"orders": [[table.add_order(order)] for order in table.config.orders]}
    orders = RandomOrders(table.config, table.days)
    days = [table.add_day(str(asset), day) for asset in orders.assets for day in orders.dates]
    if all(day is None or len(table.ticks[day]) < orders.order_ticks for day in days):
        raise orders.too_short(len(days))
    return {"candidates": days, "assets": len(orders.assets)}
