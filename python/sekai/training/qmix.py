"""QMIX: each agent picks what it thinks best, and learns what that is worth to all."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torchrl.objectives.multiagent import QMixerLoss

from sekai.error import SpaceError
from sekai.spaces import Discrete, MultiDiscrete
from sekai.training.agent_settings import AgentSettings
from sekai.training.metrics import Metrics
from sekai.training.multi.groups import Share, check_share, groups_of
from sekai.training.multi.joint_spaces import JointSpaces
from sekai.training.multi.joint_world import JointWorld
from sekai.training.multi.qmix_network import STATE, QMIXNetwork
from sekai.training.multi.team_off_policy import Paid, TeamOffPolicyAgent
from sekai.training.off_policy import OffPolicySettings
from sekai.training.settings import SEVERAL_KINDS, require
from sekai.training.torchrl_modules import ByName, sum_of_losses

__all__ = ["QMIX", "QMIXSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class QMIXSettings(OffPolicySettings):
    """How QMIX learns."""

    share: Share = dataclasses.field(default="all", metadata={SEVERAL_KINDS: True})
    """Who shares a network: "all" of equal spaces, "none", or groups by name."""

    tell_apart: bool = True
    """Whether a network that several agents share is told for which of them it judges."""

    team_reward: Literal["mean", "sum"] = "mean"
    """What the agents' rewards are to all of them together."""

    mixer_width: int = 32
    """How many numbers what agents expect is mixed with."""

    exploration: float = 1.0
    """The share of picks that are anything at all, at first."""

    final_exploration: float = 0.05
    """The share in the end."""

    exploration_steps: int = 20_000
    """Steps of single envs over which the one becomes the other."""

    target_rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.share)
        self._require_count("mixer_width", "exploration_steps")
        self._require_share("exploration", "final_exploration")
        require(self.team_reward in ("mean", "sum"), "team_reward", "'mean' or 'sum'",
                self.team_reward)  # fmt: skip


