"""Memory game: a cue in the first step must be recalled steps later, and a mask forbids a decoy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import InvalidActionError
from sekai.spaces import Box, Discrete
from tests.training.optima.batch import Floats, Ids, NumpyBatch

__all__ = ["MemoryGame"]


class MemoryGame(NumpyBatch):
    """Recall the cue of the first step in the last one.

    Observation: the cue, one-hot in the first step and zero after it, and 1 in the last step.
    Action: a cue, or the decoy, which masks in infos forbid.
    Reward: 1 for the cue in the last step. A policy without memory earns `1 / cues` at most.
    """

    episode_steps: Any
    """Steps of the episodes of each env."""

    def __init__(self, num_envs: int, cues: int = 3, delay: int = 6) -> None:
        super().__init__(num_envs, episode_steps=delay + 1)
        self.episode_steps = np.full(num_envs, delay + 1)
        self.cues = cues
        self.observation_space = Box(0.0, 1.0, (cues + 1,), np.float32)
        self.action_space = Discrete(cues + 1)
        self.cue = np.zeros(num_envs, np.int64)
        self.ends = True

    def infos(self) -> dict[str, NDArray[Any]]:
        masks = np.ones((self.num_envs, self.cues + 1), np.int8)
        masks[:, -1] = 0
        return {"action_mask": masks}

    def _start(self, ids: Ids) -> None:
        self.cue[ids] = (self.uniform()[ids] * self.cues).astype(np.int64)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {**super()._state(), "cue": self.cue}

    def _observe(self) -> NDArray[np.float32]:
        shown = np.zeros((self.num_envs, self.cues + 1), np.float32)
        is_first = np.flatnonzero(self.clock == 0)
        shown[is_first, self.cue[is_first]] = 1.0
        shown[:, -1] = self.clock == self.episode_steps - 1
        return shown

    def _earn(self, actions: NDArray[Any]) -> Floats:
        if (np.asarray(actions) == self.cues).any():
            raise InvalidActionError("the decoy was taken, which the mask forbids")
        is_right: NDArray[np.bool_] = (self.clock == self.episode_steps - 1) & (
            np.asarray(actions) == self.cue
        )
        return is_right.astype(np.float64)
