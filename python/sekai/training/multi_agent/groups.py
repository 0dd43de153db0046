"""Policy groups: agents that share a policy, their rollouts, networks and predictions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sekai.data.signature import DataSignature, checked_allow
from sekai.error import SpaceError
from sekai.policy.actions import flat_mask
from sekai.policy.observations import ACTION_MASK, Leaf, is_action_mask, leaves_of
from sekai.policy.settings import PolicySettings, require
from sekai.spaces import Space
from sekai.training.actions import ActionMap
from sekai.training.multi_agent.joint_env import (
    ALIVE,
    SEEN,
    JointActions,
    JointSpaces,
    JointTrainingEnv,
    observations_of,
)
from sekai.training.normalizers import Inputs
from sekai.training.observations import tensors_of
from sekai.training.policies.actor_critic import ActorCritic, inputs_of
from sekai.training.rng import RandomStream
from sekai.training.rollout import RolloutBuffer
from sekai.training.trained_policy import PolicyNetwork
from sekai.vector.batching import Batcher, map_arrays

__all__ = [
    "Group",
    "GroupRollout",
    "Share",
    "TeamInputs",
    "TeamNetwork",
    "TeamPolicy",
    "check_share",
    "groups_of",
    "joint_leaves",
]

Share = str | Mapping[str, Sequence[str]]
""""all", "none", or agents by group name."""

AGENT_INDEX = "which_agent"
"""Leaf with the index of the agent in its group."""


@dataclass(frozen=True)
class Group:
    """Agents of equal spaces that share a policy: rows of one batch, agent after agent."""

    name: str
    agents: tuple[str, ...]
    observation_space: Space[Any]
    action_space: Space[Any]
    has_indicator: bool
    """True if observations include the index of the agent."""

    hidden: tuple[str, ...] = ()
    """Observation leaves that the policy does not read."""

    @cached_property
    def leaves(self) -> dict[str, Leaf]:
        """Observation leaves of the policy."""
        indicator = {AGENT_INDEX: self.agent_index_leaf} if self.has_indicator else {}
        leaves = leaves_of(self.observation_space)
        return {**{name: leaves[name] for name in leaves if name not in self.hidden}, **indicator}

    @cached_property
    def actions(self) -> ActionMap:
        """Action space mapping."""
        return ActionMap(self.action_space)

    @property
    def agent_index_leaf(self) -> Leaf:
        """Leaf with the index of the agent."""
        return Leaf((), (len(self.agents),))

    def with_agent_index(
        self, observations: dict[str, Tensor], agent_index: Tensor
    ) -> dict[str, Tensor]:
        """Observations of the policy, with the indices of the agents."""
        return {**observations, AGENT_INDEX: agent_index} if self.has_indicator else observations

    def numbers(self, num_envs: int) -> Tensor:
        """Index of the agent of each row."""
        return torch.arange(len(self.agents)).repeat_interleave(num_envs)


def check_share(share: Any) -> None:
    """Raise `ValueError` for an invalid `share` setting."""
    is_word = isinstance(share, str) and share in ("all", "none")
    require(
        is_word or isinstance(share, Mapping),
        "share",
        "'all', 'none' or groups of agents by name",
        share,
    )


def groups_of(spaces: JointSpaces, share: Share, has_indicator: bool = True) -> list[Group]:
    """Group the agents of an env by shared policy.

    Args:
        spaces: spaces of the agents.
        share: "all" for one policy for all agents of equal spaces, "none" for one each, or agents
            by group name.
        has_indicator: add the index of the agent to the observations of shared policies.
    """
    if isinstance(share, Mapping):
        named = {name: tuple(agents) for name, agents in share.items()}
        _check_cover(named, spaces.agents)
    elif share == "none":
        named = {name: (name,) for name in spaces.agents}
    else:
        named = _by_spaces(spaces)
    return [_group(spaces, name, agents, has_indicator) for name, agents in named.items()]


def _by_spaces(spaces: JointSpaces) -> dict[str, tuple[str, ...]]:
    kinds: list[list[str]] = []
    for name in spaces.agents:
        for kind in kinds:
            if _are_alike(spaces, kind[0], name):
                kind.append(name)
                break
        else:
            kinds.append([name])
    if len(kinds) == 1:
        return {"all": tuple(kinds[0])}
    return {kind[0]: tuple(kind) for kind in kinds}


def _group(spaces: JointSpaces, name: str, agents: tuple[str, ...], has_indicator: bool) -> Group:
    first = agents[0]
    odd = [agent for agent in agents if not _are_alike(spaces, first, agent)]
    if odd:
        raise ValueError(
            f"agents of group {name!r} must have equal spaces to share a policy; those of "
            f"{first!r} and {odd[0]!r} differ: put them into separate groups"
        )
    return Group(
        name,
        agents,
        spaces.observation_spaces[first],
        spaces.action_spaces[first],
        has_indicator and len(agents) > 1,
    )


def _are_alike(spaces: JointSpaces, agent: str, other: str) -> bool:
    has_same_observations = bool(
        spaces.observation_spaces[agent] == spaces.observation_spaces[other]
    )
    return has_same_observations and bool(
        spaces.action_spaces[agent] == spaces.action_spaces[other]
    )


def _check_cover(named: Mapping[str, Sequence[str]], agents: Sequence[str]) -> None:
    listed = [agent for members in named.values() for agent in members]
    if sorted(listed) != sorted(agents) or not all(named.values()):
        raise ValueError(
            f"share must name each of the agents {list(agents)} once, in non-empty groups; got "
            f"{dict(named)}"
        )


PRESENT = "alive/mask"
"""Leaf of centralized critics with the mask of present agents."""


def joint_leaves(spaces: JointSpaces, group: Group) -> dict[str, Leaf]:
    """Leaves of a centralized critic: all observations, present agents, index of the agent."""
    joint = leaves_of(spaces.observation_space)
    leaves = {name: leaf for name, leaf in joint.items() if name.startswith(f"{SEEN}/")}
    leaves[PRESENT] = joint[ALIVE]
    if len(group.agents) > 1:
        leaves[AGENT_INDEX] = group.agent_index_leaf
    return leaves


class GroupRollout:
    """Rollout of a policy group, read from the joint rollout.

    Rows are agents of envs, agent after agent. Only steps at which an agent acted count, and of
    those only the ones with a known outcome: not the last before an absence that continues.
    """

    def __init__(
        self, world: JointTrainingEnv, rollout: RolloutBuffer, group: Group, central: bool
    ) -> None:
        self.world, self.rollout, self.group, self.is_central = world, rollout, group, central
        self.columns = torch.tensor([world.agents.index(name) for name in group.agents])
        self.count = len(group.agents) * world.num_envs
        self.agent_index = group.numbers(world.num_envs)

    def read(self) -> None:
        """Read the collected rollout."""
        joint = self.rollout.observations()
        by_agent = [observations_of(joint, name) for name in self.group.agents]
        rows = {leaf: torch.cat([own[leaf] for own in by_agent], dim=1) for leaf in by_agent[0]}
        times = self.rollout.steps + 1
        self.observations = self.group.with_agent_index(rows, self.agent_index.expand(times, -1))
        alive = joint[ALIVE][:, :, self.columns] != 0
        self.acted = self._by_row(alive[:-1])
        paid = {name: self._paid(joint, name) for name in ("rewards", "terminated", "truncated")}
        self.rewards = paid["rewards"]
        self.terminated = paid["terminated"] != 0
        self.done = self.terminated | (paid["truncated"] != 0)
        self.chosen = self._chosen()
        self._joint = {name: table for name, table in joint.items() if name.startswith(f"{SEEN}/")}
        self._joint[PRESENT] = joint[ALIVE]
        self._goes_on = self._by_row(self._after(joint, ALIVE)[:, :, self.columns]) != 0

    def critic_observations(self, indices: Tensor | slice) -> dict[str, Tensor]:
        """Observations of the critic by index, times and rows flattened."""
        if not self.is_central:
            return {name: rows.flatten(0, 1)[indices] for name, rows in self.observations.items()}
        if isinstance(indices, slice):
            indices = torch.arange((self.rollout.steps + 1) * self.count)[indices]
        rows, envs = indices % self.count, self.world.num_envs
        time_indices = indices // self.count * envs + rows % envs
        observations = {
            name: table.flatten(0, 1)[time_indices] for name, table in self._joint.items()
        }
        return self._with_agent_index(observations, rows // envs)

    def joint_observations(self) -> dict[str, Tensor]:
        """Observations of a centralized critic of all steps, once for each env."""
        observations = {name: table[:-1].flatten(0, 1) for name, table in self._joint.items()}
        return self._with_agent_index(
            observations, torch.zeros(len(observations[PRESENT]), dtype=torch.int64)
        )

    @torch.no_grad()
    def next_values(
        self, values: Tensor, value_function: Callable[[dict[str, Tensor]], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Value of the state after each step, and a mask where it is known.

        Args:
            values: values of all observations: times by rows, one more time than steps.
            value_function: value function.
        """
        after = values[1:].clone()
        for step, indices, finals in self.rollout.cuts:
            self._evaluate_finals(after[step], torch.from_numpy(indices), finals, value_function)
        known = self.done | self._goes_on
        upcoming, is_upcoming = values[-1], self._goes_on[-1]
        for step in reversed(range(self.rollout.steps)):
            is_away = self.acted[step] & ~known[step]
            # An absent agent continues where it returns.
            after[step] = torch.where(is_away, upcoming, after[step])
            known[step] |= is_away & is_upcoming
            is_over = torch.from_numpy(self.rollout.truncated[step]).repeat(len(self.columns))
            is_upcoming = self.acted[step] | (is_upcoming & ~is_over)
            upcoming = torch.where(self.acted[step], values[step], upcoming)
        return after, known

    def _evaluate_finals(
        self,
        after: Tensor,
        envs: Tensor,
        finals: dict[str, Tensor],
        value_function: Callable[[dict[str, Tensor]], Tensor],
    ) -> None:
        for number, name in enumerate(self.group.agents):
            agent_index = torch.full((len(envs),), number)
            if self.is_central:
                leaves = {leaf: finals[leaf] for leaf in self._joint if leaf != PRESENT}
                observations = self._with_agent_index(
                    {**leaves, PRESENT: finals[ALIVE]}, agent_index
                )
            else:
                observations = self.group.with_agent_index(
                    observations_of(finals, name), agent_index
                )
            after[number * self.world.num_envs + envs] = (
                value_function(observations).reshape(-1).cpu()
            )

    def _with_agent_index(
        self, observations: dict[str, Tensor], agent_index: Tensor
    ) -> dict[str, Tensor]:
        return (
            {**observations, AGENT_INDEX: agent_index}
            if len(self.group.agents) > 1
            else observations
        )

    def _paid(self, joint: dict[str, Tensor], name: str) -> Tensor:
        return self._by_row(self._after(joint, name)[:, :, self.columns])

    def _after(self, joint: dict[str, Tensor], name: str) -> Tensor:
        """Observations after each step, within the episode of the step."""
        after = joint[name][1:].clone()
        for step, indices, finals in self.rollout.cuts:
            after[step, torch.from_numpy(indices)] = finals[name]
        return after

    def _chosen(self) -> Tensor:
        actions = self.rollout.actions
        assert isinstance(actions, JointActions), "a rollout of several agents"
        parts = [actions.of(self.rollout.chosen, name) for name in self.group.agents]
        return torch.cat(parts, dim=1)

    @staticmethod
    def _by_row(table: Tensor) -> Tensor:
        """Reshape times by envs by agents to times by rows."""
        return table.transpose(1, 2).flatten(1)


