"""Deep deterministic policy gradient: one actor that climbs what one critic says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchrl.objectives import DDPGLoss

from sekai.training.agent_settings import AgentSettings
from sekai.training.off_policy import ActorSettings, OffPolicyAgent
from sekai.training.policies.squashed import PreciseActor
from sekai.training.randomness import normal
from sekai.training.settings import require
from sekai.training.torchrl_modules import action_critic_module, precise_module

__all__ = ["DDPG", "DDPGSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DDPGSettings(ActorSettings):
    """How DDPG learns."""

    exploration: float = 0.2
    """The standard deviation of the noise on numbers from -1 to 1 while learning."""

    exploration_persistence: float = 0.0
    """How much of the noise is left a step later: 0 is Gaussian noise, drawn anew each step, above
    it is that of Ornstein and Uhlenbeck, of the same size, which pushes one way for a while."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.exploration >= 0, "exploration", "0 or more", self.exploration)
        left = self.exploration_persistence
        require(0 <= left < 1, "exploration_persistence", "from 0 to below 1", left)


class DDPG(OffPolicyAgent):
    """Deep deterministic policy gradient (Lillicrap et al., 2016)."""

    settings_type: ClassVar[type[AgentSettings]] = DDPGSettings
    settings: DDPGSettings
    actor_kind = PreciseActor

    def _build(self) -> None:
        super()._build()
        self.noise = torch.zeros(self.vec.num_envs, self.actions.width)

    def _loss(self, names: list[str]) -> DDPGLoss:
        return DDPGLoss(
            precise_module(self.network.actor, names),
            action_critic_module(self.network.new_critic(), names),
            # Means of noisy rewards are wanted, not medians.
            loss_function="l2",
            delay_actor=True,
            delay_value=True,
        )

    def _groups(self) -> list[list[torch.nn.Parameter]]:
        return [list(self.network.actor.parameters()), list(self.network.critics.parameters())]

    def _rate_shares(self) -> list[float]:
        return [self.settings.actor_rate, 1.0]

    def _explore(self, seen: dict[str, Tensor]) -> Tensor:
        left = self.settings.exploration_persistence
        size = self.settings.exploration * self.actions.spread_share
        row = self.replay.latest(1)[0]
        done = self.replay.terminated[row] | self.replay.truncated[row]
        fresh = normal(self.noise.shape)
        begun = torch.from_numpy(done).unsqueeze(-1)
        self.noise = torch.where(
            begun, size * fresh, left * self.noise + math.sqrt(1 - left * left) * size * fresh
        )
        return (self.network.choose(seen, deterministic=True) + self.noise).clamp(-1.0, 1.0)

    def _acting_state(self) -> dict[str, Any]:
        return {**super()._acting_state(), "noise": self.noise.numpy()}

    def _load_acting_state(self, state: Mapping[str, Any]) -> None:
        super()._load_acting_state(state)
        self.noise = torch.tensor(state["noise"])

    def _learning_state(self) -> dict[str, Any]:
        return {**super()._learning_state(), "noise": self.noise}

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        super()._load_learning_state(state)
        self.noise = state["noise"].clone()
