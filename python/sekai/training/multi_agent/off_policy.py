"""Multi-agent off-policy training: joint replay that MADDPG and QMIX share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sekai.training.agent import DivergedError, Metrics
from sekai.training.multi_agent.groups import Group, groups_of
from sekai.training.multi_agent.joint_env import ALIVE, JointTrainingEnv, observations_of
from sekai.training.observations import observed_mask
from sekai.training.off_policy import OffPolicyAgent, Transitions
from sekai.training.policies.off_policy import random_choices
from sekai.training.replay import ReplayBuffer
from sekai.training.rng import uniform
from sekai.training.shaping import StepBatch
from sekai.vector.vec_env import VecEnv

__all__ = ["AgentTransitions", "MultiAgentOffPolicyAgent"]


@dataclass(frozen=True, slots=True, eq=False)
class AgentTransitions:
    """Outcome of transitions for each agent: tables of transitions by agents."""

    acted: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    goes_on: Tensor
    """Agents whose episode continues after the transition."""

    @classmethod
    def of(cls, drawn: Mapping[str, Any]) -> AgentTransitions:
        """Read transitions of a `JointTrainingEnv`."""
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
        """Mask of transitions to learn from: the agent acted, and the outcome is known."""
        return self.acted & (self.terminated | self.goes_on)


class MultiAgentOffPolicyAgent(OffPolicyAgent):
    """Off-policy agent with a replay buffer of joint transitions."""

    vec: JointTrainingEnv
    network: Any

    @abstractmethod
    def _reward_rows(self) -> int:
        """Number of rewards in a step of all envs."""

    @abstractmethod
    def _rewards_of(self, paid: AgentTransitions, index: int) -> tuple[Tensor, Tensor]:
        """Rewards of one recipient, and a mask of those that count."""

    def _use_single_agent(self, vec: VecEnv) -> None:
        raise TypeError(
            f"{type(self).__name__} needs a multi-agent env, got {self.env_argument!r}; "
            "use PPO, A2C, DDPG, TD3, SAC or DQN"
        )

    def _use_multi_agent(self, vec: JointTrainingEnv) -> None:
        self.agents, self.actions = vec.agents, vec.actions
        self._check_groups(groups_of(vec.spaces, "none"))

    def _build(self) -> None:
        settings = self.settings
        self._make_scaler(self._reward_rows())
        steps = max(settings.buffer_size // self.vec.num_envs, settings.steps_per_iteration)
        self.replay = ReplayBuffer(self.vec, self.actions, steps, len(self.agents))
        self._make_risks(self._reward_rows() // self.vec.num_envs)
        self.network = self.make_team(self.vec.spaces, settings)
        self.network.to(self.device)
        self._build_targets()
        self._build_optimizer()

    @classmethod
    def make_network(cls, *_: Any, **__: Any) -> Any:
        """Refuse spaces of a single agent; see `make_team`."""
        raise TypeError(f"{cls.__name__} needs spaces of several agents, got those of one")

    def _loss(self, batch: Transitions) -> dict[str, Tensor]:
        raise NotImplementedError("joint transitions have losses of their own, see `_update`")

    def _shape(self, count: int) -> None:
        """Apply reward shaping to the latest steps.

        Functions see the rows of agents that share a network, agent after agent.
        """
        if self.shaping.is_plain:
            return
        drawn, envs = self._steps_of(count), self.vec.num_envs
        paid = AgentTransitions.of(drawn)
        rewards, trained_on = paid.rewards.clone(), torch.ones_like(paid.acted)
        for group in self.network.inputs.groups:
            columns = [self.agents.index(name) for name in group.agents]
            steps = _group_steps(group, drawn["observation"], paid, columns, (count, envs))
            shaped = _by_step(torch.from_numpy(self.shaping.rewards(steps)), len(columns))
            rewards[:, columns] = torch.where(paid.acted[:, columns], shaped, rewards[:, columns])
            mask = self.shaping.mask(steps)
            if mask is not None:
                trained_on[:, columns] = _by_step(torch.from_numpy(mask), len(columns))
        rows, shape = self.replay.latest(count), (count, envs, len(self.agents))
        self.replay.change_followers("rewards", rows, rewards.numpy().reshape(shape))
        if self.shaping.learn_where is not None:
            self.replay.filter(rows, trained_on.numpy().reshape(shape))

    def _update_risks(self, count: int) -> None:
        if not self.risks:
            return
        paid = AgentTransitions.of(self._steps_of(count))
        for index, risk in enumerate(self.risks):
            rewards, mask = self._rewards_of(paid, index)
            risk.update(rewards[mask])

    def _random_actions(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Uniform random actions of all agents, within action masks."""
        chosen: dict[str, Tensor] = {}
        for name, own in self.vec.actions.by_agent.items():
            if own.is_choice:
                mask = observed_mask(observations_of(observations, name))
                chosen[name] = random_choices(own.choices, self.vec.num_envs, mask)
            else:
                chosen[name] = (uniform((self.vec.num_envs, own.width)) * 2 - 1) * own.std_scale
        return self.vec.actions.joined(chosen)

    def _with_random(
        self, observations: Mapping[str, Tensor], actions: Tensor, eps: float
    ) -> Tensor:
        """Epsilon-greedy: replace discrete actions by random ones with probability `eps`."""
        random, joint = self._random_actions(observations), self.vec.actions
        mixed: dict[str, Tensor] = {}
        for name, own in joint.by_agent.items():
            mixed[name] = joint.of(actions, name)
            if own.is_choice:
                is_random = uniform((len(actions), 1)) < eps
                mixed[name] = torch.where(is_random, joint.of(random, name), mixed[name])
        return joint.joined(mixed)

    def _latest(self) -> tuple[dict[str, Tensor], AgentTransitions, Tensor]:
        """Observations and outcomes of this iteration, and where an episode was over."""
        drawn = self._steps_of(self.iteration_length)
        return drawn["observation"], AgentTransitions.of(drawn), drawn["truncated"]

    def _steps_of(self, count: int) -> dict[str, Any]:
        """Latest transitions of all envs, step by step."""
        rows = torch.from_numpy(self.replay.latest(count))[:, None] * self.vec.num_envs
        return self.replay.steps_at((rows + torch.arange(self.vec.num_envs)).flatten())

    def _step(self, loss: Tensor) -> Metrics:
        """One gradient step, and a soft update of the target networks."""
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        limit = self.settings.max_grad_norm
        norms = [nn.utils.clip_grad_norm_(weights, limit) for weights in self.parameter_groups]
        if not bool(torch.isfinite(torch.stack(norms).max())):
            raise DivergedError
        self.optimizer.step()
        self._update_targets()
        return {"gradient_norm": float(max(norms))}


def _group_steps(
    group: Group,
    joint: Mapping[str, Tensor],
    paid: AgentTransitions,
    columns: list[int],
    shape: tuple[int, int],
) -> StepBatch:
    """Steps of the agents of a group: times by envs, agent after agent."""
    by_agent = [observations_of(joint, name) for name in group.agents]
    observations = {
        leaf: torch.cat([_by_time(own[leaf], shape) for own in by_agent], dim=1).numpy()
        for leaf in by_agent[0]
    }
    tables = (
        torch.cat([_by_time(table[:, column], shape) for column in columns], dim=1).numpy()
        for table in (paid.rewards, paid.terminated, paid.truncated & ~paid.terminated)
    )
    return StepBatch(observations, *tables)


def _by_time(rows: Tensor, shape: tuple[int, int]) -> Tensor:
    """Reshape rows to times by envs."""
    return rows.reshape(*shape, *rows.shape[1:])


def _by_step(table: Tensor, agents: int) -> Tensor:
    """Reshape times by envs, agent after agent, to steps by agents."""
    return table.reshape(len(table), agents, -1).transpose(1, 2).flatten(0, 1)
