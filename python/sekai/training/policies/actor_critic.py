"""A policy and its critic: two networks that read the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from sekai.error import SpaceError
from sekai.training.actions import ActionMap
from sekai.training.distributions import Choices, Numbers
from sekai.training.observations import ACTION_MASK, Leaf, is_action_mask
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.build import backbone, inputs_of
from sekai.training.policies.heads import ChoiceHead, NumberHead, ValueHead
from sekai.training.policies.inputs import Gather, Inputs
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.trained_policy import Chooser

__all__ = ["Actor", "ActorCritic", "Critic"]


class Actor(nn.Module):
    """Observations to a distribution over actions."""

    def __init__(
        self,
        inputs: Inputs,
        body: Backbone,
        actions: ActionMap,
        spread: float,
        mask_names: tuple[str, ...] = (),
    ) -> None:
        """Put it together.

        Args:
            inputs: what turns observations into numbers.
            body: what reads them.
            actions: what there is to choose.
            spread: the standard deviation of numbers at first.
            mask_names: leaves of the observation that say which picks are allowed.
        """
        super().__init__()
        self.inputs, self.body, self.actions = inputs, body, actions
        self.mask_names = mask_names if actions.is_choice else ()
        self.head: ChoiceHead | NumberHead
        if actions.is_choice:
            self.head = ChoiceHead(body, actions)
        else:
            self.head = NumberHead(body, actions, spread)

    def forward(
        self, observations: Mapping[str, Tensor], is_read: bool = False
    ) -> tuple[Tensor, ...]:
        """Logits; or means, standard deviations and, where slots are masked, which count.

        Args:
            observations: what is seen.
            is_read: whether they are what `Inputs` makes of them, beside masks of actions.
        """
        features = self.body(observations if is_read else self.inputs(observations))
        if isinstance(self.head, ChoiceHead):
            return (self.head(features, self._allowed(observations)),)
        means, *rest = self.head(features)
        # Numbers beyond the bounds are all the same action: means that went there would see no
        # difference between what they try, and never come back.
        return (torch.tanh(means) if self.actions.is_bounded else means), *rest

    def distribution(
        self, observations: Mapping[str, Tensor], is_read: bool = False
    ) -> Distribution:
        """What is chosen, and how likely."""
        return self.kind(*self(observations, is_read), **self.kind_options)

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Which numbers of an action count; None for all."""
        head = self.head
        return head.used(self.body, observations) if isinstance(head, NumberHead) else None

    @property
    def names(self) -> list[str]:
        """The leaves of an observation that it reads."""
        return [*self.inputs.names, *self.mask_names]

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
        if isinstance(self.head, ChoiceHead):
            return ["logits"]
        return ["loc", "scale", "used"] if self.head.is_masked else ["loc", "scale"]

    def _allowed(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Which picks are allowed, one after the other; who gives no mask allows all."""
        # What is given to `predict` goes before what the observation says, in parts perhaps.
        names = (ACTION_MASK,) if ACTION_MASK in observations else self.mask_names
        masks = [observations[name] for name in names if name in observations]
        if not masks:
            return None
        return torch.cat([mask.reshape(len(mask), -1) != 0 for mask in masks], dim=-1)


class Critic(nn.Module):
    """Observations to what the future is worth."""

    def __init__(self, inputs: Inputs, body: Backbone) -> None:
        super().__init__()
        self.inputs, self.body = inputs, body
        self.head = ValueHead(body.width)

    def forward(self, observations: Mapping[str, Tensor], is_read: bool = False) -> Tensor:
        """One number for each row: batch by one.

        Args:
            observations: what is seen.
            is_read: whether they are what `Inputs` makes of them.
        """
        inputs = observations if is_read else self.inputs(observations)
        value: Tensor = self.head(self.body(inputs))
        return value

    @property
    def names(self) -> list[str]:
        """The leaves of an observation that it reads."""
        return self.inputs.names


class ActorCritic(Chooser):
    """Both, and the moments of observations that they share."""

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: PolicySettings,
        gather: Gather | None = None,
        judged: Mapping[str, Leaf] | None = None,
    ) -> None:
        """Build both.

        Args:
            leaves: what the actor reads.
            actions: what it acts in.
            settings: how the networks are built.
            gather: what looks up windows, where the observation has only their numbers.
            judged: what the critic reads, if it is something else.
        """
        super().__init__()
        self.inputs = inputs_of(leaves, settings, gather)
        body = backbone(self.inputs.leaves, settings)
        masks = mask_names(leaves, actions)
        spread = settings.initial_spread * actions.spread_share
        self.actor = Actor(self.inputs, body, actions, spread, masks)
        self.judge_inputs = self.inputs
        if judged is not None:
            # What several agents see has no form that other backbones know.
            settings = settings.replaced(backbone="mlp", shared=False)
            self.judge_inputs = inputs_of(judged, settings)
        own = body if settings.shared else backbone(self.judge_inputs.leaves, settings)
        self.critic = Critic(self.judge_inputs, own)

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What to do, before it is turned into actions of the env."""
        chances = self.actor.distribution(observations)
        chosen: Tensor = chances.mode if deterministic else chances.sample()
        return chosen

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Which numbers of what is chosen count; None for all."""
        return self.actor.used(observations)

    def leanings(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Logits, or means."""
        found: Tensor = self.actor(observations)[0]
        return found


def mask_names(leaves: Mapping[str, Leaf], actions: ActionMap) -> tuple[str, ...]:
    """The leaves that say which picks are allowed, checked to have a number for each."""
    names = tuple(name for name in leaves if is_action_mask(name))
    found = sum(leaves[name].width for name in names)
    if names and actions.is_choice and found != sum(actions.choices):
        raise SpaceError(
            f"action_mask needs {sum(actions.choices)} numbers, one for each of the picks "
            f"{actions.choices}, found {found}"
        )
    return names
