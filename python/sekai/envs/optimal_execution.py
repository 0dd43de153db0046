"""Work a large order: trade fast and pay for impact, or slowly and carry the risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import OptimalExecutionBatch
from sekai.envs.native_env import NativeEnv
from sekai.market.almgren_chriss import AlmgrenChriss
from sekai.spaces import Box

__all__ = ["OptimalExecution", "OptimalExecutionConfig", "OptimalSchedule"]

Floats = NDArray[np.float64]
Shown = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalExecutionConfig:
    """What order an episode of `OptimalExecution` works, and what that costs.

    See `sekai.market.AlmgrenChriss` for the market. The defaults are the example of Almgren and
    Chriss, a million shares in five days, with five decisions a day instead of one. Times are in
    any one unit.
    """

    side: Literal["sell", "buy"] = "sell"
    """Whether the order sells or buys."""

    shares: float = 1e6
    """How much it trades."""

    initial_price: float = 50.0
    """The price when the order is given."""

    horizon: float = 5.0
    """The time there is for it."""

    episode_steps: int = 25
    """Into how many decisions that is cut."""

    volatility: float = 0.95
    """Standard deviation of the price after a unit of time, in currency."""

    temporary_impact: float = 2.5e-6
    """How far the price of a fill gives way, for each share in a unit of time."""

    permanent_impact: float = 2.5e-7
    """How far the price gives way for good, for each share."""

    half_spread: float = 0.0625
    """What a share costs however slowly it is traded."""

    risk_aversion: float = 1e-6
    """What a unit of variance of the cost is worth; 0 rewards the cost alone."""

    action: Literal["rest", "order"] = "rest"
    """What an action is a share of: what is left to trade, or the whole order. Of the latter no
    more is traded than what is left."""

    reward_unit: float | None = None
    """Money that a reward of 1 stands for; None for a hundredth of the order's value."""

    def __post_init__(self) -> None:
        OptimalExecutionBatch.check(self)

    @property
    def model(self) -> AlmgrenChriss:
        """The order and its market in closed form."""
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
    """Decide how much of an order to trade in each step, and pay for haste and for delay.

    The reward of a step is what its fill gave way and what the price then took from the shares
    that are left, with their risk: `risk_aversion * volatility² * step time * left²`. So rewards
    sum to what the order fell short of its value at the initial price, and the mean of that sum
    for a schedule fixed in advance is `-model.objective(schedule)`, in units of `reward_unit`.
    What is best depends on the time and the shares that are left; the price and the cost so far
    are shown for those with other aims.

    Info: `shortfall` so far, shares left marked at the price; `inventory` left; `price`; `traded`
    in the last step; `cash` that fills brought, below 0 for a buyer; `expected_cost` and
    `variance` of the shortfall, had what was traded been fixed in advance.

    Observation: share of time left; share of the order left; the price's move since the beginning
        in favour of the order, in standard deviations of such a move; the shortfall so far, in
        units of reward.
    Action: share of what is left to trade now, or of the order; the last step trades all.
    Reward: minus the shortfall of the step and its risk.
    Terminates: when nothing is left.
    Truncates: never.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.rendering.optimal_execution_renderer:OptimalExecutionRenderer",
    }
    batch: OptimalExecutionBatch

    def __init__(self, config: OptimalExecutionConfig | None = None, **settings: Any) -> None:
        """Build from a config, or from its fields by name."""
        self.config = _config(config, settings)
        batch, observations, actions = self.make_batch(1, config=self.config)
        super().__init__(batch, observations, actions)

    @staticmethod
    def make_batch(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        config: OptimalExecutionConfig | None = None,
        **settings: Any,
    ) -> tuple[OptimalExecutionBatch, Box, Box]:
        """Many of these envs, the space of their observations and that of their actions."""
        config = _config(config, settings)
        batch = OptimalExecutionBatch(config, num_envs, num_threads, max_episode_steps)
        least = np.array([0.0, 0.0, -np.inf, -np.inf], np.float32)
        most = np.array([1.0, 1.0, np.inf, np.inf], np.float32)
        return batch, Box(least, most, dtype=np.float32), Box(0.0, 1.0, (1,), np.float64)

    def optimal_schedule(self) -> Floats:
        """What to trade in each step of an episode so that cost and risk are least."""
        return self.config.model.trades()

    def optimal_action(self) -> Floats:
        """The action that makes cost and risk least from here on, whatever came before."""
        action: Floats = self.batch.optimal_action()[0]
        return action


class OptimalSchedule:
    """The policy that plays the optimal schedule, for one env or many: observations to actions."""

    def __init__(self, config: OptimalExecutionConfig | None = None, **settings: Any) -> None:
        """Play orders of this config, or of its fields by name."""
        self.config = _config(config, settings)
        # By how many steps are left; at the end nothing is, and any share will do.
        self._shares = np.append(self.config.model.shares_of_rest(), 1.0)[::-1]

    def __call__(self, observations: NDArray[Any]) -> Floats:
        """Actions for what one env shows, or for rows of what many show."""
        shown = np.asarray(observations, np.float64)
        steps_left = np.rint(shown[..., 0] * self.config.episode_steps).astype(np.int64)
        shares: Floats = self._shares[steps_left]
        if self.config.action == "order":
            shares = shares * shown[..., 1]
        return shares[..., np.newaxis]


def _config(
    config: OptimalExecutionConfig | None, settings: dict[str, Any]
) -> OptimalExecutionConfig:
    if config is None:
        return OptimalExecutionConfig(**settings)
    if settings:
        raise TypeError(
            f"either a config or its fields were wanted, found both: {sorted(settings)}"
        )
    return config
