"""Record return, length and duration of the episodes of all envs in one native call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import EpisodeTotals
from sekai.core.result import VecResetResult, VecStepResult
from sekai.stats.tracker import EpisodeStats, InMemoryTracker, StatsTracker
from sekai.vector.autoreset import FINAL_INFO
from sekai.vector.batching import to_numpy
from sekai.vector.columns import Column, RowDicts
from sekai.vector.vec_env import VecEnv
from sekai.vector.wrapper import VecWrapper, everywhere, infos_of, waiting_in

__all__ = ["RecordVecEpisodeStatistics"]


class RecordVecEpisodeStatistics(VecWrapper):
    """Adds `infos[i]["episode"]`, an `EpisodeStats`, where a step ends an episode.

    With `same_step` autoreset it is in `infos[i]["final_info"]["episode"]` too. `tracker` hears of
    every episode that ends, by default to keep the last ones in memory
    (`vec.tracker.mean_return()`); it does not hear of single steps.
    """

    def __init__(self, env: VecEnv, tracker: StatsTracker | None = None) -> None:
        super().__init__(env)
        self.tracker: StatsTracker = InMemoryTracker() if tracker is None else tracker
        self._totals = EpisodeTotals(env.num_envs)
        self._running = np.ones(env.num_envs, np.bool_)

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        dones = to_numpy(result.dones)
        skips = self.autoreset == "next_step"
        finished = self._totals.step(
            to_numpy(result.rewards), dones, self._running if skips else None
        )
        if skips:
            # The step after the end only begins the next episode, and is no step of either.
            self._running = ~waiting_in(result)
        return result if finished is None else self._told(result, finished)

    def _map_some(self, result: VecStepResult[Any], ids: Sequence[int]) -> VecStepResult[Any]:
        rewards = everywhere(result.rewards, ids, self.num_envs)
        dones = everywhere(result.dones, ids, self.num_envs)
        counts = everywhere(self._running[list(ids)], ids, self.num_envs)
        finished = self._totals.step(rewards, dones, counts)
        if self.autoreset == "next_step":
            self._running[list(ids)] = ~waiting_in(result)
        if finished is None:
            return result
        # Episodes end in envs; the result has rows.
        rows = np.array([list(ids).index(env) for env in finished[0].tolist()], np.int64)
        return self._told(result, (rows, *finished[1:]))

    def _told(
        self, result: VecStepResult[Any], finished: tuple[NDArray[Any], ...]
    ) -> VecStepResult[Any]:
        ended = finished[0]
        stats = _stats_of(result, finished)
        for one in stats:
            self.tracker.on_episode_end(one)
        infos = infos_of(result)
        columns = {"episode": Column(ended, stats)}
        columns.update(_final_infos(ended, infos.values(ended, FINAL_INFO), stats))
        return VecStepResult(
            result.observations,
            result.rewards,
            result.terminated,
            result.truncated,
            infos.with_columns(columns),
        )

    def _map_reset(self, result: VecResetResult[Any], ids: Sequence[int]) -> VecResetResult[Any]:
        begun = np.zeros(self.num_envs, np.bool_)
        begun[list(ids)] = True
        self._totals.restart(begun)
        self._running |= begun
        return result

    def _excluded(self) -> frozenset[str]:
        # A tracker may hold a connection or a file: it is state only if it can tell its state.
        stateful = hasattr(self.tracker, "state_dict")
        return super()._excluded() | (frozenset() if stateful else {"tracker"})


def _stats_of(result: VecStepResult[Any], finished: tuple[NDArray[Any], ...]) -> list[EpisodeStats]:
    ended, *totals = finished
    flags = (to_numpy(result.terminated)[ended], to_numpy(result.truncated)[ended])
    return EpisodeStats.of_columns(*(column.tolist() for column in (*totals, *flags)))


def _final_infos(
    ended: NDArray[np.int64], finals: Sequence[Any] | NDArray[Any], stats: list[EpisodeStats]
) -> dict[str, Column]:
    """The infos of the episodes that ended, for those envs which show them, with statistics."""
    if isinstance(finals, RowDicts):
        return {FINAL_INFO: Column(ended, finals.with_column("episode", stats))}
    shown = [place for place, final in enumerate(finals) if final is not None]
    told = [{**finals[place], "episode": stats[place]} for place in shown]
    return {FINAL_INFO: Column(ended[shown], told)} if shown else {}
