"""QMIX: monotonic mixing of the agents' Q-values (value decomposition)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, mse_loss, pad

from sekai.error import SpaceError
from sekai.policy.observations import is_action_mask, leaves_of
from sekai.policy.settings import SEVERAL_KINDS, PolicySettings, require
from sekai.spaces import Discrete, MultiDiscrete
from sekai.training.actions import ActionMap
from sekai.training.agent import Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.multi_agent.groups import (
    AGENT_INDEX,
    Group,
    Share,
    TeamInputs,
    check_share,
    groups_of,
)
from sekai.training.multi_agent.joint_env import JointSpaces, JointTrainingEnv, observations_of
from sekai.training.multi_agent.off_policy import AgentTransitions, MultiAgentOffPolicyAgent
from sekai.training.observations import observed_mask, on_device
from sekai.training.off_policy import OffPolicySettings, decayed_eps, target_copy
from sekai.training.policies.actor_critic import Backbone, backbone, linear
from sekai.training.policies.off_policy import one_hot
from sekai.training.trained_policy import PolicyNetwork

__all__ = ["QMIX", "QMIXSettings"]

STATE = "state"
"""Observation leaf with the global state, which only the mixer reads."""

MASKED_VALUE = -1e9
"""Q-value of actions that a mask forbids."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class QMIXSettings(OffPolicySettings):
    """Hyperparameters of QMIX."""

    share: Share = dataclasses.field(default="all", metadata={SEVERAL_KINDS: True})
    """Agents that share a Q-network: "all" of equal spaces, "none", or groups by name."""

    agent_indicator: bool = True
    """Add the index of the agent to the observations of a shared Q-network."""

    team_reward: Literal["mean", "sum"] = "mean"
    """Team reward as a function of the agents' rewards."""

    mixing_embed_dim: int = 32
    """Hidden size of the mixing network."""

    exploration_initial_eps: float = 1.0
    """Initial probability of a random action."""

    exploration_final_eps: float = 0.05
    """Final probability of a random action."""

    exploration_steps: int = 20_000
    """Steps, of all envs together, over which the probability is reduced linearly."""

    tau: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.share)
        self._require_count("mixing_embed_dim", "exploration_steps")
        self._require_share("exploration_initial_eps", "exploration_final_eps")
        is_reward = self.team_reward in ("mean", "sum")
        require(is_reward, "team_reward", "'mean' or 'sum'", self.team_reward)


