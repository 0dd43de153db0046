"""Baselines for any env: chance, nothing, and the same action for ever."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from sekai.evaluation.players import Ground, Moment, Player
from sekai.spaces import Box, Discrete, MultiDiscrete, Space
from sekai.vector.batching import Batcher

__all__ = ["Idle", "LastAction", "Random"]


class Random(Player):
    """Draws every action from the action space, by the seed of the episode."""

    name = "random"

    def begin(self, ground: Ground) -> None:
        """Give every env a stream of its own."""
        super().begin(ground)
        self._batcher = Batcher(ground.vec.action_space)
        self._spaces = [copy.deepcopy(ground.vec.action_space) for _ in ground.seeds]
        for space, seed in zip(self._spaces, ground.seeds, strict=True):
            space.seed(seed)

    def decide(self, moment: Moment) -> Any:
        """One draw for each env."""
        masks = [None] * len(self._spaces) if moment.masks is None else moment.masks
        return self._batcher.stack(
            [_draw(space, mask) for space, mask in zip(self._spaces, masks, strict=True)]
        )


def _draw(space: Space[Any], mask: Any) -> Any:
    return space.sample() if mask is None else space.sample(mask=mask)


class Idle(Player):
    """Does nothing, as far as an env knows such an action: 0, or what is next to it."""

    name = "idle"

    def decide(self, moment: Moment) -> Any:
        """Nothing."""
        return self.wait(moment)


class LastAction(Player):
    """Takes one end of the action space, in every step: its last value, or all upper bounds."""

    name = "last_action"

    def decide(self, moment: Moment) -> Any:
        """Always the same."""
        space, count = self.ground.vec.action_space, self.ground.vec.num_envs
        if isinstance(space, Discrete):
            return np.full(count, space.start + space.n - 1, space.dtype)
        if isinstance(space, MultiDiscrete):
            return np.repeat((space.start + space.nvec - 1)[None], count, axis=0)
        if isinstance(space, Box):
            most = np.where(np.isfinite(space.high), space.high, np.maximum(space.low, 0.0))
            return np.repeat(most.astype(space.dtype)[None], count, axis=0)
        return self.wait(moment)
