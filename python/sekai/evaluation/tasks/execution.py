"""Execution tasks: implementation shortfall and price advantage of worked orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.compose.orders.basket_execution import BasketExecutionConfig, advantages
from sekai.compose.orders.config import OrderExecutionConfig
from sekai.compose.orders.order_batch import INFO, OrderBatch
from sekai.compose.orders.order_execution import is_native
from sekai.compose.orders.random_orders import days_of
from sekai.compose.orders.simulators import OrderSimulator
from sekai.compose.orders.state import price_advantage
from sekai.envs.optimal_execution import OptimalExecutionConfig
from sekai.evaluation.evaluation import Episode, EpisodeFills
from sekai.evaluation.tasks import Task, config_of, reconfigured
from sekai.spaces import Discrete, MultiDiscrete
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.env_source import EnvSource
    from sekai.evaluation.policy import StepContext
    from sekai.evaluation.recorder import RecordedEpisode

__all__ = ["BasketExecutionTask", "ExecutionTask", "OrderExecutionTask", "order_simulators"]

BASIS_POINTS = 1e4
NO_IMPACT = 1e-15
"""The impact model must be positive; this is negligible."""


class ExecutionTask(Task):
    """`OptimalExecution-v0`: shortfall in basis points of the order's initial value.

    Ranked by the risk-adjusted shortfall if the env penalizes risk, else by the shortfall.
    """

    name = "execution"
    higher_is_better = False
    baselines = ("twap", "almgren_chriss", "all_at_once", "random")

    def __init__(self, source: EnvSource) -> None:
        super().__init__(source)
        penalizes_risk = self.config().risk_aversion > 0
        self.headline = "risk_adjusted_shortfall" if penalizes_risk else "shortfall"

    def config(self) -> OptimalExecutionConfig:
        """Config of the envs; the default one where it is unknown."""
        return config_of(OptimalExecutionConfig, self.source)

    def with_costs(self, multiple: float) -> EnvSource | None:
        """Return the source with scaled impact and spread."""
        if self.source.options is None:
            return None
        config = self.config()
        return reconfigured(
            self.source,
            half_spread=config.half_spread * multiple,
            permanent_impact=config.permanent_impact * multiple,
            temporary_impact=max(config.temporary_impact * multiple, NO_IMPACT),
        )

    def episode(self, recorded: RecordedEpisode, start: Any, log: Any) -> Episode:
        """Fills and shortfall of an order."""
        infos, config = recorded.infos, self.config()
        value = config.shares * config.initial_price
        unit = value / 100 if config.reward_unit is None else config.reward_unit
        outcome = {
            "shortfall": float(infos["shortfall"][-1]) / value * BASIS_POINTS,
            "risk_adjusted_shortfall": -float(recorded.rewards.sum()) * unit / value * BASIS_POINTS,
        }
        traded, cash = infos["traded"][1:], np.diff(infos["cash"])
        with np.errstate(invalid="ignore", divide="ignore"):
            price = np.where(traded > 0, np.abs(cash) / traded, np.nan)
        steps = np.flatnonzero(traded > 0)
        sign = -1.0 if config.side == "sell" else 1.0
        fills = EpisodeFills(
            step=steps,
            asset=np.full(len(steps), "order"),
            units=sign * traded[steps],
            price=price[steps],
        )
        return Episode(
            seed=recorded.seed,
            rewards=recorded.rewards,
            equity=np.zeros(0),
            actions=recorded.actions,
            assets=("order",),
            prices=infos["price"][:, None],
            outcome=outcome,
            fills=fills,
        )


class OrderExecutionTask(Task):
    """`OrderExecution-v0`: price advantage over the mean price of the order's window."""

    name = "order_execution"
    headline = "price_advantage"
    baselines: tuple[str, ...] = ("twap", "vwap", "almgren_chriss", "all_at_once", "random")

    def __init__(self, source: EnvSource) -> None:
        super().__init__(source)
        config = self.config()
        if source.options is not None and not is_native(config, days_of(config)):
            # Baselines read the orders, which must not be in worker processes.
            self.source = source.with_options(mode="sync")

    def config(self) -> OrderExecutionConfig:
        """Config of the envs; the default one where it is unknown."""
        return config_of(OrderExecutionConfig, self.source)

    def with_costs(self, multiple: float) -> EnvSource | None:
        """Return the source with scaled costs; None if there are none."""
        costs = self.config().costs
        rates = asdict(costs)
        if self.source.options is None or not any(rates.values()):
            return None
        scaled = replace(costs, **{name: rate * multiple for name, rate in rates.items()})
        return reconfigured(self.source, costs=scaled)

    @property
    def data_digest(self) -> str:
        """Digest of the data; "" for synthetic minutes and data without one."""
        return str(getattr(self.config().data, "digest", ""))

    def begin(self, vec: VecEnv) -> Mapping[int, Any]:
        """Mean price of each order's window, and the order's direction."""
        orders = [own for (own,) in order_simulators(vec)]
        return {n: (own.twap_price, own.order.direction) for n, own in enumerate(orders)}

    def episode(self, recorded: RecordedEpisode, start: Any, log: Any) -> Episode:
        """Price advantage and fulfilled share, from the env's own log."""
        last = {name: entry[1] for name, entry in recorded.final.get("log", {}).items()}
        outcome = {"price_advantage": float(last.get("pa", np.nan))}
        if start is not None and last.get("trade_price", 0.0) > 0:
            outcome["price_advantage"] = price_advantage(last["trade_price"], *start)
        if "ffr" in last:
            outcome["fulfilled"] = float(last["ffr"])
            outcome["participation"] = _participation(last["deal_amount"], last["market_volume"])
        if self.config().reward == "shortfall":
            outcome["shortfall"] = -float(recorded.rewards.sum())
        return replace(super().episode(recorded, start, log), outcome=outcome)

    def idle(self, vec: VecEnv, step: StepContext) -> Any:
        """Return the smallest trade."""
        if not isinstance(vec.action_space, Discrete):
            return super().idle(vec, step)
        values = self.config().action_values
        smallest = 0 if isinstance(values, int) else int(np.argmin(values))
        return np.full(vec.num_envs, smallest, vec.action_space.dtype)


