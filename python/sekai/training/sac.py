"""Soft actor-critic (SAC) with automatic entropy tuning."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from sekai.policy.settings import SEVERAL_KINDS, Settings, require
from sekai.training.agent_settings import AgentSettings
from sekai.training.off_policy import (
    ActorCriticSettings,
    OffPolicyAgent,
    Transitions,
    frozen,
    target_copy,
)
from sekai.training.policies.off_policy import (
    SquashedGaussianActor,
    check_quantiles,
    lesser_values,
    q_values,
    quantile_huber_loss,
)

__all__ = ["SAC", "EntropySettings", "SACSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EntropySettings(Settings):
    """Hyperparameters of the updates of SAC, which CQL shares."""

    ent_coef: str = "auto_0.1"
    """Entropy coefficient: "auto" or "auto_<initial value>"; it is tuned to `target_entropy`."""

    ent_coef_lr_scale: float = 10.0
    """Learning rate of the entropy coefficient, as a multiple of that of the critics."""

    target_entropy: str | float = dataclasses.field(default="auto", metadata={SEVERAL_KINDS: True})
    """Entropy that the coefficient is tuned to; "auto" for minus the number of actions."""

    n_quantiles: int = 0
    """Quantiles of the return that each critic estimates by quantile regression; 0 for its mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_quantiles(self.n_quantiles)
        self._require_positive("ent_coef_lr_scale")
        expected = "'auto', or 'auto_' with an initial value above 0, such as 'auto_0.1'"
        require(0 < self.initial_ent_coef < math.inf, "ent_coef", expected, self.ent_coef)
        is_number = isinstance(self.target_entropy, (int, float))
        is_entropy = self.target_entropy == "auto" or is_number
        require(is_entropy, "target_entropy", "'auto' or a number", self.target_entropy)

    @property
    def initial_ent_coef(self) -> float:
        """Initial entropy coefficient; 0 if `ent_coef` is invalid."""
        kind, _, start = self.ent_coef.partition("_")
        try:
            return 0.0 if kind != "auto" else float(start or 1.0)
        except ValueError:
            return 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SACSettings(EntropySettings, ActorCriticSettings):
    """Hyperparameters of SAC."""


class SAC(OffPolicyAgent):
    """Soft actor-critic (Haarnoja et al., 2018) with two critics.

    With `n_quantiles` the critics estimate the distribution of returns; targets are the quantiles
    of the critic with the lesser mean.
    """

    settings_type: ClassVar[type[AgentSettings]] = SACSettings
    settings: SACSettings
    actor_kind = SquashedGaussianActor
    critic_count = 2

    def _add_critics(self) -> None:
        self.network.add_critics(self.critic_count, max(1, self.settings.n_quantiles))

    def _build_targets(self) -> None:
        log_temperature = torch.tensor(math.log(self.settings.initial_ent_coef), device=self.device)
        self.network.log_temperature = nn.Parameter(log_temperature)
        self.target_critics = target_copy(self.network.critics)

    def _target_pairs(self) -> dict[str, tuple[nn.Module, nn.Module]]:
        return {"critics": (self.target_critics, self.network.critics)}

    def _parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        network, settings = self.network, self.settings
        return [
            (list(network.actor.parameters()), settings.actor_lr_scale),
            (list(network.critics.parameters()), 1.0),
            ([network.log_temperature], settings.ent_coef_lr_scale),
        ]

    def _loss(self, batch: Transitions) -> dict[str, Tensor]:
        network, observations = self.network, batch.observations
        actor = network.actor
        assert isinstance(actor, SquashedGaussianActor), "see actor_kind"
        log_temperature = network.log_temperature
        ent_coef = log_temperature.detach().exp()

        with torch.no_grad():
            next_actions, next_log_probs = actor.sample(batch.next_observations)
            next_values = q_values(self.target_critics, batch.next_observations, next_actions)
            soft_values = lesser_values(next_values - ent_coef * next_log_probs.unsqueeze(-1))
            targets = batch.targets(self.settings.gamma, soft_values)
        values = q_values(network.critics, observations, batch.actions)

        actions, log_probs = actor.sample(observations)
        with frozen(network.critics):
            improved = q_values(network.critics, observations, actions).mean(-1).min(0).values
        log_probs_now = log_probs.detach()
        return {
            "loss_actor": (ent_coef * log_probs - improved).mean(),
            "loss_qvalue": self._errors(values, targets).sum(0).mean(),
            "loss_alpha": (-log_temperature * (log_probs_now + self._target_entropy)).mean(),
            "alpha": ent_coef,
            "entropy": (-log_probs_now).mean(),
        }

    def _errors(self, values: Tensor, targets: Tensor) -> Tensor:
        """Loss of each critic and row."""
        if self.settings.n_quantiles:
            return quantile_huber_loss(values, targets.expand_as(values))
        # Squared errors: the mean of noisy returns is estimated, not the median.
        values = values.squeeze(-1)
        return mse_loss(values, targets.expand_as(values), reduction="none")

    def _gradients(self, weights: list[nn.Parameter]) -> list[Tensor]:
        gradients = super()._gradients(weights)
        if weights is not self.parameter_groups[1]:
            return gradients
        # Weights of both critics are stacked: the norm is rounded as that of one network.
        half = len(gradients) // 2
        return [torch.stack(pair) for pair in zip(gradients[:half], gradients[half:], strict=True)]

    @property
    def _target_entropy(self) -> float:
        entropy = self.settings.target_entropy
        return -float(self.actions.size) if isinstance(entropy, str) else float(entropy)
