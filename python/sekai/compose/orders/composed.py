"""Composed order execution: simulator, interpreters and reward of a config as an `EnvWrapper`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sekai.compose.env_wrapper import EnvWrapper
from sekai.compose.interpreter import ActionInterpreter, StateInterpreter
from sekai.compose.orders.config import OrderExecutionConfig
from sekai.compose.orders.features import TickFeatures
from sekai.compose.orders.interpreters import (
    CategoricalActionInterpreter,
    CurrentStepStateInterpreter,
    DummyStateInterpreter,
    FullHistoryStateInterpreter,
    TwapRelativeActionInterpreter,
    check_steps,
)
from sekai.compose.orders.order import Order
from sekai.compose.orders.random_orders import RandomOrders, days_of, resolve_day_ticks
from sekai.compose.orders.rewards import PAPenaltyReward, PPOReward, ShortfallReward
from sekai.compose.orders.simulators import SingleAssetOrderExecutionSimple
from sekai.compose.orders.state import SAOEMetrics, SAOEState, price_advantage
from sekai.compose.reward import Reward
from sekai.data.intraday import IntradayData
from sekai.envs.native_env import resolve_config

__all__ = [
    "ComposedOrderExecution",
    "OrderSimulatorFactory",
    "action_interpreter",
    "state_interpreter",
]


class ComposedOrderExecution(EnvWrapper[Order, SAOEState, float, Any, Any]):
    """`OrderExecution` composed of its parts: every step runs the simulator and interpreters.

    It does what the native env does, bit for bit and more slowly; `simulator`, `status` and
    `logger` are those of an `EnvWrapper`.

    Args:
        config: settings.
        **settings: fields of the config, instead of it.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.compose.orders.order_renderer:OrderRenderer",
    }
    # It never changes, and holds all the data.
    state_excludes = ("config",)

    def __init__(self, config: OrderExecutionConfig | None = None, **settings: Any) -> None:
        self.config = resolve_config(OrderExecutionConfig, config, settings)
        days = days_of(self.config)
        super().__init__(
            OrderSimulatorFactory(self.config, days),
            state_interpreter(self.config, days),
            action_interpreter(self.config),
            RandomOrders(self.config, days),
            _reward(self.config, days),
        )


class _CausalLogSimulator(SingleAssetOrderExecutionSimple):
    """Simulator whose log has no price after the end of the order."""

    def _log(self, metrics: SAOEMetrics) -> None:
        advantage = price_advantage(metrics.trade_price, metrics.market_price, self.order.direction)
        super()._log(replace(metrics, pa=advantage))


class OrderSimulatorFactory:
    """Picklable factory of simulators."""

    def __init__(self, config: OrderExecutionConfig, days: IntradayData) -> None:
        self.config, self.days = config, days

    def __call__(self, order: Order) -> SingleAssetOrderExecutionSimple:
        """Simulator of an order."""
        config = self.config
        simulator = _CausalLogSimulator(
            order,
            self.days,
            config.ticks_per_step,
            config.deal_price_type,
            vol_threshold=config.vol_threshold,
            costs=config.costs,
        )
        if config.state in ("full_history", "current_step"):
            check_steps(simulator.get_state(), "order_steps", config.order_steps)
        return simulator


def state_interpreter(
    config: OrderExecutionConfig, days: IntradayData
) -> StateInterpreter[SAOEState, Any]:
    """State interpreter of a config."""
    if isinstance(config.state, StateInterpreter):
        return config.state
    if config.state == "full_history":
        shape = config.order_steps, resolve_day_ticks(config, days), len(config.columns)
        return FullHistoryStateInterpreter(*shape, TickFeatures(days, config.columns))
    if config.state == "current_step":
        return CurrentStepStateInterpreter(config.order_steps)
    return DummyStateInterpreter()


def action_interpreter(config: OrderExecutionConfig) -> ActionInterpreter[SAOEState, Any, float]:
    """Action interpreter of a config."""
    if isinstance(config.action, ActionInterpreter):
        return config.action
    if config.action == "categorical":
        return CategoricalActionInterpreter(config.action_values, config.order_steps)
    return TwapRelativeActionInterpreter()


def _reward(config: OrderExecutionConfig, days: IntradayData) -> Reward[SAOEState] | None:
    if config.reward is None or isinstance(config.reward, Reward):
        return config.reward
    if config.reward == "ppo":
        day_ticks = resolve_day_ticks(config, days)
        return PPOReward(config.order_steps, end_time_index=day_ticks - 1)
    kind = ShortfallReward if config.reward == "shortfall" else PAPenaltyReward
    return kind(penalty=config.penalty)
