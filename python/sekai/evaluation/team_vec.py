"""Envs of several agents as envs of one that acts for all: what players and tapes know."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sekai.core.result import VecResetResult, VecStepResult
from sekai.spaces import Dict
from sekai.vector.autoreset import FINAL_INFO
from sekai.vector.buffers import StepBuffers
from sekai.vector.infos import DictInfos
from sekai.vector.joined import JoinedVec
from sekai.vector.multi_agent import MultiAgentVecEnv
from sekai.vector.seeding import Seeds
from sekai.vector.vec_env import Ids, Options
from sekai.vector.wrapper import VecWrapper

__all__ = ["Seat", "TeamVec", "told_of"]

Info = dict[str, Any]

ACTION_MASK = "action_mask"
"""Under this key infos of a team have the masks of all agents that are told one, by agent."""


class TeamVec(JoinedVec):
    """Many envs of several agents.

    Observation: by agent; zeros of agents that have left.
    Action: by agent; those of agents that have left count for nothing.
    Reward: the sum over agents.
    Terminates: never, since agents end one by one.
    Truncates: when no agent is left.
    """

    def __init__(self, inner: MultiAgentVecEnv) -> None:
        super().__init__(inner)
        self.agents = list(inner.possible_agents)
        self.observation_space = Dict(dict(inner.observation_spaces))
        self.action_space = Dict(dict(inner.action_spaces))
        self._keys: dict[str, list[str]] = {}

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env."""
        result = self.inner.reset(seed=seed, options=options, ids=ids)
        first = result.infos[0]
        self._keys = {name: list(first.get(name, ())) for name in self.agents}
        return VecResetResult(result.observations, self._infos(result.infos))

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let every agent that is left act once."""
        if ids is not None or out is not None:
            raise ValueError("agents of all envs act together, into arrays of their own")
        result = self.inner.step(actions)
        rewards = np.sum([result.rewards[name] for name in self.agents], axis=0)
        never = np.zeros(self.num_envs, np.bool_)
        return VecStepResult(
            result.observations, rewards, never, result.episode_over, self._infos(result.infos)
        )

    def _infos(self, infos: Sequence[Info]) -> DictInfos:
        return DictInfos([self._flat(info) for info in infos])

    def _flat(self, info: Mapping[str, Any]) -> Info:
        """What is told of all agents in one dict; NaN of those who have left."""
        found: Info = {
            _key(name, key): info[name].get(key, math.nan) if name in info else math.nan
            for name, keys in self._keys.items()
            for key in keys
            if key != ACTION_MASK
        }
        masks = {name: _told(info, name)[ACTION_MASK] for name in self.agents
                 if ACTION_MASK in _told(info, name)}  # fmt: skip
        if masks:
            found[ACTION_MASK] = masks
        return {**found, FINAL_INFO: self._flat(info[FINAL_INFO])} if FINAL_INFO in info else found


def _told(info: Mapping[str, Any], agent: str) -> Mapping[str, Any]:
    found = info.get(agent)
    return found if isinstance(found, Mapping) else {}


class Seat(VecWrapper):
    """The envs as one of the agents sees them; nobody steps them from here."""

    def __init__(self, team: TeamVec, agent: str) -> None:
        super().__init__(team)
        self._observation_space = team.inner.observation_spaces[agent]
        self._action_space = team.inner.action_spaces[agent]


def told_of(agent: str, infos: Mapping[str, Any]) -> dict[str, Any]:
    """What infos of all agents tell of one, by the names that it would see alone."""
    start = _key(agent, "")
    return {key[len(start) :]: value for key, value in infos.items() if key.startswith(start)}


def _key(agent: str, key: str) -> str:
    return f"{agent}/{key}"
