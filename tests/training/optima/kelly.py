"""Bet a share of wealth on a biased coin at even odds: the best share is known (Kelly, 1956)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Box
from tests.training.optima.batch import Floats, Ids, NumpyBatch

MOST = 0.9
"""The largest share that can be bet."""


class Kelly(NumpyBatch):
    """Grow wealth by betting.

    Observation: the chance to win, drawn anew for each episode.
    Action: the share of wealth that is bet, from 0 to `MOST`.
    Reward: log growth of wealth.
    Truncates: after `episode_steps` bets.
    """

    action_space = Box(0.0, MOST, (1,), np.float32)
    observation_space = Box(0.0, 1.0, (1,), np.float32)

    def __init__(
        self, num_envs: int, chances: tuple[float, float] = (0.6, 0.6), episode_steps: int = 20
    ) -> None:
        super().__init__(num_envs, episode_steps)
        self.chances = chances
        self.chance = np.full(num_envs, chances[0])

    def _start(self, ids: Ids) -> None:
        low, high = self.chances
        self.chance[ids] = low + (high - low) * self.uniform()[ids]

    def _observe(self) -> NDArray[np.float32]:
        return self.chance.astype(np.float32)[:, None]

    def _earn(self, actions: NDArray[Any]) -> Floats:
        share = actions[:, 0].astype(np.float64)
        won = self.uniform() < self.chance
        return np.asarray(np.log1p(np.where(won, share, -share)))

    def _state(self) -> dict[str, NDArray[Any]]:
        return {**super()._state(), "chance": self.chance}


def growth(chance: Floats, share: Floats) -> Floats:
    """Expected log growth of one bet."""
    return np.asarray(chance * np.log1p(share) + (1.0 - chance) * np.log1p(-share))


def best_share(chance: Floats) -> Floats:
    """The share with the largest growth: what one wins more often than one loses."""
    return 2.0 * chance - 1.0
