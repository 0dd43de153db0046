"""A policy on its own: it acts, without envs and without learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.spaces import Space
from sekai.training.actions import ActionMap
from sekai.training.observations import leaves_of, tensors_of
from sekai.training.randomness import Randomness
from sekai.vector.batching import Batcher

__all__ = ["Chooser", "TrainedPolicy"]


class Chooser(nn.Module):
    """What every network of an algorithm can do: choose."""

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What to do, before it is turned into actions of the env."""
        raise NotImplementedError


class TrainedPolicy:
    """Observations in, actions out."""

    def __init__(
        self,
        network: Chooser,
        observation_space: Space[Any],
        action_space: Space[Any],
        randomness: Randomness,
    ) -> None:
        self.network = network
        self.observation_space, self.action_space = observation_space, action_space
        self.randomness = randomness
        self.leaves = leaves_of(observation_space)
        self.actions = ActionMap(action_space)
        self._seen = Batcher(observation_space)
        self._done = Batcher(action_space)

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """The action for one observation of one env."""
        why = self.observation_space.mismatch(observation)
        if why is not None:
            raise SpaceError(f"the policy was trained on other observations: {why}")
        batch = self._seen.stack([observation])
        return self._done.rows(self.predict_batch(batch, deterministic))[0]

    @torch.no_grad()
    def predict_batch(self, observations: Any, deterministic: bool = True) -> Any:
        """Actions for a batch of observations, as a vector env gives and takes them."""
        seen = tensors_of(observations)
        if deterministic:
            return self.actions.to_env(self.network.choose(seen, deterministic=True))
        with self.randomness:
            return self.actions.to_env(self.network.choose(seen, deterministic=False))
