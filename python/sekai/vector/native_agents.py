"""Many markets with several agents each, as one native batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.backend import Backend, get_backend
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import InvalidActionError
from sekai.spaces import Space
from sekai.vector.autoreset import FINAL_INFO, FINAL_OBSERVATION
from sekai.vector.batching import map_arrays, to_backend, to_numpy
from sekai.vector.columns import Column
from sekai.vector.infos import Infos
from sekai.vector.multi_agent import (
    MultiAgentVecEnv,
    MultiAgentVecResetResult,
    MultiAgentVecStepResult,
)
from sekai.vector.native import NativeBatch, NativeVecEnv
from sekai.vector.vec_env import Ids

__all__ = ["AgentsBatch", "NativeAgentsVecEnv"]

LEAD = 3
"""A report begins with a reward, whether the step ruined the agent, and whether it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsBatch:
    """A native batch of envs with several agents.

    Its observations are dicts: `windows`, `index` and `mask` are for all agents, other parts have
    an axis of agents after that of envs. `report` tells what a step did to each of them.
    """

    batch: NativeBatch
    observation_space: Space[Any]
    """Of an env, all agents together."""

    action_space: Space[Any]
    """Of an env: the actions of all agents one after the other."""

    observation_spaces: Mapping[str, Space[Any]]
    action_spaces: Mapping[str, Space[Any]]
    windows: Sequence[tuple[int, slice | list[int]]]
    """For each agent, how many rows of the windows it is shown, and which channels."""

    info_names: Sequence[str]
    """What the numbers of a report are called, after the first three."""


class NativeAgentsVecEnv(MultiAgentVecEnv):
    """Envs with several agents that are stepped in one native call.

    Agents that are shown the same share their arrays, unless one of them is missing somewhere.
    """

    def __init__(self, agents: AgentsBatch, *, backend: Backend = "numpy", **options: Any) -> None:
        """Take over a batch.

        Args:
            agents: the batch, and what its agents are.
            backend: who makes the arrays of observations.
            options: what `NativeVecEnv` takes, such as `autoreset`.
        """
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
        """What steps all envs: rows are pushed to it, and logs are taken from it."""
        return self._agents.batch

    def _all_actions(self, actions: Mapping[str, Any]) -> Any:
        """The agents' actions one after the other; those of agents that are gone are nothing."""
        given = super()._all_actions(actions)
        columns = []
        for place, (name, space) in enumerate(self.action_spaces.items()):
            shape = (self.num_envs, *(space.shape or ()))
            column = np.asarray(to_numpy(given[name]), np.float64)
            if column.shape != shape:
                raise InvalidActionError(
                    f"actions of {name!r} need the shape {shape}, found {column.shape}"
                )
            columns.append(np.where(self._alive[:, place, None], column, 0.0))
        return np.concatenate(columns, axis=1)

    def _reset_result(
        self, result: VecResetResult[Any], ids: Ids | None
    ) -> MultiAgentVecResetResult:
        seen = result.observations
        alive = seen["report"][:, :, 2] > 0.0
        self._alive[slice(None) if ids is None else np.asarray(ids)] = alive
        infos = self._told(seen["report"], alive)
        shown = to_backend(self._backend, self._shown(seen, alive))
        return MultiAgentVecResetResult(shown, self._by_agent(alive), infos)

    def _step_result(self, result: VecStepResult[Any]) -> MultiAgentVecStepResult:
        seen = result.observations
        report = seen["report"]
        self._alive = report[:, :, 2] > 0.0
        took_part = self._alive | (report[:, :, 1] > 0.0)
        told = self._told(report, took_part)
        shown = to_backend(self._backend, self._shown(seen, took_part))
        finals = result.infos.column(FINAL_OBSERVATION)  # type: ignore[attr-defined]
        if finals.indices.size:
            # Those rows are of the next episode already.
            last = finals.values.batch
            report = report.copy()
            report[finals.indices] = last["report"]
            told = told.with_columns(self._endings(finals.indices, last))
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
            told,
        )

    @staticmethod
    def _has_begun(over: NDArray[np.bool_], ended: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where the next episode has begun in the same step."""
        begun = np.zeros_like(over)
        begun[ended] = True
        return begun

    def _shown(self, seen: Mapping[str, Any], there: NDArray[np.bool_]) -> dict[str, Any]:
        """What each agent sees; nothing where it took no part."""
        shown: dict[str, Any] = {}
        for place, name in enumerate(self.possible_agents):
            own = {
                "weights": seen["weights"][:, place],
                "mask": seen["mask"],
                "account": seen["account"][:, place],
            }
            if "index" in seen:
                own = {"index": seen["index"], **own}
            else:
                rows, channels = self._agents.windows[place]
                own = {"windows": seen["windows"][:, -rows:, :, channels], **own}
            absent = ~there[:, place]
            shown[name] = map_arrays(_cleared(absent), own) if absent.any() else own
        return shown

    def _told(self, report: NDArray[Any], there: NDArray[np.bool_]) -> Infos:
        return _ReportInfos(report, there, self.possible_agents, self._agents.info_names)

    def _endings(self, ended: NDArray[np.int64], last: Mapping[str, Any]) -> dict[str, Column]:
        """What agents saw and were told at the end of the episodes that ended."""
        report = last["report"]
        there = (report[:, :, 1] > 0.0) | (report[:, :, 2] > 0.0)
        shown, infos = self._shown(last, there), self._told(report, there)
        rows = [
            {name: {part: array[row] for part, array in own.items()} for name, own in shown.items()}
            for row in range(len(ended))
        ]
        return {FINAL_OBSERVATION: Column(ended, rows), FINAL_INFO: Column(ended, list(infos))}


class _ReportInfos(Infos):
    """Infos by agent, of the agents that took part, out of reports of all."""

    __slots__ = ("_agents", "_keys", "_report", "_there")

    def __init__(
        self,
        report: NDArray[Any],
        there: NDArray[np.bool_],
        agents: Sequence[str],
        keys: Sequence[str],
    ) -> None:
        super().__init__()
        self._report = report
        self._there = there
        self._agents = agents
        self._keys = keys

    def __len__(self) -> int:
        return len(self._there)

    def _build(self) -> list[dict[str, Any]]:
        numbers, there = self._report[:, :, LEAD:].tolist(), self._there.tolist()
        return [
            {
                agent: dict(zip(self._keys, row, strict=True))
                for agent, row, is_there in zip(self._agents, rows, flags, strict=True)
                if is_there
            }
            for rows, flags in zip(numbers, there, strict=True)
        ]


def _cleared(absent: NDArray[np.bool_]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def clear(array: NDArray[Any]) -> NDArray[Any]:
        copy: NDArray[Any] = array.copy()
        copy[absent] = 0
        return copy

    return clear
