"""Joint vector env: a multi-agent env with joint observations and actions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import SpaceError
from sekai.policy.actions import counts_of, flat_mask
from sekai.policy.observations import ACTION_MASK, ROOT
from sekai.spaces import Box, Dict, MultiBinary, Space
from sekai.training.actions import ActionMap, takes_info_masks
from sekai.vector.batching import Batcher, StepBuffers, map_arrays
from sekai.vector.infos import Infos
from sekai.vector.multi_agent import JointVecEnv, MultiAgentVecEnv, MultiAgentVecStepResult
from sekai.vector.native_envs import NativeAgentsVecEnv
from sekai.vector.vec_env import Ids, Options, Seeds

__all__ = [
    "ALIVE",
    "MASKS",
    "SEEN",
    "JointActions",
    "JointSpaces",
    "JointTrainingEnv",
    "observations_of",
]


class JointTrainingEnv(JointVecEnv):
    """Multi-agent vector env as a single-agent one, for storage and checkpoints.

    Observation: "seen" by agent; "masks", action masks of infos; "alive", agents that act next; and
        of the previous step "rewards", "terminated" and "truncated", with a number for each agent.
    Action: by agent.
    Reward: the sum over agents.
    Terminates: never; terminated agents are in "terminated".
    Truncates: when an episode is over; the final observation includes the last outcome.
    """

    def __init__(self, agents: MultiAgentVecEnv) -> None:
        super().__init__(agents)
        names = agents.possible_agents
        self.spaces = JointSpaces(
            {name: agents.observation_spaces[name] for name in names}, agents.action_spaces
        )
        self.agents, self.actions = self.spaces.agents, self.spaces.actions
        self.observation_space = self.spaces.observation_space
        self.action_space = self.spaces.action_space
        self.batcher = Batcher(self.observation_space)
        # Infos of native batches have no masks, and are not read in every step.
        self._reads_masks = not isinstance(agents, NativeAgentsVecEnv)
        self._own = {name: Batcher(space) for name, space in self.spaces.observation_spaces.items()}

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset every env."""
        result = self.inner.reset(seed=seed, options=options, ids=ids)
        rows = len(next(iter(result.alive.values())))
        joint = self.batcher.allocate(rows)
        joint[ALIVE][:] = self._table(result.alive)
        for name in PAID:
            joint[name][:] = 0
        for name in self.agents:
            map_arrays(np.copyto, joint[SEEN][name], result.observations[name])
        self._put_masks(joint, result.infos, joint[ALIVE])
        return VecResetResult(joint, result.infos)

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step all agents that are alive."""
        if ids is not None:
            raise ValueError(f"ids must be None: agents of all envs act together, got {ids!r}")
        result = self.inner.step(actions)
        if out is None:
            out = StepBuffers.allocate(self.batcher, self.num_envs)
        joint = out.observations
        for name in self.agents:
            map_arrays(np.copyto, joint[SEEN][name], result.observations[name])
        joint[ALIVE][:] = self._table(result.alive)
        self._put_masks(joint, result.infos, joint[ALIVE])
        for name in PAID:
            joint[name][:] = self._table(getattr(result, name))
        out.rewards[:] = joint["rewards"].sum(axis=1)
        out.terminated[:] = False
        out.truncated[:] = result.episode_over
        if out.final_observations is not None and result.episode_over.any():
            self._put_finals(result, joint, out.final_observations)
        return VecStepResult(joint, out.rewards, out.terminated, out.truncated, result.infos)

    def _put_finals(self, result: MultiAgentVecStepResult, joint: Any, finals: Any) -> None:
        over = np.flatnonzero(result.episode_over)
        last = _final_rows(result.infos, over)
        for name in PAID:
            finals[name][over] = joint[name][over]
        # Truncated agents would have acted next.
        finals[ALIVE][over] = joint["truncated"][over]
        lost = [index for index, row in enumerate(last) if row is None]
        if lost:
            # A failed env has no final observation: its outcome is unknown.
            for name in (*PAID, ALIVE):
                finals[name][over[lost]] = 0
        known = [index for index, row in enumerate(last) if row is not None]
        indices = over[known]
        self._put_final_masks(result.infos, over, finals)
        for name in self.agents:
            rows = self._own[name].stack([last[index][name] for index in known])
            map_arrays(_put(indices), finals[SEEN][name], rows)

    def _put_masks(self, joint: Any, infos: Any, alive: NDArray[Any]) -> None:
        """Write the action masks of infos; agents without a mask, or absent, may do anything."""
        if not self.spaces.masks:
            return
        for index, name in enumerate(self.agents):
            if name not in self.spaces.masks:
                continue
            rows = joint[MASKS][name]
            rows[:] = 1
            if not self._reads_masks:
                continue
            for env in np.flatnonzero(alive[:, index]).tolist():
                mask = _of(infos[env], name).get(ACTION_MASK)
                if mask is not None:
                    context = f" of {name!r} in env {env}"
                    rows[env] = flat_mask(self.spaces.action_spaces[name], mask, context)

    def _put_final_masks(self, infos: Any, over: NDArray[np.int64], finals: Any) -> None:
        """Write the action masks of final infos; invalid ones are ignored, as nobody acts there."""
        for name in self.spaces.masks:
            finals[MASKS][name][over] = 1
            for env in over.tolist() if self._reads_masks else ():
                mask = _of(_of(infos[env], FINAL_INFO), name).get(ACTION_MASK)
                with suppress(SpaceError):
                    finals[MASKS][name][env] = flat_mask(self.spaces.action_spaces[name], mask)

    def _table(self, by_agent: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        return np.stack([by_agent[name] for name in self.agents], axis=1)


def _of(info: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = info.get(key)
    return value if isinstance(value, Mapping) else {}


def _final_rows(infos: Any, over: NDArray[np.int64]) -> list[Any]:
    if isinstance(infos, Infos):
        return list(infos.values(over, FINAL_OBSERVATION))
    return [infos[index].get(FINAL_OBSERVATION) for index in over.tolist()]


def _put(indices: NDArray[np.int64]) -> Any:
    def put(array: NDArray[Any], rows: NDArray[Any]) -> None:
        array[indices] = rows

    return put


SEEN, ALIVE, MASKS = "seen", "alive", "masks"
PAID = ("rewards", "terminated", "truncated")
"""Outcome of the previous step for each agent, part of the joint observation."""


class JointSpaces:
    """Spaces of all agents, by agent and joint."""

    def __init__(
        self,
        observation_spaces: Mapping[str, Space[Any]],
        action_spaces: Mapping[str, Space[Any]],
    ) -> None:
        self.agents = list(observation_spaces)
        self.observation_spaces = dict(observation_spaces)
        self.action_spaces = {name: action_spaces[name] for name in self.agents}
        count = len(self.agents)
        self.masks = {
            name: MultiBinary(sum(counts_of(space)))
            for name, space in self.action_spaces.items()
            if takes_info_masks(self.observation_spaces[name], space)
        }
        """Spaces of the action masks in infos, of agents with discrete actions."""
        masks = {MASKS: Dict(self.masks)} if self.masks else {}
        self.observation_space = Dict(
            {
                SEEN: Dict(self.observation_spaces),
                **masks,
                ALIVE: MultiBinary(count),
                "rewards": Box(-np.inf, np.inf, (count,), np.float64),
                "terminated": MultiBinary(count),
                "truncated": MultiBinary(count),
            }
        )
        self.action_space = Dict(self.action_spaces)
        self.actions = JointActions(self.action_space)

    @classmethod
    def of(cls, observation_space: Space[Any], action_space: Space[Any]) -> JointSpaces | None:
        """Read joint spaces; None for spaces of a single agent."""
        if not isinstance(observation_space, Dict) or not isinstance(action_space, Dict):
            return None
        agent_spaces = observation_space.spaces.get(SEEN)
        if (
            not isinstance(agent_spaces, Dict)
            or agent_spaces.spaces.keys() != action_space.spaces.keys()
        ):
            raise SpaceError(f"unsupported action space {action_space!r}; wrap the env")
        return cls(agent_spaces.spaces, action_space.spaces)


class JointActions(ActionMap):
    """Action space mapping of all agents: concatenated policy outputs."""

    def __init__(self, space: Dict) -> None:
        self.space = space
        self.choices = ()
        self.by_agent = {name: ActionMap(own) for name, own in space.spaces.items()}
        self.size = sum(own.width for own in self.by_agent.values())
        self._ends = np.cumsum([own.width for own in self.by_agent.values()]).tolist()

    def of(self, chosen: Tensor, agent: str) -> Tensor:
        """Policy outputs of one agent; discrete ones are integers."""
        part = self._part(chosen, agent)
        return part.long() if self.by_agent[agent].is_choice else part

    def joined(self, chosen: Mapping[str, Tensor]) -> Tensor:
        """Concatenate the policy outputs of all agents."""
        return torch.cat([chosen[name].float() for name in self.by_agent], dim=-1)

    def all_used(self, used: Mapping[str, Tensor]) -> Tensor | None:
        """Concatenate masks of components in use; None if all are."""
        if not used:
            return None
        count = len(next(iter(used.values())))
        rest = {name: torch.ones(count, own.width) for name, own in self.by_agent.items()}
        return self.joined({**rest, **used}) != 0

    def to_env(self, chosen: Tensor, used: Tensor | None = None) -> Any:
        """Convert policy outputs to actions by agent."""
        return {
            name: own.to_env(
                self.of(chosen, name), None if used is None else self._part(used, name)
            )
            for name, own in self.by_agent.items()
        }

    def from_env(self, actions: Any) -> Tensor:
        """Convert actions by agent to policy outputs."""
        chosen = {name: own.from_env(actions[name]) for name, own in self.by_agent.items()}
        return self.joined(chosen)

    def _part(self, rows: Tensor, agent: str) -> Tensor:
        end = self._ends[list(self.by_agent).index(agent)]
        return rows[..., end - self.by_agent[agent].width : end]


def observations_of(joint: Mapping[str, Tensor], agent: str) -> dict[str, Tensor]:
    """Leaves of one agent in a joint observation, by the names of its own space."""
    whole = f"{SEEN}/{agent}"
    start = len(whole) + 1
    leaves = {name[start:]: rows for name, rows in joint.items() if name.startswith(f"{whole}/")}
    mask = joint.get(f"{MASKS}/{agent}")
    if mask is not None:
        leaves[ACTION_MASK] = mask
    return {ROOT: joint[whole], **leaves} if whole in joint else leaves
