"""Who of several agents shares a policy with whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from sekai.spaces import Space
from sekai.training.actions import ActionMap
from sekai.training.multi.joint_spaces import JointSpaces
from sekai.training.observations import Leaf, leaves_of
from sekai.training.settings import require

__all__ = ["Group", "Share", "check_share", "groups_of"]

Share = str | Mapping[str, Sequence[str]]
""""all", "none", or names of groups with their agents."""

WHICH = "which_agent"
"""The leaf that tells a policy for which of its agents it decides."""


@dataclass(frozen=True)
class Group:
    """Agents of equal spaces with one policy: rows of one batch, agent after agent."""

    name: str
    agents: tuple[str, ...]
    observation_space: Space[Any]
    action_space: Space[Any]
    tells_apart: bool
    """Whether the policy is told which of the agents it decides for."""

    hidden: tuple[str, ...] = ()
    """Leaves of observations that are not the policy's to read."""

    @cached_property
    def leaves(self) -> dict[str, Leaf]:
        """What the policy reads."""
        which = {WHICH: self.which_leaf} if self.tells_apart else {}
        seen = leaves_of(self.observation_space)
        return {**{name: seen[name] for name in seen if name not in self.hidden}, **which}

    @cached_property
    def actions(self) -> ActionMap:
        """How the policy's choices become actions."""
        return ActionMap(self.action_space)

    @property
    def which_leaf(self) -> Leaf:
        """The number of an agent within the group."""
        return Leaf((), (len(self.agents),))

    def told(self, seen: dict[str, Tensor], which: Tensor) -> dict[str, Tensor]:
        """Observations as the policy reads them, of the agents with these numbers."""
        return {**seen, WHICH: which} if self.tells_apart else seen

    def numbers(self, num_envs: int) -> Tensor:
        """The number of the agent of each row."""
        return torch.arange(len(self.agents)).repeat_interleave(num_envs)


def check_share(share: Any) -> None:
    """Raise `ValueError` unless it says who shares a policy."""
    is_word = isinstance(share, str) and share in ("all", "none")
    require(is_word or isinstance(share, Mapping), "share",
            "'all', 'none' or groups of agents by name", share)  # fmt: skip


def groups_of(spaces: JointSpaces, share: Share, tells_apart: bool = True) -> list[Group]:
    """The agents of an env by the policies that they share.

    Args:
        spaces: of the agents.
        share: "all" for one policy for all agents of equal spaces, "none" for one each, or names
            of groups with their agents.
        tells_apart: whether a policy of several agents is told for which of them it decides.
    """
    if isinstance(share, Mapping):
        named = {name: tuple(agents) for name, agents in share.items()}
        _check_cover(named, spaces.agents)
    elif share == "none":
        named = {name: (name,) for name in spaces.agents}
    else:
        named = _by_spaces(spaces)
    return [_group(spaces, name, agents, tells_apart) for name, agents in named.items()]


def _by_spaces(spaces: JointSpaces) -> dict[str, tuple[str, ...]]:
    kinds: list[list[str]] = []
    for name in spaces.agents:
        for kind in kinds:
            if _are_alike(spaces, kind[0], name):
                kind.append(name)
                break
        else:
            kinds.append([name])
    if len(kinds) == 1:
        return {"all": tuple(kinds[0])}
    return {kind[0]: tuple(kind) for kind in kinds}


def _group(spaces: JointSpaces, name: str, agents: tuple[str, ...], tells_apart: bool) -> Group:
    first = agents[0]
    odd = [agent for agent in agents if not _are_alike(spaces, first, agent)]
    if odd:
        raise ValueError(
            f"agents of the group {name!r} need equal spaces to share a policy, and those of "
            f"{first!r} and {odd[0]!r} differ: put them into groups of their own"
        )
    return Group(
        name, agents, spaces.observation_spaces[first], spaces.action_spaces[first],
        tells_apart and len(agents) > 1,
    )  # fmt: skip


def _are_alike(spaces: JointSpaces, one: str, other: str) -> bool:
    is_seen_alike = bool(spaces.observation_spaces[one] == spaces.observation_spaces[other])
    return is_seen_alike and bool(spaces.action_spaces[one] == spaces.action_spaces[other])


def _check_cover(named: Mapping[str, Sequence[str]], agents: Sequence[str]) -> None:
    listed = [agent for members in named.values() for agent in members]
    if sorted(listed) != sorted(agents) or not all(named.values()):
        raise ValueError(
            f"share must name each of the agents {list(agents)} once, in groups that are not "
            f"empty; found {dict(named)}"
        )