def _participation(filled: Any, volume: Any) -> float:
    """Largest share of fills in the market volume of an order's ticks; 0 where it is unknown."""
    filled, volume = np.atleast_1d(filled).astype(np.float64), np.atleast_1d(volume)
    shares = np.divide(filled, volume, out=np.zeros_like(filled), where=volume > 0)
    return float(shares.max())


def order_simulators(vec: VecEnv) -> list[list[OrderSimulator]]:
    """Simulators of the orders of each env; empty for envs in other processes."""
    batch = getattr(vec.unwrapped, "batch", None)
    if isinstance(batch, OrderBatch):
        envs, orders, _ = batch.batch.order_infos().shape
        return [[batch.simulator(env, order) for order in range(orders)] for env in range(envs)]
    return [[env.get_attr("simulator")] for env in getattr(vec.unwrapped, "envs", ())]


class BasketExecutionTask(OrderExecutionTask):
    """`BasketExecution-v0`: price advantage of the basket, weighted by the value of its orders."""

    name = "basket_execution"
    baselines = ("twap", "vwap", "all_at_once", "random")

    def __init__(self, source: EnvSource) -> None:
        Task.__init__(self, source)

    def config(self) -> BasketExecutionConfig:
        """Config of the envs; the default one where it is unknown."""
        return config_of(BasketExecutionConfig, self.source)

    def begin(self, vec: VecEnv) -> Mapping[int, Any]:
        """Numbers of the orders of each basket, with the mean prices of their windows."""
        batch = getattr(vec.unwrapped, "batch", None)
        return {} if batch is None else dict(enumerate(batch.batch.order_infos()))

    def episode(self, recorded: RecordedEpisode, start: Any, log: Any) -> Episode:
        """Price advantage and fulfilled share, weighted by the value of the orders."""
        final, count = recorded.final, len(recorded.final["filled"])
        mean = final["market_price"] if start is None else start[:, INFO["twap_price"]]
        points = advantages(final["value"], final["filled"], mean, final["direction"])
        weights = np.nan_to_num(final["amount"] * mean)
        weights = weights / weights.sum() if weights.any() else np.full(count, 1 / count)
        outcome = {
            "price_advantage": float(weights @ points),
            "fulfilled": float(weights @ (final["filled"] / final["amount"])),
            "participation": _participation(final["filled"], final["market_volume"]),
        }
        if self.config().reward == "shortfall":
            outcome["shortfall"] = -float(recorded.rewards.sum()) / count
        return replace(Task.episode(self, recorded, start, log), outcome=outcome)

    def idle(self, vec: VecEnv, step: StepContext) -> Any:
        """Return the smallest trade of every order."""
        space = vec.action_space
        if not isinstance(space, MultiDiscrete):
            return super().idle(vec, step)
        values = self.config().action_values
        smallest = 0 if isinstance(values, int) else int(np.argmin(values))
        return np.full((vec.num_envs, *space.shape), smallest, space.dtype)
