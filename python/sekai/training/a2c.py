"""Advantage actor-critic (A2C): one gradient step from each rollout."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import mse_loss

from sekai.training.agent import Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.gradient_step import mean_of
from sekai.training.on_policy import Batch, Learner, OnPolicyAgent, OnPolicySettings

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
        samples = learner.minibatch(batch)
        return mean_of([learner.gradient_step(self._loss(learner, samples))])

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
