"""Networks that learn from rollouts, with their optimiser: one for each policy that is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives.value.functional import vec_generalized_advantage_estimate

from sekai.training.actions import ActionMap
from sekai.training.multi.group_rows import GroupRows
from sekai.training.normalisation import RewardScaler
from sekai.training.observations import Leaf
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.rollout import Rollout
from sekai.training.torchrl_modules import actor_module, critic_module, sum_of_losses

if TYPE_CHECKING:
    from sekai.training.agent import Metrics
    from sekai.training.on_policy import OnPolicyAgent

__all__ = ["Learner"]

JUDGED_ROWS = 16_384
"""Observations that are judged at once, so that memory stays bounded."""

JUDGED = "judged"


class Learner:
    """A policy and its critic, and what they learn with."""

    def __init__(
        self,
        agent: OnPolicyAgent,
        rows: Rollout | GroupRows,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        judged: Mapping[str, Leaf] | None = None,
    ) -> None:
        """Build the networks.

        Args:
            agent: whose they are: it knows the loss and the settings.
            rows: where what happened is read.
            leaves: what the policy reads.
            actions: what it acts in.
            judged: what the critic reads, if it is something else.
        """
        self.settings, self.rows = agent.settings, rows
        self.network = ActorCritic(leaves, actions, self.settings.policy, judged)
        self.is_central = judged is not None
        self.scaler: RewardScaler | None = None
        if self.settings.normalise_rewards:
            count = rows.count if isinstance(rows, GroupRows) else rows.vec.num_envs
            self.scaler = RewardScaler(self.settings.discount, count)
        critic = critic_module(self.network.critic, JUDGED if self.is_central else "observation")
        self.loss = agent._loss(actor_module(self.network.actor), critic)
        self.optimiser = agent._optimiser(self.network)

    def state(self) -> dict[str, Any]:
        """What is needed to go on, beside the network."""
        return {
            "optimiser": self.optimiser.state_dict(),
            "scaler": None if self.scaler is None else dict(self.scaler.state_dict()),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.optimiser.load_state_dict(state["optimiser"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])

    @torch.no_grad()
    def batch(self) -> TensorDict:
        """The rollout with advantages, as samples in a row."""
        rows = self.rows
        if isinstance(rows, GroupRows):
            return self._group_batch(rows)
        seen = {name: found[:-1].flatten(0, 1) for name, found in rows.observations().items()}
        terminated = torch.from_numpy(rows.terminated)
        done = terminated | torch.from_numpy(rows.truncated)
        self._learn_moments(seen)
        values = self._values((rows.steps + 1) * rows.vec.num_envs).reshape(rows.steps + 1, -1)
        after = rows.next_values(values, self.network.critic)
        rewards = self._scaled(torch.from_numpy(rows.rewards), done)
        advantage, target = self._advantages(values[:-1], after, rewards, done, terminated)
        return self._samples(seen, rows.chosen, advantage, target, values)

    def _group_batch(self, rows: GroupRows) -> TensorDict:
        rows.read()
        acted = rows.acted.flatten()
        seen = {name: found[:-1].flatten(0, 1) for name, found in rows.seen.items()}
        self._learn_moments({name: found[acted] for name, found in seen.items()})
        values = self._values(len(acted) + rows.count).reshape(-1, rows.count)
        after, known = rows.next_values(values, self.network.critic)
        rewards = self._scaled(rows.rewards, rows.done, rows.acted)
        learnt = rows.acted & known
        tables = [table * learnt for table in (values[:-1], after, rewards)]
        # Steps at which nobody acted are left out, so that those before and after are neighbours.
        # Where it is not known what came of a step, nothing is passed on to those before it.
        order = torch.argsort(~rows.acted, dim=0, stable=True)
        tables += [rows.done | ~learnt, rows.terminated & learnt]
        found = self._advantages(*(table.gather(0, order) for table in tables))
        advantage, target = (torch.zeros_like(part).scatter_(0, order, part) for part in found)
        samples = self._samples(seen, rows.chosen, advantage, target, values)
        samples["place"] = torch.arange(len(acted))
        return samples[learnt.flatten()]

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
        tables = (table.unsqueeze(-1) for table in (values, after, rewards, done, terminated))
        advantage, target = vec_generalized_advantage_estimate(
            self.settings.discount, self.settings.trace, *tables, time_dim=0
        )
        return advantage.squeeze(-1), target.squeeze(-1)

    def _learn_moments(self, seen: dict[str, Tensor]) -> None:
        network = self.network
        if network.normaliser is not None and len(next(iter(seen.values()))):
            network.normaliser.learn(seen)
        if network.judge_normaliser is not None and isinstance(self.rows, GroupRows):
            network.judge_normaliser.learn(self.rows.judged_by_all())

    def _scaled(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> Tensor:
        if self.scaler is None:
            return rewards.float()
        self.scaler.learn(rewards, done, acted)
        scaled: Tensor = self.scaler(rewards)
        return scaled

    def _values(self, count: int) -> Tensor:
        """What everything seen is worth."""
        firsts = range(0, count, JUDGED_ROWS)
        places = [slice(first, min(first + JUDGED_ROWS, count)) for first in firsts]
        return torch.cat([self.network.critic(self.rows.judged(part)) for part in places])

    def descend(self, samples: TensorDict) -> Metrics:
        """One step of the optimiser."""
        if self.is_central:
            samples[JUDGED] = self.rows.judged(samples["place"])
        found = self.loss(samples)
        self.optimiser.zero_grad()
        sum_of_losses(found).backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(
            self.network.parameters(), self.settings.gradient_norm
        )
        self.optimiser.step()
        told = {name: float(value.detach()) for name, value in found.items() if value.numel() == 1}
        return {**told, "gradient_norm": float(norm)}
