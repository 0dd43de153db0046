"""Deep Q-network (DQN): double, dueling and quantile-regression variants by settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from sekai.error import SpaceError
from sekai.policy.observations import Leaf
from sekai.policy.program import mask_names
from sekai.policy.settings import PolicySettings
from sekai.spaces import Discrete
from sekai.training.actions import ActionMap
from sekai.training.agent_settings import AgentSettings
from sekai.training.normalizers import Gather
from sekai.training.observations import observed_mask
from sekai.training.off_policy import (
    OffPolicyAgent,
    OffPolicySettings,
    Transitions,
    decayed_eps,
    target_copy,
    with_masks,
)
from sekai.training.policies.actor_critic import (
    HEAD_GAIN,
    Backbone,
    activation,
    backbone,
    inputs_of,
    linear,
)
from sekai.training.policies.off_policy import check_quantiles, quantile_huber_loss, random_choices
from sekai.training.rng import uniform
from sekai.training.trained_policy import PolicyNetwork

__all__ = ["DQN", "DQNPolicyNetwork", "DQNSettings", "of_actions", "td_losses"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DQNSettings(OffPolicySettings):
    """Hyperparameters of DQN."""

    python_env_settings: ClassVar[Mapping[str, Any]] = {
        "n_envs": 1,
        "learning_starts": 1_000,
        "train_freq": 4,
        "gradient_steps": 2,
        "batch_size": 64,
        "target_update_interval": 500,
        "policy": {"net_arch": [256, 256], "activation": "relu"},
    }

    _max_tau: ClassVar[float] = 1.0

    learning_rate: float = 1e-3
    """Learning rate of the Q-network."""

    double_q: bool = True
    """Double Q-learning: the Q-network chooses the next action, the target network evaluates it.
    False takes the maximum of the target network."""

    dueling: bool = False
    """Dueling network: separate streams for the value of a state and the advantages of actions."""

    n_quantiles: int = 0
    """Quantiles of the return that are estimated for each action (QR-DQN); 0 for its mean."""

    exploration_fraction: float = 0.1
    """Fraction of the total steps of training over which the probability of a random action is
    reduced linearly; see `total` of `fit`."""

    exploration_initial_eps: float = 1.0
    """Initial probability of a random action."""

    exploration_final_eps: float = 0.05
    """Final probability of a random action."""

    tau: float = 1.0
    """Soft update coefficient of the target network; 1 copies the Q-network."""

    target_update_interval: int = 2_000
    """Steps, of all envs together, between two updates of the target network, which follow gradient
    steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_quantiles(self.n_quantiles)
        self._require_count("target_update_interval")
        self._require_share(
            "exploration_fraction", "exploration_initial_eps", "exploration_final_eps"
        )


