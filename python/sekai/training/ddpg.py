"""Deep deterministic policy gradient (DDPG)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from sekai.policy.settings import require
from sekai.training.agent_settings import AgentSettings
from sekai.training.off_policy import (
    ActorCriticSettings,
    OffPolicyAgent,
    Transitions,
    frozen,
    target_copy,
)
from sekai.training.policies.off_policy import DeterministicActor
from sekai.training.rng import normal

__all__ = ["DDPG", "DDPGSettings", "ddpg_losses"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DDPGSettings(ActorCriticSettings):
    """Hyperparameters of DDPG."""

    noise_std: float = 0.2
    """Standard deviation of the exploration noise on actions in [-1, 1]."""

    noise_autocorrelation: float = 0.0
    """Correlation of the noise with that of the previous step: 0 for Gaussian noise, above for
    Ornstein-Uhlenbeck noise of the same standard deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.noise_std >= 0, "noise_std", "0 or more", self.noise_std)
        autocorrelation = self.noise_autocorrelation
        require(
            0 <= autocorrelation < 1, "noise_autocorrelation", "from 0 to below 1", autocorrelation
        )


class DDPG(OffPolicyAgent):
    """Deep deterministic policy gradient (Lillicrap et al., 2016)."""

    settings_type: ClassVar[type[AgentSettings]] = DDPGSettings
    settings: DDPGSettings
    actor_kind = DeterministicActor

    def _build(self) -> None:
        super()._build()
        self.noise = torch.zeros(self.vec.num_envs, self.actions.width)

    def _build_targets(self) -> None:
        self.target_actor = target_copy(self.network.actor)
        self.target_critics = target_copy(self.network.critics)

    def _target_pairs(self) -> dict[str, tuple[nn.Module, nn.Module]]:
        return {
            "actor": (self.target_actor, self.network.actor),
            "critics": (self.target_critics, self.network.critics),
        }

    def _parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        network = self.network
        return [
            (list(network.actor.parameters()), self.settings.actor_lr_scale),
            (list(network.critics.parameters()), 1.0),
        ]

    def _loss(self, batch: Transitions) -> dict[str, Tensor]:
        critic, following = self.network.critics[0], batch.next_observations
        with torch.no_grad():
            next_actions = self.target_actor(following)
            next_values = self.target_critics[0](following, next_actions)
            targets = batch.targets(self.settings.gamma, next_values)
        values = critic(batch.observations, batch.actions).squeeze(-1)
        with frozen(critic):
            improved = critic(batch.observations, self.network.actor(batch.observations))
        return ddpg_losses(improved.squeeze(-1), values, targets)

    def _explore(self, observations: dict[str, Tensor]) -> Tensor:
        autocorrelation = self.settings.noise_autocorrelation
        std = self.settings.noise_std * self.actions.std_scale
        row = self.replay.latest(1)[0]
        is_first = torch.from_numpy(self.replay.terminated[row] | self.replay.truncated[row])
        fresh = normal(self.noise.shape)
        self.noise = torch.where(
            is_first.unsqueeze(-1),
            std * fresh,
            autocorrelation * self.noise
            + math.sqrt(1 - autocorrelation * autocorrelation) * std * fresh,
        )
        chosen = self.network.choose(observations, deterministic=True).cpu()
        return (chosen + self.noise).clamp(-1.0, 1.0)

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


def ddpg_losses(improved: Tensor, values: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Actor and critic losses of DDPG, with metrics.

    Args:
        improved: Q-values of the actor's actions.
        values: Q-values of the actions in the buffer.
        targets: TD targets of these.
    """
    # Squared errors: the mean of noisy returns is estimated, not the median.
    errors = mse_loss(values, targets, reduction="none")
    return {
        "loss_actor": (-improved).mean(),
        "loss_value": errors.mean(),
        "td_error": errors.detach(),
        "pred_value": values.detach(),
        "target_value": targets,
        "target_value_max": targets.max(),
        "pred_value_max": values.detach().max(),
    }
