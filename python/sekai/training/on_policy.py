"""Learning from what the present policy has just done: what PPO and A2C share."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from tensordict import TensorDict

from sekai.training.actions import ActionMap
from sekai.training.agent import Agent
from sekai.training.agent_settings import AgentSettings
from sekai.training.learner import Learner
from sekai.training.metrics import Metrics
from sekai.training.multi.group_rows import GroupRows, joint_leaves
from sekai.training.multi.groups import Group, Share, check_share, groups_of
from sekai.training.multi.joint_spaces import JointSpaces
from sekai.training.multi.joint_world import JointWorld
from sekai.training.multi.team import Team
from sekai.training.observations import Leaf
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.policies.inputs import Gather
from sekai.training.randomness import Portion
from sekai.training.risk import KINDS, RiskKind
from sekai.training.rollout import Rollout
from sekai.training.schedules import scheduled
from sekai.training.settings import SEVERAL_KINDS, require
from sekai.vector.seeding import Seeds
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

    risk: RiskKind = "none"
    """What is weighed against the mean return: "volatility", "drawdown" or "cvar"."""

    risk_weight: float = 0.5
    """How much it weighs, in the units of rewards as the env gives them; for "cvar" from 0 to 1,
    of which the mean return has the rest. Only with a risk."""

    risk_level: float = 0.1
    """The share of episodes that count as the worst. Only with "cvar"."""

    share: Share = dataclasses.field(default="all", metadata={SEVERAL_KINDS: True})
    """Of several agents, who shares a policy: "all" of equal spaces, "none", or groups by name."""

    tell_apart: bool = True
    """Whether a policy that several agents share is told for which of them it decides."""

    critic: Literal["own", "central"] = "own"
    """Whether critics of several agents read what each of them sees, or what all of them see."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("rollout_steps")
        self._require_share("trace")
        require(self.risk in KINDS, "risk", f"one of {KINDS}", self.risk)
        most = 1.0 if self.risk == "cvar" else math.inf
        weighs = 0.0 <= self.risk_weight <= most and math.isfinite(self.risk_weight)
        require(weighs, "risk_weight", f"finite, from 0 to {most}", self.risk_weight)
        require(0.0 < self.risk_level <= 1.0, "risk_level", "above 0, up to 1", self.risk_level)
        check_share(self.share)
        require(self.critic in ("own", "central"), "critic", "'own' or 'central'", self.critic)


class OnPolicyAgent(Agent):
    """Acts for a while, then learns from just that."""

    settings_type: ClassVar[type[AgentSettings]] = OnPolicySettings
    settings: OnPolicySettings
    network: ActorCritic | Team

    def _build(self) -> None:
        self.rollout = Rollout(self.vec, self.actions, self.settings.rollout_steps)
        if isinstance(self.vec, JointWorld):
            self.network = team = self.make_team(self.vec.spaces, self.settings)
            self.learners = {
                group.name: Learner(self, self._rows(self.vec, group), network)
                for group, network in team.pairs()
            }
        else:
            self.network = self.make_network(self.leaves, self.actions, self.settings, self.gather)
            self.learners = {"": Learner(self, self.rollout, self.network)}

    def _rows(self, world: JointWorld, group: Group) -> GroupRows:
        return GroupRows(world, self.rollout, group, self.settings.critic == "central")

    def _take_one(self, vec: VecEnv) -> None:
        settings = self.settings
        require(settings.share == "all", "share", "'all' for an env with one agent", settings.share)
        require(settings.critic == "own", "critic", "'own' for an env with one agent",
                settings.critic)  # fmt: skip
        super()._take_one(vec)

    def _take_several(self, world: JointWorld) -> None:
        self.actions = world.actions
        self._take_groups(groups_of(world.spaces, self.settings.share, self.settings.tell_apart))

    @classmethod
    def make_network(
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> ActorCritic:
        """What acts, on its own, before it has learnt."""
        return ActorCritic(leaves, actions, settings.policy, gather)

    @classmethod
    def make_team(cls, spaces: JointSpaces, settings: Any) -> Team:
        """What acts for several agents, on its own, before it has learnt."""
        groups = groups_of(spaces, settings.share, settings.tell_apart)
        is_central = settings.critic == "central"
        networks = [
            ActorCritic(
                group.leaves, group.actions, settings.policy,
                judged=joint_leaves(spaces, group) if is_central else None,
            )
            for group in groups
        ]  # fmt: skip
        return Team(groups, networks, spaces)

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
        return {"learners": learners, "rollout": self.rollout.state()}

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        for name, learner in self.learners.items():
            learner.load_state(state["learners"][name])
        self.rollout.load_state(state["rollout"])

    def _start(self, seed: Seeds) -> None:
        self.rollout.begin(seed)

    def _acting_state(self) -> dict[str, Any]:
        return self.rollout.state()

    def _load_acting_state(self, state: Mapping[str, Any]) -> None:
        self.rollout.load_state(state)

    def _iterate(self) -> Metrics:
        settings = self.settings
        schedule, share = settings.learning_rate_schedule, self.schedule_share
        rate = scheduled(settings.learning_rate, schedule, share)
        self._act()
        told: Metrics = {}
        for name, learner in self.learners.items():
            learner.descent.set_rate(rate)
            batch = learner.batch()
            # Advantages are told apart by their spread, and one alone has none.
            found = self._update(learner, batch) if len(batch) > 1 else {}
            told.update(found if len(self.learners) == 1 else _named(name, found))
        return told

    def _play(self, moments: Sequence[int]) -> None:
        self.rollout.fill(
            lambda seen: self.network.choose(seen, deterministic=False), self._watch,
            self.network.used,
        )  # fmt: skip

    def _played(self, steps: int) -> dict[str, Any]:
        return {**self.rollout.played(), "told": self.shaping.told()}

    def _take_played(self, parts: Sequence[tuple[Portion, dict[str, Any]]]) -> None:
        self.rollout.take(parts)
        if self._watch is not None:
            self.shaping.take_told([part["told"] for _, part in parts])

    def _act(self) -> None:
        self._let_act([self.steps])
        rollout = self.rollout
        done = rollout.terminated | rollout.truncated
        for step in range(rollout.steps):
            self.episodes.add(rollout.rewards[step], done[step], rollout.terminated[step])


def _named(name: str, told: Metrics) -> Metrics:
    return {f"{name}/{key}": value for key, value in told.items()}
