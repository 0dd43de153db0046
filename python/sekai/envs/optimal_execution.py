"""Optimal execution of Almgren and Chriss: trade off market impact against price risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import OptimalExecutionBatch
from sekai.config.checked import CheckedConfig
from sekai.envs.native_env import NativeEnv, resolve_config
from sekai.market.almgren_chriss import AlmgrenChriss
from sekai.spaces import Box

Floats = NDArray[np.float64]
Shown = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalExecutionConfig(CheckedConfig):
    """Settings of `OptimalExecution`: order, market and risk aversion.

    See `sekai.market.AlmgrenChriss` for the market. The defaults are the example of Almgren and
    Chriss, a million shares in five days, with five decisions a day instead of one. Times are in
    any one unit.
    """

    side: Literal["sell", "buy"] = "sell"
    """Side of the order."""

    shares: float = 1e6
    """Size of the order."""

    initial_price: float = 50.0
    """Price at the start."""

    horizon: float = 5.0
    """Time to complete the order."""

    episode_steps: int = 25
    """Decisions in an episode."""

    volatility: float = 0.95
    """Standard deviation of the price after a unit of time, in currency."""

    temporary_impact: float = 2.5e-6
    """Temporary price impact per share per unit of time."""

    permanent_impact: float = 2.5e-7
    """Permanent price impact per share."""

    half_spread: float = 0.0625
    """Half of the bid-ask spread, paid on each share."""

    risk_aversion: float = 1e-6
    """Cost of a unit of variance; 0 rewards the expected cost alone."""

    action: Literal["rest", "order"] = "rest"
    """Base of an action: a share of the remaining order, or of the whole order, limited to what
    remains."""

    reward_unit: float | None = None
    """Currency value of a reward of 1; None for a hundredth of the order's value."""

    def __post_init__(self) -> None:
        OptimalExecutionBatch.check(self)

    @property
    def model(self) -> AlmgrenChriss:
        """Closed-form model of the order and its market."""
        return AlmgrenChriss(
            shares=self.shares,
            horizon=self.horizon,
            steps=self.episode_steps,
            volatility=self.volatility,
            temporary_impact=self.temporary_impact,
            permanent_impact=self.permanent_impact,
            half_spread=self.half_spread,
            risk_aversion=self.risk_aversion,
            initial_price=self.initial_price,
        )


class OptimalExecution(NativeEnv[Shown, Floats]):
    """Execute a large order in steps, paying for impact and for the risk of waiting.

    The reward of a step is minus the impact cost of its fill, minus the price change of the
    remaining shares, minus their risk: `risk_aversion * volatility² * step time * remaining²`.
    Rewards sum to the implementation shortfall with its sign changed, and the mean of that sum
    for a fixed schedule is `-model.objective(schedule)`, in units of `reward_unit`. The optimal
    action depends on the remaining time and shares alone; price and cost are shown for other
    objectives.

    Info: `shortfall` so far, with remaining shares at the price; `inventory` remaining; `price`;
    `traded` in the last step; `cash` from fills, negative for a buyer; `expected_cost` and
    `variance` of the shortfall of the same trades as a fixed schedule.

    Observation: share of time left; share of the order left; the price's move since the start
        in favour of the order, in standard deviations of such a move; the shortfall so far, in
        units of reward.
    Action: share of the remaining order, or of the whole order, to trade now; the last step trades
        all.
    Reward: minus the shortfall of the step and its risk.
    Terminates: when nothing is left.
    Truncates: never.

    Args:
        config: settings.
        **settings: fields of the config, instead of it.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.rendering.optimal_execution_renderer:OptimalExecutionRenderer",
    }
    batch: OptimalExecutionBatch

    def __init__(self, config: OptimalExecutionConfig | None = None, **settings: Any) -> None:
        self.config = resolve_config(OptimalExecutionConfig, config, settings)
        super().__init__(*self.make_batch(1, config=self.config))

    @staticmethod
    def make_batch(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        config: OptimalExecutionConfig | None = None,
        **settings: Any,
    ) -> tuple[OptimalExecutionBatch, Box, Box]:
        """Batch of many envs, with the observation and action space of one."""
        config = resolve_config(OptimalExecutionConfig, config, settings)
        batch = OptimalExecutionBatch(config, num_envs, num_threads, max_episode_steps)
        least = np.array([0.0, 0.0, -np.inf, -np.inf], np.float32)
        most = np.array([1.0, 1.0, np.inf, np.inf], np.float32)
        return batch, Box(least, most, dtype=np.float32), Box(0.0, 1.0, (1,), np.float64)

    def optimal_schedule(self) -> Floats:
        """Optimal trade of each step: the schedule with the least cost and risk."""
        return self.config.model.trades()

    def optimal_action(self) -> Floats:
        """Optimal action from here on, whatever was traded before."""
        action: Floats = self.batch.optimal_action()[0]
        return action


class OptimalSchedule:
    """Policy of the optimal schedule, for one env or a batch.

    Args:
        config: settings of the orders.
        **settings: fields of the config, instead of it.
    """

    def __init__(self, config: OptimalExecutionConfig | None = None, **settings: Any) -> None:
        self.config = resolve_config(OptimalExecutionConfig, config, settings)
        # Indexed by the steps left; at the end any share will do.
        self._shares = np.append(self.config.model.shares_of_rest(), 1.0)[::-1]

    def __call__(self, observations: NDArray[Any]) -> Floats:
        """Actions for the observation of one env, or for rows of observations."""
        values = np.asarray(observations, np.float64)
        steps_left = np.rint(values[..., 0] * self.config.episode_steps).astype(np.int64)
        shares: Floats = self._shares[steps_left]
        if self.config.action == "order":
            shares = shares * values[..., 1]
        return shares[..., np.newaxis]
