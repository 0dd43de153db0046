"""Implicit Q-learning (IQL): offline learning that never asks for actions beyond the data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from sekai.policy.observations import Leaf
from sekai.policy.settings import require
from sekai.training.actions import ActionMap
from sekai.training.agent_settings import AgentSettings
from sekai.training.normalizers import Gather
from sekai.training.off_policy import Transitions, target_copy
from sekai.training.offline import OfflineAgent, TDSettings
from sekai.training.policies.actor_critic import ActorCritic, backbone
from sekai.training.policies.off_policy import QNetwork, lesser_values, one_hot, q_values

__all__ = ["IQL", "IQLSettings", "expectile_loss"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class IQLSettings(TDSettings):
    """Hyperparameters of IQL."""

    expectile: float = 0.7
    """Expectile of the values of recorded actions that is the value of an observation: 0.5 is
    their mean, towards 1 their maximum."""

    temperature: float = 3.0
    """Inverse temperature of the policy (beta): recorded actions are weighted by the exponential of
    this times their advantage, in scaled rewards. 0 is behaviour cloning."""

    max_weight: float = 100.0
    """Largest weight of a recorded action."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.expectile < 1, "expectile", "above 0 and below 1", self.expectile)
        is_finite = 0 <= self.temperature < math.inf
        require(is_finite, "temperature", "finite, 0 or more", self.temperature)
        self._require_positive("max_weight")


class IQL(OfflineAgent):
    """Implicit Q-learning (Kostrikov et al., 2021) with two critics.

    The value of an observation is an expectile of the values of recorded actions, by the lesser of
    two target critics; critics are trained towards it, and the policy by advantage-weighted
    log-likelihood. Actions are Gaussian if continuous, and categorical within their masks if
    discrete.
    """

    settings_type: ClassVar[type[AgentSettings]] = IQLSettings
    settings: IQLSettings  # type: ignore[assignment]
    critic_count = 2

    @classmethod
    def make_network(  # type: ignore[override]
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> IQLNetwork:
        """Make the untrained network, without critics of actions."""
        return IQLNetwork(leaves, actions, settings.policy, gather)

    def _add_critics(self) -> None:
        policy, actions = self.settings.policy, self.actions
        self.network.critics = nn.ModuleList(
            QNetwork(backbone(self.network.inputs.leaves, policy), actions, policy)
            for _ in range(self.critic_count)
        )

    def _build_targets(self) -> None:
        self.target_critics = target_copy(self.network.critics)

    def _target_pairs(self) -> dict[str, tuple[nn.Module, nn.Module]]:
        return {"critics": (self.target_critics, self.network.critics)}

    def _parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        network = self.network
        actor = list(network.actor.parameters())
        # The value function may share the backbone of the actor.
        shared = {id(weight) for weight in actor}
        value = [weight for weight in network.critic.parameters() if id(weight) not in shared]
        return [(actor, 1.0), (value, 1.0), (list(network.critics.parameters()), 1.0)]

    def _loss(self, batch: Transitions) -> dict[str, Tensor]:
        network, settings, observations = self.network, self.settings, batch.observations
        taken = batch.actions
        actions = one_hot(taken, self.actions.choices) if self.actions.is_choice else taken

        with torch.no_grad():
            judged = lesser_values(q_values(self.target_critics, observations, actions))
            next_values = network.critic(batch.next_observations, preprocessed=True)
            targets = batch.targets(settings.gamma, next_values)
        state_values = network.critic(observations, preprocessed=True)
        advantages = (judged - state_values).squeeze(-1)
        values = q_values(network.critics, observations, actions).squeeze(-1)
        # Squared errors: the mean over next observations is estimated, not their best case.
        errors = mse_loss(values, targets.expand_as(values), reduction="none")

        weights = (settings.temperature * advantages.detach()).exp().clamp(max=settings.max_weight)
        distribution = network.actor.distribution(observations, preprocessed=True)
        log_probs = distribution.log_prob(taken)
        return {
            "loss_value": expectile_loss(advantages, settings.expectile).mean(),
            "loss_qvalue": errors.sum(0).mean(),
            "loss_actor": -(weights * log_probs).mean(),
            "weight": weights,
            "pred_value": state_values.detach(),
        }


class IQLNetwork(ActorCritic):
    """Actor and value function, with the critics of actions that only training needs."""

    for_learning: ClassVar[tuple[str, ...]] = ("critics.",)
    critics: nn.ModuleList


def expectile_loss(errors: Tensor, expectile: float) -> Tensor:
    """Asymmetric squared error of each row, least at the expectile of the targets.

    Args:
        errors: targets less estimates.
        expectile: weight of positive errors; negative ones have the rest of 1.
    """
    weights = (expectile - (errors.detach() < 0).to(errors.dtype)).abs()
    return weights * errors.square()
