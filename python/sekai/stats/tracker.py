"""What listens to the episodes of an environment."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from sekai.stats.episode import EpisodeStats
from sekai.stats.in_memory import InMemoryTracker
from sekai.stats.logging_tracker import LoggingTracker
from sekai.stats.tensorboard import TensorBoardTracker

__all__ = [
    "EpisodeStats",
    "InMemoryTracker",
    "LoggingTracker",
    "StatsTracker",
    "TensorBoardTracker",
]


@runtime_checkable
class StatsTracker(Protocol):
    """Hears of every reset, step and episode; any class with these methods is one.

    A tracker that also has `state_dict` and `load_state_dict` is saved and restored with its env.
    """

    def on_reset(self, env_id: str, seed: int | None) -> None:
        """An episode of `env_id` begins; `seed` is what reset was called with."""

    def on_step(
        self, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """One step was taken."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """An episode ended, with the step that was reported last."""

    def summary(self) -> dict[str, Any]:
        """What the tracker knows, in short."""
