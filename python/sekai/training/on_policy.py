"""Learning from what the present policy has just done: what PPO and A2C share."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from tensordict import TensorDict

from sekai.training.agent import Agent, Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.learner import Learner
from sekai.training.multi.group_rows import GroupRows, joint_leaves
from sekai.training.multi.groups import Group, Share, check_share, groups_of
from sekai.training.multi.joint_world import JointWorld
from sekai.training.multi.team import Team
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.rollout import Rollout
from sekai.training.schedules import scheduled
from sekai.training.settings import require
from sekai.vector.vec_env import VecEnv

__all__ = ["OnPolicyAgent", "OnPolicySettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnPolicySettings(AgentSettings):
    """How an agent learns from its own rollouts."""

    rollout_steps: int = 128
    """Steps of each env between two updates."""

    trace: float = 0.95
    """How far advantages look ahead: 0 trusts the critic after one step, 1 not at all."""

    entropy_weight: float = 0.0
    value_weight: float = 0.5

    share: Share = "all"
    """Of several agents, who shares a policy: "all" of equal spaces, "none", or groups by name."""

    tell_apart: bool = True
    """Whether a policy that several agents share is told for which of them it decides."""

    critic: Literal["own", "central"] = "own"
    """Whether critics of several agents read what each of them sees, or what all of them see."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("rollout_steps")
        self._require_share("trace")
        check_share(self.share)
        require(self.critic in ("own", "central"), "critic", "'own' or 'central'", self.critic)


class OnPolicyAgent(Agent):
    """Acts for a while, then learns from just that."""

    settings_type: ClassVar[type[AgentSettings]] = OnPolicySettings
    settings: OnPolicySettings
    network: ActorCritic | Team
    groups: list[Group]

    def _build(self) -> None:
        self.rollout = Rollout(self.vec, self.actions, self.settings.rollout_steps)
        if isinstance(self.vec, JointWorld):
            self.learners = {group.name: self._learner(self.vec, group) for group in self.groups}
            networks = [learner.network for learner in self.learners.values()]
            self.network = Team(self.groups, networks, self.vec)
        else:
            learner = Learner(self, self.rollout, self.leaves, self.actions)
            self.learners, self.network = {"": learner}, learner.network

    def _take_one(self, vec: VecEnv) -> None:
        settings = self.settings
        require(settings.share == "all", "share", "'all' for an env with one agent", settings.share)
        require(settings.critic == "own", "critic", "'own' for an env with one agent",
                settings.critic)  # fmt: skip
        super()._take_one(vec)

    def _take_several(self, world: JointWorld) -> None:
        self.actions = world.actions
        self.groups = groups_of(world.inner, self.settings.share, self.settings.tell_apart)

    def _learner(self, world: JointWorld, group: Group) -> Learner:
        is_central = self.settings.critic == "central"
        rows = GroupRows(world, self.rollout, group, is_central)
        judged = joint_leaves(world, group) if is_central else None
        return Learner(self, rows, group.leaves, group.actions, judged)

    @abstractmethod
    def _loss(self, actor: Any, critic: Any) -> Any:
        """The TorchRL loss of the algorithm."""

    @abstractmethod
    def _optimiser(self, network: ActorCritic) -> torch.optim.Optimizer:
        """What changes the weights."""

    @abstractmethod
    def _update(self, learner: Learner, batch: TensorDict) -> Metrics:
        """Learn from a rollout, laid out in one row of samples."""

    @property
    def iteration_steps(self) -> int:
        """Steps of single envs in an iteration."""
        return self.settings.rollout_steps * self.vec.num_envs

    def _learning_state(self) -> dict[str, Any]:
        learners = {name: learner.state() for name, learner in self.learners.items()}
        return {"learners": learners, "seen": self.rollout.state()}

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        for name, learner in self.learners.items():
            learner.load_state(state["learners"][name])
        self.rollout.load_state(state["seen"])

    def _begin(self) -> None:
        self.rollout.begin(self.seed)

    def _iterate(self) -> Metrics:
        settings = self.settings
        rate = scheduled(settings.learning_rate, settings.learning_rate_schedule, self.done_share)
        self.rollout.fill(lambda seen: self.network.choose(seen, deterministic=False))
        rewards, done = self.rollout.rewards, self.rollout.terminated | self.rollout.truncated
        for step in range(settings.rollout_steps):
            self.episodes.add(rewards[step], done[step])
        told: Metrics = {}
        for name, learner in self.learners.items():
            for group in learner.optimiser.param_groups:
                group["lr"] = rate
            batch = learner.batch()
            # Agents that were never there have nothing to learn from.
            found = self._update(learner, batch) if len(batch) else {}
            told.update(found if len(self.learners) == 1 else _named(name, found))
        return told


def _named(name: str, told: Metrics) -> Metrics:
    return {f"{name}/{key}": value for key, value in told.items()}
