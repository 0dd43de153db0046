"""Learning from everything that is remembered: what DDPG and SAC share."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives import SoftUpdate

from sekai.error import SpaceError
from sekai.training.actions import ActionMap
from sekai.training.agent import Agent
from sekai.training.agent_settings import AgentSettings
from sekai.training.descent import check_length
from sekai.training.metrics import Metrics, mean_metrics
from sekai.training.normalisation import RewardScaler
from sekai.training.observations import Leaf
from sekai.training.off_policy_network import OffPolicyNetwork
from sekai.training.policies.inputs import Gather
from sekai.training.policies.squashed import PreciseActor, SquashedActor
from sekai.training.randomness import Portion, uniform
from sekai.training.replay import Replay
from sekai.training.risk import RiskKind, Volatility
from sekai.training.schedules import scheduled
from sekai.training.settings import require
from sekai.training.shaping import Steps
from sekai.training.torchrl_modules import sum_of_losses
from sekai.vector.seeding import Seeds

__all__ = ["ActorSettings", "OffPolicyAgent", "OffPolicySettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OffPolicySettings(AgentSettings):
    """How an agent learns from what it remembers."""

    num_envs: int = 16
    learning_rate: float = 1e-3
    """Of whatever judges what actions are worth."""

    gradient_norm: float = 10.0
    rollout_steps: int = 32
    """Steps of each env in an iteration."""

    steps_per_update: int = 1
    """Steps of each env between two rounds of updates."""

    updates: int = 1
    """Updates in a round."""

    batch_size: int = 256
    """Steps that are drawn for an update."""

    memory: int = 200_000
    """Steps of single envs that are remembered."""

    keep_memory: bool = True
    """Whether what is remembered is saved with the agent, so that training goes on bit for bit;
    without it, training that goes on gathers anew before it learns on."""

    warm_up: int = 2_000
    """Steps of single envs that are taken at random, and not learnt from before they are over."""

    target_rate: float = 0.005
    """How far the networks that judge the future follow those that learn, with every update."""

    risk: RiskKind = "none"
    """What is weighed against the mean return: "volatility", the variance of rewards. Drawdowns and
    tails depend on the path of an episode, which steps drawn from replay do not have."""

    risk_weight: float = 0.5
    """How much it weighs, in the units of rewards as the env gives them. Only with a risk."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("rollout_steps", "steps_per_update", "updates", "batch_size", "memory")
        require(self.warm_up >= 0, "warm_up", "0 or more", self.warm_up)
        most = max(self.warm_up, self.batch_size)
        require(self.memory >= most, "memory", f"room for warm_up and batch_size, at least {most}",
                self.memory)  # fmt: skip
        require(self.steps_per_update <= self.rollout_steps, "steps_per_update",
                f"at most rollout_steps, {self.rollout_steps}", self.steps_per_update)  # fmt: skip
        require(self.risk in ("none", "volatility"), "risk",
                "'none' or 'volatility' where steps are drawn from replay: 'drawdown' and 'cvar' "
                "need whole episodes, use PPO or A2C", self.risk)  # fmt: skip
        weighs = 0.0 <= self.risk_weight < math.inf
        require(weighs, "risk_weight", "finite, 0 or more", self.risk_weight)
        require(0 < self.target_rate <= 0.5, "target_rate", "above 0 and at most 0.5",
                self.target_rate)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorSettings(OffPolicySettings):
    """How an agent learns whose actor follows what critics say."""

    actor_rate: float = 0.3
    """How much slower than the critics the actor learns: at first they know nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_positive("actor_rate")


class OffPolicyAgent(Agent):
    """Acts, remembers, and learns from whatever it remembers."""

    settings_type: ClassVar[type[AgentSettings]] = OffPolicySettings
    settings: OffPolicySettings
    actor_kind: ClassVar[type[PreciseActor] | type[SquashedActor]]
    network: OffPolicyNetwork

    def _build(self) -> None:
        settings = self.settings
        self._check_actions()
        self.scaler: RewardScaler | None = None
        if settings.normalise_rewards:
            self.scaler = RewardScaler(settings.discount, self.vec.num_envs)
        self._weigh_risk(1)
        # Rounded up: what is asked for has room, whatever the number of envs.
        steps = max(-(-settings.memory // self.vec.num_envs), settings.rollout_steps)
        self.replay = Replay(self.vec, self.actions, steps)
        self.network = self.make_network(self.leaves, self.actions, settings, self.gather)
        self.loss = self._loss(list(self.network.inputs.leaves))
        self.loss.make_value_estimator(gamma=settings.discount)
        self.targets = SoftUpdate(self.loss, tau=settings.target_rate)
        self.network.take_over(self.loss)
        self.groups = [[one for one in group if one.requires_grad] for group in self._groups()]
        pairs = zip(self.groups, self._rate_shares(), strict=True)
        rates = [{"params": group, "share": share} for group, share in pairs]
        self.optimiser = torch.optim.Adam(rates, settings.learning_rate)

    def _weigh_risk(self, count: int) -> None:
        """Get ready to weigh the risk of what so many are paid."""
        is_wanted = self.settings.risk == "volatility"
        self.risks = [Volatility(self.settings.risk_weight) for _ in range(count * is_wanted)]

    def _check_actions(self) -> None:
        name, space = type(self).__name__, self.vec.action_space
        if self.actions.is_choice:
            raise SpaceError(f"{name} chooses numbers, found {space!r}: use PPO or A2C")
        if not self.actions.is_bounded:
            raise SpaceError(
                f"{name} acts between bounds, found {space!r}: wrap the env in RescaleAction or "
                "TransformAction, or use PPO or A2C"
            )

    @classmethod
    def make_network(
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> OffPolicyNetwork:
        """What acts, on its own, before it has learnt."""
        return OffPolicyNetwork(leaves, actions, settings.policy, cls.actor_kind, gather)

    @abstractmethod
    def _loss(self, names: list[str]) -> Any:
        """The TorchRL loss of the algorithm, for networks that read inputs of these names."""

    @abstractmethod
    def _groups(self) -> list[list[torch.nn.Parameter]]:
        """The actor, the critics and what else is learnt; the gradients of each are cut alone."""

    def _rate_shares(self) -> list[float]:
        """For each group, what the learning rate is multiplied by."""
        return [1.0] * len(self.groups)

    def _explore(self, seen: dict[str, Tensor]) -> Tensor:
        """What to do while learning."""
        return self.network.choose(seen, deterministic=False)

    @property
    def iteration_steps(self) -> int:
        """Steps of single envs in an iteration."""
        return self.settings.rollout_steps * self.vec.num_envs

    def _start(self, seed: Seeds) -> None:
        self.replay.begin(seed)

    def _iterate(self) -> Metrics:
        settings = self.settings
        self._set_rates()
        told: list[Metrics] = []
        envs, stride = self.vec.num_envs, settings.steps_per_update
        for first in range(0, settings.rollout_steps, stride):
            steps = range(first, min(first + stride, settings.rollout_steps))
            self._let_act([self.steps + step * envs for step in steps])
            self._shape(len(steps))
            is_due = len(steps) == stride and self.replay.is_open
            if is_due and len(self.replay) >= max(settings.warm_up, settings.batch_size):
                self._know_risk()
                told += [self._update() for _ in range(settings.updates)]
        self._learn_scales()
        return mean_metrics(told)

    def _play(self, moments: Sequence[int]) -> None:
        for place, steps in enumerate(moments):
            result = self._act(steps)
            if self._watch is not None:
                self._watch(result, place)

    def _shape(self, count: int) -> None:
        """Give the latest steps the rewards to learn from, and say which are learnt from."""
        if self.shaping.is_plain:
            return
        replay, rows = self.replay, self.replay.latest(count)
        steps = Steps(
            replay.tables(rows), replay.rewards[rows], replay.terminated[rows],
            replay.truncated[rows],
        )  # fmt: skip
        wanted = self.shaping.mask(steps)
        replay.rewards[rows] = self.shaping.rewards(steps)
        if wanted is not None:
            replay.filter(rows, wanted[..., None])

    def _know_risk(self) -> None:
        """Before the first update, learn the mean reward of all that is remembered."""
        if self.risks and all(risk.mean is None for risk in self.risks):
            self._learn_risk(self.replay.steps)

    def _learn_risk(self, count: int) -> None:
        """Take in the mean reward of the latest steps."""
        for risk in self.risks:
            risk.learn(torch.from_numpy(self.replay.rewards[self.replay.latest(count)]))

    def _charged(self, rewards: Tensor) -> Tensor:
        """Rewards, less what risk takes from them."""
        return self.risks[0].charged(rewards) if self.risks else rewards

    def _played(self, steps: int) -> dict[str, Any]:
        return {**self.replay.played(steps), "told": self.shaping.told()}

    def _take_played(self, parts: Sequence[tuple[Portion, dict[str, Any]]]) -> None:
        for step in range(len(parts[0][1]["rewards"])):
            self.replay.take(parts, step)
            self._note_episodes()
        if self._watch is not None:
            self.shaping.take_told([part["told"] for _, part in parts])

    def _acting_state(self) -> dict[str, Any]:
        return self.replay.moment()

    def _load_acting_state(self, state: Mapping[str, Any]) -> None:
        self.replay.load_moment(state)

    def _worker_settings(self, num_envs: int) -> OffPolicySettings:
        # A worker acts, and remembers no more than it must.
        memory = max(self.settings.warm_up, self.settings.batch_size)
        return self.settings.replaced(num_envs=num_envs, memory=memory)

    @torch.no_grad()
    def _act(self, steps: int) -> Any:
        if steps < self.settings.warm_up:
            numbers = uniform((self.vec.num_envs, self.actions.width)) * 2 - 1
            chosen = numbers * self.actions.spread_share
        else:
            chosen = self._explore(self.replay.seen())
        result = self.replay.step(chosen, self.network.used(self.replay.seen()))
        self._note_episodes()
        return result

    def _note_episodes(self) -> None:
        row = self.replay.latest(1)[0]
        done = self.replay.terminated[row] | self.replay.truncated[row]
        self.episodes.add(self.replay.rewards[row], done)

    def _set_rates(self) -> None:
        settings = self.settings
        schedule, share = settings.learning_rate_schedule, self.schedule_share
        rate = scheduled(settings.learning_rate, schedule, share)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["share"]

    def _learn_scales(self) -> None:
        """Take in how large observations and rewards of this iteration were."""
        rows = self.replay.latest(self.settings.rollout_steps)
        self.network.inputs.learn(self.replay.observations(rows))
        self._learn_risk(len(rows))
        if self.scaler is not None:
            done = self.replay.terminated[rows] | self.replay.truncated[rows]
            rewards = torch.from_numpy(self.replay.rewards[rows])
            self.scaler.learn(self._charged(rewards), torch.from_numpy(done))

    def _update(self) -> Metrics:
        """One step of the optimiser, and one of the networks that follow."""
        found = self.loss(self._samples())
        self.optimiser.zero_grad()
        sum_of_losses(found).backward()  # type: ignore[no-untyped-call]
        for group in self.groups:
            check_length(torch.nn.utils.clip_grad_norm_(group, self.settings.gradient_norm))
        self.optimiser.step()
        self.targets.step()
        return {name: float(value.detach().float().mean()) for name, value in found.items()}

    @torch.no_grad()
    def _samples(self) -> TensorDict:
        drawn = self.replay.sample(self.settings.batch_size)
        rewards, terminated = self._charged(drawn["reward"]), drawn["terminated"].unsqueeze(-1)
        scaled = rewards.float() if self.scaler is None else self.scaler(rewards)
        content = {
            "observation": self.network.inputs(drawn["observation"]),
            "action": drawn["action"],
            "next": {
                "observation": self.network.inputs(drawn["next"]),
                "reward": scaled.unsqueeze(-1),
                "terminated": terminated,
                "done": terminated | drawn["truncated"].unsqueeze(-1),
            },
        }
        return TensorDict(content, batch_size=[self.settings.batch_size])

    def _network_loaded(self) -> None:
        # What judges the future begins from what was loaded, not from what was drawn at first.
        self.targets = SoftUpdate(self.loss, tau=self.settings.target_rate)

    def _learning_state(self) -> dict[str, Any]:
        return {
            "optimiser": self.optimiser.state_dict(),
            "scaler": None if self.scaler is None else dict(self.scaler.state_dict()),
            "risks": [risk.state_dict() for risk in self.risks],
            "targets": self._target_state(),
            "replay": self.replay.state(self.settings.keep_memory),
        }

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        self.optimiser.load_state_dict(state["optimiser"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        for risk, kept in zip(self.risks, state["risks"], strict=True):
            risk.load_state_dict(kept)
        with torch.no_grad():
            for name, weights in self._target_state().items():
                weights.copy_(state["targets"][name])
        self.replay.load_state(state["replay"])

    def _target_state(self) -> dict[str, Tensor]:
        buffers = dict(self.loss.named_buffers())
        return {name: one for name, one in buffers.items() if name.startswith("target_")}
