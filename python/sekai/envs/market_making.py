"""Market-making environment of Avellaneda and Stoikov: quote both sides, carry inventory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import MarketMakingBatch
from sekai.config.checked import CheckedConfig
from sekai.envs.native_env import NativeEnv, resolve_config
from sekai.spaces import Box

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketMakingConfig(CheckedConfig):
    """Settings of `MarketMaking`; times are in any one unit.

    The defaults are the market of Avellaneda and Stoikov, with an inventory limit that hardly
    ever binds.
    """

    initial_mid: float = 100.0
    """Mid price at the start of an episode."""

    initial_cash: float = 0.0
    """Cash at the start of an episode."""

    volatility: float = 2.0
    """Standard deviation of the mid price after a unit of time."""

    horizon: float = 1.0
    """Duration of an episode."""

    episode_steps: int = 200
    """Decisions in an episode; quotes are fixed between two of them."""

    fill_rate: float = 140.0
    """Fills per unit of time of a quote at the mid price."""

    fill_decay: float = 1.5
    """Decay of the fill rate with distance: a quote is filled at the rate
    `fill_rate * exp(-fill_decay * distance)`."""

    inventory_limit: int = 20
    """Largest inventory, long or short; the side that would exceed it is not quoted."""

    min_distance: float = -1.0
    """Smallest distance of a quote; below 0 is across the mid price."""

    max_distance: float = 5.0
    """Largest distance of a quote."""

    risk_aversion: float = 0.1
    """Absolute risk aversion of `optimal_action` and `certainty_equivalent`; not used by the
    reward."""

    running_penalty: float = 0.0
    """Cost of inventory per unit of time, times the square of the inventory."""

    liquidation_penalty: float = 0.0
    """Cost of each unit still held at the end."""

    ruin_wealth: float | None = None
    """Wealth at or below which the episode terminates; None for never."""

    def __post_init__(self) -> None:
        MarketMakingBatch.check(self)


class MarketMaking(NativeEnv[Floats, Floats]):
    """Quote a distance below and above the mid price and earn the spread of the fills.

    Observation: share of time left; inventory as a share of its limit; the mid's last move and
        its move since the start, each in standard deviations of such a move.
    Action: distances of the bid and of the ask from the mid price.
    Reward: change of wealth marked at the mid price, less penalties.
    Terminates: when wealth reaches `ruin_wealth`, if that is set.
    Truncates: after `episode_steps` decisions.

    Args:
        config: settings.
        **settings: fields of the config, instead of it.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.rendering.market_making_renderer:MarketMakingRenderer",
    }
    batch: MarketMakingBatch

    def __init__(self, config: MarketMakingConfig | None = None, **settings: Any) -> None:
        self.config = resolve_config(MarketMakingConfig, config, settings)
        super().__init__(*self.make_batch(1, config=self.config))

    @staticmethod
    def make_batch(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        config: MarketMakingConfig | None = None,
        **settings: Any,
    ) -> tuple[MarketMakingBatch, Box, Box]:
        """Batch of many envs, with the observation and action space of one."""
        config = resolve_config(MarketMakingConfig, config, settings)
        batch = MarketMakingBatch(config, num_envs, num_threads, max_episode_steps)
        least = np.array([0.0, -1.0, -np.inf, -np.inf])
        most = np.array([1.0, 1.0, np.inf, np.inf])
        bounds = config.min_distance, config.max_distance
        return batch, Box(least, most, dtype=np.float64), Box(*bounds, (2,), np.float64)

    def optimal_action(self) -> Floats:
        """Distances that maximise expected utility from here on, in closed form."""
        action: Floats = self.batch.optimal_action()[0]
        return action

    def certainty_equivalent(self) -> float:
        """Certainty equivalent of quoting optimally from here on."""
        return float(self.batch.certainty_equivalent()[0])
