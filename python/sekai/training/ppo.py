"""Proximal policy optimization (PPO) with a clipped surrogate objective."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from sekai.policy.settings import require
from sekai.training.agent import Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.gradient_step import mean_of
from sekai.training.learner import Batch, Learner
from sekai.training.on_policy import OnPolicyAgent, OnPolicySettings

__all__ = ["PPO", "PPOSettings"]

MAX_LOG_RATIO = 20.0
"""Log ratios are bounded here: beyond, the ratio overflows, and is clipped anyway."""

KL_TOLERANCE = 1.5
"""Updates stop when the KL divergence exceeds `target_kl` by this factor."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOSettings(OnPolicySettings):
    """Hyperparameters of PPO."""

    python_env_settings: ClassVar[Mapping[str, Any]] = {
        "n_envs": 8,
        "n_steps": 256,
        "batch_size": 64,
        "n_epochs": 10,
    }

    n_epochs: int = 4
    """Passes over each rollout."""

    batch_size: int | None = None
    """Samples in a minibatch; None for a quarter of the rollout."""

    clip_range: float = 0.2
    """Clipping of the probability ratio."""

    normalize_advantage: bool = True
    """Standardize advantages in each minibatch."""

    target_kl: float | None = None
    """Skip the remaining epochs once the KL divergence exceeds 1.5 times this; None for never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("n_epochs")
        self._require_positive("clip_range")
        size, target = self.batch_size, self.target_kl
        is_size = size is None or (type(size) is int and size >= 2)
        require(is_size, "batch_size", "None or an integer of at least 2", size)
        require(target is None or target > 0, "target_kl", "None or above 0", target)


class PPO(OnPolicyAgent):
    """Proximal policy optimization (Schulman et al., 2017), clipped."""

    settings_type: ClassVar[type[AgentSettings]] = PPOSettings
    settings: PPOSettings

    def _update(self, learner: Learner, batch: Batch) -> Metrics:
        settings = self.settings
        loss = self.native_loss()
        if learner.native_update is not None and loss is not None:
            order = torch.cat([torch.randperm(len(batch)) for _ in range(settings.n_epochs)])
            return learner.train_natively(batch, order, loss, self._minibatch_size(len(batch)))
        metrics: list[dict[str, Tensor]] = []
        batch = dataclasses.replace(batch, log_probs=learner.log_probs(batch))
        for _ in range(settings.n_epochs):
            for indices in self._minibatches(batch):
                minibatch = learner.minibatch(batch, indices)
                metrics.append(learner.gradient_step(self._loss(learner, minibatch)))
            limit = settings.target_kl
            if limit is not None and metrics and metrics[-1]["kl_approx"] > KL_TOLERANCE * limit:
                break
        return mean_of(metrics)

    def native_loss(self) -> dict[str, Any] | None:
        """Hyperparameters of the loss; None with a teacher, or if a subclass has another loss."""
        is_own = type(self)._loss is PPO._loss and type(self)._update is PPO._update
        if self.teacher is not None or not is_own:
            return None
        settings, limit = self.settings, self.settings.target_kl
        return {
            "clip": _log_range(settings.clip_range),
            "normalize_advantage": settings.normalize_advantage,
            "ent_coef": settings.ent_coef,
            "vf_coef": settings.vf_coef,
            "max_grad_norm": settings.max_grad_norm,
            "kl_limit": None if limit is None else KL_TOLERANCE * limit,
        }

    def _minibatches(self, batch: Batch) -> Sequence[Tensor]:
        """Indices of the samples of each minibatch, in random order."""
        return torch.split(torch.randperm(len(batch)), self._minibatch_size(len(batch)))

    def _minibatch_size(self, samples: int) -> int:
        size = self.settings.batch_size
        if size is None:
            # At least two samples each: one advantage has no standard deviation.
            return -(-samples // min(4, samples // 2))
        return size + 1 if samples % size == 1 else size

    def _loss(self, learner: Learner, batch: Batch) -> dict[str, Tensor]:
        settings, advantages = self.settings, batch.advantages
        if settings.normalize_advantage and len(batch) > 1:
            advantages = (advantages - advantages.mean()) / advantages.std().clamp_min(1e-6)
        distribution, values = learner.evaluate(batch)
        assert batch.log_probs is not None, "set before the first epoch"

        log_ratio = distribution.log_prob(batch.actions) - batch.log_probs
        low, high = _log_range(settings.clip_range)
        clipped = log_ratio.clamp(low, high)
        ratio = log_ratio.clamp_max(MAX_LOG_RATIO).exp()
        surrogate = torch.minimum(ratio * advantages, clipped.exp() * advantages)

        losses = {
            "loss_objective": -surrogate.mean(),
            "clip_fraction": (clipped != log_ratio).float().mean(),
            "kl_approx": -log_ratio.detach().mean(),
        }
        if settings.ent_coef > 0:
            entropy = distribution.entropy()
            losses["entropy"] = entropy.detach().mean()
            losses["loss_entropy"] = (-settings.ent_coef * entropy).mean()
        losses.update(self._teacher_loss(batch, distribution))
        squared = mse_loss(batch.returns, values, reduction="none")
        losses["loss_critic"] = (settings.vf_coef * squared).mean()
        return losses


def _log_range(clip: float) -> tuple[float, float]:
    """Logarithms of the least and the largest ratio of probabilities."""
    return math.log1p(-clip) if clip < 1 else -math.inf, math.log1p(clip)
