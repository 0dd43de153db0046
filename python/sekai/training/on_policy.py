"""Learning from what the present policy has just done: what PPO and A2C share."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives.value.functional import vec_generalized_advantage_estimate

from sekai.training.actions import ActionMap
from sekai.training.agent import Agent, Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.normalisation import RewardScaler
from sekai.training.observations import Leaf
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.policies.inputs import Gather
from sekai.training.risk import KINDS, RiskKind, risk_of
from sekai.training.rollout import Rollout
from sekai.training.schedules import scheduled
from sekai.training.settings import require
from sekai.training.shaping import LearnWhere, RewardTransform, Shaping, Steps
from sekai.training.torchrl_modules import actor_module, critic_module, sum_of_losses

__all__ = ["OnPolicyAgent", "OnPolicySettings"]

JUDGED_ROWS = 16_384
"""Observations that are judged at once, so that memory stays bounded."""


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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("rollout_steps")
        self._require_share("trace")
        require(self.risk in KINDS, "risk", f"one of {KINDS}", self.risk)
        most = 1.0 if self.risk == "cvar" else math.inf
        weighs = 0.0 <= self.risk_weight <= most and math.isfinite(self.risk_weight)
        require(weighs, "risk_weight", f"finite, from 0 to {most}", self.risk_weight)
        require(0.0 < self.risk_level <= 1.0, "risk_level", "above 0, up to 1", self.risk_level)


class OnPolicyAgent(Agent):
    """Acts for a while, then learns from just that."""

    settings_type: ClassVar[type[AgentSettings]] = OnPolicySettings
    settings: OnPolicySettings
    network: ActorCritic

    def __init__(
        self,
        env: Any,
        *,
        reward_transform: RewardTransform | None = None,
        learn_where: LearnWhere | None = None,
        **given: Any,
    ) -> None:
        """Get ready to learn.

        Args:
            env: as in `Agent`.
            reward_transform: makes the rewards to learn from, given all steps of a rollout.
            learn_where: which steps are learnt from: a function of the same, or the name of a part
                of observations or infos that tells; the others still count in what came before.
            given: as in `Agent`.
        """
        self.shaping = Shaping(reward_transform, learn_where)
        super().__init__(env, **given)

    def _build(self) -> None:
        settings = self.settings
        self.risk = risk_of(
            settings.risk, settings.risk_weight, settings.risk_level, self.vec.num_envs
        )
        self.network = self.make_network(self.leaves, self.actions, settings, self.gather)
        self.rollout = Rollout(self.vec, self.actions, settings.rollout_steps)
        self.scaler: RewardScaler | None = None
        if settings.normalise_rewards:
            self.scaler = RewardScaler(settings.discount, self.vec.num_envs)
        self.loss = self._loss(actor_module(self.network.actor), critic_module(self.network.critic))
        self.optimiser = self._optimiser()

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

    @abstractmethod
    def _loss(self, actor: Any, critic: Any) -> Any:
        """The TorchRL loss of the algorithm."""

    @abstractmethod
    def _optimiser(self) -> torch.optim.Optimizer:
        """What changes the weights."""

    @abstractmethod
    def _update(self, batch: TensorDict) -> Metrics:
        """Learn from a rollout, laid out in one row of samples."""

    @property
    def iteration_steps(self) -> int:
        """Steps of single envs in an iteration."""
        return self.settings.rollout_steps * self.vec.num_envs

    def _learning_state(self) -> dict[str, Any]:
        return {
            "optimiser": self.optimiser.state_dict(),
            "scaler": None if self.scaler is None else dict(self.scaler.state_dict()),
            "risk": None if self.risk is None else self.risk.state_dict(),
            "seen": self.rollout.state(),
        }

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        self.optimiser.load_state_dict(state["optimiser"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        if self.risk is not None:
            self.risk.load_state_dict(state["risk"])
        self.rollout.load_state(state["seen"])

    def _functions(self) -> dict[str, str]:
        return self.shaping.names()

    def _begin(self) -> None:
        self.rollout.begin(self.seed)

    def _iterate(self) -> Metrics:
        for group in self.optimiser.param_groups:
            group["lr"] = scheduled(
                self.settings.learning_rate, self.settings.learning_rate_schedule, self.done_share
            )
        watch = self.shaping.watch if self.shaping.watches(self.leaves) else None
        self.rollout.fill(
            lambda seen: self.network.choose(seen, deterministic=False), watch, self.network.used
        )
        rewards, terminated = self.rollout.rewards, self.rollout.terminated
        done = terminated | self.rollout.truncated
        for step in range(self.settings.rollout_steps):
            self.episodes.add(rewards[step], done[step], terminated[step])
        batch = self._batch()
        # Advantages are told apart by their spread, and one alone has none.
        return self._update(batch) if len(batch) > 1 else {}

    @torch.no_grad()
    def _batch(self) -> TensorDict:
        """The rollout with advantages, as samples in a row."""
        rollout, settings = self.rollout, self.settings
        seen = rollout.observations()
        self.network.inputs.learn({name: rows[:-1].flatten(0, 1) for name, rows in seen.items()})
        steps = self._steps(seen)
        values = self._values(seen)
        terminated = torch.from_numpy(rollout.terminated)
        done = terminated | torch.from_numpy(rollout.truncated)
        advantage, target = vec_generalized_advantage_estimate(
            settings.discount, settings.trace, _last(values[:-1]),
            _last(rollout.next_values(values, self.network.critic)),
            _last(self._rewards(steps, done)), _last(done), _last(terminated), time_dim=0,
        )  # fmt: skip
        samples = {
            "observation": {name: rows[:-1].flatten(0, 1) for name, rows in seen.items()},
            "action": rollout.chosen.flatten(0, 1),
            "advantage": advantage.flatten(0, 1),
            "value_target": target.flatten(0, 1),
            "state_value": values[:-1].reshape(-1, 1),
        }
        batch = TensorDict(samples, batch_size=[self.iteration_steps])
        mask = self.shaping.mask(steps)
        return batch if mask is None else batch[torch.from_numpy(mask).reshape(-1)]

    def _steps(self, seen: dict[str, Tensor]) -> Steps:
        """What happened, as functions of users see it."""
        rollout = self.rollout
        before = {name: rows[:-1].numpy() for name, rows in seen.items()}
        return Steps(before, rollout.rewards, rollout.terminated, rollout.truncated)

    def _rewards(self, steps: Steps, done: Tensor) -> Tensor:
        """What is learnt from: as the user wants it, less what risk takes, of the usual size."""
        rewards = torch.from_numpy(self.shaping.rewards(steps))
        if self.risk is not None:
            rewards = self.risk.shaped(rewards, done)
        if self.scaler is None:
            return rewards.float()
        self.scaler.learn(rewards, done)
        scaled: Tensor = self.scaler(rewards)
        return scaled

    def _values(self, seen: dict[str, Tensor]) -> Tensor:
        """What everything seen is worth: times by envs."""
        flat = {name: rows.flatten(0, 1) for name, rows in seen.items()}
        count = (self.settings.rollout_steps + 1) * self.vec.num_envs
        parts = [
            self.network.critic({name: rows[first : first + JUDGED_ROWS] for name, rows in
                                 flat.items()})
            for first in range(0, count, JUDGED_ROWS)
        ]  # fmt: skip
        return torch.cat(parts).reshape(-1, self.vec.num_envs)

    def _descend(self, samples: TensorDict) -> Metrics:
        """One step of the optimiser."""
        found = self.loss(samples)
        self.optimiser.zero_grad()
        sum_of_losses(found).backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(
            self.network.parameters(), self.settings.gradient_norm
        )
        self.optimiser.step()
        told = {name: float(value.detach()) for name, value in found.items() if value.numel() == 1}
        return {**told, "gradient_norm": float(norm)}


def _last(rows: Tensor) -> Tensor:
    return rows.unsqueeze(-1)
