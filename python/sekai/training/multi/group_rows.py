"""A rollout of all agents, as the rows of those who share a policy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sekai.training.multi.groups import WHICH, Group
from sekai.training.multi.joint_spaces import ALIVE, SEEN, JointActions, JointSpaces, seen_by
from sekai.training.multi.joint_world import JointWorld
from sekai.training.observations import Leaf, leaves_of
from sekai.training.rollout import Rollout

__all__ = ["GroupRows", "joint_leaves"]

PRESENT = "alive/mask"
"""The leaf that tells a central critic who is there."""


def joint_leaves(spaces: JointSpaces, group: Group) -> dict[str, Leaf]:
    """What a critic that sees everything reads: all observations, who is there, and whose turn."""
    seen = leaves_of(spaces.observation_space)
    leaves = {name: leaf for name, leaf in seen.items() if name.startswith(f"{SEEN}/")}
    leaves[PRESENT] = seen[ALIVE]
    if len(group.agents) > 1:
        leaves[WHICH] = group.which_leaf
    return leaves


class GroupRows:
    """Reads what a group of agents saw, chose and got out of the rollout of all.

    Rows are agents of envs, agent after agent. Only steps at which an agent acted count, and of
    those only the ones whose future is known: not the last before an absence that goes on.
    """

    def __init__(self, world: JointWorld, rollout: Rollout, group: Group, central: bool) -> None:
        self.world, self.rollout, self.group, self.is_central = world, rollout, group, central
        self.columns = torch.tensor([world.agents.index(name) for name in group.agents])
        self.count = len(group.agents) * world.num_envs
        self.which = group.numbers(world.num_envs)

    def read(self) -> None:
        """Take in the rollout that was just filled."""
        joint = self.rollout.observations()
        each = [seen_by(joint, name) for name in self.group.agents]
        rows = {leaf: torch.cat([own[leaf] for own in each], dim=1) for leaf in each[0]}
        times = self.rollout.steps + 1
        self.seen = self.group.told(rows, self.which.expand(times, -1))
        alive = joint[ALIVE][:, :, self.columns] != 0
        self.acted = self._laid(alive[:-1])
        paid = {name: self._paid(joint, name) for name in ("rewards", "terminated", "truncated")}
        self.rewards = paid["rewards"]
        self.terminated = paid["terminated"] != 0
        self.done = self.terminated | (paid["truncated"] != 0)
        self.chosen = self._chosen()
        self._joint = {name: table for name, table in joint.items() if name.startswith(f"{SEEN}/")}
        self._joint[PRESENT] = joint[ALIVE]
        self._goes_on = self._laid(self._after(joint, ALIVE)[:, :, self.columns]) != 0

    def judged(self, places: Tensor | slice) -> dict[str, Tensor]:
        """What the critic reads of some moments, counted row by row and time by time."""
        if not self.is_central:
            return {name: rows.flatten(0, 1)[places] for name, rows in self.seen.items()}
        if isinstance(places, slice):
            places = torch.arange((self.rollout.steps + 1) * self.count)[places]
        rows, envs = places % self.count, self.world.num_envs
        moments = places // self.count * envs + rows % envs
        found = {name: table.flatten(0, 1)[moments] for name, table in self._joint.items()}
        return self._whose(found, rows // envs)

    def judged_by_all(self) -> dict[str, Tensor]:
        """What a central critic reads of all steps, once for each env."""
        found = {name: table[:-1].flatten(0, 1) for name, table in self._joint.items()}
        return self._whose(found, torch.zeros(len(found[PRESENT]), dtype=torch.int64))

    @torch.no_grad()
    def next_values(
        self, values: Tensor, judge: Callable[[dict[str, Tensor]], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """What the future of each step was worth, and where that is known.

        Args:
            values: of all observations: times by rows, one time more than there were steps.
            judge: what observations are worth.
        """
        after = values[1:].clone()
        for step, places, finals in self.rollout.cuts:
            self._judge_finals(after[step], torch.from_numpy(places), finals, judge)
        known = self.done | self._goes_on
        upcoming, is_upcoming = values[-1], self._goes_on[-1]
        for step in reversed(range(self.rollout.steps)):
            is_away = self.acted[step] & ~known[step]
            # Who stays away for a while goes on where it comes back.
            after[step] = torch.where(is_away, upcoming, after[step])
            known[step] |= is_away & is_upcoming
            is_over = torch.from_numpy(self.rollout.truncated[step]).repeat(len(self.columns))
            is_upcoming = self.acted[step] | (is_upcoming & ~is_over)
            upcoming = torch.where(self.acted[step], values[step], upcoming)
        return after, known

    def _judge_finals(
        self,
        after: Tensor,
        envs: Tensor,
        finals: dict[str, Tensor],
        judge: Callable[[dict[str, Tensor]], Tensor],
    ) -> None:
        for number, name in enumerate(self.group.agents):
            which = torch.full((len(envs),), number)
            if self.is_central:
                seen = {leaf: finals[leaf] for leaf in self._joint if leaf != PRESENT}
                found = self._whose({**seen, PRESENT: finals[ALIVE]}, which)
            else:
                found = self.group.told(seen_by(finals, name), which)
            after[number * self.world.num_envs + envs] = judge(found).reshape(-1)

    def _whose(self, found: dict[str, Tensor], which: Tensor) -> dict[str, Tensor]:
        return {**found, WHICH: which} if len(self.group.agents) > 1 else found

    def _paid(self, joint: dict[str, Tensor], name: str) -> Tensor:
        return self._laid(self._after(joint, name)[:, :, self.columns])

    def _after(self, joint: dict[str, Tensor], name: str) -> Tensor:
        """What was observed after each step, in the episode of the step."""
        after = joint[name][1:].clone()
        for step, places, finals in self.rollout.cuts:
            after[step, torch.from_numpy(places)] = finals[name]
        return after

    def _chosen(self) -> Tensor:
        actions = self.rollout.actions
        assert isinstance(actions, JointActions), "a rollout of several agents"
        parts = [actions.of(self.rollout.chosen, name) for name in self.group.agents]
        return torch.cat(parts, dim=1)

    @staticmethod
    def _laid(table: Tensor) -> Tensor:
        """Times by envs by agents as times by rows."""
        return table.transpose(1, 2).flatten(1)
