"""Learning for several agents from all that they remember: what MADDPG and QMIX share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchrl.objectives import SoftUpdate

from sekai.training.descent import check_length
from sekai.training.metrics import Metrics
from sekai.training.multi.groups import Group, groups_of
from sekai.training.multi.joint_spaces import ALIVE, seen_by
from sekai.training.multi.joint_world import JointWorld
from sekai.training.normalisation import RewardScaler
from sekai.training.observations import observed_mask
from sekai.training.off_policy import OffPolicyAgent
from sekai.training.randomness import uniform, waits
from sekai.training.replay import Replay
from sekai.training.shaping import Steps
from sekai.vector.vec_env import VecEnv

__all__ = ["Paid", "TeamOffPolicyAgent"]


@dataclass(frozen=True, slots=True, eq=False)
class Paid:
    """What steps did to each agent: tables of steps by agents."""

    acted: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    goes_on: Tensor
    """Who had something before them, in the episode of the step."""

    @classmethod
    def of(cls, drawn: Mapping[str, Any]) -> Paid:
        """Read it from steps of a joint world."""
        after = drawn["next"]
        truncated = after["truncated"] != 0
        return cls(
            acted=drawn["observation"][ALIVE] != 0,
            rewards=after["rewards"],
            terminated=after["terminated"] != 0,
            truncated=truncated,
            goes_on=(after[ALIVE] != 0) | truncated,
        )

    @property
    def known(self) -> Tensor:
        """Which steps can be learnt from: who acted, and what came of it."""
        return self.acted & (self.terminated | self.goes_on)


class TeamOffPolicyAgent(OffPolicyAgent):
    """Remembers what all agents did together."""

    vec: JointWorld
    network: Any

    def _take_one(self, vec: VecEnv) -> None:
        raise TypeError(
            f"{type(self).__name__} learns for several agents, and {self.env_given!r} has one: "
            "use PPO, A2C, DDPG or SAC"
        )

    def _take_several(self, world: JointWorld) -> None:
        self.agents, self.actions = world.agents, world.actions
        self._take_groups(groups_of(world.spaces, "none"))

    def _build(self) -> None:
        settings = self.settings
        self.scaler = None
        if settings.normalise_rewards:
            self.scaler = RewardScaler(settings.discount, self._paid_rows())
        steps = max(settings.memory // self.vec.num_envs, settings.rollout_steps)
        self.replay = Replay(self.vec, self.actions, steps, len(self.agents))
        self._weigh_risk(self._paid_rows() // self.vec.num_envs)
        self.network = self.make_team(self.vec.spaces, settings)
        self.loss = self._loss(list(self.network.inputs.leaves))
        self._network_loaded()
        self.groups = [[one for one in group if one.requires_grad] for group in self._groups()]
        pairs = zip(self.groups, self._rate_shares(), strict=True)
        rates = [{"params": group, "share": share} for group, share in pairs]
        self.optimiser = torch.optim.Adam(rates, settings.learning_rate)

    @classmethod
    def make_network(cls, *_: Any, **__: Any) -> Any:
        """Refuse: there are several agents, see `make_team`."""
        raise TypeError(f"{cls.__name__} acts for several agents, found one")

    @abstractmethod
    def _paid_rows(self) -> int:
        """How many are paid at a step."""

    @abstractmethod
    def _losses(self) -> list[Any]:
        """The losses with networks that follow slowly."""

    def _network_loaded(self) -> None:
        rate = self.settings.target_rate
        self.followers = [SoftUpdate(loss, tau=rate) for loss in self._losses()]

    def _target_state(self) -> dict[str, Tensor]:
        return {
            f"{place}.{name}": weights
            for place, loss in enumerate(self._losses())
            for name, weights in loss.named_buffers()
            if name.startswith("target_")
        }

    @torch.no_grad()
    def _act(self, steps: int) -> Any:
        seen = self.replay.seen()
        is_warm = steps >= self.settings.warm_up
        chosen = self._explore(seen) if is_warm else self._anything(seen)
        result = self.replay.step(chosen, self.network.used(seen))
        self._note_episodes()
        return result

    def _shape(self, count: int) -> None:
        """Give the latest steps the rewards to learn from, and say which are learnt from.

        Functions are shown the rows of those who share a network, agent after agent.
        """
        if self.shaping.is_plain:
            return
        drawn, envs = self._steps_of(count), self.vec.num_envs
        paid = Paid.of(drawn)
        rewards, learnt = paid.rewards.clone(), torch.ones_like(paid.acted)
        for group in self.network.inputs.groups:
            columns = [self.agents.index(name) for name in group.agents]
            steps = _group_steps(group, drawn["observation"], paid, columns, (count, envs))
            made = _by_step(torch.from_numpy(self.shaping.rewards(steps)), len(columns))
            rewards[:, columns] = torch.where(paid.acted[:, columns], made, rewards[:, columns])
            wanted = self.shaping.mask(steps)
            if wanted is not None:
                learnt[:, columns] = _by_step(torch.from_numpy(wanted), len(columns))
        rows, shape = self.replay.latest(count), (count, envs, len(self.agents))
        self.replay.change_followers("rewards", rows, rewards.numpy().reshape(shape))
        if self.shaping.learn_where is not None:
            self.replay.filter(rows, learnt.numpy().reshape(shape))

    def _learn_risk(self, count: int) -> None:
        paid = Paid.of(self._steps_of(count)) if self.risks else None
        for place, risk in enumerate(self.risks):
            assert paid is not None, "there is a risk"
            rewards, counts = self._rewards_of(paid, place)
            risk.learn(rewards[counts])

    @abstractmethod
    def _rewards_of(self, paid: Paid, place: int) -> tuple[Tensor, Tensor]:
        """What one of those who are paid got at each step, and where that counts."""

    def _anything(self, seen: Mapping[str, Tensor]) -> Tensor:
        """What all agents do, each thing that is allowed as likely as any other."""
        chosen: dict[str, Tensor] = {}
        for name, own in self.vec.actions.each.items():
            if own.is_choice:
                mask = observed_mask(seen_by(seen, name))
                chosen[name] = _any_picks(own.choices, self.vec.num_envs, mask)
            else:
                chosen[name] = (uniform((self.vec.num_envs, own.width)) * 2 - 1) * own.spread_share
        return self.vec.actions.joined(chosen)

    def _mixed(self, seen: Mapping[str, Tensor], chosen: Tensor, share: float) -> Tensor:
        """Choices, of which a share of each agent's picks is anything instead."""
        anything = self._anything(seen)
        each = self.vec.actions.each
        found: dict[str, Tensor] = {}
        for name, own in each.items():
            found[name] = self.vec.actions.of(chosen, name)
            if own.is_choice:
                strays = uniform((len(chosen), 1)) < share
                other = self.vec.actions.of(anything, name)
                found[name] = torch.where(strays, other, found[name])
        return self.vec.actions.joined(found)

    def _latest(self) -> tuple[dict[str, Tensor], Paid, Tensor]:
        """What was seen in this iteration, what it paid, and where an episode was over."""
        drawn = self._steps_of(self.settings.rollout_steps)
        return drawn["observation"], Paid.of(drawn), drawn["truncated"]

    def _steps_of(self, count: int) -> dict[str, Any]:
        """The latest steps of all envs, step by step."""
        places = torch.from_numpy(self.replay.latest(count))[:, None] * self.vec.num_envs
        return self.replay.steps_at((places + torch.arange(self.vec.num_envs)).flatten())

    def _descend(self, total: Tensor) -> Metrics:
        """One step of the optimiser, and one of the networks that follow."""
        self.optimiser.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        norms = [torch.nn.utils.clip_grad_norm_(group, self.settings.gradient_norm)
                 for group in self.groups]  # fmt: skip
        check_length(torch.stack(norms).max())
        self.optimiser.step()
        for follower in self.followers:
            follower.step()
        return {"gradient_norm": float(max(norms))}


