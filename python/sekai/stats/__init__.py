"""Episode statistics and the trackers that record them."""

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
