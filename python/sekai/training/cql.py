"""Conservative Q-learning (CQL): critics that do not trust actions beyond the data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.policy.observations import Leaf
from sekai.policy.settings import require
from sekai.spaces import Discrete
from sekai.training.actions import ActionMap
from sekai.training.agent_settings import AgentSettings
from sekai.training.dqn import DQNPolicyNetwork, of_actions, td_losses
from sekai.training.normalizers import Gather
from sekai.training.observations import observed_mask
from sekai.training.off_policy import OffPolicyAgent, Transitions, target_copy
from sekai.training.offline import OfflineAgent, TDSettings
from sekai.training.policies.off_policy import SquashedGaussianActor
from sekai.training.rng import uniform
from sekai.training.sac import SAC, EntropySettings

__all__ = ["CQL", "CQLSettings", "conservative_penalty"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CQLSettings(EntropySettings, TDSettings):
    """Hyperparameters of CQL; those of SAC are for continuous actions."""

    # Discrete actions: double Q-learning, without exploration.
    double_q: ClassVar[bool] = True
    dueling: ClassVar[bool] = False
    exploration_initial_eps: ClassVar[float] = 0.0

    cql_alpha: float = 1.0
    """Weight of the conservative penalty, in scaled rewards."""

    n_action_samples: int = 10
    """Actions that are sampled for the penalty from each of three distributions, if continuous:
    uniform, and those of the policy at the observation and at the next one."""

    actor_lr_scale: float = 0.3
    """Learning rate of the actor, as a multiple of that of the critics, if continuous."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_finite = 0 <= self.cql_alpha < math.inf
        require(is_finite, "cql_alpha", "finite, 0 or more", self.cql_alpha)
        self._require_count("n_action_samples")
        self._require_positive("actor_lr_scale")


class CQL(OfflineAgent, SAC):
    """Conservative Q-learning (Kumar et al., 2020), CQL(H), with SAC or a double Q-network.

    A penalty lowers the values of all actions by the logarithm of their summed exponentials, and
    raises those of recorded ones. Continuous actions are learned by SAC with two critics, discrete
    ones by a double Q-network, whose sums and maxima keep to action masks.
    """

    settings_type: ClassVar[type[AgentSettings]] = CQLSettings
    settings: CQLSettings  # type: ignore[assignment]

    @classmethod
    def make_network(
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> Any:
        """Make the untrained network, without critics."""
        if actions.is_choice:
            return DQNPolicyNetwork(leaves, actions, settings, gather)
        return super().make_network(leaves, actions, settings, gather)

    def _check_actions(self) -> None:
        space = self.dataset.action_space
        is_bounded = self.actions.is_bounded and not self.actions.is_choice
        if not (isinstance(space, Discrete) or is_bounded):
            raise SpaceError(f"CQL needs Discrete or bounded actions, got {space!r}; use IQL or BC")

    def _add_critics(self) -> None:
        if not self.actions.is_choice:
            super()._add_critics()

    def _build_targets(self) -> None:
        if self.actions.is_choice:
            self.target_values = target_copy(self.network.values)
        else:
            super()._build_targets()

    def _target_pairs(self) -> dict[str, tuple[nn.Module, nn.Module]]:
        if self.actions.is_choice:
            return {"values": (self.target_values, self.network.values)}
        return super()._target_pairs()

    def _parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        if self.actions.is_choice:
            return [(list(self.network.values.parameters()), 1.0)]
        return super()._parameter_groups()

    def _gradients(self, weights: list[nn.Parameter]) -> list[Tensor]:
        if self.actions.is_choice:
            return OffPolicyAgent._gradients(self, weights)
        return super()._gradients(weights)

    def _loss(self, batch: Transitions) -> dict[str, Tensor]:
        if self.actions.is_choice:
            losses, penalty = self._discrete_loss(batch)
        else:
            losses, penalty = super()._loss(batch), self._sampled_penalty(batch)
        return {**losses, "loss_conservative": self.settings.cql_alpha * penalty}

    def _discrete_loss(self, batch: Transitions) -> tuple[dict[str, Tensor], Tensor]:
        network = self.network.values
        outputs = network(batch.observations)
        losses = td_losses(outputs, network, self.target_values, batch, self.settings)
        values = outputs.mean(-1)
        mask = observed_mask(batch.observations)
        allowed = values if mask is None else values.masked_fill(~mask, -torch.inf)
        taken = of_actions(values, batch.actions[:, 0])
        return losses, conservative_penalty(allowed, taken).mean()

    def _sampled_penalty(self, batch: Transitions) -> Tensor:
        """Penalty of both critics, with sampled actions weighted by their inverse densities."""
        count, critics = self.settings.n_action_samples, self.network.critics
        actor = self.network.actor
        assert isinstance(actor, SquashedGaussianActor), "see actor_kind"
        with torch.no_grad():
            own, own_logs = actor.sample(batch.observations, count)
            later, later_logs = actor.sample(batch.next_observations, count)
            drawn = (uniform(own.shape) * 2 - 1).to(own.device)
        # The density of uniform actions in [-1, 1] is 0.5 in each dimension.
        drawn_logs = torch.full_like(own_logs, -self.actions.size * math.log(2.0))
        actions = _side_by_side((drawn, own, later), count).flatten(0, 1)
        logs = _side_by_side((drawn_logs, own_logs, later_logs), count) + math.log(3 * count)
        penalties = []
        for critic in critics:
            # Observations are encoded once for all actions.
            features = critic.body(batch.observations)
            values = critic.values_of(features.repeated(3 * count), actions).mean(-1)
            taken = critic.values_of(features, batch.actions).mean(-1)
            penalties.append(conservative_penalty(values.reshape(logs.shape) - logs, taken))
        return torch.stack(penalties).sum(0).mean()


def conservative_penalty(values: Tensor, taken: Tensor) -> Tensor:
    """Soft maximum of the values of many actions less the value of the recorded one.

    Args:
        values: values in the last axis; minus infinity for forbidden actions. Sampled ones are
            less the logarithms of their densities and of their number.
        taken: values of the recorded actions.
    """
    return torch.logsumexp(values, dim=-1) - taken


def _side_by_side(parts: tuple[Tensor, ...], count: int) -> Tensor:
    """Samples of each observation from several distributions: batch by samples."""
    return torch.cat([part.reshape(-1, count, *part.shape[1:]) for part in parts], dim=1)