class QMIX(TeamOffPolicyAgent):
    """Monotonic value mixing (Rashid et al., 2018), with double Q-learning.

    Agents act in `Discrete` spaces, or in `MultiDiscrete` ones: tilts of a portfolio, say. Of
    several picks at once each has utilities of its own, and an agent expects their sum (branches,
    added as in VDN, within the agent). The mixer is monotone in what agents expect and the sum is
    in each pick, so that the best of each pick is the best for all: argmax stays exact.
    """

    settings_type: ClassVar[type[AgentSettings]] = QMIXSettings
    settings: QMIXSettings
    network: QMIXNetwork

    def _take_several(self, world: JointWorld) -> None:
        super()._take_several(world)
        for name, own in world.actions.each.items():
            if not isinstance(own.space, (Discrete, MultiDiscrete)):
                raise SpaceError(
                    f"QMIX picks from Discrete and MultiDiscrete spaces, found {own.space!r} of "
                    f"{name!r}: use MADDPG, PPO or A2C"
                )

    def _paid_rows(self) -> int:
        return self.vec.num_envs

    @classmethod
    def make_team(cls, spaces: JointSpaces, settings: Any) -> QMIXNetwork:
        """What acts for several agents, before it has learnt."""
        groups = groups_of(spaces, settings.share, settings.tell_apart)
        reading = [dataclasses.replace(group, hidden=(STATE,)) for group in groups]
        return QMIXNetwork(spaces, reading, settings.policy, settings.mixer_width)

    def _losses(self) -> list[QMixerLoss]:
        return [self.loss]

    def _rate_shares(self) -> list[float]:
        return [1.0]

    def _groups(self) -> list[list[nn.Parameter]]:
        return [[*self.network.values.parameters(), *self.network.mixer.parameters()]]

    def _loss(self, names: list[str]) -> QMixerLoss:
        values = TensorDictModule(
            ByName(self.network.values, names),
            in_keys=[("observation", name) for name in names],
            out_keys=[("agents", "action_value")],
        )
        chosen = TensorDictModule(
            _Chosen(),
            in_keys=[("agents", "action_value"), ("agents", "greedy")],
            out_keys=[("agents", "chosen_action_value")],
        )
        mixer = TensorDictModule(
            self.network.mixer,
            in_keys=[("agents", "chosen_action_value"), "present", "state"],
            out_keys=["chosen_action_value"],
        )
        loss = QMixerLoss(
            # Ones where picks were taken, so that their utilities are added up.
            TensorDictSequential(values, chosen), mixer, action_space="mult_one_hot",
            delay_value=True,
        )  # fmt: skip
        loss.set_keys(reward="reward", done="done", terminated="terminated")
        loss.make_value_estimator(gamma=self.settings.discount)
        return loss

    def _explore(self, seen: dict[str, Tensor]) -> Tensor:
        chosen = self.network.choose(seen, deterministic=True)
        return self._mixed(seen, chosen, self._stray_share)

    def _act(self, steps: int) -> Any:
        settings = self.settings
        passed = min(1.0, steps / settings.exploration_steps)
        change = settings.final_exploration - settings.exploration
        self._stray_share = settings.exploration + passed * change
        return super()._act(steps)

    def _learn_scales(self) -> None:
        seen, paid, over = self._latest()
        self.network.inputs.learn(seen)
        self._learn_risk(self.settings.rollout_steps)
        if self.scaler is not None:
            times = self.settings.rollout_steps
            rewards = self._charged(self._team(paid))
            self.scaler.learn(rewards.reshape(times, -1), over.reshape(times, -1))

    def _rewards_of(self, paid: Paid, place: int) -> tuple[Tensor, Tensor]:
        return self._team(paid), paid.acted.any(-1)

    def _team(self, paid: Paid) -> Tensor:
        total = (paid.rewards * paid.acted).sum(-1)
        if self.settings.team_reward == "sum":
            return total
        return total / paid.acted.sum(-1).clamp_min(1)

    def _update(self) -> Metrics:
        samples = self._team_samples()
        if samples is None:
            return {}
        found = self.loss(samples)
        told = self._descend(sum_of_losses(found))
        return {**told, "loss": float(found["loss"].detach())}

    @torch.no_grad()
    def _team_samples(self) -> TensorDict | None:
        drawn = self.replay.sample(self.settings.batch_size)
        paid, over = Paid.of(drawn), drawn["truncated"]
        rewards = self._charged(self._team(paid))
        scaled = rewards.float() if self.scaler is None else self.scaler(rewards)
        is_cut = paid.truncated.any(-1)
        chosen = {name: self.vec.actions.of(drawn["action"], name) for name in self.agents}
        taken = self.network.taken(chosen)
        content = self._judged(drawn["observation"], paid.acted, taken)
        content["agents"]["action"] = taken
        content["next"] = {
            **self._judged(drawn["next"], paid.goes_on, None),
            "reward": scaled.unsqueeze(-1),
            "terminated": (over & ~is_cut).unsqueeze(-1),
            "done": over.unsqueeze(-1),
        }
        samples = TensorDict(content, batch_size=[len(over)])
        # Of an episode that broke off nobody is told how it ended.
        is_told = ~over | (paid.terminated | paid.truncated).any(-1)
        # What all do together is judged: a step counts if it does for everybody who acted.
        counts = is_told & (drawn["learnt"] | ~paid.acted).all(-1)
        if not bool(counts.any()):
            return None
        return samples if bool(counts.all()) else samples[counts]

    def _judged(self, seen: dict[str, Tensor], present: Tensor, taken: Any) -> dict[str, Any]:
        """What the loss reads of observations; what is best next is for those who learn to say."""
        network = self.network
        inputs = network.inputs(seen)
        if taken is None:
            taken = network.taken(network.best(network.values(inputs), network.allowed(seen)))
        return {
            "observation": inputs,
            "present": present.float(),
            "state": network.state(seen, inputs, present),
            "agents": {"greedy": taken},
        }


class _Chosen(nn.Module):
    """What the picks that were taken are worth to each agent: the sum of their utilities."""

    def forward(self, values: Tensor, taken: Tensor) -> Tensor:
        return (values * taken).sum(-1, keepdim=True)
