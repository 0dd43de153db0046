"""On-policy agents: collection of rollouts and training on them, which PPO and A2C share."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from torch import Tensor
from torch.distributions import Distribution

from sekai.policy.observations import Leaf
from sekai.policy.settings import SEVERAL_KINDS, require
from sekai.training.actions import ActionMap
from sekai.training.agent import Agent, Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.learner import Batch, Learner
from sekai.training.multi_agent.groups import (
    Group,
    GroupRollout,
    Share,
    TeamNetwork,
    check_share,
    groups_of,
    joint_leaves,
)
from sekai.training.multi_agent.joint_env import JointSpaces, JointTrainingEnv
from sekai.training.native_rollout import (
    Implementation,
    NativeRollout,
    NoNativeFormError,
    chosen_part,
)
from sekai.training.normalizers import Gather
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.risk import KINDS, RiskKind
from sekai.training.rng import EnvSlice
from sekai.training.rollout import RolloutBuffer
from sekai.training.teacher import Teacher, kl_divergence
from sekai.vector.vec_env import Seeds, VecEnv

__all__ = ["OnPolicyAgent", "OnPolicySettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnPolicySettings(AgentSettings):
    """Hyperparameters of on-policy algorithms."""

    n_steps: int = 128
    """Steps of each env in a rollout."""

    gae_lambda: float = 0.95
    """Bias-variance trade-off of the generalized advantage estimate: 0 for TD(0), 1 for Monte
    Carlo."""

    ent_coef: float = 0.0
    """Entropy coefficient of the loss."""

    vf_coef: float = 0.5
    """Value function coefficient of the loss."""

    risk: RiskKind = "none"
    """Risk penalty: "volatility", "drawdown" or "cvar"."""

    risk_weight: float = 0.5
    """Weight of the risk penalty, in units of env rewards; for "cvar" from 0 to 1, and the mean
    return has the rest."""

    risk_level: float = 0.1
    """Tail probability of "cvar"."""

    share: Share = dataclasses.field(default="all", metadata={SEVERAL_KINDS: True})
    """Agents that share a policy: "all" of equal spaces, "none", or groups by name."""

    agent_indicator: bool = True
    """Add the index of the agent to the observations of a shared policy."""

    critic: Literal["own", "central"] = "own"
    """Observations of critics with several agents: those of the agent, or of all agents
    (centralized critic)."""

    rollout: Implementation = "auto"
    """Implementation of rollouts: "native" acts and steps native envs in one call, "torch" acts
    step by step, "auto" is "native" where the env and the network have a native form."""

    update: Implementation = "auto"
    """Implementation of gradient steps: "native" takes those of a rollout in one call, "torch" one
    by one, "auto" is "native" for MLP actor-critics of one agent on the CPU with up to 100,000
    weights."""
    teacher_coef: float = 1.0
    """Coefficient of the divergence from the policy to a teacher's, if one is passed."""

    privileged: tuple[str, ...] = ()
    """Parts of the observation that only a teacher reads: the policy is trained, saved and acts
    without them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rollout", "update"):
            value, allowed = getattr(self, name), ("auto", "native", "torch")
            require(value in allowed, name, f"one of {allowed}", value)
        self._require_count("n_steps")
        coefficient = self.teacher_coef
        is_coefficient = coefficient >= 0.0 and math.isfinite(coefficient)
        require(is_coefficient, "teacher_coef", "finite, at least 0", coefficient)
        self._require_share("gae_lambda")
        require(self.risk in KINDS, "risk", f"one of {KINDS}", self.risk)
        most = 1.0 if self.risk == "cvar" else math.inf
        is_weight = 0.0 <= self.risk_weight <= most and math.isfinite(self.risk_weight)
        require(is_weight, "risk_weight", f"finite, from 0 to {most}", self.risk_weight)
        require(0.0 < self.risk_level <= 1.0, "risk_level", "above 0, up to 1", self.risk_level)
        check_share(self.share)
        require(self.critic in ("own", "central"), "critic", "'own' or 'central'", self.critic)


class OnPolicyAgent(Agent):
    """Agent that alternates between collecting a rollout and training on it."""

    settings_type: ClassVar[type[AgentSettings]] = OnPolicySettings
    settings: OnPolicySettings
    network: Any

    @abstractmethod
    def _update(self, learner: Learner, batch: Batch) -> Metrics:
        """Train on the samples of a rollout."""

    def native_loss(self) -> dict[str, Any] | None:
        """Hyperparameters of the loss for `NativeUpdate`; None if it has no native form."""
        return None

    def _build(self) -> None:
        self.rollout = RolloutBuffer(self.vec, self.actions, self.settings.n_steps)
        if isinstance(self.vec, JointTrainingEnv):
            self.network = team = self.make_team(self.vec.spaces, self.settings).to(self.device)
            self.learners = {
                group.name: Learner(self, self._group_rollout(self.vec, group), network)
                for group, network in team.pairs()
            }
        else:
            network = self.make_network(self.leaves, self.actions, self.settings, self.gather)
            self.network = network.to(self.device)
            self.learners = {"": self._make_learner(self.rollout, self.network)}
        self.native_rollout = chosen_part(self.settings.rollout, "rollout", self._make_native)

    def _make_learner(self, rollout: RolloutBuffer, network: Any) -> Learner:
        return Learner(self, rollout, network)

    def _make_native(self) -> NativeRollout:
        if self._watch is not None:
            raise NoNativeFormError("learn_where reads infos in every step")
        if self.settings.privileged:
            raise NoNativeFormError("the policy does not read the privileged parts of observations")
        return NativeRollout(self.vec, self.network, self.settings.policy)

    def _group_rollout(self, vec: JointTrainingEnv, group: Group) -> GroupRollout:
        return GroupRollout(vec, self.rollout, group, self.settings.critic == "central")

    def _use_single_agent(self, vec: VecEnv) -> None:
        for name, value in (("share", "all"), ("critic", "own")):
            setting = getattr(self.settings, name)
            require(setting == value, name, f"{value!r} for an env with one agent", setting)
        super()._use_single_agent(vec)

    def _use_multi_agent(self, vec: JointTrainingEnv) -> None:
        settings = self.settings
        names = settings.privileged
        require(names == (), "privileged", "() for an env with several agents", names)
        self.actions = vec.actions
        self._check_groups(groups_of(vec.spaces, settings.share, settings.agent_indicator))

    def _make_teacher(self, teacher: Any) -> Teacher | None:
        if teacher is None:
            return None
        if isinstance(self.vec, JointTrainingEnv):
            raise TypeError("a teacher needs an env with one agent; pass teacher=None")
        made = Teacher(teacher, self.vec.observation_space, self.vec.action_space)
        return made if self.settings.teacher_coef > 0 else None

    def _teacher_loss(self, batch: Batch, distribution: Distribution) -> dict[str, Tensor]:
        """Distillation term of the loss: nothing without a teacher."""
        if batch.teacher is None:
            return {}
        divergence = kl_divergence(batch.teacher, distribution).mean()
        return {
            "teacher_kl": divergence.detach(),
            "loss_teacher": self.settings.teacher_coef * divergence,
        }

    @classmethod
    def make_network(
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> ActorCritic:
        """Make the untrained network of one agent."""
        return ActorCritic(leaves, actions, settings.policy, gather)

    @classmethod
    def make_team(cls, spaces: JointSpaces, settings: Any) -> TeamNetwork:
        """Make the untrained networks of several agents."""
        groups = groups_of(spaces, settings.share, settings.agent_indicator)
        is_central = settings.critic == "central"
        networks = [
            ActorCritic(
                group.leaves,
                group.actions,
                settings.policy,
                critic_leaves=joint_leaves(spaces, group) if is_central else None,
            )
            for group in groups
        ]
        return TeamNetwork(groups, networks, spaces)

    @property
    def _full_length(self) -> int:
        return self.settings.n_steps

    def _set_length(self, steps: int | None) -> None:
        super()._set_length(steps)
        if self.rollout.steps != self.iteration_length:
            state = self.rollout.state()
            self.rollout = RolloutBuffer(self.vec, self.actions, self.iteration_length)
            self.rollout.load_state(state)
            for learner in self.learners.values():
                learner.use_rollout(self.rollout)

    def _worker_settings(self, n_envs: int) -> AgentSettings:
        return self.settings.replaced(n_envs=n_envs, n_steps=self.iteration_length)

    def _iterate(self) -> Metrics:
        for learner in self.learners.values():
            learner.gradient_step.set_learning_rate(self.learning_rate)
        self._collect()
        return self._train()

    def _collect(self) -> None:
        """Collect a rollout."""
        self._run_envs([self.steps])
        rollout = self.rollout
        done = rollout.terminated | rollout.truncated
        for step in range(rollout.steps):
            self.episodes.add(rollout.rewards[step], done[step], rollout.terminated[step])

    def _train(self) -> Metrics:
        """Train on the collected rollout."""
        metrics: Metrics = {}
        for name, learner in self.learners.items():
            batch = learner.batch()
            # A single advantage has no standard deviation.
            own = self._update(learner, batch) if len(batch) > 1 else {}
            prefix = "" if len(self.learners) == 1 else f"{name}/"
            metrics.update({f"{prefix}{key}": value for key, value in own.items()})
        return metrics

    def _start(self, seed: Seeds) -> None:
        self.rollout.begin(seed)

    def _act_steps(self, step_counts: Sequence[int]) -> None:
        if self.native_rollout is not None:
            self.native_rollout.fill(self.rollout)
            return
        network = self.network
        self.rollout.fill(
            lambda observations: network.choose(observations, deterministic=False),
            self._watch,
            network.used,
        )

    def _collected(self, steps: int) -> dict[str, Any]:
        return {**self.rollout.collected(), "flags": self.shaping.flags()}

    def _store_collected(self, parts: Sequence[tuple[EnvSlice, dict[str, Any]]]) -> None:
        self.rollout.store(parts)
        if self._watch is not None:
            self.shaping.set_flags([part["flags"] for _, part in parts])

    def _acting_state(self) -> dict[str, Any]:
        return self.rollout.state()

    def _load_acting_state(self, state: Mapping[str, Any]) -> None:
        self.rollout.load_state(state)

    def _learning_state(self) -> dict[str, Any]:
        learners = {name: learner.state() for name, learner in self.learners.items()}
        return {"learners": learners, "rollout": self.rollout.state()}

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        for name, learner in self.learners.items():
            learner.load_state(state["learners"][name])
        self.rollout.load_state(state["rollout"])
