"""Multi-agent DDPG (MADDPG): decentralized actors with centralized critics."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.policy.settings import PolicySettings, require
from sekai.training.actions import ActionMap
from sekai.training.agent import Metrics
from sekai.training.agent_settings import AgentSettings
from sekai.training.ddpg import ddpg_losses
from sekai.training.gradient_step import total_loss
from sekai.training.multi_agent.groups import Group, TeamInputs, groups_of
from sekai.training.multi_agent.joint_env import JointSpaces, JointTrainingEnv, observations_of
from sekai.training.multi_agent.off_policy import AgentTransitions, MultiAgentOffPolicyAgent
from sekai.training.off_policy import ActorCriticSettings, frozen, target_copy
from sekai.training.policies.actor_critic import MLPBackbone, backbone, layers, linear
from sekai.training.policies.off_policy import (
    DeterministicActor,
    GumbelSoftmaxActor,
    choices_of,
    one_hot,
)
from sekai.training.rng import normal
from sekai.training.trained_policy import PolicyNetwork

__all__ = ["MADDPG", "MADDPGSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MADDPGSettings(ActorCriticSettings):
    """Hyperparameters of MADDPG."""

    python_env_settings: ClassVar[Mapping[str, Any]] = {}

    noise_std: float = 0.2
    """Standard deviation of the exploration noise on continuous actions in [-1, 1]."""

    exploration_eps: float = 0.1
    """Probability of a random discrete action during training."""

    temperature: float = 1.0
    """Temperature of the Gumbel-softmax."""

    logit_coef: float = 1e-3
    """Weight of the squared logits in the loss, which keeps discrete policies stochastic."""

    tau: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.noise_std >= 0, "noise_std", "0 or more", self.noise_std)
        self._require_share("exploration_eps")
        self._require_positive("temperature")
        require(self.logit_coef >= 0, "logit_coef", "0 or more", self.logit_coef)


class JointCritic(nn.Module):
    """Centralized Q-function of one agent: observations and actions of all agents to values.

    Args:
        body: backbone of the observations.
        others: number of other inputs: agents present, and actions of all agents.
        settings: architecture.
    """

    def __init__(self, body: MLPBackbone, others: int, settings: PolicySettings) -> None:
        super().__init__()
        self.body = body
        hidden = settings.net_arch[-1:] or (body.width,)
        self.both = layers(body.width + others, hidden, settings)
        self.value = linear(hidden[-1], 1, 1.0)

    def forward(self, inputs: Mapping[str, Tensor], *others: Tensor) -> Tensor:
        """Q-values: batch by one."""
        features = self.body(inputs).whole
        value: Tensor = self.value(self.both(torch.cat([features, *others], dim=-1)))
        return value


class MADDPGNetwork(PolicyNetwork):
    """Actors and centralized critics of all agents."""

    for_learning: ClassVar[tuple[str, ...]] = ("critics.",)
    noise_scales: Tensor
    """Scale of the exploration noise of each action; 0 for discrete ones."""

    def __init__(
        self,
        spaces: JointSpaces,
        groups: Sequence[Group],
        settings: PolicySettings,
        temperature: float,
    ) -> None:
        super().__init__()
        self.agents, self.actions, self.settings = spaces.agents, spaces.actions, settings
        self.inputs = TeamInputs(spaces, groups, settings)
        actors: list[nn.Module] = []
        for group, inputs in zip(groups, self.inputs.readers, strict=True):
            body, own = backbone(inputs.leaves, settings), group.actions
            std = settings.std_init * own.std_scale
            actors.append(
                GumbelSoftmaxActor(body, own, temperature)
                if own.is_choice
                else DeterministicActor(body, own, std)
            )
        self.actors = nn.ModuleList(actors)
        scales = [
            torch.full((own.width,), 0.0 if own.is_choice else own.std_scale)
            for own in self._action_maps.values()
        ]
        self.register_buffer("noise_scales", torch.cat(scales), persistent=False)

    @property
    def _action_maps(self) -> dict[str, ActionMap]:
        return self.actions.by_agent

    def add_critics(self) -> None:
        """Add the critics, which only training needs."""
        widths = [
            sum(own.choices) if own.is_choice else own.width for own in self._action_maps.values()
        ]
        others = len(self.agents) + sum(widths)
        self.critics = nn.ModuleList(
            JointCritic(MLPBackbone(self.inputs.leaves, self.settings), others, self.settings)
            for _ in self.agents
        )

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Concatenated actions of all agents."""
        inputs = self.inputs(observations)
        chosen: dict[str, Tensor] = {}
        for name, actor in zip(self.agents, self.actors, strict=True):
            own = self.own_inputs(name, inputs)
            if not isinstance(actor, GumbelSoftmaxActor):
                chosen[name] = actor(own)
            elif deterministic:
                chosen[name] = actor.mode(own)
            else:
                chosen[name] = choices_of(actor(own), actor.choices)
        return self.actions.joined(chosen)

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of the action components in use; None for all."""
        masks: dict[str, Tensor] = {}
        for name, actor in zip(self.agents, self.actors, strict=True):
            if isinstance(actor, DeterministicActor):
                mask = actor.head.used(actor.body, observations_of(observations, name))
                masks.update({} if mask is None else {name: mask})
        return self.actions.all_used(masks)

    def action_parameters(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Concatenated logits or actions of all agents."""
        inputs, parts = self.inputs(observations), []
        for name, actor in zip(self.agents, self.actors, strict=True):
            own = self.own_inputs(name, inputs)
            parts.append(actor.logits(own) if isinstance(actor, GumbelSoftmaxActor) else actor(own))
        return torch.cat(parts, dim=-1)

    def own_inputs(self, name: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs of one agent's actor, with action masks from infos."""
        prefix = f"{name}/"
        return {
            leaf[len(prefix) :]: rows for leaf, rows in inputs.items() if leaf.startswith(prefix)
        }

    def as_read(self, actions: Tensor, acted: Tensor) -> dict[str, Tensor]:
        """Actions of each agent as critics read them: one-hot, zero for absent agents."""
        by_agent: dict[str, Tensor] = {}
        for index, (name, own) in enumerate(self._action_maps.items()):
            part = self.actions.of(actions, name)
            numbers = one_hot(part, own.choices) if own.is_choice else part
            by_agent[name] = numbers * acted[:, index, None]
        return by_agent


@dataclasses.dataclass(frozen=True, eq=False)
class JointTransitions:
    """Minibatch of transitions of all agents; observations are preprocessed."""

    observations: dict[str, Tensor]
    present: Tensor
    """Agents that acted: batch by agents."""

    actions: dict[str, Tensor]
    next_observations: dict[str, Tensor]
    next_present: Tensor
    next_actions: dict[str, Tensor]
    rewards: Tensor
    """Scaled rewards: batch by agents."""

    terminated: Tensor

    def select(self, rows: Tensor) -> JointTransitions:
        """Select rows by mask."""

        def take(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: part[rows] for name, part in value.items()}
            return value[rows]

        fields = (field.name for field in dataclasses.fields(self))
        return JointTransitions(**{name: take(getattr(self, name)) for name in fields})


class MADDPG(MultiAgentOffPolicyAgent):
    """Multi-agent deep deterministic policy gradient (Lowe et al., 2017).

    Continuous actions are chosen as in DDPG, discrete ones by a Gumbel-softmax.
    """

    settings_type: ClassVar[type[AgentSettings]] = MADDPGSettings
    settings: MADDPGSettings
    network: MADDPGNetwork

    def _use_multi_agent(self, vec: JointTrainingEnv) -> None:
        super()._use_multi_agent(vec)
        for name, own in vec.actions.by_agent.items():
            if not own.is_choice and not own.is_bounded:
                raise SpaceError(
                    f"MADDPG needs bounded actions, got {own.space!r} of {name!r}; wrap the env, "
                    "or use PPO or A2C"
                )

    def _reward_rows(self) -> int:
        return self.vec.num_envs * len(self.agents)

    @classmethod
    def make_team(cls, spaces: JointSpaces, settings: Any) -> MADDPGNetwork:
        """Make the untrained actors of all agents."""
        groups = groups_of(spaces, "none")
        return MADDPGNetwork(spaces, groups, settings.policy, settings.temperature)

    def _build_targets(self) -> None:
        self.network.add_critics()
        self.network.to(self.device)
        self.target_actors = target_copy(self.network.actors)
        self.target_critics = target_copy(self.network.critics)

    def _target_pairs(self) -> dict[str, tuple[nn.Module, nn.Module]]:
        return {
            "actors": (self.target_actors, self.network.actors),
            "critics": (self.target_critics, self.network.critics),
        }

    def _parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        scale = self.settings.actor_lr_scale
        actors = [(list(actor.parameters()), scale) for actor in self.network.actors]
        return actors + [(list(critic.parameters()), 1.0) for critic in self.network.critics]

    def _explore(self, observations: dict[str, Tensor]) -> Tensor:
        actions = self.network.choose(observations, deterministic=False).cpu()
        actions = self._with_random(observations, actions, self.settings.exploration_eps)
        scales = self.network.noise_scales.cpu()
        noise = normal(actions.shape) * self.settings.noise_std * scales
        return torch.where(scales > 0, (actions + noise).clamp(-1.0, 1.0), actions)

    def _update_normalizers(self) -> None:
        observations, paid, _ = self._latest()
        self.network.inputs.update(observations)
        self._update_risks(self.iteration_length)
        if self.scaler is not None:
            done = paid.terminated | paid.truncated
            tables = self._penalized(paid.rewards), done, paid.acted
            steps = self.iteration_length
            self.scaler.update(*(table.reshape(steps, -1) for table in tables))

    def _rewards_of(self, paid: AgentTransitions, index: int) -> tuple[Tensor, Tensor]:
        return paid.rewards[:, index], paid.acted[:, index]

    def _penalized(self, rewards: Tensor) -> Tensor:
        if not self.risks:
            return rewards
        columns = zip(self.risks, rewards.unbind(-1), strict=True)
        return torch.stack([risk.penalized(own) for risk, own in columns], dim=-1)

    def _update(self) -> Metrics:
        batch, known = self._joint_sample()
        metrics: Metrics = {}
        total = torch.zeros(())
        for index, name in enumerate(self.agents):
            rows = known[:, index]
            if not bool(rows.any()):
                continue
            own = batch if bool(rows.all()) else batch.select(rows)
            losses = self._agent_losses(index, own)
            total = total + total_loss(losses) + self._logit_loss(index, own)
            for key, value in losses.items():
                metrics[f"{name}/{key}"] = float(value.detach().float().mean())
        return {**metrics, **self._step(total)} if total.requires_grad else metrics

    def _agent_losses(self, index: int, batch: JointTransitions) -> dict[str, Tensor]:
        name, critic = self.agents[index], self.network.critics[index]
        values = self._values(critic, batch.observations, batch.present, batch.actions)
        with torch.no_grad():
            own = self._actor_inputs(name, batch.next_observations)
            moves = {**batch.next_actions, name: self.target_actors[index](own)}
            target_critic = self.target_critics[index]
            next_values = self._values(
                target_critic, batch.next_observations, batch.next_present, moves
            )
            rewards, ended = batch.rewards[:, index, None], batch.terminated[:, index, None]
            targets = rewards + self.settings.gamma * (~ended).int() * next_values
        own = self._actor_inputs(name, batch.observations)
        moves = {**batch.actions, name: self.network.actors[index](own)}
        with frozen(critic):
            improved = self._values(critic, batch.observations, batch.present, moves)
        return ddpg_losses(improved.squeeze(-1), values.squeeze(-1), targets.squeeze(-1))

    def _values(
        self,
        critic: nn.Module,
        observations: dict[str, Tensor],
        present: Tensor,
        actions: dict[str, Tensor],
    ) -> Tensor:
        values: Tensor = critic(observations, present, *(actions[name] for name in self.agents))
        return values

    def _actor_inputs(self, name: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs of one agent's actor in the loss: its leaves, without action masks of infos."""
        return {leaf[len(name) + 1 :]: inputs[leaf] for leaf in self.network.inputs.names(name)}

    def _logit_loss(self, index: int, batch: JointTransitions) -> Tensor:
        actor = self.network.actors[index]
        if not isinstance(actor, GumbelSoftmaxActor) or not self.settings.logit_coef:
            return torch.zeros(())
        inputs = self.network.own_inputs(self.agents[index], batch.observations)
        return self.settings.logit_coef * actor.free_logits(inputs).square().mean()

    @torch.no_grad()
    def _joint_sample(self) -> tuple[JointTransitions, Tensor]:
        """Minibatch, and the rows that each agent can learn from: batch by agents."""
        drawn = self.replay.sample(self.settings.batch_size)
        paid, network = AgentTransitions.of(drawn), self.network
        penalized = self._penalized(paid.rewards)
        rewards = penalized.float() if self.scaler is None else self.scaler(penalized)
        following, device = network.inputs(drawn["next"]), self.device
        goes_on, acted = paid.goes_on.to(device), paid.acted.to(device)
        next_actions = {
            name: actor(self._actor_inputs(name, following)) * goes_on[:, index, None]
            for index, (name, actor) in enumerate(zip(self.agents, self.target_actors, strict=True))
        }
        batch = JointTransitions(
            observations=network.inputs(drawn["observation"]),
            present=acted.float(),
            actions=network.as_read(drawn["action"].to(device), acted),
            next_observations=following,
            next_present=goes_on.float(),
            next_actions=next_actions,
            rewards=rewards.to(device),
            terminated=paid.terminated.to(device),
        )
        return batch, (paid.known & drawn["trained_on"]).to(device)
