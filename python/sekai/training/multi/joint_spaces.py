"""What several agents see and do, as one observation and one action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sekai.error import SpaceError
from sekai.spaces import Box, Dict, MultiBinary, Space
from sekai.training.action_masks import counts_of, takes_info_masks
from sekai.training.actions import ActionMap
from sekai.training.observations import ACTION_MASK, ROOT

__all__ = ["ALIVE", "MASKS", "PAID", "SEEN", "JointActions", "JointSpaces", "seen_by"]

SEEN, ALIVE, MASKS = "seen", "alive", "masks"
PAID = ("rewards", "terminated", "truncated")
"""What the step before gave each agent; it is part of what is observed after it."""


class JointSpaces:
    """The spaces of all agents, by agent and as one."""

    def __init__(
        self,
        observation_spaces: Mapping[str, Space[Any]],
        action_spaces: Mapping[str, Space[Any]],
    ) -> None:
        self.agents = list(observation_spaces)
        self.observation_spaces = dict(observation_spaces)
        self.action_spaces = {name: action_spaces[name] for name in self.agents}
        count = len(self.agents)
        self.masks = {
            name: MultiBinary(sum(counts_of(space)))
            for name, space in self.action_spaces.items()
            if takes_info_masks(self.observation_spaces[name], space)
        }
        """Of agents that pick and are shown no mask: what their infos may forbid."""
        masks = {MASKS: Dict(self.masks)} if self.masks else {}
        self.observation_space = Dict(
            {
                SEEN: Dict(self.observation_spaces),
                **masks,
                ALIVE: MultiBinary(count),
                "rewards": Box(-np.inf, np.inf, (count,), np.float64),
                "terminated": MultiBinary(count),
                "truncated": MultiBinary(count),
            }
        )
        self.action_space = Dict(self.action_spaces)
        self.actions = JointActions(self.action_space)

    @classmethod
    def of(cls, observation_space: Space[Any], action_space: Space[Any]) -> JointSpaces | None:
        """The spaces that are one here; None where these are of a single agent."""
        if not isinstance(observation_space, Dict) or not isinstance(action_space, Dict):
            return None
        seen = observation_space.spaces.get(SEEN)
        if not isinstance(seen, Dict) or seen.spaces.keys() != action_space.spaces.keys():
            raise SpaceError(f"a policy acts in no {action_space!r}: wrap the env")
        return cls(seen.spaces, action_space.spaces)


class JointActions(ActionMap):
    """What all agents choose, one after the other in a row of numbers."""

    def __init__(self, space: Dict) -> None:
        self.space = space
        self.choices = ()
        self.each = {name: ActionMap(own) for name, own in space.spaces.items()}
        self.size = sum(own.width for own in self.each.values())
        self._ends = np.cumsum([own.width for own in self.each.values()]).tolist()

    def of(self, chosen: Tensor, agent: str) -> Tensor:
        """What one agent chose; picks are whole numbers."""
        part = self._part(chosen, agent)
        return part.long() if self.each[agent].is_choice else part

    def joined(self, chosen: Mapping[str, Tensor]) -> Tensor:
        """What all agents chose, as it is stored."""
        return torch.cat([chosen[name].float() for name in self.each], dim=-1)

    def all_used(self, used: Mapping[str, Tensor]) -> Tensor | None:
        """Which numbers of all agents count, from those of some; None where all do."""
        if not used:
            return None
        count = len(next(iter(used.values())))
        rest = {name: torch.ones(count, own.width) for name, own in self.each.items()}
        return self.joined({**rest, **used}) != 0

    def to_env(self, chosen: Tensor, used: Tensor | None = None) -> Any:
        """Batches of actions by agent."""
        return {
            name: own.to_env(
                self.of(chosen, name), None if used is None else self._part(used, name)
            )
            for name, own in self.each.items()
        }

    def from_env(self, actions: Any) -> Tensor:
        """What policies would have had to choose."""
        found = {name: own.from_env(actions[name]) for name, own in self.each.items()}
        return self.joined(found)

    def _part(self, rows: Tensor, agent: str) -> Tensor:
        end = self._ends[list(self.each).index(agent)]
        return rows[..., end - self.each[agent].width : end]


def seen_by(joint: Mapping[str, Tensor], agent: str) -> dict[str, Tensor]:
    """What one agent sees, by the names that its own policy knows, out of joint leaves."""
    whole = f"{SEEN}/{agent}"
    start = len(whole) + 1
    found = {name[start:]: rows for name, rows in joint.items() if name.startswith(f"{whole}/")}
    told = joint.get(f"{MASKS}/{agent}")
    if told is not None:
        found[ACTION_MASK] = told
    return {ROOT: joint[whole], **found} if whole in joint else found
