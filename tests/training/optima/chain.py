"""Walk along a chain that pays the same at every step: values are sums of a geometric series."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Box
from tests.training.optima.batch import Floats, NumpyBatch


class Chain(NumpyBatch):
    """Earn `reward` at every step, whatever one does.

    Observation: the share of the episode that is over; or of a round of `places` steps.
    Action: a number that changes nothing.
    Reward: `reward`.
    Terminates: after `episode_steps` steps, if `ends`.
    Truncates: after `episode_steps` steps, otherwise.
    """

    observation_space = Box(0.0, 1.0, (1,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(
        self,
        num_envs: int,
        ends: bool,
        episode_steps: int = 5,
        reward: float = 1.0,
        places: int | None = None,
    ) -> None:
        """Lay the chain.

        Args:
            num_envs: how many walk along it.
            ends: whether there is nothing after the last step.
            episode_steps: the last of which is the end, or where the walk is cut off.
            reward: of each step.
            places: after how many steps the same is seen again; None for never.
        """
        super().__init__(num_envs, episode_steps)
        self.ends, self.reward = ends, reward
        self.states = places or episode_steps
        self.is_ring = places is not None

    def _observe(self) -> NDArray[np.float32]:
        place = self.clock % self.states if self.is_ring else self.clock
        return (place / self.states).astype(np.float32)[:, None]

    def _earn(self, actions: NDArray[Any]) -> Floats:
        return np.full(self.num_envs, self.reward)

    def values(self, discount: float) -> Floats:
        """What each place of the chain is worth, the first first."""
        if not self.ends:
            return np.full(self.states, self.reward / (1.0 - discount))
        left = np.arange(self.episode_steps, 0, -1)
        return np.asarray(self.reward * (1.0 - discount**left) / (1.0 - discount))
