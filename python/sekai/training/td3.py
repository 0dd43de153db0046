"""Twin delayed deep deterministic policy gradient (TD3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from sekai.policy.settings import require
from sekai.training.agent import Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.ddpg import DDPG, DDPGSettings
from sekai.training.off_policy import Transitions, frozen
from sekai.training.policies.off_policy import lesser_values, q_values
from sekai.training.rng import normal

__all__ = ["TD3", "TD3Settings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TD3Settings(DDPGSettings):
    """Hyperparameters of TD3."""

    policy_delay: int = 2
    """Gradient steps of the critics between two of the actor and of the target networks."""

    target_policy_noise: float = 0.2
    """Standard deviation of the noise on target actions in [-1, 1] (target policy smoothing)."""

    target_noise_clip: float = 0.5
    """Largest absolute value of the noise on target actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("policy_delay")
        for name in ("target_policy_noise", "target_noise_clip"):
            value = getattr(self, name)
            require(value >= 0, name, "0 or more", value)


class TD3(DDPG):
    """Twin delayed DDPG (Fujimoto et al., 2018).

    Targets are the lesser of two critics at a noisy action of the target actor; the actor and the
    target networks are updated once in `policy_delay` gradient steps.
    """

    settings_type: ClassVar[type[AgentSettings]] = TD3Settings
    settings: TD3Settings
    critic_count = 2

    def _build(self) -> None:
        super()._build()
        self.updates = 0
        """Gradient steps so far."""

    def _update(self) -> Metrics:
        self.updates += 1
        return super()._update()

    @property
    def _is_policy_due(self) -> bool:
        return self.updates % self.settings.policy_delay == 0

    def _loss(self, batch: Transitions) -> dict[str, Tensor]:
        critics, observations = self.network.critics, batch.observations
        following = batch.next_observations
        with torch.no_grad():
            next_actions = self._smoothed(self.target_actor(following))
            next_values = lesser_values(q_values(self.target_critics, following, next_actions))
            targets = batch.targets(self.settings.gamma, next_values)
        values = q_values(critics, observations, batch.actions).squeeze(-1)
        # Squared errors: the mean of noisy returns is estimated, not the median.
        errors = mse_loss(values, targets.expand_as(values), reduction="none")
        losses = {
            "loss_value": errors.sum(0).mean(),
            "td_error": errors.detach(),
            "pred_value": values.detach(),
            "target_value": targets,
        }
        if self._is_policy_due:
            with frozen(critics[0]):
                improved = critics[0](observations, self.network.actor(observations))
            losses["loss_actor"] = (-improved).mean()
        return losses

    def _smoothed(self, actions: Tensor) -> Tensor:
        """Actions with clipped noise."""
        settings, scale = self.settings, self.actions.std_scale
        noise = normal(actions.shape).to(actions.device) * (settings.target_policy_noise * scale)
        limit = settings.target_noise_clip * scale
        return (actions + noise.clamp(-limit, limit)).clamp(-1.0, 1.0)

    def _update_targets(self) -> None:
        if self._is_policy_due:
            super()._update_targets()

    def _learning_state(self) -> dict[str, Any]:
        return {**super()._learning_state(), "updates": self.updates}

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        super()._load_learning_state(state)
        self.updates = int(state["updates"])
