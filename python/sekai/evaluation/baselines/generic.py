"""Baselines for any env: random, idle and constant actions."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from sekai.evaluation.policy import EpisodeContext, Policy, StepContext
from sekai.spaces import Box, Discrete, MultiDiscrete
from sekai.vector.batching import Batcher

__all__ = ["Idle", "LastAction", "Random"]


class Random(Policy):
    """Random policy: samples the action space, seeded by the episode."""

    name = "random"

    def begin(self, context: EpisodeContext) -> None:
        """Seed one copy of the action space for each env."""
        super().begin(context)
        self._batcher = Batcher(context.vec.action_space)
        self._spaces = [copy.deepcopy(context.vec.action_space) for _ in context.seeds]
        for space, seed in zip(self._spaces, context.seeds, strict=True):
            space.seed(seed)

    def decide(self, step: StepContext) -> Any:
        """Sample an action for each env, within its mask."""
        masks = [None] * len(self._spaces) if step.masks is None else step.masks
        pairs = zip(self._spaces, masks, strict=True)
        return self._batcher.stack(
            [space.sample() if mask is None else space.sample(mask=mask) for space, mask in pairs]
        )


class Idle(Policy):
    """Idle policy: the task's action that does nothing."""

    name = "idle"

    def decide(self, step: StepContext) -> Any:
        """Return idle actions."""
        return self.idle(step)


class LastAction(Policy):
    """Constant policy: the last discrete action, or the upper bounds."""

    name = "last_action"

    def decide(self, step: StepContext) -> Any:
        """Return the same action for all envs."""
        space, count = self.context.vec.action_space, self.context.vec.num_envs
        if isinstance(space, Discrete):
            return np.full(count, space.start + space.n - 1, space.dtype)
        if isinstance(space, MultiDiscrete):
            return np.repeat((space.start + space.nvec - 1)[None], count, axis=0)
        if isinstance(space, Box):
            upper = np.where(np.isfinite(space.high), space.high, np.maximum(space.low, 0.0))
            return np.repeat(upper.astype(space.dtype)[None], count, axis=0)
        return self.idle(step)
