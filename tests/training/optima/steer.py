"""Steering to the middle of a line, of which the best action is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Box
from tests.training.optima.batch import Floats, Ids, NumpyBatch

REACH = 0.5


class Steer(NumpyBatch):
    """Move along a line, towards its middle as fast as one can.

    Observation: the place, from -2 to 2.
    Action: twice the distance moved, from -1 to 1.
    Reward: minus the squared distance to the middle, after the move.
    Terminates: never.
    Truncates: after `episode_steps` moves.
    """

    observation_space = Box(-2.0, 2.0, (1,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, num_envs: int, episode_steps: int = 6) -> None:
        super().__init__(num_envs, episode_steps)
        self.place = np.zeros(num_envs)

    @staticmethod
    def best(observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """The best actions: no other ends nearer to the middle, now or later."""
        actions: NDArray[np.float32] = np.clip(-observations / REACH, -1.0, 1.0).astype(np.float32)
        return actions

    def _start(self, ids: Ids) -> None:
        self.place[ids] = (self.uniform() * 3.0 - 1.5)[ids]

    def _observe(self) -> NDArray[np.float32]:
        return self.place[:, None].astype(np.float32)

    def _earn(self, actions: NDArray[Any]) -> Floats:
        self.place = np.clip(self.place + REACH * actions[:, 0].astype(np.float64), -2.0, 2.0)
        return np.asarray(-np.square(self.place))

    def _state(self) -> dict[str, NDArray[Any]]:
        return {**super()._state(), "place": self.place}
