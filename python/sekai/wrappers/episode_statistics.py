"""Episode statistics: return, length and duration."""

from __future__ import annotations

from quant_gym_rs._core import EpisodeTotals
from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.stats.tracker import EpisodeStats, InMemoryTracker, StatsTracker


class RecordEpisodeStatistics(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that adds `info["episode"]`, an `EpisodeStats`, to the last step of an episode.

    `tracker` is called for every reset, step and episode; the default keeps the last episodes in
    memory (`env.tracker.mean_return()`).
    """

    def __init__(self, env: Env[ObsType, ActType], tracker: StatsTracker | None = None) -> None:
        super().__init__(env)
        self.tracker: StatsTracker = InMemoryTracker() if tracker is None else tracker
        self._totals = EpisodeTotals()
        # The default tracker ignores steps; skip millions of calls.
        is_idle = isinstance(self.tracker, InMemoryTracker)
        self._on_step = None if is_idle else self.tracker.on_step

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        finished = self._totals.step_one(result)
        if self._on_step is not None:
            self._on_step(result.reward, result.terminated, result.truncated, result.info)
        if finished is None:
            return result
        stats = EpisodeStats(
            episode_return=finished[0],
            episode_length=finished[1],
            elapsed_time=finished[2],
            terminated=bool(result.terminated),
            truncated=bool(result.truncated),
        )
        self.tracker.on_episode_end(stats)
        info = {**result.info, "episode": stats}
        return StepResult(
            result.observation, result.reward, result.terminated, result.truncated, info
        )

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        self._totals.restart()
        self.tracker.on_reset(self._name_of_env(), seed)
        return result

    def _name_of_env(self) -> str:
        base = self.unwrapped
        return base.spec.id if base.spec is not None else type(base).__name__

    def _excluded(self) -> frozenset[str]:
        # A tracker may hold a connection or a file: it is state only if it has a state_dict.
        stateful = hasattr(self.tracker, "state_dict")
        return super()._excluded() | (frozenset() if stateful else {"tracker"})
