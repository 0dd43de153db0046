"""Episode statistics, the tracker interface, and in-memory, logging and TensorBoard trackers."""

from __future__ import annotations

import dataclasses
import math
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sekai.core.base import Closeable
from sekai.error import StateError
from sekai.storage.event_file import EventFile

if TYPE_CHECKING:
    import logging

    from typing_extensions import Self

__all__ = [
    "EpisodeStats",
    "InMemoryTracker",
    "LoggingTracker",
    "StatsTracker",
    "TensorBoardTracker",
]


@dataclass(frozen=True, slots=True)
class EpisodeStats:
    """Statistics of a finished episode; `dataclasses.asdict` of it is ready for JSON."""

    episode_return: float
    """Sum of the rewards."""

    episode_length: int
    """Number of steps."""

    elapsed_time: float
    """Seconds from the reset to the last step."""

    terminated: bool
    truncated: bool = False

    def __post_init__(self) -> None:
        # Rewards and flags may be NumPy scalars, which neither JSON nor loggers accept.
        for name, kind in _TYPES:
            value = getattr(self, name)
            if type(value) is not kind:
                object.__setattr__(self, name, kind(value))

    @classmethod
    def of_columns(cls, *columns: Sequence[float]) -> list[Self]:
        """Create many `EpisodeStats` from one list of Python numbers per field, in field order."""
        episodes = list(map(object.__new__, repeat(cls, len(columns[0]))))
        for set_field, column in zip(_SETTERS, columns, strict=True):
            # Sets the slots a column at a time: `__init__` takes several times as long.
            deque(map(set_field, episodes, column), maxlen=0)
        return episodes


_TYPES: tuple[tuple[str, type[float] | type[int] | type[bool]], ...] = (
    ("episode_return", float),
    ("episode_length", int),
    ("elapsed_time", float),
    ("terminated", bool),
    ("truncated", bool),
)
_SETTERS = [getattr(EpisodeStats, name).__set__ for name, _ in _TYPES]


