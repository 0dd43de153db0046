"""The policies of several agents, as one that decides for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.training.multi.groups import Group
from sekai.training.multi.joint_world import SEEN, JointWorld, seen_by
from sekai.training.observations import tensors_of
from sekai.training.randomness import Randomness
from sekai.training.trained_policy import Chooser
from sekai.vector.batching import Batcher, map_arrays

__all__ = ["Team", "TeamPolicy"]


class Team(Chooser):
    """Chooses for all agents, with the policy of each group."""

    def __init__(
        self, groups: Sequence[Group], networks: Sequence[Chooser], world: JointWorld
    ) -> None:
        super().__init__()
        self.groups = list(groups)
        self.networks = nn.ModuleList(networks)
        self.actions = world.actions

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What all agents do, one after the other; of agents that are away, anything."""
        chosen: dict[str, Tensor] = {}
        for group, network in zip(self.groups, self.networks, strict=True):
            each = [seen_by(observations, name) for name in group.agents]
            rows = {leaf: torch.cat([own[leaf] for own in each]) for leaf in each[0]}
            envs = len(next(iter(rows.values()))) // len(group.agents)
            told = group.told(rows, group.numbers(envs))
            found: Tensor = network.choose(told, deterministic)  # type: ignore[operator]
            chosen.update(zip(group.agents, torch.split(found, envs), strict=True))
        return self.actions.joined(chosen)


class TeamPolicy:
    """Observations by agent in, actions by agent out."""

    def __init__(self, network: Chooser, world: JointWorld, randomness: Randomness) -> None:
        self.network, self.randomness = network, randomness
        self.observation_spaces = dict(world.inner.observation_spaces)
        self.action_spaces = dict(world.inner.action_spaces)
        self.actions = world.actions
        self._seen = {name: Batcher(space) for name, space in self.observation_spaces.items()}
        self._done = {name: Batcher(space) for name, space in self.action_spaces.items()}

    def predict(self, observation: Mapping[str, Any], deterministic: bool = True) -> dict[str, Any]:
        """The actions for observations of one env, of the agents that are there."""
        self._check_names(observation)
        for name, own in observation.items():
            why = self.observation_spaces[name].mismatch(own)
            if why is not None:
                raise SpaceError(f"the policy was trained on other observations of {name!r}: {why}")
        batch = {name: self._seen[name].stack([own]) for name, own in observation.items()}
        actions = self.predict_batch(batch, deterministic)
        return {name: self._done[name].rows(own)[0] for name, own in actions.items()}

    @torch.no_grad()
    def predict_batch(
        self, observations: Mapping[str, Any], deterministic: bool = True
    ) -> dict[str, Any]:
        """Batches of actions for batches of observations, as a vector env gives and takes them."""
        self._check_names(observations)
        if not observations:
            return {}
        count = len(next(iter(tensors_of(next(iter(observations.values()))).values())))
        joint = {
            name: observations[name] if name in observations else _nothing(batcher, count)
            for name, batcher in self._seen.items()
        }
        seen = tensors_of({SEEN: joint})
        if deterministic:
            chosen = self.network.choose(seen, deterministic=True)
        else:
            with self.randomness:
                chosen = self.network.choose(seen, deterministic=False)
        actions = self.actions.to_env(chosen)
        return {name: actions[name] for name in observations}

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
