"""What each agent's picks are worth to it, and what that is worth to all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torchrl.modules import QMixer

from sekai.training.actions import ActionMap
from sekai.training.multi.groups import WHICH, Group
from sekai.training.multi.joint_spaces import JointSpaces, seen_by
from sekai.training.multi.team_inputs import TeamInputs
from sekai.training.observations import is_action_mask, leaves_of, observed_mask
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.build import backbone
from sekai.training.policies.layers import linear
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.relaxed import one_hot
from sekai.training.trained_policy import Chooser

__all__ = ["STATE", "Mixer", "QMIXNetwork", "TeamValues"]

STATE = "state"
"""The part of an observation that is for judging alone: what is known of the whole world."""

FORBIDDEN = -1e9
"""What picks that are not allowed are worth when the best is looked for."""


class PickValues(nn.Module):
    """Observations to utilities: what each pick is worth, those of all picks one after another.

    Where there is one pick for each slot, from equally many, all slots are judged by the same
    weights. A slot that is not in use is worth nothing, and its middle pick is taken: for tilts, as
    much as before.
    """

    middle: Tensor

    def __init__(self, body: Backbone, actions: ActionMap) -> None:
        super().__init__()
        self.body, choices = body, actions.choices
        is_alike = len(choices) == body.slots and len(set(choices)) == 1
        self.slots = body.slots if is_alike else 0
        width = choices[0] if self.slots else sum(choices)
        self.judge = linear(body.width, width, 1.0)
        self.register_buffer("middle", torch.arange(width) == width // 2, persistent=False)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Batch by picks."""
        features = self.body(inputs)
        if not self.slots or features.slots is None:
            whole: Tensor = self.judge(features.whole)
            return whole
        values: Tensor = self.judge(features.slots)
        if features.mask is not None:
            values = values.masked_fill(~features.mask.unsqueeze(-1), 0.0)
        return values.flatten(1)

    def open(self, seen: Mapping[str, Tensor]) -> Tensor | None:
        """Picks that make a difference, and the middle ones of slots that are not in use."""
        if not self.slots or self.body.mask_name is None:
            return None
        used = (seen[self.body.mask_name] != 0).unsqueeze(-1)
        return (used | self.middle).flatten(1)


