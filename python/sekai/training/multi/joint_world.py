"""Several agents as one: every step of all of them in one row of storage."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import SpaceError
from sekai.training.action_masks import flat_mask
from sekai.training.multi.joint_spaces import ALIVE, MASKS, PAID, SEEN, JointSpaces
from sekai.training.observations import ACTION_MASK
from sekai.vector.autoreset import FINAL_INFO, FINAL_OBSERVATION
from sekai.vector.batching import Batcher, map_arrays
from sekai.vector.buffers import StepBuffers
from sekai.vector.infos import Infos
from sekai.vector.joined import JoinedVec
from sekai.vector.multi_agent import MultiAgentVecEnv, MultiAgentVecStepResult
from sekai.vector.native_agents import NativeAgentsVecEnv
from sekai.vector.seeding import Seeds
from sekai.vector.vec_env import Ids, Options

__all__ = ["JointWorld"]


class JointWorld(JoinedVec):
    """A multi-agent vector env that is stored and kept like any other.

    Observation: "seen" by agent; "masks", what their infos allow; "alive", who must act now; and
        of the step before "rewards", "terminated" and "truncated", with a number for each agent.
    Action: by agent.
    Reward: the sum over agents.
    Terminates: never; who has nothing before them is told so in "terminated".
    Truncates: when an episode is over. Its last observation, with what was paid, is the final one.
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
        # Infos of native batches are numbers: nothing is built of them at every step.
        self._reads_masks = not isinstance(agents, NativeAgentsVecEnv)
        self._own = {name: Batcher(space) for name, space in self.spaces.observation_spaces.items()}

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env."""
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
        """Let every agent alive act once."""
        if ids is not None:
            raise ValueError(f"agents of all envs act together, ids were given: {ids!r}")
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
        # Nobody has to act in what is over; who was cut off would have.
        finals[ALIVE][over] = joint["truncated"][over]
        lost = [place for place, row in enumerate(last) if row is None]
        if lost:
            # An env that broke down leaves nothing to look at: how its steps went is not known.
            for name in (*PAID, ALIVE):
                finals[name][over[lost]] = 0
        kept = [place for place, row in enumerate(last) if row is not None]
        places = over[kept]
        self._put_final_masks(result.infos, over, finals)
        for name in self.agents:
            rows = self._own[name].stack([last[place][name] for place in kept])
            map_arrays(_put(places), finals[SEEN][name], rows)

    def _put_masks(self, joint: Any, infos: Any, alive: NDArray[Any]) -> None:
        """Write what infos allow each agent; who is told nothing, or is away, may do anything."""
        if not self.spaces.masks:
            return
        for place, name in enumerate(self.agents):
            if name not in self.spaces.masks:
                continue
            rows = joint[MASKS][name]
            rows[:] = 1
            if not self._reads_masks:
                continue
            for env in np.flatnonzero(alive[:, place]).tolist():
                mask = _of(infos[env], name).get(ACTION_MASK)
                if mask is not None:
                    whose = f" of {name!r} in env {env}"
                    rows[env] = flat_mask(self.spaces.action_spaces[name], mask, whose)

    def _put_final_masks(self, infos: Any, over: NDArray[np.int64], finals: Any) -> None:
        """Write what last infos allow; nobody acts there, so that nothing is as good as all."""
        for name in self.spaces.masks:
            finals[MASKS][name][over] = 1
            for env in over.tolist() if self._reads_masks else ():
                mask = _of(_of(infos[env], FINAL_INFO), name).get(ACTION_MASK)
                with suppress(SpaceError):
                    finals[MASKS][name][env] = flat_mask(self.spaces.action_spaces[name], mask)

    def _table(self, by_agent: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        return np.stack([by_agent[name] for name in self.agents], axis=1)


def _of(info: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = info.get(key)
    return found if isinstance(found, Mapping) else {}


def _final_rows(infos: Any, over: NDArray[np.int64]) -> list[Any]:
    if isinstance(infos, Infos):
        return list(infos.values(over, FINAL_OBSERVATION))
    return [infos[index].get(FINAL_OBSERVATION) for index in over.tolist()]


def _put(places: NDArray[np.int64]) -> Any:
    def put(array: NDArray[Any], rows: NDArray[Any]) -> None:
        array[places] = rows

    return put
