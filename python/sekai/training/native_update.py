"""Native updates: the gradient steps of an MLP actor-critic in one call."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from quant_gym_rs._core import ActorCriticTrainer
from sekai.policy.settings import PolicySettings
from sekai.training.native_rollout import NoNativeFormError
from sekai.training.policies.actor_critic import (
    ActorCritic,
    Backbone,
    CategoricalHead,
    MLPBackbone,
)

__all__ = ["NativeUpdate"]


class NativeUpdate:
    """Gradient steps of PPO and A2C on an MLP actor-critic, without Python between minibatches.

    Weights stay in the torch modules and moments in the torch optimizer: they are read before and
    written after each call, so that checkpoints are the same.

    Args:
        network: network to train.
        optimizer: Adam optimizer of the network.
        settings: architecture.
        threads: largest number of threads; the result does not depend on it.

    Raises:
        NoNativeFormError: the network has no native form.
    """

    def __init__(
        self,
        network: Any,
        optimizer: torch.optim.Optimizer,
        settings: PolicySettings,
        threads: int = 1,
    ) -> None:
        if type(network) is not ActorCritic:
            raise NoNativeFormError(f"{type(network).__name__} is not an actor-critic of one agent")
        if network.inputs.device.type != "cpu":
            raise NoNativeFormError(f"the network is on {network.inputs.device}")
        if network.critic_inputs is not network.inputs:
            raise NoNativeFormError("the critic has other observations than the actor")
        if settings.share_features_extractor:
            raise NoNativeFormError("actor and critic share the backbone")
        head: Any = network.actor.head
        is_choice = isinstance(head, CategoricalHead)
        last = head.logits if is_choice else head.rest
        actor = [*_linear_layers(network.actor.body), last]
        critic = [*_linear_layers(network.critic.body), network.critic.value]
        weights: list[Tensor] = [part for layer in actor for part in (layer.weight, layer.bias)]
        if not is_choice:
            weights.append(head.log_std)
        weights += [part for layer in critic for part in (layer.weight, layer.bias)]
        if {id(weight) for weight in weights} != {id(weight) for weight in network.parameters()}:
            raise NoNativeFormError("the network has other weights than an MLP")
        if not all(weight.requires_grad for weight in weights):
            raise NoNativeFormError("some weights are not trained")
        self.network, self.optimizer, self.weights = network, optimizer, weights
        self.threads = threads
        self._body: Any = network.actor.body
        self._ends = list(itertools.accumulate(weight.numel() for weight in weights))
        self._trainer = ActorCriticTrainer(
            _sizes(actor), _sizes(critic), settings.activation, list(network.actor.choices),
            network.actor.is_bounded,
        )  # fmt: skip

    def values(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Values of preprocessed observations."""
        rows = self._rows(observations)
        return torch.from_numpy(self._trainer.values(self._flat(self.weights), rows))

    def gradient(
        self,
        samples: Mapping[str, Any],
        log_probs: NDArray[np.float32] | None,
        loss: dict[str, Any],
    ) -> list[Tensor]:
        """Gradient of the loss of all samples by weight; `log_probs` are of before the update."""
        settings = self._settings(loss, len(samples["advantages"]))
        flat = self._trainer.gradient(self._flat(self.weights), dict(samples), log_probs, settings)
        return self._split(torch.from_numpy(flat))

    def __call__(
        self, samples: Mapping[str, Any], order: NDArray[np.int64], loss: dict[str, Any], size: int
    ) -> dict[str, float] | None:
        """Take the gradient steps of all epochs; return mean metrics, or None if it diverged.

        Args:
            samples: see `samples`.
            order: indices of samples, of one epoch after another.
            loss: hyperparameters of the loss.
            size: samples of a minibatch.
        """
        states = [self._moments(weight) for weight in self.weights]
        parameters = self._flat(self.weights)
        means = self._flat([state["exp_avg"] for state in states])
        squares = self._flat([state["exp_avg_sq"] for state in states])
        state = {
            "parameters": parameters,
            "means": means,
            "squares": squares,
            "steps": int(states[0]["step"]),
        }
        settings = self._settings(loss, size)
        steps, metrics = self._trainer.update(state, dict(samples), order, settings)
        flats = (self._split(torch.from_numpy(flat)) for flat in (parameters, means, squares))
        with torch.no_grad():
            for weight, own, numbers, mean, square in zip(
                self.weights, states, *flats, strict=True
            ):
                weight.copy_(numbers)
                own["exp_avg"].copy_(mean)
                own["exp_avg_sq"].copy_(square)
                own["step"].fill_(steps)
        return metrics

    def samples(
        self,
        observations: Mapping[str, Tensor],
        actions: Tensor,
        advantages: Tensor,
        returns: Tensor,
    ) -> dict[str, Any]:
        """Arrays of samples, whose observations are preprocessed."""
        allowed = self.network.actor.allowed(observations)
        return {
            "observations": self._rows(observations),
            "actions": actions.float().contiguous().numpy(),
            "allowed": None if allowed is None else allowed.contiguous().numpy(),
            "advantages": advantages.contiguous().numpy(),
            "returns": returns.contiguous().numpy(),
        }

    def _rows(self, observations: Mapping[str, Tensor]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = self._body.flattened(observations).contiguous().numpy()
        return rows

    def _settings(self, loss: dict[str, Any], size: int) -> dict[str, Any]:
        group = self.optimizer.param_groups[0]
        return {
            **loss,
            "learning_rate": float(group["lr"]),
            "betas": tuple(group["betas"]),
            "epsilon": float(group["eps"]),
            "batch_size": size,
            "threads": self.threads,
        }

    def _moments(self, weight: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.optimizer.state[weight]
        if not state:
            # As Adam begins, before its first step.
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        return state

    def _flat(self, tensors: list[Tensor]) -> NDArray[np.float32]:
        flat: NDArray[np.float32] = torch.cat(
            [tensor.detach().reshape(-1) for tensor in tensors]
        ).numpy()
        return flat

    def _split(self, flat: Tensor) -> list[Tensor]:
        return [
            flat[end - weight.numel() : end].reshape(weight.shape)
            for weight, end in zip(self.weights, self._ends, strict=True)
        ]


def _linear_layers(body: Backbone) -> list[nn.Linear]:
    if type(body) is not MLPBackbone:
        raise NoNativeFormError(f"the backbone {type(body).__name__} is not an MLP")
    return [layer for layer in body.body if isinstance(layer, nn.Linear)]


def _sizes(layers: list[nn.Linear]) -> list[int]:
    return [layers[0].in_features, *(layer.out_features for layer in layers)]