class DiscreteQNetwork(nn.Module):
    """Q-function of discrete actions: preprocessed observations to the values of all actions."""

    def __init__(self, body: Backbone, n_actions: int, settings: DQNSettings) -> None:
        super().__init__()
        self.body, self.outputs = body, max(1, settings.n_quantiles)
        width = n_actions * self.outputs
        self.actions: nn.Module = linear(body.width, width, HEAD_GAIN)
        self.state: nn.Module | None = None
        if settings.dueling:
            self.actions = _stream(body.width, width, settings.policy)
            self.state = _stream(body.width, self.outputs, settings.policy)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Q-values, or their quantiles: batch by actions by outputs."""
        features = self.body(inputs).whole
        values: Tensor = self.actions(features).unflatten(-1, (-1, self.outputs))
        if self.state is None:
            return values
        state: Tensor = self.state(features).unsqueeze(-2)
        return state + values - values.mean(-2, keepdim=True)


class DQNPolicyNetwork(PolicyNetwork):
    """Q-network with its observation normalizer and the exploration rate."""

    exploration_rate: Tensor
    """Probability of a random action, of samples; it is saved, and sent to workers."""

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: DQNSettings,
        gather: Gather | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(actions.space, Discrete):
            raise _refusal(actions.space)
        mask_names(leaves, actions.choices)
        self.choices = actions.choices
        self.inputs = inputs_of(leaves, settings.policy, gather)
        body = backbone(self.inputs.leaves, settings.policy)
        self.values = DiscreteQNetwork(body, self.choices[0], settings)
        rate = torch.tensor(settings.exploration_initial_eps)
        self.register_buffer("exploration_rate", rate)

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Greedy actions, or epsilon-greedy ones, within action masks."""
        values, mask = self.action_parameters(observations), observed_mask(observations)
        best = greedy(values, mask).unsqueeze(-1)
        if deterministic:
            return best
        mask = None if mask is None else mask.cpu()
        random = random_choices(self.choices, len(best), mask).to(best.device)
        is_random = uniform((len(best), 1)).to(best.device) < self.exploration_rate
        return torch.where(is_random, random, best)

    def action_parameters(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Q-values: batch by actions."""
        values: Tensor = self.values(self.inputs(observations)).mean(-1)
        return values


class DQN(OffPolicyAgent):
    """Deep Q-network (Mnih et al., 2015) for discrete actions.

    With double Q-learning (van Hasselt et al., 2016), dueling networks (Wang et al., 2016) and
    quantile regression (QR-DQN, Dabney et al., 2018) by settings.
    """

    settings_type: ClassVar[type[AgentSettings]] = DQNSettings
    settings: DQNSettings
    network: Any

    def _build(self) -> None:
        super()._build()
        self._steps_now = 0
        self.target_steps = 0
        """Steps at the last update of the target network."""

    def _check_actions(self) -> None:
        if not isinstance(self.vec.action_space, Discrete):
            raise _refusal(self.vec.action_space)

    @classmethod
    def make_network(  # type: ignore[override]
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> DQNPolicyNetwork:
        """Make the untrained network."""
        return DQNPolicyNetwork(leaves, actions, settings, gather)

    def _add_critics(self) -> None:
        """The Q-network is the policy."""

    def _build_targets(self) -> None:
        self.target_values = target_copy(self.network.values)

    def _target_pairs(self) -> dict[str, tuple[nn.Module, nn.Module]]:
        return {"values": (self.target_values, self.network.values)}

    def _parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        return [(list(self.network.values.parameters()), 1.0)]

    def _inputs(self, observations: dict[str, Tensor]) -> dict[str, Tensor]:
        # The maximum over next actions keeps to their masks.
        return with_masks(super()._inputs(observations), observations, self.device)

    def _loss(self, batch: Transitions) -> dict[str, Tensor]:
        values = self.network.values(batch.observations)
        return td_losses(values, self.network.values, self.target_values, batch, self.settings)

    def _random_actions(self, observations: Mapping[str, Tensor]) -> Tensor:
        return random_choices(self.actions.choices, self.vec.num_envs, observed_mask(observations))

    def _run_envs(self, step_counts: Sequence[int]) -> None:
        settings = self.settings
        horizon = settings.exploration_fraction * self.total_steps
        progress = step_counts[0] / horizon if horizon else 1.0
        self.network.exploration_rate.fill_(decayed_eps(settings, progress))
        self._steps_now = step_counts[-1] + self.vec.num_envs
        super()._run_envs(step_counts)

    def _update_targets(self) -> None:
        if self._steps_now - self.target_steps >= self.settings.target_update_interval:
            super()._update_targets()
            self.target_steps = self._steps_now

    def _learning_state(self) -> dict[str, Any]:
        return {**super()._learning_state(), "target_steps": self.target_steps}

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        super()._load_learning_state(state)
        self.target_steps = int(state["target_steps"])


def td_losses(
    values: Tensor, network: nn.Module, target: nn.Module, batch: Transitions, settings: Any
) -> dict[str, Tensor]:
    """TD loss of a Q-network of discrete actions, with metrics.

    Args:
        values: outputs of the Q-network for the observations: batch by actions by outputs.
        network: the Q-network.
        target: its target network.
        batch: minibatch, with action masks among the observations.
        settings: with `gamma`, `double_q` and `n_quantiles`.
    """
    following = batch.next_observations
    with torch.no_grad():
        next_values = target(following)
        judged = network(following) if settings.double_q else next_values
        best = greedy(judged.mean(-1), observed_mask(following))
        targets = batch.targets(settings.gamma, of_actions(next_values, best))
    taken = of_actions(values, batch.actions[:, 0])
    if settings.n_quantiles:
        loss = quantile_huber_loss(taken, targets).mean()
    else:
        # Squared errors: the mean of noisy returns is estimated, not the median.
        loss = mse_loss(taken.squeeze(-1), targets)
    return {"loss": loss, "pred_value": taken.detach(), "target_value": targets}


def greedy(values: Tensor, mask: Tensor | None) -> Tensor:
    """Actions of the highest value that a mask allows.

    Args:
        values: batch by actions.
        mask: of the same shape; None allows everything.
    """
    if mask is not None:
        values = values.masked_fill(~mask.to(values.device), -torch.inf)
    return values.argmax(-1)


def of_actions(values: Tensor, actions: Tensor) -> Tensor:
    """Outputs for one action of each row: batch by outputs."""
    return values[torch.arange(len(values), device=values.device), actions.long()]


def _stream(features: int, outputs: int, settings: PolicySettings) -> nn.Sequential:
    hidden = linear(features, features)
    return nn.Sequential(hidden, activation(settings), linear(features, outputs, HEAD_GAIN))


def _refusal(space: Any) -> SpaceError:
    others = "PPO or A2C" if ActionMap(space).is_choice else "TD3, SAC, PPO or A2C"
    return SpaceError(f"DQN needs Discrete actions, got {space!r}; use {others}")
