"""What networks of several agents read, scaled for each group by what its agents saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from sekai.training.multi.groups import Group
from sekai.training.multi.joint_world import ALIVE, JointWorld, seen_by
from sekai.training.normalisation import ObservationNormaliser
from sekai.training.observations import Leaf
from sekai.training.policies.inputs import Inputs

__all__ = ["TeamInputs"]


class TeamInputs(nn.Module):
    """Joint observations to inputs by agent and leaf; moments are of agents that were there."""

    def __init__(self, world: JointWorld, groups: Sequence[Group], normalise: bool) -> None:
        super().__init__()
        self.groups, self.agents = list(groups), list(world.agents)
        normalisers = [ObservationNormaliser(group.leaves) if normalise else None
                       for group in groups]  # fmt: skip
        self.each = nn.ModuleList(
            Inputs(group.leaves, normaliser)
            for group, normaliser in zip(groups, normalisers, strict=True)
        )

    @property
    def leaves(self) -> dict[str, Leaf]:
        """Everything that is read, by the names of the inputs."""
        found = {
            name: {f"{name}/{leaf}": kind for leaf, kind in group.leaves.items()}
            for group in self.groups
            for name in group.agents
        }
        return {leaf: kind for name in self.agents for leaf, kind in found[name].items()}

    def names(self, agent: str) -> list[str]:
        """The inputs of one agent."""
        return [name for name in self.leaves if name.startswith(f"{agent}/")]

    def forward(self, joint: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs of all agents."""
        found: dict[str, Tensor] = {}
        for group, inputs in zip(self.groups, self.each, strict=True):
            for number, name in enumerate(group.agents):
                read = inputs(self._told(group, joint, name, number))
                found.update({f"{name}/{leaf}": numbers for leaf, numbers in read.items()})
        return {name: found[name] for name in self.leaves}

    @torch.no_grad()
    def learn(self, joint: Mapping[str, Tensor]) -> None:
        """Take in what agents saw while they were there."""
        for group, inputs in zip(self.groups, self.each, strict=True):
            normaliser = inputs.normaliser
            for number, name in enumerate(group.agents if normaliser is not None else ()):
                is_there = joint[ALIVE][:, self.agents.index(name)] != 0
                if bool(is_there.any()):
                    told = self._told(group, joint, name, number)
                    normaliser.learn({leaf: rows[is_there] for leaf, rows in told.items()})  # type: ignore[union-attr,operator]

    @staticmethod
    def _told(
        group: Group, joint: Mapping[str, Tensor], name: str, number: int
    ) -> dict[str, Tensor]:
        seen = {leaf: rows for leaf, rows in seen_by(joint, name).items() if leaf in group.leaves}
        count = len(next(iter(seen.values())))
        return group.told(seen, torch.full((count,), number))
