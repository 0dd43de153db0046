"""What networks of several agents read, scaled for each group by what its agents saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from sekai.training.multi.groups import Group
from sekai.training.multi.joint_spaces import ALIVE, JointSpaces, seen_by
from sekai.training.observations import Leaf, is_action_mask
from sekai.training.policies.build import inputs_of
from sekai.training.policies.inputs import Inputs
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["TeamInputs"]


class TeamInputs(nn.Module):
    """Joint observations to inputs by agent and leaf; moments are of agents that were there."""

    def __init__(
        self, spaces: JointSpaces, groups: Sequence[Group], settings: PolicySettings
    ) -> None:
        super().__init__()
        self.groups, self.agents = list(groups), list(spaces.agents)
        self.each = nn.ModuleList(inputs_of(group.leaves, settings) for group in groups)

    @property
    def readers(self) -> list[Inputs]:
        """What reads for each group."""
        return [read for read in self.each if isinstance(read, Inputs)]

    @property
    def leaves(self) -> dict[str, Leaf]:
        """Everything that is read, by the names of the inputs."""
        found = {
            name: {f"{name}/{leaf}": kind for leaf, kind in group.leaves.items()}
            for group in self.groups
            for name in group.agents
        }
        return {leaf: kind for name in self.agents for leaf, kind in found[name].items()}

    def leaves_of(self, agent: str) -> list[str]:
        """The leaves of one agent, by its own names."""
        return [leaf for group in self.groups if agent in group.agents for leaf in group.leaves]

    def names(self, agent: str) -> list[str]:
        """The inputs of one agent."""
        return [name for name in self.leaves if name.startswith(f"{agent}/")]

    def forward(self, joint: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs of all agents; masks of actions as they are."""
        found: dict[str, Tensor] = {}
        for group, inputs in zip(self.groups, self.readers, strict=True):
            for number, name in enumerate(group.agents):
                told = self._told(group, joint, name, number)
                masks = {leaf: rows for leaf, rows in told.items() if is_action_mask(leaf)}
                read = {**inputs(told), **masks}
                found.update({f"{name}/{leaf}": numbers for leaf, numbers in read.items()})
        return found

    @torch.no_grad()
    def learn(self, joint: Mapping[str, Tensor]) -> None:
        """Take in what agents saw while they were there."""
        for group, inputs in zip(self.groups, self.readers, strict=True):
            for number, name in enumerate(group.agents):
                is_there = joint[ALIVE][:, self.agents.index(name)] != 0
                if bool(is_there.any()):
                    told = self._told(group, joint, name, number)
                    inputs.learn({leaf: rows[is_there] for leaf, rows in told.items()})

    @staticmethod
    def _told(
        group: Group, joint: Mapping[str, Tensor], name: str, number: int
    ) -> dict[str, Tensor]:
        seen = {leaf: rows for leaf, rows in seen_by(joint, name).items()
                if leaf in group.leaves or is_action_mask(leaf)}  # fmt: skip
        count = len(next(iter(seen.values())))
        return group.told(seen, torch.full((count,), number))
