"""Hold a risky asset beside cash: the best weight is constant and known (Merton, 1969)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Box, Simplex, Space
from tests.training.optima.batch import Floats, NumpyBatch

DRIFT, VOLATILITY = 0.12, 0.3
"""Of the risky asset over a step; cash earns nothing."""


class Merton(NumpyBatch):
    """Choose the weight of one asset, which is kept up all through a step.

    Observation: the share of the episode that is over.
    Action: the weight of the asset, from -2 to 2; or weights of cash and asset that sum to one.
    Reward: what a step adds to utility: log growth if `aversion` is 1, otherwise the utility of
    the wealth that one unit has become, a step being an episode of its own.
    Truncates: after `episode_steps` steps with log utility.
    Terminates: after one step with power utility.
    """

    observation_space = Box(0.0, 1.0, (1,), np.float32)

    def __init__(
        self,
        num_envs: int,
        aversion: float = 1.0,
        simplex: bool = False,
        episode_steps: int = 20,
    ) -> None:
        super().__init__(num_envs, episode_steps if aversion == 1.0 else 1)
        self.aversion = aversion
        self.ends = aversion != 1.0
        self.action_space: Space[Any] = (
            Simplex(2, dtype=np.float64) if simplex else Box(-2.0, 2.0, (1,), np.float32)
        )

    def _observe(self) -> NDArray[np.float32]:
        return (self.clock / self.episode_steps).astype(np.float32)[:, None]

    def shown(self) -> NDArray[np.float32]:
        """All that is ever observed before a decision, in a row."""
        return (np.arange(self.episode_steps) / self.episode_steps).astype(np.float32)[:, None]

    def _earn(self, actions: NDArray[Any]) -> Floats:
        weight = actions[:, -1].astype(np.float64)
        certain = weight * DRIFT - 0.5 * (weight * VOLATILITY) ** 2
        grown = certain + weight * VOLATILITY * self.normal()
        if self.aversion == 1.0:
            return np.asarray(grown)
        power = 1.0 - self.aversion
        return np.asarray(np.expm1(power * grown) / power)


def best_weight(aversion: float) -> float:
    """The weight with the largest expected utility."""
    return DRIFT / (aversion * VOLATILITY**2)


def certain_growth(weight: Floats, aversion: float) -> Floats:
    """The log growth for sure that is worth as much as holding the weight."""
    return np.asarray(weight * DRIFT - 0.5 * aversion * (weight * VOLATILITY) ** 2)
