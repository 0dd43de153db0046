"""Our networks as TorchRL's losses read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import Tensor, nn
from torchrl.modules import TanhNormal

from sekai.training.policies.action_critic import ActionCritic
from sekai.training.policies.actor_critic import Actor, Critic

__all__ = [
    "ByName",
    "action_critic_module",
    "actor_module",
    "critic_module",
    "precise_module",
    "squashed_module",
    "sum_of_losses",
]

SEEN = "observation"


class ByName(nn.Module):
    """A network that reads a dict, fed with tensors in the order of their names."""

    def __init__(self, network: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.network, self.names = network, list(names)

    def forward(self, *tensors: Tensor) -> Any:
        """What the network makes of them."""
        # What comes after the tensors that have names is given on as it is.
        named = dict(zip(self.names, tensors, strict=False))
        return self.network(named, *tensors[len(named) :])


def actor_module(actor: Actor) -> ProbabilisticTensorDictSequential:
    """The actor, from observations to samples of actions and their probabilities."""
    names = actor.names
    network = TensorDictModule(
        ByName(actor, names),
        in_keys=[(SEEN, name) for name in names],
        out_keys=actor.parameter_names,
    )
    chooser = ProbabilisticTensorDictModule(
        in_keys=actor.parameter_names,
        out_keys=["action"],
        distribution_class=actor.kind,
        distribution_kwargs=actor.kind_options,
        default_interaction_type="random",
        return_log_prob=True,
        log_prob_key="action_log_prob",
    )
    return ProbabilisticTensorDictSequential(network, chooser)


def critic_module(critic: Critic, reads: str = SEEN) -> TensorDictModule:
    """The critic, from observations under a name to what they are worth."""
    names = critic.names
    return TensorDictModule(
        ByName(critic, names),
        in_keys=[(reads, name) for name in names],
        out_keys=["state_value"],
    )


def precise_module(actor: nn.Module, names: Sequence[str]) -> TensorDictModule:
    """A `PreciseActor`, from inputs to numbers."""
    return TensorDictModule(
        ByName(actor, names), in_keys=[(SEEN, name) for name in names], out_keys=["action"]
    )


def squashed_module(actor: nn.Module, names: Sequence[str]) -> ProbabilisticTensorDictSequential:
    """A `SquashedActor`, from inputs to samples of numbers and their probabilities."""
    network = TensorDictModule(
        ByName(actor, names),
        in_keys=[(SEEN, name) for name in names],
        out_keys=["loc", "scale"],
    )
    chooser = ProbabilisticTensorDictModule(
        in_keys=["loc", "scale"],
        out_keys=["action"],
        distribution_class=TanhNormal,
        default_interaction_type="random",
        return_log_prob=True,
        log_prob_key="action_log_prob",
    )
    return ProbabilisticTensorDictSequential(network, chooser)


def action_critic_module(critic: ActionCritic, names: Sequence[str]) -> TensorDictModule:
    """The critic, from inputs and numbers to what both are worth."""
    return TensorDictModule(
        ByName(critic, names),
        in_keys=[*((SEEN, name) for name in names), "action"],
        out_keys=["state_action_value"],
    )


def sum_of_losses(found: Any) -> Tensor:
    """Everything that is to be made small; the rest of what a loss tells is for the record."""
    losses = [value for name, value in found.items() if name.startswith("loss")]
    total: Tensor = sum(losses[1:], start=losses[0])
    return total
