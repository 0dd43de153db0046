"""Episode statistics and what listens to them."""

from sekai.stats.tracker import (
    EpisodeStats,
    InMemoryTracker,
    LoggingTracker,
    StatsTracker,
    TensorBoardTracker,
)

__all__ = [
    "EpisodeStats",
    "InMemoryTracker",
    "LoggingTracker",
    "StatsTracker",
    "TensorBoardTracker",
]
