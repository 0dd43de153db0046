"""What each agent's picks are worth to it, and what that is worth to all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torchrl.modules import QMixer

from sekai.training.multi.groups import Group
from sekai.training.multi.joint_spaces import JointSpaces, seen_by
from sekai.training.multi.team_inputs import TeamInputs
from sekai.training.observations import ACTION_MASK, leaves_of
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.build import backbone
from sekai.training.policies.layers import linear
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.trained_policy import Chooser

__all__ = ["STATE", "Mixer", "QMIXNetwork", "TeamValues"]

STATE = "state"
"""The part of an observation that is for judging alone: what is known of the whole world."""

FORBIDDEN = -1e9
"""What picks that are not allowed are worth when the best is looked for."""


class PickValues(nn.Module):
    """Observations to what each pick is worth."""

    def __init__(self, body: Backbone, picks: int) -> None:
        super().__init__()
        self.body = body
        self.judge = linear(body.width, picks, 1.0)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Batch by picks."""
        values: Tensor = self.judge(self.body(inputs).whole)
        return values


class TeamValues(nn.Module):
    """Inputs of all agents to what their picks are worth: batch by agents by picks."""

    def __init__(self, inputs: TeamInputs, settings: PolicySettings) -> None:
        super().__init__()
        self.agents, self.groups = inputs.agents, inputs.groups
        self.picks = max(group.actions.choices[0] for group in self.groups)
        self.leaves = [list(read.leaves) for read in inputs.readers]
        self.each = nn.ModuleList(
            PickValues(backbone(read.leaves, settings), group.actions.choices[0])
            for group, read in zip(self.groups, inputs.readers, strict=True)
        )

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
    """Everything that is learnt for all agents."""

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
        counts = [own.choices[0] for own in self.actions.each.values()]
        exists = torch.arange(self.values.picks) < torch.tensor(counts).unsqueeze(-1)
        self.register_buffer("exists", exists, persistent=False)
        self.mixer = Mixer(self._state_width(), len(spaces.agents), width)

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """The best picks of all agents, whether chance is asked for or not."""
        values = self.values(self.inputs(observations))
        best = self.best(values, self.allowed(observations))
        return self.actions.joined(
            dict(zip(self.agents, torch.split(best, 1, dim=-1), strict=True))
        )

    def leanings(self, observations: Mapping[str, Tensor]) -> Tensor:
        """What each pick is worth to each agent."""
        found: Tensor = self.values(self.inputs(observations)).flatten(1)
        return found

    @staticmethod
    def best(values: Tensor, allowed: Tensor) -> Tensor:
        """The best pick of each agent: batch by agents."""
        return values.masked_fill(~allowed, FORBIDDEN).argmax(dim=-1)

    def allowed(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Which picks exist and are not forbidden: batch by agents by picks."""
        parts = []
        for place, name in enumerate(self.agents):
            seen = seen_by(observations, name)
            count = len(next(iter(seen.values())))
            exists = self.exists[place].expand(count, -1)
            mask = seen.get(ACTION_MASK)
            if mask is None:
                parts.append(exists)
                continue
            lacking = self.values.picks - mask.shape[-1]
            free = nn.functional.pad(mask.reshape(count, -1) != 0, (0, lacking))
            # Of an agent that is away nothing is allowed, and what it does makes no difference.
            parts.append(torch.where(free.any(-1, keepdim=True), free, exists))
        return torch.stack(parts, dim=-2)

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
        left_out = (ACTION_MASK, "which_agent")
        return [name for name in self.inputs.leaves if name.rpartition("/")[2] not in left_out]

    def _state_width(self) -> int:
        if self.has_state:
            return self._told[STATE].width
        leaves = self.inputs.leaves
        return sum(leaves[name].width for name in self._read) + len(self.agents)
