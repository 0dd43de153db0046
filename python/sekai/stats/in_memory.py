"""Keeps the last episodes in memory."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from sekai.error import StateError
from sekai.stats.episode import EpisodeStats

__all__ = ["InMemoryTracker"]

_STATE_KEYS = frozenset({"window", "episodes", "total_episodes", "total_steps"})


class InMemoryTracker:
    """Keeps the last `window` episodes; means are over those, totals over all.

    Before the first episode has ended, means are NaN: zero would be a claim.
    """

    def __init__(self, window: int = 100) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise ValueError(f"window must be at least 1 episode, was {window!r}")
        self._episodes: deque[EpisodeStats] = deque(maxlen=window)
        self.total_episodes = 0
        self.total_steps = 0

    @property
    def window(self) -> int:
        """How many episodes are kept."""
        window = self._episodes.maxlen
        assert window is not None
        return window

    @property
    def episodes(self) -> tuple[EpisodeStats, ...]:
        """The last episodes, oldest first."""
        return tuple(self._episodes)

    def on_reset(self, env_id: str, seed: int | None) -> None:
        """Nothing is kept of an episode before its end."""

    def on_step(
        self, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """Nothing is kept of an episode before its end."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Keep `stats`, and let the oldest go if there are too many."""
        self._episodes.append(stats)
        self.total_episodes += 1
        self.total_steps += stats.episode_length

    def mean_return(self) -> float:
        """The mean return of the kept episodes."""
        return _mean(episode.episode_return for episode in self._episodes)

    def mean_length(self) -> float:
        """The mean number of steps of the kept episodes."""
        return _mean(episode.episode_length for episode in self._episodes)

    def mean_elapsed_time(self) -> float:
        """The mean duration of the kept episodes in seconds."""
        return _mean(episode.elapsed_time for episode in self._episodes)

    def summary(self) -> dict[str, Any]:
        """Totals of all episodes and means of the kept ones."""
        return {
            "episodes": self.total_episodes,
            "steps": self.total_steps,
            "mean_return": self.mean_return(),
            "mean_length": self.mean_length(),
            "mean_elapsed_time": self.mean_elapsed_time(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything the tracker knows, in plain types."""
        return {
            "window": self.window,
            "episodes": [dataclasses.asdict(episode) for episode in self._episodes],
            "total_episodes": self.total_episodes,
            "total_steps": self.total_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Know what a tracker knew when `state` was taken, its window included."""
        if state.keys() != _STATE_KEYS:
            raise StateError(
                f"a state of {type(self).__name__} has the keys {sorted(_STATE_KEYS)}, "
                f"found {sorted(map(str, state))}"
            )
        try:
            episodes = deque((EpisodeStats(**each) for each in state["episodes"]), state["window"])
            total_episodes, total_steps = int(state["total_episodes"]), int(state["total_steps"])
        except (TypeError, ValueError) as error:
            raise StateError(f"not a state of {type(self).__name__}: {error}") from error
        self._episodes = episodes
        self.total_episodes, self.total_steps = total_episodes, total_steps


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else math.nan
