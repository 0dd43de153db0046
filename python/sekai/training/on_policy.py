"""On-policy training: rollouts, GAE and gradient steps that PPO and A2C share."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.distributions import Distribution

from quant_gym_rs._core import advantages as native_advantages
from sekai.policy.observations import Leaf, is_action_mask
from sekai.policy.settings import SEVERAL_KINDS, require
from sekai.training.actions import ActionMap
from sekai.training.agent import Agent, DivergedError, Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.gradient_step import GradientStep, mean_of, next_values, total_loss
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
from sekai.training.native_update import NativeUpdate
from sekai.training.normalizers import Gather, RewardScaler
from sekai.training.policies.actor_critic import FLAT, ActorCritic, MLPBackbone
from sekai.training.risk import KINDS, RiskKind, make_risk
from sekai.training.rng import EnvSlice
from sekai.training.rollout import RolloutBuffer
from sekai.training.shaping import StepBatch
from sekai.vector.vec_env import Seeds, VecEnv

__all__ = [
    "Batch",
    "GradientStep",
    "Learner",
    "OnPolicyAgent",
    "OnPolicySettings",
    "mean_of",
    "next_values",
    "total_loss",
]

CHUNK_ROWS = 4_096
"""Observations per forward pass of the critic: more do not fit the caches."""


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
    by one, "auto" is "native" for MLP actor-critics of one agent on the CPU."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rollout", "update"):
            value, allowed = getattr(self, name), ("auto", "native", "torch")
            require(value in allowed, name, f"one of {allowed}", value)
        self._require_count("n_steps")
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
    network: ActorCritic | TeamNetwork

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
            self.learners = {"": Learner(self, self.rollout, self.network)}
        self.native_rollout = chosen_part(self.settings.rollout, "rollout", self._make_native)

    def _make_native(self) -> NativeRollout:
        if self._watch is not None:
            raise NoNativeFormError("learn_where reads infos in every step")
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
        self.actions = vec.actions
        self._check_groups(groups_of(vec.spaces, settings.share, settings.agent_indicator))

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


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """Samples of a rollout, one row each."""

    observations: dict[str, Tensor]
    actions: Tensor
    advantages: Tensor
    returns: Tensor
    """Targets of the value function."""

    rows: Tensor | None = None
    """Rows in the rollout, with several agents."""

    log_probs: Tensor | None = None
    """Log-probabilities of the actions before the update."""

    critic_observations: dict[str, Tensor] | None = None
    """Observations of a centralized critic."""

    def __len__(self) -> int:
        return len(self.actions)

    def on(self, device: torch.device) -> Batch:
        """Samples on the device of the network; raw observations and rows stay with the envs."""
        names = ("actions", "advantages", "returns")
        return dataclasses.replace(self, **{name: getattr(self, name).to(device) for name in names})

    def select(self, indices: Tensor) -> Batch:
        """Select samples by index."""

        def take(value: Any) -> Any:
            if value is None:
                return None
            if isinstance(value, dict):
                return {name: take(part) for name, part in value.items()}
            return value.index_select(0, indices.to(value.device))

        fields = (field.name for field in dataclasses.fields(self))
        return Batch(**{name: take(getattr(self, name)) for name in fields})


class Learner:
    """Actor-critic network with its optimizer, reward scaling and advantage estimation.

    Args:
        agent: agent with the hyperparameters.
        rollout: rollout of all envs, or of a group of agents.
        network: network to train.
    """

    def __init__(
        self, agent: OnPolicyAgent, rollout: RolloutBuffer | GroupRollout, network: ActorCritic
    ) -> None:
        self.settings = settings = agent.settings
        self.rollout, self.network = rollout, network
        self.shaping = None if agent.shaping.is_plain else agent.shaping
        self.is_central = network.critic_inputs is not network.inputs
        # Windows and images are not preprocessed once for all epochs: they need not fit memory.
        has_images = any(leaf.is_image for leaf in network.inputs.leaves.values())
        self.preprocesses = network.inputs.gather is None and not has_images
        bodies = (network.actor.body, network.critic.body)
        # Side by side once, instead of in every minibatch of actor and critic.
        is_flat = self.preprocesses and not self.is_central
        self.is_flat = is_flat and all(type(body) is MLPBackbone for body in bodies)
        self.mask_names = network.actor.mask_names
        self.risk = make_risk(
            settings.risk, settings.risk_weight, settings.risk_level, rollout.count
        )
        self.scaler: RewardScaler | None = None
        if settings.norm_reward:
            self.scaler = RewardScaler(settings.gamma, rollout.count)
        self.gradient_step = GradientStep(network, settings)
        self.native_update: NativeUpdate | None = chosen_part(
            settings.update, "update", lambda: self._make_native(agent)
        )

    def _make_native(self, agent: OnPolicyAgent) -> NativeUpdate:
        if not self.is_flat or isinstance(self.rollout, GroupRollout):
            raise NoNativeFormError("observations are not those of an MLP of one agent")
        if agent.native_loss() is None:
            raise NoNativeFormError(f"the loss of {type(agent).__name__} has no native form")
        settings, optimizer = self.settings, self.gradient_step.optimizer
        return NativeUpdate(self.network, optimizer, settings.policy, settings.threads)

    def use_rollout(self, rollout: RolloutBuffer) -> None:
        """Read another rollout of the same envs from now on."""
        if isinstance(self.rollout, GroupRollout):
            self.rollout.rollout = rollout
        else:
            self.rollout = rollout

    @torch.no_grad()
    def batch(self) -> Batch:
        """Samples of the collected rollout with advantages and returns."""
        device = self.network.inputs.device
        if isinstance(self.rollout, GroupRollout):
            return self._group_batch(self.rollout).on(device)
        return self._single_batch(self.rollout).on(device)

    def _single_batch(self, rollout: RolloutBuffer) -> Batch:
        tables = rollout.observed
        everything = {name: table.flatten(0, 1) for name, table in tables.items()}
        self.network.inputs.update(_part(everything, slice(-rollout.count)))
        observations = self._preprocessed(everything)
        terminated = torch.from_numpy(rollout.terminated)
        done = terminated | torch.from_numpy(rollout.truncated)
        rows = (rollout.steps + 1) * rollout.count
        values = self._values(rows, observations).reshape(-1, rollout.count)
        after = next_values(rollout.cuts, values, self._critic)
        steps = None
        if self.shaping is not None:
            steps = _steps(tables, rollout.rewards, rollout.terminated, rollout.truncated)
        rewards = self._rewards(torch.from_numpy(rollout.rewards), done, steps)
        advantages, returns = self._advantages(values[:-1], after, rewards, done, terminated)
        batch = Batch(
            _part(observations, slice(-rollout.count)),
            rollout.chosen.flatten(0, 1),
            advantages.reshape(-1),
            returns.reshape(-1),
        )
        mask = None if self.shaping is None or steps is None else self.shaping.mask(steps)
        return batch if mask is None else batch.select(_true(torch.from_numpy(mask)))

    def _group_batch(self, rollout: GroupRollout) -> Batch:
        rollout.read()
        acted = rollout.acted.flatten()
        everything = {name: table.flatten(0, 1) for name, table in rollout.observations.items()}
        before = _part(everything, slice(len(acted)))
        self.network.inputs.update({name: table[acted] for name, table in before.items()})
        if self.is_central:
            self.network.critic_inputs.update(rollout.joint_observations())
        observations = self._preprocessed(everything)
        values = self._values(len(acted) + rollout.count, observations).reshape(-1, rollout.count)
        after, known = rollout.next_values(values, self.network.critic)
        truncated = rollout.done & ~rollout.terminated
        tables = (table.numpy() for table in (rollout.rewards, rollout.terminated, truncated))
        steps = None if self.shaping is None else _steps(rollout.observations, *tables)
        rewards = self._rewards(rollout.rewards, rollout.done, steps, rollout.acted)
        advantages, returns = self._group_advantages(rollout, values[:-1], after, rewards, known)
        batch = Batch(
            _part(observations, slice(len(acted))),
            rollout.chosen.flatten(0, 1),
            advantages.reshape(-1),
            returns.reshape(-1),
            rows=torch.arange(len(acted)),
        )
        used = rollout.acted & known
        mask = None if self.shaping is None or steps is None else self.shaping.mask(steps)
        return batch.select(_true(used if mask is None else used & torch.from_numpy(mask)))

    def _group_advantages(
        self, rollout: GroupRollout, values: Tensor, after: Tensor, rewards: Tensor, known: Tensor
    ) -> tuple[Tensor, Tensor]:
        used = rollout.acted & known
        tables = [table * used for table in (values, after, rewards)]
        # Steps without an action are sorted to the end, so that the others are neighbours. An
        # unknown outcome passes nothing on to earlier steps.
        order = torch.argsort(~rollout.acted, dim=0, stable=True)
        tables += [rollout.done | ~used, rollout.terminated & used]
        parts = self._advantages(*(table.gather(0, order) for table in tables))
        advantages, returns = (torch.zeros_like(part).scatter_(0, order, part) for part in parts)
        return advantages, returns

    def _advantages(
        self, values: Tensor, after: Tensor, rewards: Tensor, done: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Generalized advantage estimates (GAE) and returns: times by envs."""
        settings = self.settings
        arrays = (
            table.contiguous().numpy() for table in (rewards, values, after, done, terminated)
        )
        advantages = torch.from_numpy(
            native_advantages(*arrays, settings.gamma, settings.gae_lambda)
        )
        return advantages, advantages + values

    def _rewards(
        self, rewards: Tensor, done: Tensor, steps: StepBatch | None, acted: Tensor | None = None
    ) -> Tensor:
        """Rewards after shaping, risk penalty and scaling."""
        if self.shaping is not None and steps is not None:
            rewards = torch.from_numpy(self.shaping.rewards(steps))
        if self.risk is not None:
            rewards = self.risk.shaped(rewards, done, acted)
        if self.scaler is None:
            return rewards.float()
        self.scaler.update(rewards, done, acted)
        scaled: Tensor = self.scaler(rewards)
        return scaled

    def _critic(self, observations: dict[str, Tensor]) -> Tensor:
        """Values of raw observations."""
        if self.native_update is not None:
            return self.native_update.values(self._preprocessed(observations))
        values: Tensor = self.network.critic(observations)
        return values

    def _preprocessed(self, observations: dict[str, Tensor]) -> dict[str, Tensor]:
        """Observations in the form that minibatches hold."""
        if not self.preprocesses:
            return observations
        inputs = self.network.inputs(observations)
        if self.is_flat and len(inputs) > 1:
            masks = {name: rows for name, rows in observations.items() if is_action_mask(name)}
            return {**masks, FLAT: self.network.actor.body.flattened(inputs)}
        return {
            **{
                name: rows.to(self.network.inputs.device)
                for name, rows in observations.items()
                if name not in inputs
            },
            **inputs,
        }

    def _values(self, count: int, observations: Mapping[str, Tensor] | None = None) -> Tensor:
        """Values of `count` rows of the rollout, of which `observations` may be preprocessed."""
        if self.native_update is not None and observations is not None:
            return self.native_update.values(_part(observations, slice(count)))
        critic, chunks = self.network.critic, _chunks(count)
        if observations is None or self.is_central:
            parts = [critic(self.rollout.critic_observations(part)) for part in chunks]
        else:
            parts = [critic(_part(observations, part), self.preprocesses) for part in chunks]
        # Advantages are computed on the CPU: a loop over steps of a few numbers each.
        return torch.cat(parts).cpu()

    @torch.no_grad()
    def log_probs(self, batch: Batch) -> Tensor:
        """Log-probabilities of the actions under the current policy."""
        actor, parts = self.network.actor, []
        for part in _chunks(len(batch)):
            distribution = actor.distribution(_part(batch.observations, part), self.preprocesses)
            parts.append(distribution.log_prob(batch.actions[part]))
        return torch.cat(parts)

    def minibatch(self, batch: Batch, indices: Tensor | None = None) -> Batch:
        """Select samples by index; None for all."""
        samples = batch if indices is None else batch.select(indices)
        if not self.is_central:
            return samples
        assert samples.rows is not None, "centralized critics are of several agents"
        joint = self.rollout.critic_observations(samples.rows)
        return dataclasses.replace(samples, critic_observations=joint)

    def evaluate(self, batch: Batch) -> tuple[Distribution, Tensor]:
        """Action distribution and values of a minibatch."""
        network = self.network
        distribution = network.actor.distribution(batch.observations, self.preprocesses)
        if batch.critic_observations is not None:
            return distribution, network.critic(batch.critic_observations).squeeze(-1)
        return distribution, network.critic(batch.observations, self.preprocesses).squeeze(-1)

    def train_natively(
        self, batch: Batch, order: Tensor, loss: dict[str, Any], size: int
    ) -> Metrics:
        """Take the gradient steps of minibatches of `size` samples in one native call.

        Raises:
            DivergedError: a gradient is not finite; the weights are those before its step.
        """
        native = self.native_update
        assert native is not None, "chosen by the settings"
        samples = native.samples(batch.observations, batch.actions, batch.advantages, batch.returns)
        metrics = native(samples, order.numpy(), loss, size)
        if metrics is None:
            raise DivergedError
        if loss["clip"] is None:
            del metrics["kl_approx"], metrics["clip_fraction"]
        entropy = metrics.pop("entropy")
        if loss["ent_coef"] > 0:
            metrics |= {"entropy": entropy, "loss_entropy": -loss["ent_coef"] * entropy}
        return metrics

    def state(self) -> dict[str, Any]:
        """State for checkpoints, beside the network."""
        return {
            "optimizer": self.gradient_step.optimizer.state_dict(),
            "scaler": None if self.scaler is None else dict(self.scaler.state_dict()),
            "risk": None if self.risk is None else self.risk.state_dict(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.gradient_step.optimizer.load_state_dict(state["optimizer"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        if self.risk is not None:
            self.risk.load_state_dict(state["risk"])


def _part(rows: Mapping[str, Tensor], part: slice) -> dict[str, Tensor]:
    return {name: table[part] for name, table in rows.items()}


def _chunks(count: int) -> list[slice]:
    firsts = range(0, count, CHUNK_ROWS)
    return [slice(first, min(first + CHUNK_ROWS, count)) for first in firsts]


def _true(mask: Tensor) -> Tensor:
    return mask.flatten().nonzero().squeeze(-1)


def _steps(
    observations: Mapping[str, Tensor], rewards: Any, terminated: Any, truncated: Any
) -> StepBatch:
    before = {name: table[:-1].numpy() for name, table in observations.items()}
    return StepBatch(before, rewards, terminated, truncated)
