"""A small table of places and moves, whose action values are known, with forbidden moves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import InvalidActionError
from sekai.spaces import Box, Discrete
from tests.training.optima.batch import Floats, Ids, NumpyBatch

PLACES, MOVES = 5, 3


class Table(NumpyBatch):
    """Move between places; every move costs something, so that what was never tried looks best.

    Observation: the place, one-hot.
    Action: one of three moves, of which infos forbid one in most places.
    Reward: minus the cost of the move.
    Terminates: never.
    Truncates: after `episode_steps` moves.
    """

    observation_space = Box(0.0, 1.0, (PLACES,), np.float32)
    action_space = Discrete(MOVES)

    def __init__(self, num_envs: int, masked: bool = True, episode_steps: int = 7) -> None:
        super().__init__(num_envs, episode_steps)
        rng = np.random.default_rng(11)
        self.following = rng.integers(0, PLACES, (PLACES, MOVES))
        self.costs = rng.uniform(0.2, 2.0, (PLACES, MOVES))
        self.allowed = np.ones((PLACES, MOVES), np.bool_)
        if masked:
            self.allowed[np.arange(PLACES), rng.integers(0, MOVES, PLACES)] = False
            self.allowed[0] = True
        self.place = np.zeros(num_envs, np.int64)
        self.last = self.place.copy()

    def values(self, gamma: float) -> Floats:
        """What each move is worth: by place and move; forbidden ones are not a number."""
        values = np.zeros((PLACES, MOVES))
        for _ in range(1000):
            best = np.where(self.allowed, values, -np.inf).max(axis=1)
            values = -self.costs + gamma * best[self.following]
        return np.where(self.allowed, values, np.nan)

    def infos(self) -> dict[str, NDArray[Any]]:
        return {"action_mask": self.allowed[self.place].astype(np.int8)}

    def final_infos(self) -> dict[str, NDArray[Any]]:
        return {"action_mask": self.allowed[self.last].astype(np.int8)}

    def _start(self, ids: Ids) -> None:
        self.place[ids] = (self.uniform() * PLACES).astype(np.int64)[ids]

    def _observe(self) -> NDArray[np.float32]:
        return np.eye(PLACES, dtype=np.float32)[self.place]

    def _earn(self, actions: NDArray[Any]) -> Floats:
        if not self.allowed[self.place, actions].all():
            raise InvalidActionError("a forbidden move was made")
        earned = -self.costs[self.place, actions]
        self.place = self.following[self.place, actions]
        self.last = self.place.copy()
        return np.asarray(earned)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {**super()._state(), "place": self.place}
