"""A policy on its own: it acts, without envs and without learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.spaces import Space
from sekai.training.action_masks import flat_mask
from sekai.training.actions import ActionMap
from sekai.training.observations import ACTION_MASK, is_action_mask, leaves_of, tensors_of
from sekai.training.randomness import Randomness
from sekai.vector.batching import Batcher

__all__ = ["Chooser", "TrainedPolicy"]


class Chooser(nn.Module):
    """What every network of an algorithm can do: choose."""

    for_learning: ClassVar[tuple[str, ...]] = ()
    """How the names of weights begin that are needed to learn, and not to act."""

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What to do, before it is turned into actions of the env."""
        raise NotImplementedError

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Which numbers of what is chosen count, for `ActionMap.to_env`; None for all."""
        return None

    def leanings(self, observations: Mapping[str, Tensor]) -> Tensor:
        """The numbers that choices are made of: who computes otherwise is known by them."""
        return self.choose(observations, deterministic=True)


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

    def predict(self, observation: Any, deterministic: bool = True, action_mask: Any = None) -> Any:
        """The action for one observation of one env.

        Args:
            observation: what is seen.
            deterministic: whether to take the likeliest, or to draw.
            action_mask: which picks are allowed, as `action_space.sample(mask=...)` takes it and
                `info["action_mask"]` tells it; None for what the observation says, or for all.
        """
        why = self.observation_space.mismatch(observation)
        if why is not None:
            raise SpaceError(f"the policy was trained on other observations: {why}")
        masks = None if action_mask is None else [action_mask]
        batch = self._seen.stack([observation])
        return self._done.rows(self.predict_batch(batch, deterministic, masks))[0]

    @torch.no_grad()
    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        """Actions for a batch of observations, as a vector env gives and takes them.

        Args:
            observations: what is seen.
            deterministic: whether to take the likeliest, or to draw.
            action_mask: which picks are allowed in each env, one by one; None as in `predict`.
        """
        seen = tensors_of(observations)
        if action_mask is not None:
            seen = self._masked(seen, action_mask)
        if deterministic:
            return self._acted(seen, deterministic=True)
        with self.randomness:
            return self._acted(seen, deterministic=False)

    def _acted(self, seen: dict[str, Tensor], deterministic: bool) -> Any:
        chosen = self.network.choose(seen, deterministic)
        return self.actions.to_env(chosen, self.network.used(seen))

    def _masked(self, seen: dict[str, Tensor], masks: Any) -> dict[str, Tensor]:
        """What is seen, with other masks of actions."""
        flat = np.stack([flat_mask(self.action_space, mask) for mask in masks])
        rest = {name: rows for name, rows in seen.items() if not is_action_mask(name)}
        return {**rest, ACTION_MASK: torch.from_numpy(flat)}
