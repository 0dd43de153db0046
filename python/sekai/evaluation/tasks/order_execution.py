"""Working orders against minutes of a day, judged by the price against the day's mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.compose.orders.metrics import price_advantage
from sekai.compose.orders.order_execution_config import OrderExecutionConfig
from sekai.evaluation.episode import Episode
from sekai.evaluation.tasks.task import Record, Task
from sekai.spaces import Discrete
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.arena import Arena
    from sekai.evaluation.players import Moment

__all__ = ["OrderExecutionTask"]


class OrderExecutionTask(Task):
    """The mean is that of the whole window, which only a judge knows in advance."""

    name = "order_execution"
    headline = "price_advantage"
    baselines = ("twap", "vwap", "almgren_chriss", "all_at_once", "random")

    def config(self) -> OrderExecutionConfig:
        """How orders are drawn; the usual way where nobody knows."""
        options = self.arena.options or {}
        if options.get("config") is not None:
            given: OrderExecutionConfig = options["config"]
            return given
        known = OrderExecutionConfig.__dataclass_fields__
        return OrderExecutionConfig(**{name: options[name] for name in known if name in options})

    def with_costs(self, multiple: float) -> Arena | None:
        """The same orders with other costs; None if there are none."""
        config = self.config()
        rates = asdict(config.costs)
        if self.arena.options is None or not any(rates.values()):
            return None
        scaled = replace(config.costs, **{name: rate * multiple for name, rate in rates.items()})
        if self.arena.options.get("config") is not None:
            return self.arena.with_options(config=replace(config, costs=scaled))
        return self.arena.with_options(costs=scaled)

    @property
    def data_digest(self) -> str:
        """The digest of a panel; "" for made-up minutes and for what has none."""
        return str(getattr(self.config().data, "digest", ""))

    def begin(self, vec: VecEnv) -> Mapping[int, Any]:
        """The mean price of each order's window, and its direction."""
        told = {}
        for place, env in enumerate(getattr(vec, "envs", ())):
            state = env.unwrapped.simulator.get_state()
            ticks = slice(state.first_tick, state.stop_tick)
            prices = np.asarray(state.backtest_data.deal_price)[ticks]
            there = prices[np.isfinite(prices) & (prices > 0)]
            mean = float(there.mean()) if there.size else 0.0
            told[place] = (mean, state.order.direction)
        return told

    def episode(self, record: Record, told: Any, log: Any) -> Episode:
        """How an order went, as its own log tells at the end."""
        last = {name: one[1] for name, one in record.final.get("log", {}).items()}
        outcome = {"price_advantage": float(last.get("pa", np.nan))}
        if told is not None and last.get("trade_price", 0.0) > 0:
            outcome["price_advantage"] = price_advantage(last["trade_price"], *told)
        if "ffr" in last:
            outcome["fulfilled"] = float(last["ffr"])
        if self.config().reward == "shortfall":
            outcome["shortfall"] = -float(record.rewards.sum())
        return Episode(
            seed=record.seed, rewards=record.rewards, equity=np.zeros(0), actions=record.actions,
            outcome=outcome,
        )  # fmt: skip

    def idle(self, vec: VecEnv, moment: Moment) -> Any:
        """Trade nothing, or as little as can be."""
        if not isinstance(vec.action_space, Discrete):
            return super().idle(vec, moment)
        values = self.config().action_values
        least = 0 if isinstance(values, int) else int(np.argmin(values))
        return np.full(vec.num_envs, least, vec.action_space.dtype)
