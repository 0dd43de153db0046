"""Our networks as TorchRL's losses read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensordict import TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
)
from torch import Tensor, nn
from torch.distributions import Distribution
from torchrl.modules import TanhNormal

from sekai.training.policies.action_critic import ActionCritic
from sekai.training.policies.actor_critic import Actor, Critic

__all__ = [
    "ActorModule",
    "ByName",
    "CriticModule",
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

    def __init__(self, network: nn.Module, names: Sequence[str], **options: Any) -> None:
        super().__init__()
        self.network, self.names, self.options = network, list(names), options

    def forward(self, *tensors: Tensor) -> Any:
        """What the network makes of them."""
        # What comes after the tensors that have names is given on as it is.
        named = dict(zip(self.names, tensors, strict=False))
        return self.network(named, *tensors[len(named) :], **self.options)


class ActorModule(ProbabilisticTensorDictSequential):  # type: ignore[misc]
    """An actor whose distributions come straight from its network.

    On the way through its parts, each step of the optimiser would pay for several dicts.
    """

    def __init__(self, actor: Actor, is_read: bool, *parts: nn.Module) -> None:
        super().__init__(*parts)
        self.actor, self.is_read = actor, is_read

    def get_dist(self, tensordict: TensorDictBase, **_: Any) -> Distribution:
        """How likely each action is, now."""
        return self.actor.distribution(dict(tensordict.get(SEEN).items()), self.is_read)


class CriticModule(TensorDictModuleBase):  # type: ignore[misc]
    """A critic that reads one part of a dict."""

    def __init__(self, critic: Critic, reads: str, is_read: bool) -> None:
        super().__init__()
        self.critic, self.reads, self.is_read = critic, reads, is_read
        self.in_keys = [(reads, name) for name in critic.names]
        self.out_keys = ["state_value"]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The same dict, with what it is worth."""
        seen = dict(tensordict.get(self.reads).items())
        return tensordict.set("state_value", self.critic(seen, self.is_read))


def actor_module(actor: Actor, is_read: bool = False) -> ActorModule:
    """The actor, from observations to samples of actions and their probabilities.

    Args:
        actor: what decides.
        is_read: whether observations are what `Inputs` makes of them.
    """
    names = actor.names
    network = TensorDictModule(
        ByName(actor, names, is_read=is_read),
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
    return ActorModule(actor, is_read, network, chooser)


def critic_module(critic: Critic, reads: str = SEEN, is_read: bool = False) -> CriticModule:
    """The critic, from observations under a name to what they are worth.

    Args:
        critic: what judges.
        reads: the name.
        is_read: whether observations are what `Inputs` makes of them.
    """
    return CriticModule(critic, reads, is_read)


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
