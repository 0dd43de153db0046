"""Trained policy: inference without envs and training state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.spaces import Space
from sekai.training.actions import ActionMap, flat_mask
from sekai.training.observations import ACTION_MASK, is_action_mask, leaves_of, tensors_of
from sekai.training.rng import RandomStream
from sekai.vector.batching import Batcher

__all__ = ["PolicyNetwork", "TrainedPolicy"]


class PolicyNetwork(nn.Module):
    """Interface of policy networks."""

    for_learning: ClassVar[tuple[str, ...]] = ()
    """Prefixes of weights that only training needs."""

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Actions before conversion to the action space of the env."""
        raise NotImplementedError

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of the action components in use, for `ActionMap.to_env`; None for all."""
        return None

    def action_parameters(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Parameters of the action distribution, to compare networks bit for bit."""
        return self.choose(observations, deterministic=True)


class TrainedPolicy:
    """Policy: observations to actions."""

    def __init__(
        self,
        network: PolicyNetwork,
        observation_space: Space[Any],
        action_space: Space[Any],
        randomness: RandomStream,
    ) -> None:
        self.network = network
        self.observation_space, self.action_space = observation_space, action_space
        self.randomness = randomness
        self.leaves = leaves_of(observation_space)
        self.actions = ActionMap(action_space)
        self._seen = Batcher(observation_space)
        self._done = Batcher(action_space)

    def predict(self, observation: Any, deterministic: bool = True, action_mask: Any = None) -> Any:
        """Action for one observation of one env.

        Args:
            observation: observation of the env.
            deterministic: take the most likely action instead of a sample.
            action_mask: allowed actions, as in `action_space.sample(mask=...)` and
                `info["action_mask"]`; None for the mask in the observation, or all.
        """
        why = self.observation_space.mismatch(observation)
        if why is not None:
            raise SpaceError(f"observation does not match the space of the policy: {why}")
        masks = None if action_mask is None else [action_mask]
        batch = self._seen.stack([observation])
        return self._done.rows(self.predict_batch(batch, deterministic, masks))[0]

    @torch.no_grad()
    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        """Actions for a batch of observations of a vector env.

        Args:
            observations: batch of observations.
            deterministic: take the most likely action instead of a sample.
            action_mask: action mask of each env; None as in `predict`.
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
        """Observations with other action masks."""
        flat = np.stack([flat_mask(self.action_space, mask) for mask in masks])
        rest = {name: rows for name, rows in seen.items() if not is_action_mask(name)}
        return {**rest, ACTION_MASK: torch.from_numpy(flat)}
