"""Work an order within a day, a step at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.env_wrapper import EnvWrapper
from sekai.compose.interpreter import ActionInterpreter, StateInterpreter
from sekai.compose.orders.baselines import almgren_chriss_amounts
from sekai.compose.orders.categorical_action import CategoricalActionInterpreter
from sekai.compose.orders.current_step import CurrentStepStateInterpreter
from sekai.compose.orders.day_source import intraday
from sekai.compose.orders.drawn_orders import DrawnOrders
from sekai.compose.orders.dummy_interpreter import DummyStateInterpreter
from sekai.compose.orders.features import TickFeatures
from sekai.compose.orders.full_history import FullHistoryStateInterpreter
from sekai.compose.orders.metrics import SAOEMetrics, price_advantage
from sekai.compose.orders.order import Order
from sekai.compose.orders.order_execution_config import OrderExecutionConfig
from sekai.compose.orders.rewards import PAPenaltyReward, PPOReward, ShortfallReward
from sekai.compose.orders.simple import SingleAssetOrderExecutionSimple
from sekai.compose.orders.state import SAOEState
from sekai.compose.orders.twap_relative_action import TwapRelativeActionInterpreter
from sekai.compose.reward import Reward
from sekai.data.intraday import IntradayData
from sekai.error import ResetRequired

__all__ = ["OrderExecution"]

USUAL_SHARE = 0.01
"""The share of the volume that, as a rule of thumb, is traded for one spread more."""


class OrderExecution(EnvWrapper[Order, SAOEState, float, Any, Any]):
    """Trade an order of one asset within its window: how much in each step.

    Observation: the day's ticks so far and those of the day before, direction, progress and
        what is left; or what another interpreter shows.
    Action: a share of the order out of a list; or a multiple of TWAP.
    Reward: basis points of the order gained against its first price, less costs.
    Terminates: when nothing is left, or the window is over.
    Truncates: never.

    When an order is done, its metrics are in `info["log"]`. There `pa` compares with the TWAP of
    the ticks until then, and knows no later price; `env.simulator.metrics` has the one of the
    whole window.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.compose.orders.order_renderer:OrderRenderer",
    }
    # It never changes, and has all the data.
    state_excludes = ("config",)

    def __init__(self, config: OrderExecutionConfig | None = None, **settings: Any) -> None:
        """Build from a config, or from its fields by name."""
        self.config = _config(config, settings)
        days = intraday(self.config.simulated if self.config.data is None else self.config.data)
        super().__init__(
            _Simulators(self.config, days), _state(self.config, days), _action(self.config),
            DrawnOrders(self.config, days), _reward(self.config),
        )  # fmt: skip

    def optimal_schedule(
        self,
        *,
        risk_aversion: float = 1e-6,
        temporary_impact: float | None = None,
        permanent_impact: float = 0.0,
        volatility: float | None = None,
    ) -> NDArray[np.float64]:
        """What Almgren and Chriss would trade in each step that is left, in closed form.

        Args:
            risk_aversion: what a unit of variance is worth.
            temporary_impact: how far the price gives way for each share in a tick. Of made-up
                minutes it is known if not given: a hundredth of the volume costs a spread.
            permanent_impact: how far the price gives way for good, for each share.
            volatility: of the price in a tick, in currency. Of made-up minutes it is known.

        Raises:
            ValueError: impact or volatility of data that is not made up were not given.
        """
        if self.simulator is None:
            raise ResetRequired("optimal_schedule() was called before reset(): call reset() first")
        made_up = self.config.simulated if self.config.data is None else None
        if made_up is not None:
            spread = 2 * made_up.half_spread * made_up.price
            volume = made_up.daily_volume / made_up.ticks
            temporary_impact = _or(temporary_impact, spread / (USUAL_SHARE * volume))
            volatility = _or(volatility, made_up.price * made_up.tick_volatility)
        if temporary_impact is None or volatility is None:
            raise ValueError(
                "temporary_impact and volatility are known of made-up minutes alone: give both"
            )
        return almgren_chriss_amounts(
            self.simulator.get_state(), risk_aversion=risk_aversion, volatility=volatility,
            temporary_impact=temporary_impact, permanent_impact=permanent_impact,
        )  # fmt: skip


class _Worked(SingleAssetOrderExecutionSimple):
    """Logs nothing that is not known when the order is done."""

    def _log(self, metrics: SAOEMetrics) -> None:
        advantage = price_advantage(metrics.trade_price, metrics.market_price, self.order.direction)
        super()._log(replace(metrics, pa=advantage))


class _Simulators:
    """Makes the simulator of an order."""

    def __init__(self, config: OrderExecutionConfig, days: IntradayData) -> None:
        self.config, self.days = config, days

    def __call__(self, order: Order) -> SingleAssetOrderExecutionSimple:
        config = self.config
        return _Worked(
            order, self.days, config.ticks_per_step, config.deal_price_type,
            vol_threshold=config.vol_threshold, costs=config.costs,
        )  # fmt: skip


def _state(config: OrderExecutionConfig, days: IntradayData) -> StateInterpreter[SAOEState, Any]:
    if isinstance(config.state, StateInterpreter):
        return config.state
    if config.state == "full_history":
        shape = config.order_steps, config.day_ticks, len(config.columns)
        return FullHistoryStateInterpreter(*shape, TickFeatures(days, config.columns))
    if config.state == "current_step":
        return CurrentStepStateInterpreter(config.order_steps)
    return DummyStateInterpreter()


def _action(config: OrderExecutionConfig) -> ActionInterpreter[SAOEState, Any, float]:
    if isinstance(config.action, ActionInterpreter):
        return config.action
    if config.action == "categorical":
        return CategoricalActionInterpreter(config.action_values, config.order_steps)
    return TwapRelativeActionInterpreter()


def _reward(config: OrderExecutionConfig) -> Reward[SAOEState] | None:
    if config.reward is None or isinstance(config.reward, Reward):
        return config.reward
    if config.reward == "ppo":
        return PPOReward(config.order_steps, end_time_index=config.day_ticks - 1)
    kind = ShortfallReward if config.reward == "shortfall" else PAPenaltyReward
    return kind(penalty=config.penalty)


def _or(given: float | None, known: float) -> float:
    return known if given is None else given


def _config(config: OrderExecutionConfig | None, settings: dict[str, Any]) -> OrderExecutionConfig:
    if config is None:
        return OrderExecutionConfig(**settings)
    if settings:
        raise TypeError(
            f"either a config or its fields were wanted, found both: {sorted(settings)}"
        )
    return config
