"""Multi-agent DDPG: each agent acts by what it sees, and is judged by what all see and do."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.objectives import DDPGLoss

from sekai.error import SpaceError
from sekai.training.agent_settings import AgentSettings
from sekai.training.metrics import Metrics
from sekai.training.multi.groups import groups_of
from sekai.training.multi.joint_spaces import JointSpaces
from sekai.training.multi.joint_world import JointWorld
from sekai.training.multi.maddpg_network import MADDPGNetwork
from sekai.training.multi.team_off_policy import Paid, TeamOffPolicyAgent
from sekai.training.off_policy import ActorSettings
from sekai.training.policies.relaxed import RelaxedActor
from sekai.training.randomness import normal
from sekai.training.settings import require
from sekai.training.torchrl_modules import ByName, sum_of_losses

__all__ = ["MADDPG", "MADDPGSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MADDPGSettings(ActorSettings):
    """How MADDPG learns."""

    exploration: float = 0.2
    """The standard deviation of the noise on numbers from -1 to 1 while learning."""

    random_picks: float = 0.1
    """The share of picks that are anything at all while learning."""

    temperature: float = 1.0
    """How soft picks are to gradients."""

    logit_weight: float = 1e-3
    """How much large logits cost, so that picks never harden for good."""

    target_rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.exploration >= 0, "exploration", "0 or more", self.exploration)
        self._require_share("random_picks")
        self._require_positive("temperature")
        require(self.logit_weight >= 0, "logit_weight", "0 or more", self.logit_weight)


class MADDPG(TeamOffPolicyAgent):
    """Multi-agent deep deterministic policy gradient (Lowe et al., 2017).

    Numbers are chosen as in DDPG, picks by a softmax through which gradients flow.
    """

    settings_type: ClassVar[type[AgentSettings]] = MADDPGSettings
    settings: MADDPGSettings
    network: MADDPGNetwork

    def _take_several(self, world: JointWorld) -> None:
        super()._take_several(world)
        for name, own in world.actions.each.items():
            if not own.is_choice and not own.is_bounded:
                raise SpaceError(
                    f"MADDPG acts between bounds, found {own.space!r} of {name!r}: wrap the env, "
                    "or use PPO or A2C"
                )

    def _paid_rows(self) -> int:
        return self.vec.num_envs * len(self.agents)

    @classmethod
    def make_team(cls, spaces: JointSpaces, settings: Any) -> MADDPGNetwork:
        """What acts for several agents, before it has learnt."""
        groups = groups_of(spaces, "none")
        return MADDPGNetwork(spaces, groups, settings.policy, settings.temperature)

    def _loss(self, names: list[str]) -> dict[str, DDPGLoss]:
        losses = {name: self._agent_loss(name, names) for name in self.agents}
        self.network.critics = nn.ModuleList(loss.value_network_params for loss in losses.values())
        return losses

    def _losses(self) -> list[DDPGLoss]:
        return list(self.loss.values())

    def _groups(self) -> list[list[nn.Parameter]]:
        parts = [*self.network.actors, *self.network.critics]
        return [list(part.parameters()) for part in parts]

    def _rate_shares(self) -> list[float]:
        count = len(self.agents)
        return [self.settings.actor_rate] * count + [1.0] * count

    def _agent_loss(self, name: str, everything: list[str]) -> DDPGLoss:
        network, place = self.network, self.agents.index(name)
        own = network.inputs.names(name)
        actor = TensorDictModule(
            ByName(network.actors[place], [leaf[len(name) + 1 :] for leaf in own]),
            in_keys=[("observation", leaf) for leaf in own],
            out_keys=[("moves", name)],
        )
        critic = TensorDictModule(
            ByName(network.new_critic(), everything),
            in_keys=[*(("observation", leaf) for leaf in everything), "present",
                     *(("moves", other) for other in self.agents)],
            out_keys=["state_action_value"],
        )  # fmt: skip
        loss = DDPGLoss(actor, critic, loss_function="l2", delay_actor=True, delay_value=True)
        loss.set_keys(reward=("reward", name), done=("done", name), terminated=("terminated", name))
        loss.make_value_estimator(gamma=self.settings.discount)
        return loss

    def _explore(self, seen: dict[str, Tensor]) -> Tensor:
        chosen = self.network.choose(seen, deterministic=False)
        chosen = self._mixed(seen, chosen, self.settings.random_picks)
        spreads = self.network.spreads
        noise = normal(chosen.shape) * self.settings.exploration * spreads
        return torch.where(spreads > 0, (chosen + noise).clamp(-1.0, 1.0), chosen)

    def _learn_scales(self) -> None:
        seen, paid, _ = self._latest()
        self.network.inputs.learn(seen)
        self._learn_risk(self.settings.rollout_steps)
        if self.scaler is not None:
            done = paid.terminated | paid.truncated
            tables = self._charged(paid.rewards), done, paid.acted
            laid = (table.reshape(self.settings.rollout_steps, -1) for table in tables)
            self.scaler.learn(*laid)

    def _rewards_of(self, paid: Paid, place: int) -> tuple[Tensor, Tensor]:
        return paid.rewards[:, place], paid.acted[:, place]

    def _charged(self, rewards: Tensor) -> Tensor:
        if not self.risks:
            return rewards
        each = zip(self.risks, rewards.unbind(-1), strict=True)
        return torch.stack([risk.charged(own) for risk, own in each], dim=-1)

    def _update(self) -> Metrics:
        samples, known = self._joint_samples()
        told: Metrics = {}
        total = torch.zeros(())
        for place, (name, loss) in enumerate(self.loss.items()):
            rows = known[:, place]
            if not bool(rows.any()):
                continue
            own = samples if bool(rows.all()) else samples[rows]
            found = loss(own)
            total = total + sum_of_losses(found) + self._logit_cost(place, own)
            told.update({f"{name}/{key}": float(value.detach().float().mean())
                         for key, value in found.items()})  # fmt: skip
        return {**told, **self._descend(total)} if total.requires_grad else told

    def _logit_cost(self, place: int, samples: TensorDict) -> Tensor:
        actor = self.network.actors[place]
        if not isinstance(actor, RelaxedActor) or not self.settings.logit_weight:
            return torch.zeros(())
        inputs = self.network.own_inputs(place, dict(samples["observation"].items()))
        return self.settings.logit_weight * actor.free_logits(inputs).square().mean()

    @torch.no_grad()
    def _joint_samples(self) -> tuple[TensorDict, Tensor]:
        drawn = self.replay.sample(self.settings.batch_size)
        paid, network = Paid.of(drawn), self.network
        charged = self._charged(paid.rewards)
        rewards = charged.float() if self.scaler is None else self.scaler(charged)
        done = paid.terminated | paid.truncated
        following = TensorDict(
            {
                "observation": network.inputs(drawn["next"]),
                "present": paid.goes_on.float(),
                "reward": _by_agent(self.agents, rewards),
                "terminated": _by_agent(self.agents, paid.terminated),
                "done": _by_agent(self.agents, done),
            },
            batch_size=[len(rewards)],
        )
        content = {
            "observation": network.inputs(drawn["observation"]),
            "present": paid.acted.float(),
            "moves": network.as_read(drawn["action"], paid.acted),
            "next": self._with_next_actions(following, paid.goes_on),
        }
        return TensorDict(content, batch_size=[len(rewards)]), paid.known & drawn["learnt"]

    def _with_next_actions(self, following: TensorDict, goes_on: Tensor) -> TensorDict:
        """What everybody would do next, by the actors that follow slowly."""
        for place, (name, loss) in enumerate(self.loss.items()):
            with loss.target_actor_network_params.to_module(
                loss.actor_network, preserve_module_state=False
            ):
                loss.actor_network(following)
            following["moves", name] = following["moves", name] * goes_on[:, place, None]
        return following


def _by_agent(agents: list[str], table: Tensor) -> dict[str, Tensor]:
    return {name: table[:, place, None] for place, name in enumerate(agents)}