def _group_steps(
    group: Group, seen: Mapping[str, Tensor], paid: Paid, columns: list[int], shape: tuple[int, int]
) -> Steps:
    """What the agents of a group saw and got: times by envs, agent after agent."""
    each = [seen_by(seen, name) for name in group.agents]
    observations = {
        leaf: torch.cat([_laid(own[leaf], shape) for own in each], dim=1).numpy()
        for leaf in each[0]
    }
    tables = (
        torch.cat([_laid(table[:, place], shape) for place in columns], dim=1).numpy()
        for table in (paid.rewards, paid.terminated, paid.truncated & ~paid.terminated)
    )
    return Steps(observations, *tables)


def _laid(rows: Tensor, shape: tuple[int, int]) -> Tensor:
    """Steps one after another as times by envs."""
    return rows.reshape(*shape, *rows.shape[1:])


def _by_step(table: Tensor, agents: int) -> Tensor:
    """Times by envs, agent after agent, as steps by agents."""
    return table.reshape(len(table), agents, -1).transpose(1, 2).flatten(0, 1)


def _any_picks(choices: tuple[int, ...], count: int, mask: Tensor | None) -> Tensor:
    chances = torch.ones(count, sum(choices))
    if mask is not None:
        chances = mask.float()
    parts = torch.split(chances, list(choices), dim=-1)
    # Of an agent that is away nothing is allowed, and anything will do.
    open_parts = [torch.where(part.sum(-1, keepdim=True) > 0, part, torch.ones_like(part))
                  for part in parts]  # fmt: skip
    return torch.stack([(part / waits(part.shape)).argmax(-1) for part in open_parts], dim=-1)
