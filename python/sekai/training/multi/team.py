"""The policies of several agents, as one that decides for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.training.action_masks import flat_mask
from sekai.training.multi.groups import Group
from sekai.training.multi.joint_spaces import SEEN, JointSpaces, seen_by
from sekai.training.observations import ACTION_MASK, is_action_mask, tensors_of
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.randomness import Randomness
from sekai.training.trained_policy import Chooser
from sekai.vector.batching import Batcher, map_arrays

__all__ = ["Team", "TeamPolicy"]


class Team(Chooser):
    """Chooses for all agents, with the policy of each group."""

    def __init__(
        self, groups: Sequence[Group], networks: Sequence[ActorCritic], spaces: JointSpaces
    ) -> None:
        super().__init__()
        self.groups = list(groups)
        self.networks = nn.ModuleList(networks)
        self.actions = spaces.actions

    def pairs(self) -> Iterator[tuple[Group, ActorCritic]]:
        """Every group with its network."""
        for group, network in zip(self.groups, self.networks, strict=True):
            assert isinstance(network, ActorCritic), "what a team is made of"
            yield group, network

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What all agents do, one after the other; of agents that are away, anything."""
        chosen: dict[str, Tensor] = {}
        for group, network in self.pairs():
            found = network.choose(_rows(group, observations), deterministic)
            chosen.update(zip(group.agents, found.chunk(len(group.agents)), strict=True))
        return self.actions.joined(chosen)

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Which numbers of what is chosen count; None for all."""
        counted: dict[str, Tensor] = {}
        for group, network in self.pairs():
            found = network.used(_rows(group, observations))
            if found is not None:
                counted.update(zip(group.agents, found.chunk(len(group.agents)), strict=True))
        return self.actions.all_used(counted)

    def leanings(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Those of all agents, one after the other."""
        found = [
            part
            for group, network in self.pairs()
            for part in network.leanings(_rows(group, observations)).chunk(len(group.agents))
        ]
        return torch.cat(found, dim=-1)


def _rows(group: Group, joint: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the agents of a group see, agent after agent."""
    each = [seen_by(joint, name) for name in group.agents]
    rows = {leaf: torch.cat([own[leaf] for own in each]) for leaf in each[0]}
    envs = len(next(iter(rows.values()))) // len(group.agents)
    return group.told(rows, group.numbers(envs))


class TeamPolicy:
    """Observations by agent in, actions by agent out."""

    def __init__(self, network: Chooser, spaces: JointSpaces, randomness: Randomness) -> None:
        self.network, self.randomness = network, randomness
        self.observation_spaces = spaces.observation_spaces
        self.action_spaces = spaces.action_spaces
        self.actions = spaces.actions
        self._seen = {name: Batcher(space) for name, space in self.observation_spaces.items()}
        self._done = {name: Batcher(space) for name, space in self.action_spaces.items()}

    def predict(
        self,
        observation: Mapping[str, Any],
        deterministic: bool = True,
        action_mask: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The actions for observations of one env, of the agents that are there.

        Args:
            observation: what is seen, by agent.
            deterministic: whether to take the likeliest, or to draw.
            action_mask: by agent, which picks are allowed; see `TrainedPolicy.predict`.
        """
        self._check_names(observation)
        for name, own in observation.items():
            why = self.observation_spaces[name].mismatch(own)
            if why is not None:
                raise SpaceError(f"the policy was trained on other observations of {name!r}: {why}")
        batch = {name: self._seen[name].stack([own]) for name, own in observation.items()}
        masks = None if action_mask is None else {k: [mask] for k, mask in action_mask.items()}
        actions = self.predict_batch(batch, deterministic, masks)
        return {name: self._done[name].rows(own)[0] for name, own in actions.items()}

    @torch.no_grad()
    def predict_batch(
        self,
        observations: Mapping[str, Any],
        deterministic: bool = True,
        action_mask: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Batches of actions for batches of observations, as a vector env gives and takes them.

        Args:
            observations: what is seen, by agent.
            deterministic: whether to take the likeliest, or to draw.
            action_mask: by agent, which picks are allowed in each env, one by one.
        """
        self._check_names(observations)
        if not observations:
            return {}
        count = len(next(iter(tensors_of(next(iter(observations.values()))).values())))
        joint = {
            name: observations[name] if name in observations else _nothing(batcher, count)
            for name, batcher in self._seen.items()
        }
        seen = tensors_of({SEEN: joint})
        if action_mask is not None:
            self._check_names(action_mask)
            seen = self._masked(seen, action_mask, count)
        if deterministic:
            actions = self._acted(seen, deterministic=True)
        else:
            with self.randomness:
                actions = self._acted(seen, deterministic=False)
        return {name: actions[name] for name in observations}

    def _acted(self, seen: dict[str, Tensor], deterministic: bool) -> Any:
        chosen = self.network.choose(seen, deterministic)
        return self.actions.to_env(chosen, self.network.used(seen))

    def _masked(
        self, seen: dict[str, Tensor], given: Mapping[str, Any], count: int
    ) -> dict[str, Tensor]:
        """What is seen, with other masks; agents that are given none keep theirs, or may do all."""
        found = dict(seen)
        for name, own in self.actions.each.items():
            if not own.is_choice:
                continue
            has_own = any(is_action_mask(leaf) for leaf in seen_by(seen, name))
            if name not in given and has_own:
                continue
            for leaf in seen_by(seen, name):
                if is_action_mask(leaf):
                    del found[f"{SEEN}/{name}/{leaf}"]
            masks = given.get(name, [None] * count)
            flat = np.stack([flat_mask(own.space, mask) for mask in masks])
            found[f"{SEEN}/{name}/{ACTION_MASK}"] = torch.from_numpy(flat)
        return found

    def _check_names(self, observations: Any) -> None:
        if not isinstance(observations, Mapping):
            raise SpaceError(
                f"observations by agent were wanted, found {type(observations).__name__}"
            )
        strange = [name for name in observations if name not in self._seen]
        if strange:
            raise SpaceError(f"agents among {list(self._seen)} were wanted, found {strange}")


def _nothing(batcher: Batcher, count: int) -> Any:
    batch = batcher.allocate(count)
    map_arrays(lambda array: array.fill(0), batch)
    return batch
