"""A policy and its critic: two networks that read the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.distributions import Distribution

from sekai.training.actions import ActionMap
from sekai.training.distributions import Choices, Numbers
from sekai.training.normalisation import ObservationNormaliser
from sekai.training.observations import Leaf
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.build import backbone
from sekai.training.policies.heads import ChoiceHead, NumberHead, ValueHead
from sekai.training.policies.inputs import Inputs
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.trained_policy import Chooser

__all__ = ["Actor", "ActorCritic", "Critic"]

MASK = "action_mask"
"""The part of an observation that says which picks are allowed."""


class Actor(nn.Module):
    """Observations to a distribution over actions."""

    def __init__(self, inputs: Inputs, body: Backbone, actions: ActionMap, spread: float) -> None:
        super().__init__()
        self.inputs, self.body, self.actions = inputs, body, actions
        self.head: nn.Module
        if actions.is_choice:
            self.head = ChoiceHead(body.width, actions)
        else:
            self.head = NumberHead(body.width, actions, getattr(body, "slots", 0), spread)

    def forward(self, observations: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Logits, or means and standard deviations."""
        features = self.body(self.inputs(observations))
        if self.actions.is_choice:
            return (self.head(features, observations.get(MASK)),)
        means: tuple[Tensor, Tensor] = self.head(features)
        return means

    def distribution(self, observations: Mapping[str, Tensor]) -> Distribution:
        """What is chosen, and how likely."""
        return self.kind(*self(observations), **self.kind_options)

    @property
    def kind(self) -> type[Choices] | type[Numbers]:
        """The class of its distributions."""
        return Choices if self.actions.is_choice else Numbers

    @property
    def kind_options(self) -> dict[str, Any]:
        """What the class is told beside what the network says."""
        return {"counts": self.actions.choices} if self.actions.is_choice else {}

    @property
    def parameter_names(self) -> list[str]:
        """What the network says, by name."""
        return ["logits"] if self.actions.is_choice else ["loc", "scale"]


class Critic(nn.Module):
    """Observations to what the future is worth."""

    def __init__(self, inputs: Inputs, body: Backbone) -> None:
        super().__init__()
        self.inputs, self.body = inputs, body
        self.head = ValueHead(body.width)

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """One number for each row: batch by one."""
        value: Tensor = self.head(self.body(self.inputs(observations)))
        return value


class ActorCritic(Chooser):
    """Both, and the moments of observations that they share."""

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: PolicySettings,
        judged: Mapping[str, Leaf] | None = None,
    ) -> None:
        """Build both.

        Args:
            leaves: what the actor reads.
            actions: what it acts in.
            settings: how the networks are built.
            judged: what the critic reads, if it is something else.
        """
        super().__init__()
        self.normaliser = ObservationNormaliser(leaves) if settings.normalise else None
        inputs = Inputs(leaves, self.normaliser)
        self.actor = Actor(inputs, backbone(leaves, settings), actions, settings.initial_spread)
        self.judge_normaliser: ObservationNormaliser | None = None
        if judged is not None:
            self.judge_normaliser = ObservationNormaliser(judged) if settings.normalise else None
            inputs = Inputs(judged, self.judge_normaliser)
            # What several agents see has no form that other backbones know.
            settings = settings.replaced(backbone="mlp")
        self.critic = Critic(inputs, backbone(judged or leaves, settings))

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What to do, before it is turned into actions of the env."""
        chances = self.actor.distribution(observations)
        chosen: Tensor = chances.mode if deterministic else chances.sample()
        return chosen
