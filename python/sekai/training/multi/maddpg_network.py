"""Actors that see for themselves, and critics that see everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from sekai.training.actions import ActionMap
from sekai.training.multi.groups import Group
from sekai.training.multi.joint_spaces import JointSpaces, seen_by
from sekai.training.multi.team_inputs import TeamInputs
from sekai.training.policies.build import backbone
from sekai.training.policies.flat import FlatBackbone
from sekai.training.policies.layers import layers, linear
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.relaxed import RelaxedActor, one_hot, picks_of
from sekai.training.policies.squashed import PreciseActor
from sekai.training.trained_policy import Chooser

__all__ = ["MADDPGNetwork"]


class JointCritic(nn.Module):
    """What all see and do to what that is worth to one of them."""

    def __init__(self, body: FlatBackbone, others: int, settings: PolicySettings) -> None:
        """Build it.

        Args:
            body: what reads observations.
            others: how many numbers there are beside: who is present, and what all do.
            settings: how the networks are built.
        """
        super().__init__()
        self.body = body
        hidden = settings.hidden[-1:] or (body.width,)
        self.both = layers(body.width + others, hidden, settings)
        self.judge = linear(hidden[-1], 1, 1.0)

    def forward(self, inputs: Mapping[str, Tensor], *others: Tensor) -> Tensor:
        """One number for each row: batch by one."""
        whole = self.body(inputs).whole
        value: Tensor = self.judge(self.both(torch.cat([whole, *others], dim=-1)))
        return value


class MADDPGNetwork(Chooser):
    """Everything that is learnt for all agents."""

    for_learning: ClassVar[tuple[str, ...]] = ("critics.",)
    spreads: Tensor
    """How widely each number of an action is tried; picks not at all."""

    critics: nn.ModuleList
    """The weights of the critics, as the losses hold them."""

    def __init__(
        self,
        spaces: JointSpaces,
        groups: Sequence[Group],
        settings: PolicySettings,
        temperature: float,
    ) -> None:
        super().__init__()
        self.agents, self.actions, self.settings = spaces.agents, spaces.actions, settings
        self.inputs = TeamInputs(spaces, groups, settings)
        actors: list[nn.Module] = []
        for group, read in zip(groups, self.inputs.readers, strict=True):
            body, own = backbone(read.leaves, settings), group.actions
            spread = settings.initial_spread * own.spread_share
            actors.append(RelaxedActor(body, own, temperature) if own.is_choice
                          else PreciseActor(body, own, spread))  # fmt: skip
        self.actors = nn.ModuleList(actors)
        spreads = [
            torch.full((own.width,), 0.0 if own.is_choice else own.spread_share)
            for own in self._each.values()
        ]
        self.register_buffer("spreads", torch.cat(spreads), persistent=False)

    @property
    def _each(self) -> dict[str, ActionMap]:
        return self.actions.each

    def new_critic(self) -> JointCritic:
        """Another critic; it belongs to who asked for it."""
        widths = [sum(own.choices) if own.is_choice else own.width for own in self._each.values()]
        body = FlatBackbone(self.inputs.leaves, self.settings)
        return JointCritic(body, len(self.agents) + sum(widths), self.settings)

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What all agents do, one after the other."""
        inputs = self.inputs(observations)
        chosen: dict[str, Tensor] = {}
        for place, (name, actor) in enumerate(zip(self.agents, self.actors, strict=True)):
            own = self.own_inputs(place, inputs)
            if not isinstance(actor, RelaxedActor):
                chosen[name] = actor(own)
            elif deterministic:
                chosen[name] = actor.likeliest(own)
            else:
                chosen[name] = picks_of(actor(own), actor.choices)
        return self.actions.joined(chosen)

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Which numbers of what is chosen count; None for all."""
        counted: dict[str, Tensor] = {}
        for name, actor in zip(self.agents, self.actors, strict=True):
            if isinstance(actor, PreciseActor):
                found = actor.head.used(actor.body, seen_by(observations, name))
                counted.update({} if found is None else {name: found})
        return self.actions.all_used(counted)

    def leanings(self, observations: Mapping[str, Tensor]) -> Tensor:
        """The logits or numbers of all agents, one after the other."""
        inputs = self.inputs(observations)
        found = []
        for place, actor in enumerate(self.actors):
            own = self.own_inputs(place, inputs)
            found.append(actor.logits(own) if isinstance(actor, RelaxedActor) else actor(own))
        return torch.cat(found, dim=-1)

    def own_inputs(self, place: int, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What one agent's actor reads."""
        name = self.agents[place]
        return {leaf[len(name) + 1 :]: rows for leaf, rows in inputs.items()
                if leaf.startswith(f"{name}/")}  # fmt: skip

    def as_read(self, chosen: Tensor, acted: Tensor) -> dict[str, Tensor]:
        """What all agents did, as critics read it: nothing of who was away."""
        found: dict[str, Tensor] = {}
        for place, (name, own) in enumerate(self._each.items()):
            part = self.actions.of(chosen, name)
            read = one_hot(part, own.choices) if own.is_choice else part
            found[name] = read * acted[:, place, None]
        return found
