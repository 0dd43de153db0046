"""Soft actor-critic: as much reward as possible while choosing as freely as possible."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torchrl.objectives import SACLoss

from sekai.training.agent_settings import AgentSettings
from sekai.training.off_policy import ActorSettings, OffPolicyAgent
from sekai.training.policies.squashed import SquashedActor
from sekai.training.torchrl_modules import action_critic_module, squashed_module

__all__ = ["SAC", "SACSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SACSettings(ActorSettings):
    """How SAC learns."""

    initial_temperature: float = 0.1
    """What choosing freely is worth at first, beside rewards of the usual size."""

    temperature_rate: float = 10.0
    """How many times quicker than the networks the temperature learns."""

    target_entropy: float | None = None
    """How freely to choose; None for minus one for each number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_positive("initial_temperature", "temperature_rate")


class SAC(OffPolicyAgent):
    """Soft actor-critic (Haarnoja et al., 2018), with two critics and a temperature that adapts."""

    settings_type: ClassVar[type[AgentSettings]] = SACSettings
    settings: SACSettings
    actor_kind = SquashedActor

    def _loss(self, names: list[str]) -> SACLoss:
        settings = self.settings
        entropy = settings.target_entropy
        return SACLoss(
            squashed_module(self.network.actor, names),
            [action_critic_module(self.network.new_critic(), names) for _ in range(2)],
            num_qvalue_nets=2,
            # Means of noisy rewards are wanted, not medians.
            loss_function="l2",
            alpha_init=settings.initial_temperature,
            target_entropy=-float(self.actions.size) if entropy is None else entropy,
            # Critics of any build, one after the other; vmap cannot run all that they may hold.
            deactivate_vmap=True,
        )

    def _groups(self) -> list[list[torch.nn.Parameter]]:
        network = self.network
        return [
            list(network.actor.parameters()),
            list(network.critics.parameters()),
            [network.log_temperature],
        ]

    def _rate_shares(self) -> list[float]:
        return [self.settings.actor_rate, 1.0, self.settings.temperature_rate]
