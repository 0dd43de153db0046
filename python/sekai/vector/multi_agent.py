"""Multi-agent vector envs: arrays by agent, with a row per env."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION, Autoreset, carried_info, reset_info
from sekai.core.base import Closeable
from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import (
    MAResetResult,
    MAStepResult,
    ResetResult,
    StepResult,
    VecResetResult,
    VecStepResult,
    _ByValue,
)
from sekai.core.wrapper import BaseWrapper
from sekai.error import InvalidActionError
from sekai.spaces import Box, Dict, MultiBinary, Space
from sekai.vector.asyncio_env import AsyncVecEnv
from sekai.vector.batching import Batcher
from sekai.vector.group import RESTART
from sekai.vector.infos import Infos
from sekai.vector.messages import CloudPickled
from sekai.vector.proc import ProcVecEnv
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import Ids, Options, Seeds, VecEnv

BACKENDS = {"sync": SyncVecEnv, "async": AsyncVecEnv, "proc": ProcVecEnv}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MultiAgentVecResetResult(_ByValue):
    """Result of resetting N multi-agent envs, by agent name."""

    observations: dict[str, Any]
    alive: dict[str, NDArray[np.bool_]]
    """Flags of envs in which the agent is alive and must act in the next step."""

    infos: Sequence[dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MultiAgentVecStepResult(_ByValue):
    """Result of one step of N multi-agent envs, by agent name.

    Rows of envs in which the agent did not take part are zero. `infos[i]` is by agent name; at the
    end of an episode it also has `final_observation` (by agent) and `final_info`, and an agent's
    info combines its last step and the reset.
    """

    observations: dict[str, Any]
    rewards: dict[str, NDArray[np.float64]]
    terminated: dict[str, NDArray[np.bool_]]
    truncated: dict[str, NDArray[np.bool_]]
    alive: dict[str, NDArray[np.bool_]]
    """Flags of envs in which the agent is alive and must act in the next step."""

    episode_over: NDArray[np.bool_]
    """Flags of envs without live agents."""

    infos: Sequence[dict[str, Any]]

    @property
    def dones(self) -> dict[str, NDArray[np.bool_]]:
        """Flags by agent: terminated or truncated."""
        return {name: self.terminated[name] | self.truncated[name] for name in self.terminated}


class MultiAgentVecEnv(Closeable):
    """Vector env of N multi-agent envs, run by any of the vector envs.

    Agents may be done in one env and alive in another, and return with the next episode or before:
    `alive` says where an agent must act. Autoreset starts the next episode when no agent is alive.

    Args:
        env_fns: functions that create one env each.
        mode: kind of vector env.
        options: arguments of that vector env, such as `autoreset`.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], MultiAgentEnv]],
        *,
        mode: Literal["sync", "async", "proc"] = "sync",
        **options: Any,
    ) -> None:
        if mode not in BACKENDS:
            raise ValueError(f"mode must be one of {sorted(BACKENDS)}, got {mode!r}")
        self._take(BACKENDS[mode]([_JointFactory(factory) for factory in env_fns], **options))

    @classmethod
    def around(cls, vec: VecEnv) -> MultiAgentVecEnv:
        """Create a multi-agent vector env from a vector env of `JointEnv`s."""
        self = cls.__new__(cls)
        self._take(vec)
        return self

    def _take(self, vec: VecEnv) -> None:
        self.vec = vec
        self.num_envs = vec.num_envs
        joint: Any = vec.observation_space
        actions: Any = vec.action_space
        self.observation_spaces: Mapping[str, Space[Any]] = joint.spaces["observations"].spaces
        self.action_spaces: Mapping[str, Space[Any]] = actions.spaces
        self.possible_agents = list(self.action_spaces)
        self._idle = {
            name: Batcher(space).allocate(self.num_envs)
            for name, space in self.action_spaces.items()
        }
        self._alive = np.zeros((self.num_envs, len(self.possible_agents)), np.bool_)

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> MultiAgentVecResetResult:
        """Reset all envs, or only those in `ids`."""
        return self._reset_result(self.vec.reset(seed=seed, options=options, ids=ids), ids)

    async def async_reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> MultiAgentVecResetResult:
        """Reset envs without blocking the event loop."""
        result = await self.vec.async_reset(seed=seed, options=options, ids=ids)
        return self._reset_result(result, ids)

    def step(self, actions: Mapping[str, Any]) -> MultiAgentVecStepResult:
        """Step all envs with the actions of all live agents.

        Args:
            actions: for each agent a batch with a row per env. Rows of envs in which the agent is
                not alive are ignored, and an agent that is alive nowhere may be omitted.
        """
        return self._step_result(self.vec.step(self._all_actions(actions)))

    async def async_step(self, actions: Mapping[str, Any]) -> MultiAgentVecStepResult:
        """Step envs without blocking the event loop."""
        return self._step_result(await self.vec.async_step(self._all_actions(actions)))

    def get_attr(self, name: str) -> list[Any]:
        """Return the attribute of each env."""
        return self.vec.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, on the outermost wrapper that has it."""
        self.vec.set_attr(name, value, per_env=per_env)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and return the results."""
        return self.vec.call(name, *args, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot from which all envs continue bit for bit."""
        return {"alive": self._alive.copy(), "vec": self.vec.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a snapshot; raise `StateError` and change nothing if it does not fit."""
        self.vec.load_state_dict(state_dict["vec"])
        self._alive = state_dict["alive"].copy()

    def close(self) -> None:
        """Close every env; a second call does nothing."""
        self.vec.close()

    @property
    def closed(self) -> bool:
        """True if the vector env has been closed."""
        return self.vec.closed

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        return f"<MultiAgentVecEnv of {self.num_envs} envs, agents {self.possible_agents}>"

    def _all_actions(self, actions: Mapping[str, Any]) -> dict[str, Any]:
        unknown = [name for name in actions if name not in self.action_spaces]
        if unknown:
            raise InvalidActionError(
                f"unknown agents {unknown}; expected actions of {self.possible_agents}"
            )
        for column, name in enumerate(self.possible_agents):
            if name not in actions and self._alive[:, column].any():
                where = np.flatnonzero(self._alive[:, column]).tolist()
                raise InvalidActionError(
                    f"missing actions of agent {name!r}, which is alive in envs {where}"
                )
        return {name: actions.get(name, self._idle[name]) for name in self.possible_agents}

    def _reset_result(
        self, result: VecResetResult[Any], ids: Ids | None
    ) -> MultiAgentVecResetResult:
        joint = result.observations
        alive = np.asarray(joint["alive"]).astype(np.bool_)
        self._alive[slice(None) if ids is None else np.asarray(ids)] = alive
        return MultiAgentVecResetResult(joint["observations"], self._by_agent(alive), result.infos)

    def _step_result(self, result: VecStepResult[Any]) -> MultiAgentVecStepResult:
        joint = result.observations
        rewards = np.array(joint["rewards"])
        terminated = np.array(joint["terminated"], np.bool_)
        truncated = np.array(joint["truncated"], np.bool_)
        acted, self._alive = self._alive, np.array(joint["alive"], np.bool_)
        over = np.asarray(result.dones).astype(np.bool_)
        finals = self._finals(result.infos, np.flatnonzero(over).tolist())
        for index, final in finals.items():
            # The joint observation is of the next episode; that of the last step is in the info.
            rewards[index] = final["rewards"]
            terminated[index] = final["terminated"]
            truncated[index] = final["truncated"]
        for index in np.flatnonzero(over).tolist():
            if RESTART in result.infos[index]:
                # The last joint observation is of the previous step, whose rewards were paid.
                rewards[index], terminated[index], truncated[index] = 0.0, False, acted[index]
        endings = {
            index: {FINAL_OBSERVATION: final["observations"], **_agent_infos(result.infos[index])}
            for index, final in finals.items()
        }
        infos = result.infos.updated(endings) if isinstance(result.infos, Infos) else result.infos
        return MultiAgentVecStepResult(
            joint["observations"],
            self._by_agent(rewards),
            self._by_agent(terminated),
            self._by_agent(truncated),
            self._by_agent(self._alive.copy()),
            over,
            infos,
        )

    @staticmethod
    def _finals(infos: Any, over: Iterable[int]) -> dict[int, dict[str, Any]]:
        finals = {index: infos[index].get(FINAL_OBSERVATION) for index in over}
        return {index: final for index, final in finals.items() if final is not None}

    def _by_agent(self, table: NDArray[Any]) -> dict[str, NDArray[Any]]:
        columns = np.ascontiguousarray(table.T)
        return dict(zip(self.possible_agents, columns, strict=True))


def _agent_infos(info: Mapping[str, Any]) -> dict[str, Any]:
    """Combine the reset info and the final step's info of each agent."""
    first = reset_info(info)
    return {
        agent: {**first.get(agent, {}), **carried_info(last, first.get(agent, {}))}
        for agent, last in info[FINAL_INFO].items()
        if isinstance(last, Mapping)
    }


class _JointFactory:
    """Factory that creates a multi-agent env as a `JointEnv`."""

    def __init__(self, factory: Callable[[], MultiAgentEnv]) -> None:
        self._factory = CloudPickled(factory)

    def __call__(self) -> JointEnv:
        return JointEnv(self._factory.value())


class JointSpace(Dict):
    """Observation space of the joint agent: results of all agents, and flags of live ones."""


class JointEnv(  # type: ignore[override] # a layer's metadata and spec follow from the env
    BaseWrapper, Env[dict[str, Any], dict[str, Any]]
):
    """Multi-agent env as a single-agent env with one joint agent.

    Observation: "observations", "rewards", "terminated", "truncated" and "alive", each by agent;
    zeros
        for an agent that did not take part.
    Action: one for each possible agent; those of agents that are not alive are ignored.
    Reward: the sum over agents.
    Terminates: when no agent is left, and none of the last was truncated.
    Truncates: when no agent is left, and at least one of the last was truncated.
    """

    env: MultiAgentEnv

    def __init__(self, env: MultiAgentEnv) -> None:
        if not isinstance(env, MultiAgentEnv):
            raise TypeError(f"expected a MultiAgentEnv, got {env!r}")
        self.env = env
        self._agents = tuple(env.possible_agents)
        count = len(self._agents)
        self.observation_space = JointSpace(
            {
                "observations": Dict({name: env.observation_spaces[name] for name in self._agents}),
                "rewards": Box(-np.inf, np.inf, shape=(count,), dtype=np.float64),
                "terminated": MultiBinary(count),
                "truncated": MultiBinary(count),
                "alive": MultiBinary(count),
            }
        )
        self.action_space = Dict({name: env.action_spaces[name] for name in self._agents})
        self._absent = {
            name: (batcher := Batcher(space)).rows(batcher.allocate(1))[0]
            for name, space in env.observation_spaces.items()
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[dict[str, Any]]:
        """Reset all envs, or only those in `ids`."""
        return self._map_reset(self.env.reset(seed=seed, options=options))

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[dict[str, Any]]:
        """Reset envs without blocking the event loop."""
        return self._map_reset(await self.env.async_reset(seed=seed, options=options))

    def step(self, action: dict[str, Any]) -> StepResult[dict[str, Any]]:
        """Step all envs, or only those in `ids`."""
        return self._map_step(self.env.step(self._living(action)))

    async def async_step(self, action: dict[str, Any]) -> StepResult[dict[str, Any]]:
        """Step envs without blocking the event loop."""
        return self._map_step(await self.env.async_step(self._living(action)))

    def _living(self, action: dict[str, Any]) -> dict[str, Any]:
        return {name: action[name] for name in self.env.agents}

    def _map_reset(self, result: MAResetResult) -> ResetResult[dict[str, Any]]:
        observation = self._joint(result.observations, {}, {}, {})
        return ResetResult(observation, dict(result.info))

    def _map_step(self, result: MAStepResult) -> StepResult[dict[str, Any]]:
        observation = self._joint(
            result.observations, result.rewards, result.terminated, result.truncated
        )
        is_over = not self.env.agents or result.all_done
        was_cut = any(result.truncated.values())
        reward = float(sum(result.rewards.values()))
        return StepResult(
            observation, reward, is_over and not was_cut, is_over and was_cut, dict(result.info)
        )

    def _joint(
        self,
        observations: dict[str, Any],
        rewards: dict[str, float],
        terminated: dict[str, bool],
        truncated: dict[str, bool],
    ) -> dict[str, Any]:
        agents, alive = self._agents, set(self.env.agents)
        return {
            "observations": {
                name: observations[name] if name in observations else self._absent[name]
                for name in agents
            },
            "rewards": np.array([rewards.get(name, 0.0) for name in agents], np.float64),
            "terminated": np.array([terminated.get(name, False) for name in agents], np.int8),
            "truncated": np.array([truncated.get(name, False) for name in agents], np.int8),
            "alive": np.array([name in alive for name in agents], np.int8),
        }


class JointVecEnv(VecEnv):
    """Base class of vector envs with one joint agent per multi-agent env."""

    autoreset: Autoreset = "same_step"

    def __init__(self, inner: MultiAgentVecEnv) -> None:
        self.inner, self.num_envs = inner, inner.num_envs

    def get_attr(self, name: str) -> list[Any]:
        """Return the attribute of each env."""
        return self.inner.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, on the outermost wrapper that has it."""
        self.inner.set_attr(name, value, per_env=per_env)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and return the results."""
        return self.inner.call(name, *args, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot from which all envs continue bit for bit."""
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a snapshot; raise `StateError` and change nothing if it does not fit."""
        self.inner.load_state_dict(state_dict)

    def close(self) -> None:
        """Close every env; a second call does nothing."""
        self.inner.close()

    @property
    def closed(self) -> bool:
        """True if the vector env has been closed."""
        return self.inner.closed