@runtime_checkable
class StatsTracker(Protocol):
    """Tracker interface: receives every reset, step and finished episode.

    A tracker that also has `state_dict` and `load_state_dict` is saved and restored with its env.
    """

    def on_reset(self, env_id: str, seed: int | None) -> None:
        """Handle the start of an episode of `env_id`; `seed` is the argument of `reset`."""

    def on_step(
        self, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """Handle one step."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Handle the end of an episode, after its last `on_step`."""

    def summary(self) -> dict[str, Any]:
        """Summary statistics by name."""


class CountingTracker:
    """Base tracker that counts finished episodes and their steps."""

    def __init__(self) -> None:
        self.total_episodes = 0
        self.total_steps = 0
        self.env_id: str | None = None
        self.seed: int | None = None

    def on_reset(self, env_id: str, seed: int | None) -> None:
        """Store the env id and seed of the new episode."""
        self.env_id, self.seed = env_id, seed

    def on_step(
        self, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """Do nothing: steps are counted when their episode ends."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Count the episode and its steps."""
        self.total_episodes += 1
        self.total_steps += stats.episode_length

    def summary(self) -> dict[str, Any]:
        """Number of finished episodes and of their steps."""
        return {"episodes": self.total_episodes, "steps": self.total_steps}

    def state_dict(self) -> dict[str, Any]:
        """Counts, env id and seed in plain types."""
        return {
            "total_episodes": self.total_episodes,
            "total_steps": self.total_steps,
            "env_id": self.env_id,
            "seed": self.seed,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the counts from a `state_dict`."""
        _check_keys(self, state, self.state_dict().keys())
        for name, value in state.items():
            setattr(self, name, value)


class InMemoryTracker:
    """Tracker that keeps the last `window` episodes: means cover those, totals cover all.

    Means are NaN before the first episode has ended.
    """

    def __init__(self, window: int = 100) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise ValueError(f"window must be at least 1 episode, got {window!r}")
        self._episodes: deque[EpisodeStats] = deque(maxlen=window)
        self.total_episodes = 0
        self.total_steps = 0

    @property
    def window(self) -> int:
        """Maximum number of stored episodes."""
        window = self._episodes.maxlen
        assert window is not None
        return window

    @property
    def episodes(self) -> tuple[EpisodeStats, ...]:
        """Stored episodes, oldest first."""
        return tuple(self._episodes)

    def on_reset(self, env_id: str, seed: int | None) -> None:
        """Do nothing: an episode is stored when it ends."""

    def on_step(
        self, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """Do nothing: an episode is stored when it ends."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Store `stats`; beyond `window` episodes the oldest is dropped."""
        self._episodes.append(stats)
        self.total_episodes += 1
        self.total_steps += stats.episode_length

    def mean_return(self) -> float:
        """Mean return of the stored episodes."""
        return _mean(episode.episode_return for episode in self._episodes)

    def mean_length(self) -> float:
        """Mean number of steps of the stored episodes."""
        return _mean(episode.episode_length for episode in self._episodes)

    def mean_elapsed_time(self) -> float:
        """Mean duration of the stored episodes in seconds."""
        return _mean(episode.elapsed_time for episode in self._episodes)

    def summary(self) -> dict[str, Any]:
        """Totals of all episodes and means of the stored ones."""
        return {
            "episodes": self.total_episodes,
            "steps": self.total_steps,
            "mean_return": self.mean_return(),
            "mean_length": self.mean_length(),
            "mean_elapsed_time": self.mean_elapsed_time(),
        }

    def state_dict(self) -> dict[str, Any]:
        """State of the tracker in plain types."""
        return {
            "window": self.window,
            "episodes": [dataclasses.asdict(episode) for episode in self._episodes],
            "total_episodes": self.total_episodes,
            "total_steps": self.total_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the tracker, including its window, from a `state_dict`."""
        _check_keys(self, state, {"window", "episodes", "total_episodes", "total_steps"})
        try:
            episodes = deque((EpisodeStats(**each) for each in state["episodes"]), state["window"])
            total_episodes, total_steps = int(state["total_episodes"]), int(state["total_steps"])
        except (TypeError, ValueError) as error:
            raise StateError(f"invalid state of {type(self).__name__}: {error}") from error
        self._episodes = episodes
        self.total_episodes, self.total_steps = total_episodes, total_steps


class LoggingTracker(CountingTracker):
    """Tracker that logs resets at DEBUG and finished episodes at `level`.

    Log records have extra attributes for handlers: `event` (`"reset"` or `"episode_end"`),
    `env_id`, `seed`, `episode` (its number), and for a finished episode every field of
    `EpisodeStats`.

    Args:
        logger: the logger or its name.
        level: log level of finished episodes; 20 is INFO.
    """

    def __init__(self, logger: logging.Logger | str = "sekai.stats", level: int = 20) -> None:
        import logging

        super().__init__()
        self.logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self.level = level

    def on_reset(self, env_id: str, seed: int | None) -> None:
        """Log the start of an episode."""
        import logging

        super().on_reset(env_id, seed)
        message = "episode %d of %s starts, seed %s"
        extra = self._extra("reset", self.total_episodes)
        self.logger.log(logging.DEBUG, message, self.total_episodes, env_id, seed, extra=extra)

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Log return, length and duration of an episode."""
        number = self.total_episodes
        super().on_episode_end(stats)
        self.logger.log(
            self.level,
            "episode %d of %s: return %g over %d steps in %.3g s",
            number,
            self.env_id,
            stats.episode_return,
            stats.episode_length,
            stats.elapsed_time,
            extra={**self._extra("episode_end", number), **dataclasses.asdict(stats)},
        )

    def _extra(self, event: str, number: int) -> dict[str, object]:
        return {"event": event, "env_id": self.env_id, "seed": self.seed, "episode": number}


class TensorBoardTracker(Closeable, CountingTracker):
    """Tracker that writes return, length and duration of episodes to a TensorBoard event file.

    The x axis is the number of steps of all episodes so far. The event file is created with the
    first episode; `close()`, or leaving a `with`, completes it. Does not need torch.

    Args:
        log_dir: folder for `tensorboard --logdir`; created if it does not exist.
        prefix: scalars are named `<prefix>/return`, `<prefix>/length`, `<prefix>/elapsed_time`.
        flush_seconds: longest time before a point is written to disk.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str], prefix: str = "episode", flush_seconds: int = 30
    ) -> None:
        super().__init__()
        self.log_dir = os.fspath(log_dir)
        self.prefix = prefix
        self._file = EventFile(log_dir, "train", "TensorBoardTracker", flush_seconds)

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Write one point of every scalar."""
        self._file.check_open()
        super().on_episode_end(stats)
        values = {
            "return": stats.episode_return,
            "length": float(stats.episode_length),
            "elapsed_time": stats.elapsed_time,
        }
        points = {f"{self.prefix}/{name}": value for name, value in values.items()}
        self._file.add_scalars(self.total_steps, points)

    def flush(self) -> None:
        """Wait until all points are written to disk."""
        self._file.flush()

    def close(self) -> None:
        """Complete the event file; a second call does nothing."""
        self._file.close()

    def summary(self) -> dict[str, Any]:
        """Counts of episodes and steps, and the log folder."""
        return {**super().summary(), "log_dir": self.log_dir}


def _check_keys(tracker: object, state: Mapping[str, Any], expected: Iterable[str]) -> None:
    if set(state) != set(expected):
        raise StateError(
            f"invalid state of {type(tracker).__name__}: keys {sorted(map(str, state))}; "
            f"expected {sorted(expected)}"
        )


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
