"""What is told of steps and episodes: collected in the env, written where the episodes meet."""

from sekai.compose.logs.collector import LogCollector
from sekai.compose.logs.level import LogLevel

__all__ = ["LogCollector", "LogLevel"]