class TeamValues(nn.Module):
    """Inputs of all agents to what their picks are worth: batch by agents by picks.

    Of an agent with several picks the utilities of all of them lie one after another.
    """

    def __init__(self, inputs: TeamInputs, settings: PolicySettings) -> None:
        super().__init__()
        self.agents, self.groups = inputs.agents, inputs.groups
        self.picks = max(sum(group.actions.choices) for group in self.groups)
        self.leaves = [list(read.leaves) for read in inputs.readers]
        self.each = nn.ModuleList(
            PickValues(backbone(read.leaves, settings), group.actions)
            for group, read in zip(self.groups, inputs.readers, strict=True)
        )

    def judge_of(self, agent: str) -> PickValues:
        """What judges for an agent."""
        for group, network in zip(self.groups, self.each, strict=True):
            if agent in group.agents:
                assert isinstance(network, PickValues), "what values are made of"
                return network
        raise KeyError(agent)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Agents with fewer picks than others have zeros in the places of those they lack."""
        found: dict[str, Tensor] = {}
        for group, leaves, network in zip(self.groups, self.leaves, self.each, strict=True):
            rows = {leaf: torch.cat([inputs[f"{name}/{leaf}"] for name in group.agents])
                    for leaf in leaves}  # fmt: skip
            values = network(rows)
            lacking = self.picks - values.shape[-1]
            parts = nn.functional.pad(values, (0, lacking)).chunk(len(group.agents))
            found.update(zip(group.agents, parts, strict=True))
        return torch.stack([found[name] for name in self.agents], dim=-2)


class Mixer(nn.Module):
    """What agents expect to what all of them together do, never less if one expects more."""

    def __init__(self, state: int, agents: int, width: int) -> None:
        super().__init__()
        self.mixer = QMixer((state,), width, agents, "cpu")

    def forward(self, values: Tensor, present: Tensor, state: Tensor) -> Tensor:
        """Batch by one; agents that are away expect nothing."""
        mixed: Tensor = self.mixer(values * present.unsqueeze(-1), state)
        return mixed


class QMIXNetwork(Chooser):
    """Everything that is learnt for all agents.

    An agent that takes several picks at once (`MultiDiscrete`) expects the sum of their utilities,
    as branches that are mixed by addition. The mixer never falls where an agent expects more, and
    an agent never expects less where a pick is worth more: so what is best for all is what is best
    of each pick alone, and the best joint action is found without looking at all of them.
    """

    exists: Tensor
    """Which picks each agent has: agents by picks."""

    def __init__(
        self, spaces: JointSpaces, groups: Sequence[Group], settings: PolicySettings, width: int
    ) -> None:
        """Build the networks.

        Args:
            spaces: of the agents.
            groups: who of them shares a network.
            settings: how the networks are built.
            width: how many numbers the mixer mixes with.
        """
        super().__init__()
        self.agents, self.actions, self.groups = spaces.agents, spaces.actions, list(groups)
        self.inputs = TeamInputs(spaces, groups, settings)
        self.values = TeamValues(self.inputs, settings)
        self._told = leaves_of(spaces.observation_spaces[spaces.agents[0]])
        self.has_state = STATE in self._told
        self.choices = {name: own.choices for name, own in self.actions.each.items()}
        counts = [sum(own) for own in self.choices.values()]
        exists = torch.arange(self.values.picks) < torch.tensor(counts).unsqueeze(-1)
        self.register_buffer("exists", exists, persistent=False)
        self.mixer = Mixer(self._state_width(), len(spaces.agents), width)

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """The best picks of all agents, whether chance is asked for or not."""
        values = self.values(self.inputs(observations))
        return self.actions.joined(self.best(values, self.allowed(observations)))

    def leanings(self, observations: Mapping[str, Tensor]) -> Tensor:
        """What each pick is worth to each agent."""
        found: Tensor = self.values(self.inputs(observations)).flatten(1)
        return found

    def best(self, values: Tensor, allowed: Tensor) -> dict[str, Tensor]:
        """The best picks of each agent: batch by how many it takes at once."""
        worth = values.masked_fill(~allowed, FORBIDDEN)
        return {
            name: torch.stack([part.argmax(dim=-1) for part in self._split(worth, name)], dim=-1)
            for name in self.agents
        }

    def taken(self, picks: Mapping[str, Tensor]) -> Tensor:
        """Picks as ones where they were taken: batch by agents by picks."""
        hot = [one_hot(picks[name].long(), own) for name, own in self.choices.items()]
        padded = [nn.functional.pad(part, (0, self.values.picks - part.shape[-1])) for part in hot]
        return torch.stack(padded, dim=-2)

    def _split(self, table: Tensor, name: str) -> tuple[Tensor, ...]:
        """What an agent's picks are worth, pick by pick."""
        own = self.choices[name]
        return torch.split(table[:, self.agents.index(name), : sum(own)], list(own), dim=-1)

    def allowed(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Which picks exist and are not forbidden: batch by agents by picks."""
        parts = []
        for place, name in enumerate(self.agents):
            seen = seen_by(observations, name)
            count = len(next(iter(seen.values())))
            free = self.exists[place].expand(count, -1)
            # Of an agent that is away nothing is allowed, and what it does makes no difference.
            for told in (observed_mask(seen), self.values.judge_of(name).open(seen)):
                free = free if told is None else self._narrowed(free, told, name)
            parts.append(free)
        return torch.stack(parts, dim=-2)

    def _narrowed(self, free: Tensor, told: Tensor, name: str) -> Tensor:
        """What is free and told to be allowed; of picks where that is nothing, what was free."""
        own = self.choices[name]
        found = []
        for before, mask in zip(
            torch.split(free[:, : sum(own)], list(own), dim=-1),
            torch.split(told, list(own), dim=-1),
            strict=True,
        ):
            both = before & mask
            found.append(torch.where(both.any(-1, keepdim=True), both, before))
        narrowed = torch.cat(found, dim=-1)
        return nn.functional.pad(narrowed, (0, free.shape[-1] - narrowed.shape[-1]))

    def state(
        self, observations: Mapping[str, Tensor], inputs: Mapping[str, Tensor], present: Tensor
    ) -> Tensor:
        """What the mixer knows of the world: what the env says, or what all agents see."""
        if self.has_state:
            told = [seen_by(observations, name)[STATE].flatten(1).float() for name in self.agents]
            # Who is away is told nothing: the first who is there knows.
            first = present.int().argmax(dim=-1)
            return torch.stack(told, dim=1)[torch.arange(len(first)), first]
        parts = [inputs[name].flatten(1) if inputs[name].dim() > 1 else inputs[name].unsqueeze(1)
                 for name in self._read]  # fmt: skip
        return torch.cat([*parts, present.float()], dim=-1)

    @property
    def _read(self) -> list[str]:
        return [
            f"{name}/{leaf}"
            for name in self.agents
            for leaf in self.inputs.leaves_of(name)
            if leaf != WHICH and not is_action_mask(leaf)
        ]

    def _state_width(self) -> int:
        if self.has_state:
            return self._told[STATE].width
        leaves = self.inputs.leaves
        return sum(leaves[name].width for name in self._read) + len(self.agents)
