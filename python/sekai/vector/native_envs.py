"""Vector entry points of sekai's own tasks, and the native multi-agent vector env."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.backend import Backend, get_backend
from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION, Autoreset
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import InvalidActionError
from sekai.registry import make
from sekai.registry.entry_point import load
from sekai.spaces import Space
from sekai.vector.batching import map_arrays, to_backend, to_numpy
from sekai.vector.infos import Column, Infos
from sekai.vector.multi_agent import (
    MultiAgentVecEnv,
    MultiAgentVecResetResult,
    MultiAgentVecStepResult,
)
from sekai.vector.native import NativeBatch, NativeVecEnv
from sekai.vector.vec_env import Ids


def native_vector(path: str) -> Callable[..., NativeVecEnv]:
    """Return a vector entry point for the env class at `path`, which has a native batch.

    The class has a static method `make_batch(num_envs, num_threads, max_episode_steps, **kwargs)`
    that takes its constructor arguments in `kwargs` and returns a batch, the observation space and
    the action space. It is imported when the first vector env is made.
    """

    def make(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        autoreset: Autoreset = "same_step",
        backend: Backend = "numpy",
        copy: bool = True,
        **kwargs: Any,
    ) -> NativeVecEnv:
        batch, observations, actions = load(path).make_batch(
            num_envs, num_threads=num_threads, max_episode_steps=max_episode_steps, **kwargs
        )
        return NativeVecEnv(
            batch, observations, actions, autoreset=autoreset, backend=backend, copy=copy
        )

    return make


def multi_portfolio(
    num_envs: int,
    *,
    num_threads: int | None = None,
    max_episode_steps: int | None = None,
    autoreset: Autoreset = "same_step",
    backend: Backend = "numpy",
    copy: bool = True,
    **kwargs: Any,
) -> MultiAgentVecEnv:
    """Make a vector env of multi-agent portfolio markets.

    The batch of a single agent has no agent axis: such envs are stepped one by one.
    """
    kind = load("sekai.envs.portfolio.multi_portfolio:MultiPortfolio")
    options: dict[str, Any] = {"autoreset": autoreset, "backend": backend, "copy": copy}
    agents = kind.make_batch(
        num_envs, num_threads=num_threads, max_episode_steps=max_episode_steps, **kwargs
    )
    if len(agents["action_spaces"]) > 1:
        return NativeAgentsVecEnv(AgentsBatch(**agents), **options)
    single: Any = functools.partial(
        make, "MultiPortfolio-v0", max_episode_steps=max_episode_steps, **kwargs
    )
    return MultiAgentVecEnv([single] * num_envs, **options)


market_making = native_vector("sekai.envs.market_making:MarketMaking")
optimal_execution = native_vector("sekai.envs.optimal_execution:OptimalExecution")
portfolio = native_vector("sekai.envs.portfolio:Portfolio")
trading = native_vector("sekai.envs.trading:Trading")


LEAD = 3
"""Leading columns of a report: reward, ruined flag, alive flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsBatch:
    """Native batch of multi-agent envs.

    Its observations are dicts: `windows`, `index` and `mask` are shared by all agents, other parts
    have an agent axis after the env axis. `report` holds each agent's result of a step.
    """

    batch: NativeBatch
    observation_space: Space[Any]
    """Observation space of an env, all agents together."""

    action_space: Space[Any]
    """Action space of an env: the concatenated actions of all agents."""

    observation_spaces: Mapping[str, Space[Any]]
    action_spaces: Mapping[str, Space[Any]]
    windows: Sequence[tuple[int, slice | list[int]]]
    """Number of window rows and the channels that each agent sees."""

    info_names: Sequence[str]
    """Info keys of the report columns after the leading three."""