class ActionValues(nn.Module):
    """Q-network of one agent: observations to the utilities of all actions, concatenated.

    With one choice for each slot, from equally many, all slots share weights. Unused slots have a
    utility of zero and take the middle choice: for portfolio tilts, no change.
    """

    middle: Tensor

    def __init__(self, body: Backbone, actions: ActionMap) -> None:
        super().__init__()
        self.body, choices = body, actions.choices
        is_uniform = len(choices) == body.slots and len(set(choices)) == 1
        self.slots = body.slots if is_uniform else 0
        width = choices[0] if self.slots else sum(choices)
        self.value = linear(body.width, width, 1.0)
        self.register_buffer("middle", torch.arange(width) == width // 2, persistent=False)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Utilities: batch by actions."""
        features = self.body(inputs)
        if not self.slots or features.slots is None:
            whole: Tensor = self.value(features.whole)
            return whole
        values: Tensor = self.value(features.slots)
        if features.mask is not None:
            values = values.masked_fill(~features.mask.unsqueeze(-1), 0.0)
        return values.flatten(1)

    def allowed(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of actions that leaves unused slots their middle choice; None for all."""
        if not self.slots or self.body.mask_name is None:
            return None
        used = (observations[self.body.mask_name] != 0).unsqueeze(-1)
        return (used | self.middle).flatten(1)


class TeamValues(nn.Module):
    """Q-networks of all agents: batch by agents by actions, padded with zeros."""

    def __init__(self, inputs: TeamInputs, settings: PolicySettings) -> None:
        super().__init__()
        self.agents, self.groups = inputs.agents, inputs.groups
        self.width = max(sum(group.actions.choices) for group in self.groups)
        self.leaves = [list(reader.leaves) for reader in inputs.readers]
        self.each = nn.ModuleList(
            ActionValues(backbone(reader.leaves, settings), group.actions)
            for group, reader in zip(self.groups, inputs.readers, strict=True)
        )

    def network_of(self, agent: str) -> ActionValues:
        """Q-network of an agent."""
        for group, network in zip(self.groups, self.each, strict=True):
            if agent in group.agents:
                assert isinstance(network, ActionValues), "built above"
                return network
        raise KeyError(agent)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Utilities of all agents."""
        values: dict[str, Tensor] = {}
        for group, leaves, network in zip(self.groups, self.leaves, self.each, strict=True):
            rows = {
                leaf: torch.cat([inputs[f"{name}/{leaf}"] for name in group.agents])
                for leaf in leaves
            }
            own = network(rows)
            parts = pad(own, (0, self.width - own.shape[-1])).chunk(len(group.agents))
            values.update(zip(group.agents, parts, strict=True))
        return torch.stack([values[name] for name in self.agents], dim=-2)


class Mixer(nn.Module):
    """Monotonic mixing network: Q-values of agents to the team's, by weights from the state."""

    def __init__(self, state: int, agents: int, width: int) -> None:
        super().__init__()
        self.agents, self.width = agents, width
        self.hidden_weights = nn.Linear(state, width * agents)
        self.final_weights = nn.Linear(state, width)
        self.hidden_bias = nn.Linear(state, width)
        self.final_bias = nn.Sequential(nn.Linear(state, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, values: Tensor, present: Tensor, state: Tensor) -> Tensor:
        """Team values: batch by one; absent agents have a value of zero."""
        values = (values * present.unsqueeze(-1)).view(-1, 1, self.agents)
        # Weights are positive, so that the team value never falls with an agent's value.
        weights = torch.abs(self.hidden_weights(state)).view(-1, self.agents, self.width)
        hidden = elu(torch.bmm(values, weights) + self.hidden_bias(state).view(-1, 1, self.width))
        final = torch.abs(self.final_weights(state)).view(-1, self.width, 1)
        mixed: Tensor = torch.bmm(hidden, final) + self.final_bias(state).view(-1, 1, 1)
        return mixed.view(-1, 1)


class QMIXNetwork(PolicyNetwork):
    """Q-networks of all agents with the mixing network.

    The value of an agent with several choices (`MultiDiscrete`) is the sum of their utilities. Sum
    and mixer are monotonic, so the best joint action is the argmax of each choice alone.

    Args:
        spaces: spaces of the agents.
        groups: agents that share a Q-network.
        settings: architecture.
        width: hidden size of the mixing network.
    """

    exists: Tensor
    """Mask of the actions that each agent has: agents by actions."""

    def __init__(
        self, spaces: JointSpaces, groups: Sequence[Group], settings: PolicySettings, width: int
    ) -> None:
        super().__init__()
        self.agents, self.actions, self.groups = spaces.agents, spaces.actions, list(groups)
        self.inputs = TeamInputs(spaces, groups, settings)
        self.values = TeamValues(self.inputs, settings)
        self._first_leaves = leaves_of(spaces.observation_spaces[spaces.agents[0]])
        self.has_state = STATE in self._first_leaves
        self.choices = {name: own.choices for name, own in self.actions.by_agent.items()}
        counts = [sum(own) for own in self.choices.values()]
        exists = torch.arange(self.values.width) < torch.tensor(counts).unsqueeze(-1)
        self.register_buffer("exists", exists, persistent=False)
        self.mixer = Mixer(self._state_width(), len(spaces.agents), width)

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Greedy actions of all agents, whether deterministic or not."""
        values = self.values(self.inputs(observations))
        return self.actions.joined(self.greedy(values, self.allowed(observations)))

    def action_parameters(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Utilities of all agents, concatenated."""
        values: Tensor = self.values(self.inputs(observations)).flatten(1)
        return values

    def greedy(self, values: Tensor, allowed: Tensor) -> dict[str, Tensor]:
        """Best choices of each agent: batch by choices."""
        masked = values.masked_fill(~allowed, MASKED_VALUE)
        return {
            name: torch.stack([part.argmax(dim=-1) for part in self._split(masked, name)], dim=-1)
            for name in self.agents
        }

    def one_hot(self, choices: Mapping[str, Tensor]) -> Tensor:
        """One-hot choices: batch by agents by actions."""
        hot = [one_hot(choices[name].long(), own) for name, own in self.choices.items()]
        padded = [pad(part, (0, self.values.width - part.shape[-1])) for part in hot]
        return torch.stack(padded, dim=-2)

    def _split(self, table: Tensor, name: str) -> tuple[Tensor, ...]:
        own = self.choices[name]
        return torch.split(table[:, self.agents.index(name), : sum(own)], list(own), dim=-1)

    def allowed(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Mask of actions that exist and are not forbidden: batch by agents by actions."""
        parts = []
        for index, name in enumerate(self.agents):
            leaves = on_device(observations_of(observations, name), self.inputs.device)
            count = len(next(iter(leaves.values())))
            free = self.exists[index].expand(count, -1)
            for mask in (observed_mask(leaves), self.values.network_of(name).allowed(leaves)):
                free = free if mask is None else self._narrowed(free, mask, name)
            parts.append(free)
        return torch.stack(parts, dim=-2)

    def _narrowed(self, free: Tensor, mask: Tensor, name: str) -> Tensor:
        """Intersect masks; a choice without options, as of absent agents, keeps what was free."""
        own = list(self.choices[name])
        pairs = zip(
            torch.split(free[:, : sum(own)], own, dim=-1),
            torch.split(mask, own, dim=-1),
            strict=True,
        )
        parts = []
        for before, part in pairs:
            both = before & part
            parts.append(torch.where(both.any(-1, keepdim=True), both, before))
        narrowed = torch.cat(parts, dim=-1)
        return pad(narrowed, (0, free.shape[-1] - narrowed.shape[-1]))

    def state(
        self, observations: Mapping[str, Tensor], inputs: Mapping[str, Tensor], present: Tensor
    ) -> Tensor:
        """State of the mixer: that of the env, or the observations of all agents."""
        device = self.inputs.device
        present = present.to(device)
        if self.has_state:
            leaves = (observations_of(observations, name)[STATE].to(device) for name in self.agents)
            states = [rows.flatten(1).float() for rows in leaves]
            # Absent agents observe nothing: the state of the first present one is taken.
            first = present.int().argmax(dim=-1)
            return torch.stack(states, dim=1)[torch.arange(len(first), device=device), first]
        parts = [
            inputs[name].flatten(1) if inputs[name].dim() > 1 else inputs[name].unsqueeze(1)
            for name in self._state_leaves
        ]
        return torch.cat([*parts, present.float()], dim=-1)

    @property
    def _state_leaves(self) -> list[str]:
        return [
            f"{name}/{leaf}"
            for name in self.agents
            for leaf in self.inputs.leaves_of(name)
            if leaf != AGENT_INDEX and not is_action_mask(leaf)
        ]

    def _state_width(self) -> int:
        if self.has_state:
            return self._first_leaves[STATE].width
        leaves = self.inputs.leaves
        return sum(leaves[name].width for name in self._state_leaves) + len(self.agents)


class QMIX(MultiAgentOffPolicyAgent):
    """Monotonic value mixing (Rashid et al., 2018), with double Q-learning.

    Agents act in `Discrete` or `MultiDiscrete` spaces, such as tilts of a portfolio; see
    `QMIXNetwork`.
    """

    settings_type: ClassVar[type[AgentSettings]] = QMIXSettings
    settings: QMIXSettings
    network: QMIXNetwork

    def _use_multi_agent(self, vec: JointTrainingEnv) -> None:
        super()._use_multi_agent(vec)
        for name, own in vec.actions.by_agent.items():
            if not isinstance(own.space, (Discrete, MultiDiscrete)):
                raise SpaceError(
                    f"QMIX needs Discrete or MultiDiscrete actions, got {own.space!r} of {name!r}; "
                    "use MADDPG, PPO or A2C"
                )

    def _reward_rows(self) -> int:
        return self.vec.num_envs

    @classmethod
    def make_team(cls, spaces: JointSpaces, settings: Any) -> QMIXNetwork:
        """Make the untrained networks of all agents."""
        groups = groups_of(spaces, settings.share, settings.agent_indicator)
        reading = [dataclasses.replace(group, hidden=(STATE,)) for group in groups]
        return QMIXNetwork(spaces, reading, settings.policy, settings.mixing_embed_dim)

    def _build_targets(self) -> None:
        self.target_values = target_copy(self.network.values)
        self.target_mixer = target_copy(self.network.mixer)

    def _target_pairs(self) -> dict[str, tuple[nn.Module, nn.Module]]:
        return {
            "values": (self.target_values, self.network.values),
            "mixer": (self.target_mixer, self.network.mixer),
        }

    def _parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        return [([*self.network.values.parameters(), *self.network.mixer.parameters()], 1.0)]

    def _act(self, steps: int) -> Any:
        self._eps = decayed_eps(self.settings, steps / self.settings.exploration_steps)
        return super()._act(steps)

    def _explore(self, observations: dict[str, Tensor]) -> Tensor:
        chosen = self.network.choose(observations, deterministic=True).cpu()
        return self._with_random(observations, chosen, self._eps)

    def _update_normalizers(self) -> None:
        observations, paid, over = self._latest()
        self.network.inputs.update(observations)
        self._update_risks(self.iteration_length)
        if self.scaler is not None:
            steps = self.iteration_length
            rewards = self._penalized(self._team_rewards(paid))
            self.scaler.update(rewards.reshape(steps, -1), over.reshape(steps, -1))

    def _rewards_of(self, paid: AgentTransitions, index: int) -> tuple[Tensor, Tensor]:
        return self._team_rewards(paid), paid.acted.any(-1)

    def _team_rewards(self, paid: AgentTransitions) -> Tensor:
        total = (paid.rewards * paid.acted).sum(-1)
        if self.settings.team_reward == "sum":
            return total
        return total / paid.acted.sum(-1).clamp_min(1)

    def _update(self) -> Metrics:
        drawn = self.replay.sample(self.settings.batch_size)
        paid, over = AgentTransitions.of(drawn), drawn["truncated"]
        # The outcome of an episode that broke off is unknown.
        is_known = ~over | (paid.terminated | paid.truncated).any(-1)
        # Joint transitions count if they do for all agents that acted.
        rows = is_known & (drawn["trained_on"] | ~paid.acted).all(-1)
        if not bool(rows.any()):
            return {}
        loss = self._mixed_loss(drawn, paid, rows)
        return {**self._step(loss), "loss": float(loss.detach())}

    def _mixed_loss(self, drawn: dict[str, Any], paid: AgentTransitions, rows: Tensor) -> Tensor:
        """Squared TD error of the team's Q-values."""
        network, over, device = self.network, drawn["truncated"], self.device
        with torch.no_grad():
            observations, following = drawn["observation"], drawn["next"]
            inputs, next_inputs = network.inputs(observations), network.inputs(following)
            state = network.state(observations, inputs, paid.acted)
            next_state = network.state(following, next_inputs, paid.goes_on)
            actions = drawn["action"].to(device)
            chosen = {name: self.vec.actions.of(actions, name) for name in self.agents}
            taken = network.one_hot(chosen)
            # Double Q-learning: the trained networks choose, the target networks evaluate.
            best = network.greedy(network.values(next_inputs), network.allowed(following))
            rewards = self._penalized(self._team_rewards(paid))
            scaled = rewards.float() if self.scaler is None else self.scaler(rewards)
            terminated = (over & ~paid.truncated.any(-1)).to(device)
            scaled, rows = scaled.to(device), rows.to(device)
            goes_on, acted = paid.goes_on.to(device), paid.acted.to(device)
            next_values = self.target_mixer(
                (self.target_values(_rows(next_inputs, rows)) * network.one_hot(best)[rows]).sum(
                    -1, keepdim=True
                ),
                goes_on.float()[rows],
                next_state[rows],
            ).squeeze(-1)
            continues = self.settings.gamma * (~terminated[rows]).int()
            targets = scaled[rows] + continues * next_values
        utilities = network.values(_rows(inputs, rows))
        own = (utilities * taken[rows]).sum(-1, keepdim=True)
        values = network.mixer(own, acted.float()[rows], state[rows]).squeeze(-1)
        return mse_loss(values, targets, reduction="none").mean()


def _rows(table: Mapping[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    return {name: values[rows] for name, values in table.items()}
