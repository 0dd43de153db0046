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

from sekai.training.policies.actor_critic import Actor, Critic

__all__ = ["actor_module", "critic_module", "sum_of_losses"]

SEEN = "observation"


class _ByName(nn.Module):
    """A network that reads a dict, fed with tensors in the order of their names."""

    def __init__(self, network: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.network, self.names = network, list(names)

    def forward(self, *tensors: Tensor) -> Any:
        return self.network(dict(zip(self.names, tensors, strict=True)))


def actor_module(actor: Actor) -> ProbabilisticTensorDictSequential:
    """The actor, from observations to samples of actions and their probabilities."""
    names = list(actor.inputs.leaves)
    network = TensorDictModule(
        _ByName(actor, names),
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
    names = list(critic.inputs.leaves)
    return TensorDictModule(
        _ByName(critic, names),
        in_keys=[(reads, name) for name in names],
        out_keys=["state_value"],
    )


def sum_of_losses(found: Any) -> Tensor:
    """Everything that is to be made small; the rest of what a loss tells is for the record."""
    losses = [value for name, value in found.items() if name.startswith("loss")]
    total: Tensor = sum(losses[1:], start=losses[0])
    return total
