"""Baselines for any env: chance, nothing, and the same action for ever."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.evaluation.players import Ground, Moment, Player
from sekai.spaces import Box, Discrete, MultiDiscrete
from sekai.vector.batching import Batcher

__all__ = ["LastAction", "Idle", "Random"]


class Random(Player):
    """Draws every action from the action space, by the seed of the episode."""

    name = "random"

    def begin(self, ground: Ground) -> None:
        """Give every env a stream of its own."""
        super().begin(ground)
        space = ground.vec.action_space
        self._batcher = Batcher(space)
        self._space = space
        self._rngs = [np.random.default_rng((seed, 0x5EED)) for seed in ground.seeds]

    def decide(self, moment: Moment) -> Any:
        """One draw for each env."""
        return self._batcher.stack([self._draw(place, moment) for place in range(len(self._rngs))])

    def _draw(self, place: int, moment: Moment) -> Any:
        # A space has one stream: it is moved to where this env's own would be.
        self._space.seed(int(self._rngs[place].integers(2**31)))
        mask = None if moment.masks is None else moment.masks[place]
        return self._space.sample() if mask is None else self._space.sample(mask=mask)


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
