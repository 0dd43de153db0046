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
from sekai.vector.vec_env import VecEnv
from sekai.vector.wrapper import VecWrapper, infos_of

__all__ = ["RecordVecEpisodeStatistics"]


class RecordVecEpisodeStatistics(VecWrapper):
    """Adds `infos[i]["episode"]`, an `EpisodeStats`, where a step ends an episode.

    With `same_step` autoreset it is in `infos[i]["final_info"]["episode"]` too, where the
    wrapper of single envs puts it. `tracker` hears of every episode that ends, by default to keep
    the last ones in memory (`vec.tracker.mean_return()`); it does not hear of single steps.
    """

    def __init__(self, env: VecEnv, tracker: StatsTracker | None = None) -> None:
        super().__init__(env)
        self.tracker: StatsTracker = InMemoryTracker() if tracker is None else tracker
        self._totals = EpisodeTotals(env.num_envs)
        self._running = np.ones(env.num_envs, np.bool_)

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        dones = to_numpy(result.dones)
        finished = self._totals.step(to_numpy(result.rewards), dones, self._running)
        if self.autoreset == "next_step":
            # The step after the end only begins the next episode, and is no step of either.
            self._running = ~dones
        if finished is None:
            return result
        ended = finished[0].tolist()
        stats = self._stats_of(result, finished)
        infos = infos_of(result)
        changes: dict[int, dict[str, Any]] = {}
        for index, one, final in zip(ended, stats, infos.values(ended, FINAL_INFO), strict=True):
            self.tracker.on_episode_end(one)
            changes[index] = {"episode": one}
            if final is not None:
                changes[index][FINAL_INFO] = {**final, "episode": one}
        return VecStepResult(
            result.observations,
            result.rewards,
            result.terminated,
            result.truncated,
            infos.updated(changes),
        )

    @staticmethod
    def _stats_of(
        result: VecStepResult[Any], finished: tuple[NDArray[Any], ...]
    ) -> list[EpisodeStats]:
        ended = finished[0]
        flags = (to_numpy(result.terminated)[ended], to_numpy(result.truncated)[ended])
        columns = [column.tolist() for column in (*finished[1:], *flags)]
        return [
            EpisodeStats(
                episode_return=total,
                episode_length=length,
                elapsed_time=seconds,
                terminated=terminated,
                truncated=truncated,
            )
            for total, length, seconds, terminated, truncated in zip(*columns, strict=True)
        ]

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
