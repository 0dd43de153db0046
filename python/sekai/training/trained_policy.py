"""Trained policy: inference by torch without envs and training state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sekai.data.signature import DataSignature
from sekai.policy.base import SpacePolicy
from sekai.policy.observations import ACTION_MASK, Leaf, is_action_mask, leaves_of
from sekai.spaces import Space
from sekai.training.actions import ActionMap
from sekai.training.observations import tensors_of
from sekai.training.rng import RandomStream

__all__ = ["PolicyNetwork", "RecurrentPolicy", "TrainedPolicy"]


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


NetworkFactory = Callable[[Mapping[str, Leaf], ActionMap], PolicyNetwork | None]
"""Makes an untrained network for observation leaves and actions."""


class TrainedPolicy(SpacePolicy):
    """Policy of a torch network.

    Args:
        network: trained network.
        observation_space: observation space of the env.
        action_space: action space of the env.
        randomness: random stream of sampled actions.
        make: makes an untrained network of the same kind, for `on_spaces`.
        data_signature: data that the policy was trained on; None without market data.
        allow: names of differences from that data that are allowed; see `load_policy`.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        observation_space: Space[Any],
        action_space: Space[Any],
        randomness: RandomStream,
        *,
        make: NetworkFactory | None = None,
        data_signature: DataSignature | None = None,
        allow: Collection[str] = (),
    ) -> None:
        super().__init__(
            observation_space, action_space, data_signature=data_signature, allow=allow
        )
        self._make, self.network, self.randomness = make, network, randomness
        self.actions = ActionMap(action_space)

    def on_spaces(self, observation_space: Space[Any], action_space: Space[Any]) -> TrainedPolicy:
        """Same policy for another number of assets; see `SpacePolicy.on_spaces`."""
        network = None
        if self._make is not None:
            network = self._make(leaves_of(observation_space), ActionMap(action_space))
        saved = {
            name: weights
            for name, weights in self.network.state_dict().items()
            if not name.startswith(self.network.for_learning)
        }
        own = {} if network is None else network.state_dict()
        if network is None or {name: weights.shape for name, weights in own.items()} != {
            name: weights.shape for name, weights in saved.items()
        }:
            raise self._misfit(observation_space)
        network.load_state_dict(saved)
        return type(self)(
            network,
            observation_space,
            action_space,
            self.randomness,
            make=self._make,
            data_signature=self.data_signature,
            allow=self.allow,
        )

    @torch.no_grad()
    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        """Actions for a batch of observations; see `SpacePolicy.predict_batch`."""
        leaves = tensors_of(observations)
        if action_mask is not None:
            leaves = self._masked(leaves, action_mask)
        if deterministic:
            return self._acted(leaves, deterministic=True)
        with self.randomness:
            return self._acted(leaves, deterministic=False)

    def _acted(self, observations: dict[str, Tensor], deterministic: bool) -> Any:
        chosen = self.network.choose(observations, deterministic)
        return self.actions.to_env(chosen, self.network.used(observations))

    def _masked(self, observations: dict[str, Tensor], masks: Any) -> dict[str, Tensor]:
        """Observations with other action masks."""
        rest = {name: rows for name, rows in observations.items() if not is_action_mask(name)}
        return {**rest, ACTION_MASK: torch.from_numpy(self._flat_masks(masks))}


class RecurrentPolicy(TrainedPolicy):
    """Policy of a recurrent network, whose state the caller carries.

    States have the form of stable-baselines3: arrays of layers by envs by units, (hidden, cell) of
    an LSTM and (hidden,) of a GRU.
    """

    network: Any

    def predict(
        self,
        observation: Any,
        deterministic: bool = True,
        action_mask: Any = None,
        *,
        state: Any = None,
        episode_start: Any = None,
    ) -> tuple[Any, Any]:
        """Action for one observation of one env, and the state for the next call.

        Args:
            observation: observation of the env.
            deterministic: take the most likely action instead of a sample.
            action_mask: allowed actions; see `SpacePolicy.predict`.
            state: state that the last call returned; None for the initial one.
            episode_start: True if the observation is the first of an episode: the state is reset.
        """
        self._check_observation(observation)
        masks = None if action_mask is None else [action_mask]
        batch = self._batch_of_one(observation)
        starts = None if episode_start is None else np.reshape(episode_start, 1)
        actions, after = self.predict_batch(
            batch, deterministic, masks, state=state, episode_start=starts
        )
        return self._action_batcher.rows(actions)[0], after

    @torch.no_grad()
    def predict_batch(
        self,
        observations: Any,
        deterministic: bool = True,
        action_mask: Any = None,
        *,
        state: Any = None,
        episode_start: Any = None,
    ) -> tuple[Any, Any]:
        """Actions for a batch of observations of a vector env, and the states for the next call.

        Args:
            observations: batch of observations.
            deterministic: take the most likely action instead of a sample.
            action_mask: action mask of each env; see `SpacePolicy.predict`.
            state: states that the last call returned; None for the initial ones.
            episode_start: True for each env whose observation is the first of an episode.
        """
        leaves = tensors_of(observations)
        if action_mask is not None:
            leaves = self._masked(leaves, action_mask)
        before = self._state(state, episode_start, len(next(iter(leaves.values()))))
        if deterministic:
            chosen, after = self.network.act(leaves, before, deterministic=True)
        else:
            with self.randomness:
                chosen, after = self.network.act(leaves, before, deterministic=False)
        parts = self.network.body.memory.as_parts(after)
        actions = self.actions.to_env(chosen, self.network.used(leaves))
        return actions, tuple(part.cpu().numpy() for part in parts)

    def _state(self, state: Any, episode_start: Any, count: int) -> Tensor:
        initial: Tensor = self.network.initial_state(count)
        if state is None:
            return initial
        memory = self.network.body.memory
        shapes = [tuple(part.shape) for part in memory.as_parts(initial)]
        parts = [np.asarray(part, np.float32) for part in state]
        if [part.shape for part in parts] != shapes:
            raise ValueError(
                f"state must be arrays of shapes {shapes}, got {[part.shape for part in parts]}; "
                "pass the state that the last call returned, or None"
            )
        tensors = tuple(torch.tensor(part, device=initial.device) for part in parts)
        before: Tensor = memory.as_rows(tensors)
        if episode_start is None:
            return before
        starts = np.broadcast_to(np.asarray(episode_start, np.bool_), (count,))
        return before.masked_fill(torch.tensor(starts, device=before.device).unsqueeze(-1), 0.0)
