"""Normalise the observations and rewards of all envs in one native call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quant_gym_rs._core import RewardScale
from sekai.core.result import VecResetResult, VecStepResult
from sekai.vector.batching import to_backend, to_numpy
from sekai.vector.vec_env import VecEnv
from sekai.vector.wrapper import (
    VecObservationWrapper,
    VecWrapper,
    everywhere,
    waiting_in,
    with_rewards,
)
from sekai.wrappers.nested_moments import NestedMoments
from sekai.wrappers.normalize_reward import checked_gamma

__all__ = ["NormalizeVecObservation", "NormalizeVecReward"]


class NormalizeVecObservation(VecObservationWrapper):
    """Normalises observations by the running mean and variance over all envs.

    Every Box inside a nested space is normalised on its own, element by element; what is not a
    Box passes unchanged. The last observations of episodes are learnt from and normalised too.
    Set `learning` to False to stop the statistics, for evaluation say.
    """

    def __init__(self, env: VecEnv, epsilon: float = 1e-8, clip: float = math.inf) -> None:
        super().__init__(env)
        self.learning = True
        self.moments = NestedMoments(env.observation_space, epsilon, clip)
        self.observation_space = self.moments.normalised_space

    def observation(self, obs: Any) -> Any:
        """Take a batch into the statistics and show it in standard deviations from the mean."""
        shown = self.moments.normalise(to_numpy(obs), self.learning)
        return to_backend(self.backend, shown)


class NormalizeVecReward(VecWrapper):
    """Divides rewards by the running standard deviation of the discounted return of all envs.

    The mean is left alone, so that the sign of a reward keeps its meaning. Set `learning` to
    False to stop the statistics.
    """

    def __init__(self, env: VecEnv, gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__(env)
        self.gamma = checked_gamma(gamma)
        self.learning = True
        self.scale = RewardScale(env.num_envs, gamma, epsilon)
        self._running = np.ones(env.num_envs, np.bool_)

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        dones = to_numpy(result.dones)
        skips = self.autoreset == "next_step"
        running = self._running if skips else None
        rewards = self.scale.scale(to_numpy(result.rewards), dones, self.learning, running)
        if skips:
            # The step after the end only begins the next episode: its zero is no reward.
            self._running = ~waiting_in(result)
        return with_rewards(result, to_backend(self.backend, rewards))

    def _map_some(self, result: VecStepResult[Any], ids: Sequence[int]) -> VecStepResult[Any]:
        rewards = everywhere(result.rewards, ids, self.num_envs)
        dones = everywhere(result.dones, ids, self.num_envs)
        counts = everywhere(self._running[list(ids)], ids, self.num_envs)
        scaled = self.scale.scale(rewards, dones, self.learning, counts)[list(ids)]
        if self.autoreset == "next_step":
            self._running[list(ids)] = ~waiting_in(result)
        return with_rewards(result, to_backend(self.backend, scaled))

    def _map_reset(self, result: VecResetResult[Any], ids: Sequence[int]) -> VecResetResult[Any]:
        begun = np.zeros(self.num_envs, np.bool_)
        begun[list(ids)] = True
        self.scale.restart(begun)
        self._running |= begun
        return result