class NativeAgentsVecEnv(MultiAgentVecEnv):
    """Multi-agent vector env that steps all envs in one native call.

    Agents with the same observation share their arrays, unless one of them is absent somewhere.

    Args:
        agents: the batch and its agents.
        backend: array backend of observations.
        options: arguments of `NativeVecEnv`, such as `autoreset`.
    """

    def __init__(self, agents: AgentsBatch, *, backend: Backend = "numpy", **options: Any) -> None:
        self.vec = NativeVecEnv(
            agents.batch, agents.observation_space, agents.action_space, **options
        )
        self.num_envs = self.vec.num_envs
        self.observation_spaces = agents.observation_spaces
        self.action_spaces = agents.action_spaces
        self.possible_agents = list(agents.action_spaces)
        self._agents = agents
        self._backend = get_backend(backend)
        self._alive = np.zeros((self.num_envs, len(self.possible_agents)), np.bool_)
        self._idle = {
            name: np.zeros((self.num_envs, *(space.shape or ())))
            for name, space in self.action_spaces.items()
        }

    @property
    def batch(self) -> NativeBatch:
        """Native batch that steps all envs."""
        return self._agents.batch

    def _all_actions(self, actions: Mapping[str, Any]) -> Any:
        """Concatenate the agents' actions; zeros for agents that are not alive."""
        batches = super()._all_actions(actions)
        columns = []
        for agent, (name, space) in enumerate(self.action_spaces.items()):
            shape = (self.num_envs, *(space.shape or ()))
            column = np.asarray(to_numpy(batches[name]), np.float64)
            if column.shape != shape:
                raise InvalidActionError(
                    f"actions of {name!r} must have shape {shape}, got {column.shape}"
                )
            columns.append(np.where(self._alive[:, agent, None], column, 0.0))
        return np.concatenate(columns, axis=1)

    def _reset_result(
        self, result: VecResetResult[Any], ids: Ids | None
    ) -> MultiAgentVecResetResult:
        seen = result.observations
        alive = seen["report"][:, :, 2] > 0.0
        self._alive[slice(None) if ids is None else np.asarray(ids)] = alive
        infos = self._infos(seen["report"], alive)
        shown = to_backend(self._backend, self._shown(seen, alive))
        return MultiAgentVecResetResult(shown, self._by_agent(alive), infos)

    def _step_result(self, result: VecStepResult[Any]) -> MultiAgentVecStepResult:
        seen = result.observations
        report = seen["report"]
        self._alive = report[:, :, 2] > 0.0
        took_part = self._alive | (report[:, :, 1] > 0.0)
        infos = self._infos(report, took_part)
        shown = to_backend(self._backend, self._shown(seen, took_part))
        finals = result.infos.column(FINAL_OBSERVATION)  # type: ignore[attr-defined]
        if finals.indices.size:
            # These rows are of the next episode.
            last = finals.values.batch
            report = report.copy()
            report[finals.indices] = last["report"]
            infos = infos.with_columns(self._endings(finals.indices, last))
        ruined, goes_on = report[:, :, 1] > 0.0, report[:, :, 2] > 0.0
        truncated = np.asarray(result.truncated)[:, None] & goes_on
        over = np.asarray(result.dones)
        self._alive &= ~over[:, None] | self._has_begun(over, finals.indices)[:, None]
        return MultiAgentVecStepResult(
            shown,
            self._by_agent(report[:, :, 0]),
            self._by_agent(ruined),
            self._by_agent(truncated),
            self._by_agent(self._alive.copy()),
            over,
            infos,
        )

    @staticmethod
    def _has_begun(over: NDArray[np.bool_], ended: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Flags of envs in which the next episode has started in the same step."""
        begun = np.zeros_like(over)
        begun[ended] = True
        return begun

    def _shown(self, seen: Mapping[str, Any], present: NDArray[np.bool_]) -> dict[str, Any]:
        """Observation of each agent; zeros where it did not take part."""
        shown: dict[str, Any] = {}
        for agent, name in enumerate(self.possible_agents):
            own = {
                "weights": seen["weights"][:, agent],
                "mask": seen["mask"],
                "account": seen["account"][:, agent],
            }
            if "index" in seen:
                own = {"index": seen["index"], **own}
            else:
                rows, channels = self._agents.windows[agent]
                own = {"windows": seen["windows"][:, -rows:, :, channels], **own}
            absent = ~present[:, agent]
            shown[name] = map_arrays(_cleared(absent), own) if absent.any() else own
        return shown

    def _infos(self, report: NDArray[Any], present: NDArray[np.bool_]) -> Infos:
        return _ReportInfos(report, present, self.possible_agents, self._agents.info_names)

    def _endings(self, ended: NDArray[np.int64], last: Mapping[str, Any]) -> dict[str, Column]:
        """Observations and infos at the end of ended episodes."""
        report = last["report"]
        present = (report[:, :, 1] > 0.0) | (report[:, :, 2] > 0.0)
        shown, infos = self._shown(last, present), self._infos(report, present)
        rows = [
            {name: {part: array[row] for part, array in own.items()} for name, own in shown.items()}
            for row in range(len(ended))
        ]
        return {FINAL_OBSERVATION: Column(ended, rows), FINAL_INFO: Column(ended, list(infos))}


class _ReportInfos(Infos):
    """Infos by agent, for agents that took part, read from the reports."""

    __slots__ = ("_agents", "_keys", "_present", "_report")

    def __init__(
        self,
        report: NDArray[Any],
        present: NDArray[np.bool_],
        agents: Sequence[str],
        keys: Sequence[str],
    ) -> None:
        super().__init__()
        self._report = report
        self._present = present
        self._agents = agents
        self._keys = keys

    def __len__(self) -> int:
        return len(self._present)

    def _build(self) -> list[dict[str, Any]]:
        numbers, present = self._report[:, :, LEAD:].tolist(), self._present.tolist()
        return [
            {
                agent: dict(zip(self._keys, row, strict=True))
                for agent, row, is_present in zip(self._agents, rows, flags, strict=True)
                if is_present
            }
            for rows, flags in zip(numbers, present, strict=True)
        ]


def _cleared(absent: NDArray[np.bool_]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def clear(array: NDArray[Any]) -> NDArray[Any]:
        copy: NDArray[Any] = array.copy()
        copy[absent] = 0
        return copy

    return clear
