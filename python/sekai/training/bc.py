"""Behaviour cloning (BC): imitation of recorded actions by maximum likelihood."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from sekai.policy.observations import Leaf
from sekai.training.actions import ActionMap
from sekai.training.agent_settings import AgentSettings
from sekai.training.normalizers import Gather
from sekai.training.off_policy import Transitions
from sekai.training.offline import OfflineAgent, OfflineSettings
from sekai.training.policies.actor_critic import ActorNetwork

__all__ = ["BC", "BCSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BCSettings(OfflineSettings):
    """Hyperparameters of behaviour cloning."""

    # Rewards are not read: no settings.
    gamma: ClassVar[float] = 0.0  # type: ignore[misc]
    norm_reward: ClassVar[bool] = False  # type: ignore[misc]


class BC(OfflineAgent):
    """Behaviour cloning (Pomerleau, 1991): the policy that makes the recorded actions most likely.

    Actions are Gaussian if continuous, with a standard deviation that does not depend on the
    observation, and categorical within their masks if discrete.
    """

    settings_type: ClassVar[type[AgentSettings]] = BCSettings
    settings: BCSettings  # type: ignore[assignment]

    @classmethod
    def make_network(  # type: ignore[override]
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> ActorNetwork:
        """Make the untrained network."""
        return ActorNetwork(leaves, actions, settings.policy, gather)

    def _add_critics(self) -> None:
        """Add no critic: behaviour cloning estimates no values."""

    def _target_pairs(self) -> dict[str, tuple[nn.Module, nn.Module]]:
        return {}

    def _update_targets(self) -> None:
        """There are none."""

    def _parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        return [(list(self.network.actor.parameters()), 1.0)]

    def _loss(self, batch: Transitions) -> dict[str, Tensor]:
        distribution = self.network.actor.distribution(batch.observations, preprocessed=True)
        log_probs = distribution.log_prob(batch.actions)
        return {"loss": -log_probs.mean(), "entropy": distribution.entropy().mean().detach()}
