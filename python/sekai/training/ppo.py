"""Proximal policy optimisation: several careful updates from each rollout."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import torch
from tensordict import TensorDict

from sekai.training.agent_settings import AgentSettings
from sekai.training.clipped_loss import ClippedLoss
from sekai.training.descent import adam, mean_of, taken
from sekai.training.learner import Learner
from sekai.training.metrics import Metrics
from sekai.training.on_policy import OnPolicyAgent, OnPolicySettings
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.settings import require

__all__ = ["PPO", "PPOSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOSettings(OnPolicySettings):
    """How PPO learns."""

    epochs: int = 4
    """How often each sample is learnt from."""

    minibatches: int = 4
    """Into how many parts the samples of a rollout are split."""

    clip: float = 0.2
    """How far the probability of a choice may move before there is nothing more to gain."""

    target_divergence: float | None = None
    """How far the policy may move in an iteration before the rest of it is skipped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("epochs", "minibatches")
        self._require_positive("clip")
        far = self.target_divergence
        require(far is None or far > 0, "target_divergence", "None or above 0", far)


class PPO(OnPolicyAgent):
    """Proximal policy optimisation (Schulman et al., 2017), clipped."""

    settings_type: ClassVar[type[AgentSettings]] = PPOSettings
    settings: PPOSettings

    def _loss(self, actor: Any, critic: Any) -> ClippedLoss:
        settings = self.settings
        return ClippedLoss(
            actor,
            critic,
            clip=settings.clip,
            entropy_bonus=settings.entropy_weight > 0,
            entropy_coeff=settings.entropy_weight,
            critic_coeff=settings.value_weight,
            loss_critic_type="l2",
            normalize_advantage=True,
        )

    def _optimiser(self, network: ActorCritic) -> torch.optim.Optimizer:
        return adam(network, self.settings.learning_rate)

    def _update(self, learner: Learner, batch: TensorDict) -> Metrics:
        settings = self.settings
        told: list[dict[str, torch.Tensor]] = []
        batch["action_log_prob"] = learner.log_probs(batch)
        for _ in range(settings.epochs):
            # Where little is learnt from, parts are fewer: advantages of one have no spread.
            count = min(settings.minibatches, len(batch) // 2)
            parts = torch.randperm(len(batch)).chunk(count)
            told += [learner.descend(taken(batch, places)) for places in parts]
            far = settings.target_divergence
            if far is not None and told[-1]["kl_approx"] > far:
                break
        return mean_of(told)
