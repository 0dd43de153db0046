"""Trained policy: inference by torch without envs and training state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sekai.data.signature import DataSignature
from sekai.policy.base import SpacePolicy
from sekai.policy.observations import ACTION_MASK, Leaf, is_action_mask, leaves_of
from sekai.spaces import Space
from sekai.training.actions import ActionMap
from sekai.training.observations import tensors_of
from sekai.training.rng import RandomStream

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
        return TrainedPolicy(
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
