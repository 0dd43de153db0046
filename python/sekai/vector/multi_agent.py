"""Many multi-agent envs that act together: arrays per agent, with a row per env."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sekai.core.autoreset import carried_over, said_by_reset
from sekai.core.closing import Closing
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import VecResetResult, VecStepResult, _ByValue
from sekai.error import InvalidActionError
from sekai.spaces import Space
from sekai.vector.asyncio_env import AsyncVecEnv
from sekai.vector.autoreset import FINAL_INFO, FINAL_OBSERVATION
from sekai.vector.batching import Batcher
from sekai.vector.faults import RESTART
from sekai.vector.infos import Infos
from sekai.vector.joint import JointEnv
from sekai.vector.proc import ProcVecEnv
from sekai.vector.seeding import Seeds
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import Ids, Options, VecEnv
from sekai.vector.wire import Portable

__all__ = ["MultiAgentVecEnv", "MultiAgentVecResetResult", "MultiAgentVecStepResult"]

BACKENDS = {"sync": SyncVecEnv, "async": AsyncVecEnv, "proc": ProcVecEnv}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MultiAgentVecResetResult(_ByValue):
    """What resetting N multi-agent envs gave back, by agent name."""

    observations: dict[str, Any]
    alive: dict[str, NDArray[np.bool_]]
    """Where the agent takes part, and must act in the next step."""

    infos: Sequence[dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MultiAgentVecStepResult(_ByValue):
    """What one step of N multi-agent envs gave back, by agent name.

    Rows of an env in which the agent took no part are zero. `infos[i]` is by agent name; where
    an episode ended, it has `final_observation` (by agent) and `final_info` as well, and an agent's
    info holds what its last step said beside what the reset says.
    """

    observations: dict[str, Any]
    rewards: dict[str, NDArray[np.float64]]
    terminated: dict[str, NDArray[np.bool_]]
    truncated: dict[str, NDArray[np.bool_]]
    alive: dict[str, NDArray[np.bool_]]
    """Where the agent takes part, and must act in the next step."""

    episode_over: NDArray[np.bool_]
    """Where no agent was left."""

    infos: Sequence[dict[str, Any]]

    @property
    def dones(self) -> dict[str, NDArray[np.bool_]]:
        """For each agent, where it is out: terminated or truncated."""
        return {name: self.terminated[name] | self.truncated[name] for name in self.terminated}


class MultiAgentVecEnv(Closing):
    """N multi-agent envs of one kind, run by any of the vector envs.

    Agents may die in one env and live on in another, and return with the next episode or before:
    `alive` says where an agent must act. Autoreset begins the next episode when no agent is left.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], MultiAgentEnv]],
        *,
        mode: Literal["sync", "async", "proc"] = "sync",
        **options: Any,
    ) -> None:
        """Build the envs.

        Args:
            env_fns: functions that build one env each.
            mode: where they run.
            options: what the vector env of that mode takes, such as `autoreset`.
        """
        if mode not in BACKENDS:
            raise ValueError(f"mode must be one of {sorted(BACKENDS)}, was {mode!r}")
        self._take(BACKENDS[mode]([_Joined(factory) for factory in env_fns], **options))

    @classmethod
    def around(cls, vec: VecEnv) -> MultiAgentVecEnv:
        """The envs of `vec`, which are `JointEnv`s, as multi-agent envs again."""
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
        """Begin an episode in every env, or in those of `ids` alone; see `VecEnv.reset`."""
        return self._reset_result(self.vec.reset(seed=seed, options=options, ids=ids), ids)

    async def async_reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> MultiAgentVecResetResult:
        """Begin an episode in every env, without blocking the event loop."""
        result = await self.vec.async_reset(seed=seed, options=options, ids=ids)
        return self._reset_result(result, ids)

    def step(self, actions: Mapping[str, Any]) -> MultiAgentVecStepResult:
        """Let every agent alive act once.

        Args:
            actions: for each agent a batch with a row per env. Rows of envs in which the agent is
                not alive are ignored, and an agent that is alive nowhere may be left out.
        """
        return self._step_result(self.vec.step(self._all_actions(actions)))

    async def async_step(self, actions: Mapping[str, Any]) -> MultiAgentVecStepResult:
        """Let every agent alive act once, without blocking the event loop."""
        return self._step_result(await self.vec.async_step(self._all_actions(actions)))

    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each env."""
        return self.vec.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, in the outermost layer that has it."""
        self.vec.set_attr(name, value, per_env=per_env)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and give back what they return."""
        return self.vec.call(name, *args, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue all envs from here, bit for bit."""
        return {"alive": self._alive.copy(), "vec": self.vec.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from where `state_dict` was taken; a refused state changes nothing."""
        self.vec.load_state_dict(state_dict["vec"])
        self._alive = state_dict["alive"].copy()

    def close(self) -> None:
        """Close every env. Closing twice is no error."""
        self.vec.close()

    @property
    def closed(self) -> bool:
        """Whether the vector has been closed."""
        return self.vec.closed

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        return f"<MultiAgentVecEnv of {self.num_envs} envs, agents {self.possible_agents}>"

    def _all_actions(self, actions: Mapping[str, Any]) -> dict[str, Any]:
        strange = [name for name in actions if name not in self.action_spaces]
        if strange:
            raise InvalidActionError(
                f"actions of the agents {self.possible_agents} were wanted, found {strange}"
            )
        for column, name in enumerate(self.possible_agents):
            if name not in actions and self._alive[:, column].any():
                where = np.flatnonzero(self._alive[:, column]).tolist()
                raise InvalidActionError(
                    f"agent {name!r} is alive in the envs {where}, but there are no actions of it"
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
            # The joint observation is of the next episode already; the last step's is in the info.
            rewards[index] = final["rewards"]
            terminated[index] = final["terminated"]
            truncated[index] = final["truncated"]
        for index in np.flatnonzero(over).tolist():
            if RESTART in result.infos[index]:
                # The last joint observation is of the step before: what it paid has been paid.
                rewards[index], terminated[index], truncated[index] = 0.0, False, acted[index]
        told = {
            index: {FINAL_OBSERVATION: final["observations"], **_agent_infos(result.infos[index])}
            for index, final in finals.items()
        }
        infos = result.infos.updated(told) if isinstance(result.infos, Infos) else result.infos
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
        found = {index: infos[index].get(FINAL_OBSERVATION) for index in over}
        return {index: final for index, final in found.items() if final is not None}

    def _by_agent(self, table: NDArray[Any]) -> dict[str, NDArray[Any]]:
        columns = np.ascontiguousarray(table.T)
        return dict(zip(self.possible_agents, columns, strict=True))


def _agent_infos(info: Mapping[str, Any]) -> dict[str, Any]:
    """For each agent what its reset said, and what else its last step said."""
    first = said_by_reset(info)
    return {
        agent: {**first.get(agent, {}), **carried_over(last, first.get(agent, {}))}
        for agent, last in info[FINAL_INFO].items()
        if isinstance(last, Mapping)
    }


class _Joined:
    """Builds a multi-agent env as a `JointEnv`."""

    def __init__(self, factory: Callable[[], MultiAgentEnv]) -> None:
        self._factory = Portable(factory)

    def __call__(self) -> JointEnv:
        return JointEnv(self._factory.value())
