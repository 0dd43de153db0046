"""Advantage actor-critic (A2C): one gradient step from each rollout."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from sekai.training.agent import Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.gradient_step import mean_of
from sekai.training.learner import Batch, Learner
from sekai.training.on_policy import OnPolicyAgent, OnPolicySettings

__all__ = ["A2C", "A2CSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class A2CSettings(OnPolicySettings):
    """Hyperparameters of A2C."""

    n_steps: int = 8
    learning_rate: float = 7e-4
    gae_lambda: float = 1.0

    normalize_advantage: bool = False
    """Standardize advantages in each rollout."""


class A2C(OnPolicyAgent):
    """Advantage actor-critic (Mnih et al., 2016), synchronous.

    The optimizer is Adam: RMSprop, which the paper used, begins with steps of ten times the usual
    size, enough to saturate bounded actions.
    """

    settings_type: ClassVar[type[AgentSettings]] = A2CSettings
    settings: A2CSettings

    def _update(self, learner: Learner, batch: Batch) -> Metrics:
        loss = self.native_loss()
        if learner.native_update is not None and loss is not None:
            return learner.train_natively(batch, torch.arange(len(batch)), loss, len(batch))
        samples = learner.minibatch(batch)
        return mean_of([learner.gradient_step(self._loss(learner, samples))])

    def native_loss(self) -> dict[str, Any] | None:
        """Hyperparameters of the loss; None with a teacher, or if a subclass has another loss."""
        is_own = type(self)._loss is A2C._loss and type(self)._update is A2C._update
        if self.teacher is not None or not is_own:
            return None
        settings = self.settings
        return {
            "clip": None,
            "normalize_advantage": settings.normalize_advantage,
            "ent_coef": settings.ent_coef,
            "vf_coef": settings.vf_coef,
            "max_grad_norm": settings.max_grad_norm,
            "kl_limit": None,
        }

    def _loss(self, learner: Learner, batch: Batch) -> dict[str, Tensor]:
        settings, advantages = self.settings, batch.advantages
        if settings.normalize_advantage and len(batch) > 1:
            advantages = (advantages - advantages.mean()) / advantages.std().clamp_min(1e-6)
        distribution, values = learner.evaluate(batch)

        losses = {"loss_objective": (-(distribution.log_prob(batch.actions) * advantages)).mean()}
        if settings.ent_coef > 0:
            entropy = distribution.entropy()
            losses["entropy"] = entropy.detach().mean()
            losses["loss_entropy"] = (-settings.ent_coef * entropy).mean()
        losses.update(self._teacher_loss(batch, distribution))
        squared = mse_loss(batch.returns, values, reduction="none")
        losses["loss_critic"] = (settings.vf_coef * squared).mean()
        return losses
