"""Make a market: quote both sides, earn the spread, carry the risk of what is held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import MarketMakingBatch
from sekai.envs.native_env import NativeEnv
from sekai.spaces import Box

__all__ = ["MarketMaking", "MarketMakingConfig"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketMakingConfig:
    """How an episode of `MarketMaking` is cut and priced; times are in any one unit.

    The defaults are the market of Avellaneda and Stoikov, with an inventory limit so wide that
    it hardly ever binds.
    """

    initial_mid: float = 100.0
    """The mid price that an episode begins with."""

    initial_cash: float = 0.0
    """Cash that an episode begins with."""

    volatility: float = 2.0
    """Standard deviation of the mid price after a unit of time."""

    horizon: float = 1.0
    """How long an episode lasts."""

    episode_steps: int = 200
    """Into how many decisions an episode is cut; quotes are held between two of them."""

    fill_rate: float = 140.0
    """Fills in a unit of time of a quote at the mid price."""

    fill_decay: float = 1.5
    """How fast fills become fewer with distance: a quote is filled at the rate
    `fill_rate * exp(-fill_decay * distance)`."""

    inventory_limit: int = 20
    """The most that is held, long or short; the side that would exceed it is not quoted."""

    min_distance: float = -1.0
    """The smallest distance that can be quoted; below 0 is across the mid price."""

    max_distance: float = 5.0
    """The largest distance that can be quoted."""

    risk_aversion: float = 0.1
    """Absolute risk aversion of `optimal_action` and `certainty_equivalent`; the reward does not
    know it."""

    running_penalty: float = 0.0
    """What holding a unit costs in a unit of time; grows with the square of what is held."""

    liquidation_penalty: float = 0.0
    """What a unit costs that is still held at the end."""

    ruin_wealth: float | None = None
    """Wealth at or below which the episode terminates; None for never."""

    def __post_init__(self) -> None:
        MarketMakingBatch.check(self)


class MarketMaking(NativeEnv[Floats, Floats]):
    """Quote a distance below and above the mid price and earn what the fills pay.

    Observation: share of time left; inventory as a share of its limit; the mid's last move and
        its move since the beginning, each in standard deviations of such a move.
    Action: distances of the bid and of the ask from the mid price.
    Reward: change of wealth marked at the mid price, less penalties if there are any.
    Terminates: when wealth reaches `ruin_wealth`, if that is set.
    Truncates: after `episode_steps` decisions.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.rendering.market_making_renderer:MarketMakingRenderer",
    }
    batch: MarketMakingBatch

    def __init__(self, config: MarketMakingConfig | None = None, **settings: Any) -> None:
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
        config: MarketMakingConfig | None = None,
        **settings: Any,
    ) -> tuple[MarketMakingBatch, Box, Box]:
        """Many of these envs, the space of their observations and that of their actions."""
        config = _config(config, settings)
        batch = MarketMakingBatch(config, num_envs, num_threads, max_episode_steps)
        least = np.array([0.0, -1.0, -np.inf, -np.inf])
        most = np.array([1.0, 1.0, np.inf, np.inf])
        bounds = config.min_distance, config.max_distance
        return batch, Box(least, most, dtype=np.float64), Box(*bounds, (2,), np.float64)

    def optimal_action(self) -> Floats:
        """The distances that maximise expected utility from here on, in closed form."""
        action: Floats = self.batch.optimal_action()[0]
        return action

    def certainty_equivalent(self) -> float:
        """The sure wealth that is worth as much as quoting optimally from here on."""
        return float(self.batch.certainty_equivalent()[0])


def _config(config: MarketMakingConfig | None, settings: dict[str, Any]) -> MarketMakingConfig:
    if config is None:
        return MarketMakingConfig(**settings)
    if settings:
        raise TypeError(
            f"either a config or its fields were wanted, found both: {sorted(settings)}"
        )
    return config
