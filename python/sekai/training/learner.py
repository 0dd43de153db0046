"""Networks that learn from rollouts, with their optimiser: one for each policy that is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives.value.functional import generalized_advantage_estimate

from sekai.training.descent import Descent
from sekai.training.multi.group_rows import GroupRows
from sekai.training.normalisation import RewardScaler
from sekai.training.observations import is_action_mask
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.risk import risk_of
from sekai.training.rollout import Rollout
from sekai.training.shaping import Steps
from sekai.training.torchrl_modules import CriticModule, actor_module, critic_module

if TYPE_CHECKING:
    from sekai.training.on_policy import OnPolicyAgent

__all__ = ["Learner"]

JUDGED_ROWS = 4_096
"""Observations that are judged at once: more no longer fit the caches."""

JUDGED = "judged"


class Learner:
    """A policy and its critic, and what they learn with."""

    def __init__(
        self, agent: OnPolicyAgent, rows: Rollout | GroupRows, network: ActorCritic
    ) -> None:
        """Get ready to teach a network.

        Args:
            agent: who learns: it knows the loss, the settings, and what its user wants.
            rows: where what happened is read.
            network: what learns.
        """
        settings = agent.settings
        self.settings, self.shaping, self.rows, self.network = (
            settings, agent.shaping, rows, network
        )  # fmt: skip
        self.is_central = network.judge_inputs is not network.inputs
        self.reads_once = network.inputs.gather is None
        """Whether observations are read once for all that is learnt from them: windows that are
        looked up need not all fit."""
        self.risk = risk_of(settings.risk, settings.risk_weight, settings.risk_level, rows.count)
        self.scaler: RewardScaler | None = None
        if settings.normalise_rewards:
            self.scaler = RewardScaler(settings.discount, rows.count)
        actor, judge = actor_module(network.actor, self.reads_once), self._critic_module(network)
        optimiser = agent._optimiser(network)
        self.descent = Descent(
            agent._loss(actor, judge), network, optimiser, settings.gradient_norm
        )

    def state(self) -> dict[str, Any]:
        """What is needed to go on, beside the network."""
        return {
            "optimiser": self.descent.optimiser.state_dict(),
            "scaler": None if self.scaler is None else dict(self.scaler.state_dict()),
            "risk": None if self.risk is None else self.risk.state_dict(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.descent.optimiser.load_state_dict(state["optimiser"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        if self.risk is not None:
            self.risk.load_state_dict(state["risk"])

    def _critic_module(self, network: ActorCritic) -> CriticModule:
        if self.is_central:
            return critic_module(network.critic, JUDGED)
        return critic_module(network.critic, is_read=self.reads_once)

    @torch.no_grad()
    def batch(self) -> TensorDict:
        """The rollout with advantages, as samples in a row."""
        if isinstance(self.rows, GroupRows):
            return self._group_batch(self.rows)
        return self._whole_batch(self.rows)

    def _whole_batch(self, rows: Rollout) -> TensorDict:
        found = rows.observations()
        everything = {name: table.flatten(0, 1) for name, table in found.items()}
        self.network.inputs.learn(_part(everything, slice(-rows.count)))
        read = self._read(everything)
        terminated = torch.from_numpy(rows.terminated)
        done = terminated | torch.from_numpy(rows.truncated)
        steps = _steps(found, rows.rewards, rows.terminated, rows.truncated)
        values = self._values((rows.steps + 1) * rows.count, read).reshape(-1, rows.count)
        after = rows.next_values(values, self.network.critic)
        rewards = self._rewards(steps, done)
        advantage, target = self._advantages(values[:-1], after, rewards, done, terminated)
        seen = _part(read, slice(-rows.count))
        samples = self._samples(seen, rows.chosen, advantage, target, values)
        wanted = self.shaping.mask(steps)
        return samples if wanted is None else samples[torch.from_numpy(wanted).reshape(-1)]

    def _group_batch(self, rows: GroupRows) -> TensorDict:
        rows.read()
        acted = rows.acted.flatten()
        everything = {name: found.flatten(0, 1) for name, found in rows.seen.items()}
        before = _part(everything, slice(len(acted)))
        self.network.inputs.learn({name: found[acted] for name, found in before.items()})
        if self.is_central:
            self.network.judge_inputs.learn(rows.judged_by_all())
        read = self._read(everything)
        values = self._values(len(acted) + rows.count, read).reshape(-1, rows.count)
        after, known = rows.next_values(values, self.network.critic)
        truncated = rows.done & ~rows.terminated
        tables = (table.numpy() for table in (rows.rewards, rows.terminated, truncated))
        steps = _steps(rows.seen, *tables)
        rewards = self._rewards(steps, rows.done, rows.acted)
        advantage, target = self._advantages_of_acts(rows, values[:-1], after, rewards, known)
        seen = _part(read, slice(len(acted)))
        samples = self._samples(seen, rows.chosen, advantage, target, values)
        samples["place"] = torch.arange(len(acted))
        learnt, wanted = rows.acted & known, self.shaping.mask(steps)
        if wanted is not None:
            learnt = learnt & torch.from_numpy(wanted)
        return samples[learnt.flatten()]

    def _advantages_of_acts(
        self, rows: GroupRows, values: Tensor, after: Tensor, rewards: Tensor, known: Tensor
    ) -> tuple[Tensor, Tensor]:
        learnt = rows.acted & known
        tables = [table * learnt for table in (values, after, rewards)]
        # Steps at which nobody acted are left out, so that those before and after are neighbours.
        # Where it is not known what came of a step, nothing is passed on to those before it.
        order = torch.argsort(~rows.acted, dim=0, stable=True)
        tables += [rows.done | ~learnt, rows.terminated & learnt]
        found = self._advantages(*(table.gather(0, order) for table in tables))
        advantage, target = (torch.zeros_like(part).scatter_(0, order, part) for part in found)
        return advantage, target

    def _samples(
        self, seen: dict[str, Tensor], chosen: Tensor, advantage: Tensor, target: Tensor,
        values: Tensor,
    ) -> TensorDict:  # fmt: skip
        samples = {
            "observation": seen,
            "action": chosen.flatten(0, 1),
            "advantage": advantage.reshape(-1, 1),
            "value_target": target.reshape(-1, 1),
            "state_value": values[:-1].reshape(-1, 1),
        }
        return TensorDict(samples, batch_size=[advantage.numel()])

    def _advantages(
        self, values: Tensor, after: Tensor, rewards: Tensor, done: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        discount, trace = self.settings.discount, self.settings.trace
        tables = (table.unsqueeze(-1) for table in (values, after, rewards, done, terminated))
        # Step by step: rollouts are short, and a convolution costs more than so few additions.
        advantage, target = generalized_advantage_estimate(discount, trace, *tables, time_dim=0)
        return advantage.squeeze(-1), target.squeeze(-1)

    def _rewards(self, steps: Steps, done: Tensor, acted: Tensor | None = None) -> Tensor:
        """What is learnt from: as the user wants it, less what risk takes, of the usual size."""
        rewards = torch.from_numpy(self.shaping.rewards(steps))
        if self.risk is not None:
            rewards = self.risk.shaped(rewards, done, acted)
        if self.scaler is None:
            return rewards.float()
        self.scaler.learn(rewards, done, acted)
        scaled: Tensor = self.scaler(rewards)
        return scaled

    def _read(self, seen: dict[str, Tensor]) -> dict[str, Tensor]:
        """Observations as they are kept for learning."""
        if not self.reads_once:
            return seen
        masks = {name: rows for name, rows in seen.items() if is_action_mask(name)}
        return {**self.network.inputs(seen), **masks}

    def _values(self, count: int, read: Mapping[str, Tensor] | None = None) -> Tensor:
        """What everything seen is worth.

        Args:
            count: how many rows that is.
            read: the rows as they are kept for learning, if that is what the critic reads.
        """
        critic, places = self.network.critic, _places(count)
        if read is None or self.is_central:
            return torch.cat([critic(self.rows.judged(part)) for part in places])
        return torch.cat([critic(_part(read, part), self.reads_once) for part in places])

    @torch.no_grad()
    def log_probs(self, batch: TensorDict) -> Tensor:
        """How likely the policy as it is was to choose what was chosen."""
        seen, found = dict(batch["observation"].items()), []
        for part in _places(len(batch)):
            chances = self.network.actor.distribution(_part(seen, part), self.reads_once)
            found.append(chances.log_prob(batch["action"][part]))
        return torch.cat(found)

    def descend(self, samples: TensorDict) -> dict[str, Tensor]:
        """One step of the optimiser."""
        if self.is_central:
            samples[JUDGED] = self.rows.judged(samples["place"])
        return self.descent.step(samples)


def _part(rows: Mapping[str, Tensor], places: slice) -> dict[str, Tensor]:
    return {name: table[places] for name, table in rows.items()}


def _places(count: int) -> list[slice]:
    """So many rows, cut into as many as are judged at once."""
    firsts = range(0, count, JUDGED_ROWS)
    return [slice(first, min(first + JUDGED_ROWS, count)) for first in firsts]


def _steps(seen: Mapping[str, Tensor], rewards: Any, terminated: Any, truncated: Any) -> Steps:
    """What happened, as functions of users see it."""
    before = {name: table[:-1].numpy() for name, table in seen.items()}
    return Steps(before, rewards, terminated, truncated)
