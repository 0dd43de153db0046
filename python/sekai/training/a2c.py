"""Advantage actor-critic: one update from each rollout."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import torch
from tensordict import TensorDict
from torchrl.objectives import A2CLoss

from sekai.training.agent_settings import AgentSettings
from sekai.training.descent import adam, mean_of
from sekai.training.learner import Learner
from sekai.training.metrics import Metrics
from sekai.training.on_policy import OnPolicyAgent, OnPolicySettings
from sekai.training.policies.actor_critic import ActorCritic

__all__ = ["A2C", "A2CSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class A2CSettings(OnPolicySettings):
    """How A2C learns."""

    rollout_steps: int = 8
    learning_rate: float = 7e-4
    trace: float = 1.0


class A2C(OnPolicyAgent):
    """Advantage actor-critic (Mnih et al., 2016), all envs in step."""

    settings_type: ClassVar[type[AgentSettings]] = A2CSettings
    settings: A2CSettings

    def _loss(self, actor: Any, critic: Any) -> A2CLoss:
        settings = self.settings
        return A2CLoss(
            actor,
            critic,
            entropy_bonus=settings.entropy_weight > 0,
            entropy_coeff=settings.entropy_weight,
            critic_coeff=settings.value_weight,
            loss_critic_type="l2",
            functional=False,
        )

    def _optimiser(self, network: ActorCritic) -> torch.optim.Optimizer:
        # RMSprop, which the paper used, begins with steps of ten times the usual size: enough to
        # drive numbers to their bounds, where nothing is learnt.
        return adam(network, self.settings.learning_rate)

    def _update(self, learner: Learner, batch: TensorDict) -> Metrics:
        return mean_of([learner.descend(batch)])
