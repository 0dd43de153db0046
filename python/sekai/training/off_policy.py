"""Off-policy training: replay and target networks of single agents."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.policy.native import LEARNING_ONLY
from sekai.policy.observations import Leaf, is_action_mask
from sekai.policy.settings import PolicySettings, require
from sekai.spaces import Discrete
from sekai.training.actions import ActionMap
from sekai.training.agent import Agent, DivergedError, Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.gradient_step import total_loss
from sekai.training.normalizers import Gather, RewardScaler
from sekai.training.policies.actor_critic import Backbone, backbone, inputs_of
from sekai.training.policies.off_policy import DeterministicActor, QNetwork, SquashedGaussianActor
from sekai.training.replay import ReplayBuffer
from sekai.training.risk import RiskKind, VolatilityRisk
from sekai.training.rng import EnvSlice, uniform
from sekai.training.shaping import StepBatch
from sekai.training.trained_policy import PolicyNetwork
from sekai.vector.vec_env import Seeds

Module = TypeVar("Module", bound=nn.Module)

__all__ = [
    "ActorCriticSettings",
    "OffPolicyAgent",
    "OffPolicyNetwork",
    "OffPolicySettings",
    "Transitions",
    "decayed_eps",
    "frozen",
    "mean_metrics",
    "target_copy",
    "with_masks",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OffPolicySettings(AgentSettings):
    """Hyperparameters of off-policy algorithms."""

    _max_tau: ClassVar[float] = 0.5

    n_envs: int = 16
    learning_rate: float = 1e-3
    """Learning rate of the critics."""

    max_grad_norm: float = 10.0
    steps_per_iteration: int = 32
    """Steps of each env in an iteration: between callbacks and updates of the normalizers."""

    train_freq: int = 1
    """Steps of each env between two rounds of gradient steps."""

    gradient_steps: int = 1
    """Gradient steps in a round."""

    batch_size: int = 256
    """Transitions in a minibatch."""

    buffer_size: int = 200_000
    """Transitions in the replay buffer, of all envs together."""

    save_replay_buffer: bool = True
    """Save the replay buffer in checkpoints, for training that continues bit for bit; otherwise
    training that is resumed collects anew before it learns."""

    learning_starts: int = 2_000
    """Steps, of all envs together, with random actions before the first gradient step."""

    tau: float = 0.005
    """Soft update coefficient of target networks."""

    risk: RiskKind = "none"
    """Risk penalty: "volatility", the variance of rewards. Drawdown and CVaR depend on the path of
    an episode, which single transitions do not have."""

    risk_weight: float = 0.5
    """Weight of the risk penalty, in units of env rewards."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count(
            "steps_per_iteration", "train_freq", "gradient_steps", "batch_size", "buffer_size"
        )
        require(self.learning_starts >= 0, "learning_starts", "0 or more", self.learning_starts)
        least = max(self.learning_starts, self.batch_size)
        expected = f"at least learning_starts and batch_size, {least}"
        require(self.buffer_size >= least, "buffer_size", expected, self.buffer_size)
        expected = f"at most steps_per_iteration, {self.steps_per_iteration}"
        is_within = self.train_freq <= self.steps_per_iteration
        require(is_within, "train_freq", expected, self.train_freq)
        expected = (
            "'none' or 'volatility' with a replay buffer: 'drawdown' and 'cvar' need whole "
            "episodes, use PPO or A2C"
        )
        require(self.risk in ("none", "volatility"), "risk", expected, self.risk)
        is_weight = 0.0 <= self.risk_weight < math.inf
        require(is_weight, "risk_weight", "finite, 0 or more", self.risk_weight)
        is_coefficient = 0 < self.tau <= self._max_tau
        require(is_coefficient, "tau", f"above 0 and at most {self._max_tau}", self.tau)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorCriticSettings(OffPolicySettings):
    """Hyperparameters of off-policy algorithms with an actor."""

    python_env_settings: ClassVar[Mapping[str, Any]] = {
        "n_envs": 1,
        "steps_per_iteration": 64,
        "learning_starts": 100,
        "learning_rate": 3e-4,
        "actor_lr_scale": 1.0,
        "policy": {"net_arch": [256, 256], "activation": "relu"},
    }

    actor_lr_scale: float = 0.3
    """Learning rate of the actor, as a multiple of that of the critics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_positive("actor_lr_scale")


class OffPolicyNetwork(PolicyNetwork):
    """Actor and Q-networks with their observation normalizer.

    Actor and critics read preprocessed observations: the normalizer belongs to neither, so that
    target networks see what the trained networks see.
    """

    for_learning: ClassVar[tuple[str, ...]] = LEARNING_ONLY
    log_temperature: nn.Parameter
    """Logarithm of the entropy coefficient of SAC."""

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: PolicySettings,
        actor: type[DeterministicActor] | type[SquashedGaussianActor],
        gather: Gather | None = None,
    ) -> None:
        super().__init__()
        self._actions, self._settings = actions, settings
        self.inputs = inputs_of(leaves, settings, gather)
        self.actor = actor(self._body(), actions, settings.std_init * actions.std_scale)

    def add_critics(self, count: int, outputs: int = 1) -> None:
        """Add the Q-networks, which only training needs, with a mean or quantiles as outputs."""
        self.critics = nn.ModuleList(
            QNetwork(self._body(), self._actions, self._settings, outputs) for _ in range(count)
        )

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Actions before conversion to the action space of the env."""
        inputs = self.inputs(observations)
        if isinstance(self.actor, SquashedGaussianActor):
            return self.actor.choose(inputs, deterministic)
        actions: Tensor = self.actor(inputs)
        return actions

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of the action components in use; None for all."""
        return self.actor.head.used(self.actor.body, observations)

    def _body(self) -> Backbone:
        return backbone(self.inputs.leaves, self._settings)


@dataclasses.dataclass(frozen=True, eq=False)
class Transitions:
    """Minibatch of transitions from the replay buffer; observations are preprocessed."""

    observations: dict[str, Tensor]
    actions: Tensor
    next_observations: dict[str, Tensor]
    rewards: Tensor
    """Scaled rewards: batch by one."""

    terminated: Tensor
    """Batch by one."""

    def targets(self, gamma: float, next_values: Tensor) -> Tensor:
        """One-step TD targets."""
        return (self.rewards + gamma * (~self.terminated).int() * next_values).squeeze(-1)


class OffPolicyAgent(Agent):
    """Agent that stores transitions in a replay buffer and trains on minibatches of them."""

    settings_type: ClassVar[type[AgentSettings]] = OffPolicySettings
    settings: OffPolicySettings
    actor_kind: ClassVar[type[DeterministicActor] | type[SquashedGaussianActor]]
    critic_count: ClassVar[int] = 1
    network: OffPolicyNetwork
    scaler: RewardScaler | None = None

    @abstractmethod
    def _loss(self, batch: Transitions) -> dict[str, Tensor]:
        """Losses of a minibatch, with metrics."""

    @abstractmethod
    def _parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Parameters with their multiple of the learning rate; each group is clipped alone."""

    @abstractmethod
    def _target_pairs(self) -> dict[str, tuple[nn.Module, nn.Module]]:
        """Target networks by name, each with the network that it follows."""

    def _build(self) -> None:
        settings = self.settings
        self._check_actions()
        self._make_scaler(self.vec.num_envs)
        self._make_risks(1)
        # Rounded up: the requested number of transitions fits with any number of envs.
        steps = max(-(-settings.buffer_size // self.vec.num_envs), settings.steps_per_iteration)
        self.replay = ReplayBuffer(self.vec, self.actions, steps)
        self.network = self.make_network(self.leaves, self.actions, settings, self.gather)
        self._add_critics()
        self.network.to(self.device)
        self._build_targets()
        self._build_optimizer()

    def _add_critics(self) -> None:
        """Add the networks that only training needs."""
        self.network.add_critics(self.critic_count)

    def _make_scaler(self, rows: int) -> None:
        if self.settings.norm_reward:
            self.scaler = RewardScaler(self.settings.gamma, rows)

    def _make_risks(self, count: int) -> None:
        is_used = self.settings.risk == "volatility"
        self.risks = [VolatilityRisk(self.settings.risk_weight) for _ in range(count * is_used)]

    def _build_targets(self) -> None:
        """Make the target networks as copies."""

    def _build_optimizer(self) -> None:
        groups = [
            ([weight for weight in weights if weight.requires_grad], scale)
            for weights, scale in self._parameter_groups()
        ]
        self.parameter_groups = [weights for weights, _ in groups]
        scaled = [{"params": weights, "scale": scale} for weights, scale in groups]
        self.optimizer = torch.optim.Adam(scaled, self.settings.learning_rate)

    def _check_actions(self) -> None:
        name, space = type(self).__name__, self.vec.action_space
        if self.actions.is_choice:
            others = "PPO, A2C or DQN" if isinstance(space, Discrete) else "PPO or A2C"
            raise SpaceError(f"{name} needs continuous actions, got {space!r}; use {others}")
        if not self.actions.is_bounded:
            raise SpaceError(
                f"{name} needs bounded actions, got {space!r}; wrap the env in an ActionWrapper "
                "with bounds, or use PPO or A2C"
            )

    @classmethod
    def make_network(
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> OffPolicyNetwork:
        """Make the untrained network, without critics."""
        return OffPolicyNetwork(leaves, actions, settings.policy, cls.actor_kind, gather)

    @property
    def _full_length(self) -> int:
        return self.settings.steps_per_iteration

    def _set_length(self, steps: int | None) -> None:
        # Gradient steps follow whole groups of `train_freq` steps.
        super()._set_length(None if steps is None else max(steps, self.settings.train_freq))

    def _iterate(self) -> Metrics:
        settings, metrics = self.settings, []
        self._set_learning_rate()
        n_envs, stride = self.vec.num_envs, settings.train_freq
        for first in range(0, self.iteration_length, stride):
            steps = range(first, min(first + stride, self.iteration_length))
            self._run_envs([self.steps + step * n_envs for step in steps])
            self._shape(len(steps))
            is_due = len(steps) == stride and self.replay.is_open
            if is_due and len(self.replay) >= max(settings.learning_starts, settings.batch_size):
                self._init_risks()
                metrics += [self._update() for _ in range(settings.gradient_steps)]
        self._update_normalizers()
        return mean_metrics(metrics)

    def _set_learning_rate(self) -> None:
        rate = self.learning_rate
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["scale"]

    def _update(self) -> Metrics:
        """One gradient step, and a soft update of the target networks."""
        losses = self._loss(self._sample())
        self.optimizer.zero_grad()
        total_loss(losses).backward()  # type: ignore[no-untyped-call]
        self._clip_gradients()
        self.optimizer.step()
        self._update_targets()
        return {name: float(value.detach().float().mean()) for name, value in losses.items()}

    def _clip_gradients(self) -> None:
        """Clip the gradient norm of each parameter group."""
        limit = self.settings.max_grad_norm
        for weights in self.parameter_groups:
            norm = nn.utils.get_total_norm(self._gradients(weights))
            if not bool(torch.isfinite(norm)):
                raise DivergedError
            nn.utils.clip_grads_with_norm_(weights, limit, norm)

    def _gradients(self, weights: list[nn.Parameter]) -> list[Tensor]:
        """Gradients of a parameter group, of which the norm is clipped."""
        return [weight.grad for weight in weights if weight.grad is not None]

    @torch.no_grad()
    def _update_targets(self) -> None:
        # The complement of the complement: as the soft update of TorchRL rounds it.
        weight = 1 - (1 - self.settings.tau)
        for target, source in self._target_pairs().values():
            for own, other in zip(target.parameters(), source.parameters(), strict=True):
                if other.requires_grad:
                    own.lerp_(other, weight)

    @torch.no_grad()
    def _sample(self) -> Transitions:
        drawn = self.replay.sample(self.settings.batch_size)
        rewards = self._penalized(drawn["reward"])
        scaled = rewards.float() if self.scaler is None else self.scaler(rewards)
        return Transitions(
            self._inputs(drawn["observation"]),
            drawn["action"].to(self.device),
            self._inputs(drawn["next"]),
            scaled.unsqueeze(-1).to(self.device),
            drawn["terminated"].unsqueeze(-1).to(self.device),
        )

    def _inputs(self, observations: dict[str, Tensor]) -> dict[str, Tensor]:
        """Preprocessed observations."""
        inputs: dict[str, Tensor] = self.network.inputs(observations)
        return inputs

    def _start(self, seed: Seeds) -> None:
        self.replay.begin(seed)

    def _act_steps(self, step_counts: Sequence[int]) -> None:
        for index, steps in enumerate(step_counts):
            result = self._act(steps)
            if self._watch is not None:
                self._watch(result, index)

    @torch.no_grad()
    def _act(self, steps: int) -> Any:
        observations = self.replay.current_observations()
        is_warm = steps >= self.settings.learning_starts
        actions = self._explore(observations) if is_warm else self._random_actions(observations)
        result = self.replay.step(actions, self.network.used(observations))
        self._count_episodes()
        return result

    def _random_actions(self, observations: dict[str, Tensor]) -> Tensor:
        """Uniform random actions."""
        numbers = uniform((self.vec.num_envs, self.actions.width)) * 2 - 1
        return numbers * self.actions.std_scale

    def _explore(self, observations: dict[str, Tensor]) -> Tensor:
        """Actions with exploration noise."""
        return self.network.choose(observations, deterministic=False).cpu()

    def _count_episodes(self) -> None:
        row = self.replay.latest(1)[0]
        done = self.replay.terminated[row] | self.replay.truncated[row]
        self.episodes.add(self.replay.rewards[row], done)

    def _shape(self, count: int) -> None:
        """Apply reward shaping to the latest steps."""
        if self.shaping.is_plain:
            return
        replay, rows = self.replay, self.replay.latest(count)
        steps = StepBatch(
            replay.tables(rows),
            replay.rewards[rows],
            replay.terminated[rows],
            replay.truncated[rows],
        )
        mask = self.shaping.mask(steps)
        replay.rewards[rows] = self.shaping.rewards(steps)
        if mask is not None:
            replay.filter(rows, mask[..., None])

    def _init_risks(self) -> None:
        """Before the first gradient step, estimate the mean reward from the whole buffer."""
        if self.risks and all(risk.mean is None for risk in self.risks):
            self._update_risks(self.replay.steps)

    def _update_risks(self, count: int) -> None:
        """Update the mean reward with the latest steps."""
        for risk in self.risks:
            risk.update(torch.from_numpy(self.replay.rewards[self.replay.latest(count)]))

    def _penalized(self, rewards: Tensor) -> Tensor:
        """Rewards less the risk penalty."""
        return self.risks[0].penalized(rewards) if self.risks else rewards

    def _update_normalizers(self) -> None:
        """Update the running moments with the steps of this iteration."""
        rows = self.replay.latest(self.iteration_length)
        self.network.inputs.update(self.replay.observations(rows))
        self._update_risks(len(rows))
        if self.scaler is not None:
            done = self.replay.terminated[rows] | self.replay.truncated[rows]
            rewards = torch.from_numpy(self.replay.rewards[rows])
            self.scaler.update(self._penalized(rewards), torch.from_numpy(done))

    def _collected(self, steps: int) -> dict[str, Any]:
        return {**self.replay.collected(steps), "flags": self.shaping.flags()}

    def _store_collected(self, parts: Sequence[tuple[EnvSlice, dict[str, Any]]]) -> None:
        for step in range(len(parts[0][1]["rewards"])):
            self.replay.store(parts, step)
            self._count_episodes()
        if self._watch is not None:
            self.shaping.set_flags([part["flags"] for _, part in parts])

    def _acting_state(self) -> dict[str, Any]:
        return self.replay.moment()

    def _load_acting_state(self, state: Mapping[str, Any]) -> None:
        self.replay.load_moment(state)

    def _worker_settings(self, n_envs: int) -> OffPolicySettings:
        # Workers never train: the smallest buffer that is valid.
        size = max(self.settings.learning_starts, self.settings.batch_size)
        return self.settings.replaced(n_envs=n_envs, buffer_size=size)

    def _network_loaded(self) -> None:
        for target, source in self._target_pairs().values():
            target.load_state_dict(source.state_dict())

    def _learning_state(self) -> dict[str, Any]:
        return {
            **self._update_state(),
            "replay": self.replay.state(self.settings.save_replay_buffer),
        }

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        self._load_update_state(state)
        self.replay.load_state(state["replay"])

    def _update_state(self) -> dict[str, Any]:
        """Training state without the transitions."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": None if self.scaler is None else dict(self.scaler.state_dict()),
            "risks": [risk.state_dict() for risk in self.risks],
            "targets": {
                name: dict(target.state_dict())
                for name, (target, _) in self._target_pairs().items()
            },
        }

    def _load_update_state(self, state: Mapping[str, Any]) -> None:
        """Restore `_update_state`."""
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        for risk, saved in zip(self.risks, state["risks"], strict=True):
            risk.load_state_dict(saved)
        for name, (target, _) in self._target_pairs().items():
            target.load_state_dict(state["targets"][name])


def with_masks(
    inputs: Mapping[str, Tensor], observations: Mapping[str, Tensor], device: torch.device
) -> dict[str, Tensor]:
    """Preprocessed observations with the action masks of the raw ones."""
    masks = {name: rows.to(device) for name, rows in observations.items() if is_action_mask(name)}
    return {**inputs, **masks}


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Exclude the parameters of a module from the gradients of a block."""
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


def target_copy(module: Module) -> Module:
    """Copy of a network without gradients, for `tau` updates."""
    return deepcopy(module).requires_grad_(False)


def decayed_eps(settings: Any, progress: float) -> float:
    """Probability of a random action after a fraction of its linear decay."""
    change = settings.exploration_final_eps - settings.exploration_initial_eps
    return float(settings.exploration_initial_eps + min(1.0, progress) * change)


def mean_metrics(metrics: Sequence[Mapping[str, float]]) -> Metrics:
    """Mean of each metric over the updates that report it."""
    names = dict.fromkeys(name for update in metrics for name in update)
    return {
        name: float(np.mean([update[name] for update in metrics if name in update]))
        for name in names
    }