class TeamInputs(nn.Module):
    """Joint observations to inputs by agent and leaf; moments are of present agents."""

    def __init__(
        self, spaces: JointSpaces, groups: Sequence[Group], settings: PolicySettings
    ) -> None:
        super().__init__()
        self.groups, self.agents = list(groups), list(spaces.agents)
        self.each = nn.ModuleList(inputs_of(group.leaves, settings) for group in groups)

    @property
    def readers(self) -> list[Inputs]:
        """Preprocessing of each group."""
        return [inputs for inputs in self.each if isinstance(inputs, Inputs)]

    @property
    def device(self) -> torch.device:
        """Device of the network, to which inputs are moved."""
        return self.readers[0].device

    @property
    def leaves(self) -> dict[str, Leaf]:
        """Leaves of all agents, by input name."""
        leaves_by_agent = {
            name: {f"{name}/{leaf}": kind for leaf, kind in group.leaves.items()}
            for group in self.groups
            for name in group.agents
        }
        return {leaf: kind for name in self.agents for leaf, kind in leaves_by_agent[name].items()}

    def leaves_of(self, agent: str) -> list[str]:
        """Leaf names of one agent, without prefix."""
        return [leaf for group in self.groups if agent in group.agents for leaf in group.leaves]

    def names(self, agent: str) -> list[str]:
        """Input names of one agent."""
        return [name for name in self.leaves if name.startswith(f"{agent}/")]

    def forward(self, joint: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs of all agents; action masks are passed through."""
        result: dict[str, Tensor] = {}
        for group, inputs in zip(self.groups, self.readers, strict=True):
            for number, name in enumerate(group.agents):
                observations = self._agent_observations(group, joint, name, number)
                masks = {
                    leaf: rows.to(inputs.device)
                    for leaf, rows in observations.items()
                    if is_action_mask(leaf)
                }
                agent_inputs = {**inputs(observations), **masks}
                result.update({f"{name}/{leaf}": numbers for leaf, numbers in agent_inputs.items()})
        return result

    @torch.no_grad()
    def update(self, joint: Mapping[str, Tensor]) -> None:
        """Update the normalizers with the observations of present agents."""
        for group, inputs in zip(self.groups, self.readers, strict=True):
            for number, name in enumerate(group.agents):
                is_present = joint[ALIVE][:, self.agents.index(name)] != 0
                if bool(is_present.any()):
                    observations = self._agent_observations(group, joint, name, number)
                    inputs.update({leaf: rows[is_present] for leaf, rows in observations.items()})

    @staticmethod
    def _agent_observations(
        group: Group, joint: Mapping[str, Tensor], name: str, number: int
    ) -> dict[str, Tensor]:
        observations = {
            leaf: rows
            for leaf, rows in observations_of(joint, name).items()
            if leaf in group.leaves or is_action_mask(leaf)
        }
        count = len(next(iter(observations.values())))
        return group.with_agent_index(observations, torch.full((count,), number))


class TeamNetwork(PolicyNetwork):
    """Networks of all policy groups, acting for all agents."""

    def __init__(
        self, groups: Sequence[Group], networks: Sequence[ActorCritic], spaces: JointSpaces
    ) -> None:
        super().__init__()
        self.groups = list(groups)
        self.networks = nn.ModuleList(networks)
        self.actions = spaces.actions

    def pairs(self) -> Iterator[tuple[Group, ActorCritic]]:
        """Groups with their networks."""
        for group, network in zip(self.groups, self.networks, strict=True):
            assert isinstance(network, ActorCritic), "built from these"
            yield group, network

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Concatenated actions of all agents; those of absent agents are arbitrary."""
        chosen: dict[str, Tensor] = {}
        for group, network in self.pairs():
            actions = network.choose(_rows(group, observations), deterministic)
            chosen.update(zip(group.agents, actions.chunk(len(group.agents)), strict=True))
        return self.actions.joined(chosen)

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of the action components in use; None for all."""
        counted: dict[str, Tensor] = {}
        for group, network in self.pairs():
            mask = network.used(_rows(group, observations))
            if mask is not None:
                counted.update(zip(group.agents, mask.chunk(len(group.agents)), strict=True))
        return self.actions.all_used(counted)

    def action_parameters(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Concatenated action parameters of all agents."""
        parameters = [
            part
            for group, network in self.pairs()
            for part in network.action_parameters(_rows(group, observations)).chunk(
                len(group.agents)
            )
        ]
        return torch.cat(parameters, dim=-1)


def _rows(group: Group, joint: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Observations of the agents of a group, agent after agent."""
    by_agent = [observations_of(joint, name) for name in group.agents]
    rows = {leaf: torch.cat([own[leaf] for own in by_agent]) for leaf in by_agent[0]}
    envs = len(next(iter(rows.values()))) // len(group.agents)
    return group.with_agent_index(rows, group.numbers(envs))


class TeamPolicy:
    """Policy of several agents: observations by agent to actions by agent."""

    def __init__(
        self,
        network: PolicyNetwork,
        spaces: JointSpaces,
        randomness: RandomStream,
        *,
        data_signature: DataSignature | None = None,
        allow: Collection[str] = (),
    ) -> None:
        self.network, self.randomness = network, randomness
        self.data_signature, self.allow = data_signature, checked_allow(allow)
        self.observation_spaces = spaces.observation_spaces
        self.action_spaces = spaces.action_spaces
        self.actions = spaces.actions
        self._observation_batchers = {
            name: Batcher(space) for name, space in self.observation_spaces.items()
        }
        self._action_batchers = {name: Batcher(space) for name, space in self.action_spaces.items()}

    def predict(
        self,
        observation: Mapping[str, Any],
        deterministic: bool = True,
        action_mask: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Actions for the observations of present agents of one env.

        Args:
            observation: observation by agent.
            deterministic: take the most likely actions instead of samples.
            action_mask: action mask by agent; see `TrainedPolicy.predict`.
        """
        self._check_names(observation)
        for name, own in observation.items():
            why = self.observation_spaces[name].mismatch(own)
            if why is not None:
                raise SpaceError(
                    f"observation of {name!r} does not match the space of the policy: {why}"
                )
        batch = {
            name: self._observation_batchers[name].stack([own]) for name, own in observation.items()
        }
        masks = None if action_mask is None else {k: [mask] for k, mask in action_mask.items()}
        actions = self.predict_batch(batch, deterministic, masks)
        return {name: self._action_batchers[name].rows(own)[0] for name, own in actions.items()}

    @torch.no_grad()
    def predict_batch(
        self,
        observations: Mapping[str, Any],
        deterministic: bool = True,
        action_mask: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Batches of actions for batches of observations of a vector env.

        Args:
            observations: batch of observations by agent.
            deterministic: take the most likely actions instead of samples.
            action_mask: action mask of each env, by agent.
        """
        self._check_names(observations)
        if not observations:
            return {}
        count = len(next(iter(tensors_of(next(iter(observations.values()))).values())))
        joint = {
            name: observations[name] if name in observations else _nothing(batcher, count)
            for name, batcher in self._observation_batchers.items()
        }
        leaves = tensors_of({SEEN: joint})
        if action_mask is not None:
            self._check_names(action_mask)
            leaves = self._masked(leaves, action_mask, count)
        if deterministic:
            actions = self._acted(leaves, deterministic=True)
        else:
            with self.randomness:
                actions = self._acted(leaves, deterministic=False)
        return {name: actions[name] for name in observations}

    def _acted(self, observations: dict[str, Tensor], deterministic: bool) -> Any:
        chosen = self.network.choose(observations, deterministic)
        return self.actions.to_env(chosen, self.network.used(observations))

    def _masked(
        self, observations: dict[str, Tensor], action_masks: Mapping[str, Any], count: int
    ) -> dict[str, Tensor]:
        """Observations with other action masks; agents without one keep theirs, or may do all."""
        result = dict(observations)
        for name, own in self.actions.by_agent.items():
            if not own.is_choice:
                continue
            has_own = any(is_action_mask(leaf) for leaf in observations_of(observations, name))
            if name not in action_masks and has_own:
                continue
            for leaf in observations_of(observations, name):
                if is_action_mask(leaf):
                    del result[f"{SEEN}/{name}/{leaf}"]
            masks = action_masks.get(name, [None] * count)
            flat = np.stack([flat_mask(own.space, mask) for mask in masks])
            result[f"{SEEN}/{name}/{ACTION_MASK}"] = torch.from_numpy(flat)
        return result

    def _check_names(self, observations: Any) -> None:
        if not isinstance(observations, Mapping):
            raise SpaceError(
                f"observations must be a mapping by agent, got {type(observations).__name__}"
            )
        strange = [name for name in observations if name not in self._observation_batchers]
        if strange:
            raise SpaceError(
                f"unknown agents {strange}; expected some of {list(self._observation_batchers)}"
            )


def _nothing(batcher: Batcher, count: int) -> Any:
    batch = batcher.allocate(count)
    map_arrays(lambda array: array.fill(0), batch)
    return batch
