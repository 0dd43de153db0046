"""Log writers: the contract, metrics in memory, and the console."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TextIO, TypeAlias

from sekai.compose.logs.collector import LogLevel
from sekai.core.base import Closeable
from sekai.error import ResetRequired, StateError

__all__ = ["ConsoleWriter", "LogBuffer", "LogWriter", "RunningMeans"]


class LogWriter(Closeable):
    """Log writer of the episodes of many envs; implement `log_step` or `log_episode`.

    The vector env calls the `on_env_...` methods in its own process, so that a writer needs no
    locks and is never copied.

    Args:
        loglevel: entries below this level are left out.
    """

    state_names: ClassVar[tuple[str, ...]] = (
        "episode_count",
        "step_count",
        "global_episode",
        "global_step",
        "episode_lengths",
        "episode_rewards",
        "episode_logs",
    )
    """Attributes that are saved; subclasses list those that they add."""

    def __init__(self, loglevel: int | LogLevel = LogLevel.PERIODIC) -> None:
        self.loglevel = int(loglevel)
        self.global_episode = 0
        self.global_step = 0
        self._clear_counts()

    def _clear_counts(self) -> None:
        self.episode_count = 0
        """Finished episodes since the last `clear`; `global_episode` counts all."""
        self.step_count = 0
        """Steps since the last `clear`; `global_step` counts all."""
        self.episode_lengths: dict[int, int] = {}
        self.episode_rewards: dict[int, list[float]] = {}
        self.episode_logs: dict[int, list[dict[str, Any]]] = {}

    def clear(self) -> None:
        """Clear everything but the global counts, at the start of a collection."""
        self._clear_counts()

    @staticmethod
    def aggregation(values: Sequence[Any], name: str) -> Any:
        """Aggregate the values of an episode's steps.

        Floats become their mean, and those called "reward" their sum; of other values the first is
        taken.
        """
        if not len(values):
            raise ValueError(f"no values of {name!r} to aggregate; expected at least one")
        if not all(isinstance(value, float) for value in values):
            return values[0]
        total = math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
        return float(total) if name == "reward" else float(total / len(values))

    def aggregated(self, contents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Contents of an episode, each name aggregated over the steps that have it."""
        columns: dict[str, list[Any]] = {}
        for step in contents:
            for name, value in step.items():
                columns.setdefault(name, []).append(value)
        return {name: self.aggregation(values, name) for name, values in columns.items()}

    def numbers(self, contents: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Floats among the aggregated contents of an episode."""
        values = self.aggregated(contents)
        return {name: value for name, value in values.items() if isinstance(value, float)}

    def log_step(self, reward: float, contents: dict[str, Any]) -> None:
        """Write a step.

        Args:
            reward: reward of the step.
            contents: log of the step, name -> value.
        """

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Write a finished episode.

        Args:
            length: number of steps.
            rewards: reward of each step.
            contents: log of each step, name -> value; before them the log of the reset, if any.
        """

    def on_env_reset(self, env_id: int, obs: Any, info: Mapping[str, Any] | None = None) -> None:
        """Handle the reset of an env."""
        self.episode_lengths[env_id] = 0
        self.episode_rewards[env_id] = []
        contents = self._contents({} if info is None else info)
        self.episode_logs[env_id] = [contents] if contents else []

    def on_env_step(
        self, env_id: int, obs: Any, rew: float, done: bool, info: Mapping[str, Any]
    ) -> None:
        """Handle a step of an env; `done` if its episode has ended."""
        if env_id not in self.episode_lengths:
            raise ResetRequired(
                f"{type(self).__name__} got a step of env {env_id} before its reset; call "
                "on_env_reset() when an episode begins"
            )
        reward, contents = float(rew), self._contents(info)
        self.global_step += 1
        self.step_count += 1
        self.episode_lengths[env_id] += 1
        self.episode_rewards[env_id].append(reward)
        self.episode_logs[env_id].append(contents)
        self.log_step(reward, contents)
        if done:
            self.global_episode += 1
            self.episode_count += 1
            # The env has no episode until its next reset.
            length, rewards = self.episode_lengths.pop(env_id), self.episode_rewards.pop(env_id)
            self.log_episode(length, rewards, self.episode_logs.pop(env_id))

    def on_env_all_ready(self) -> None:
        """Handle the start of a collection."""
        self.clear()

    def on_env_all_done(self) -> None:
        """Handle the end of a collection."""

    def flush(self) -> None:
        """Write everything so far to disk.

        Called instead of `on_env_all_done` when an exception aborts a collection.
        """

    def close(self) -> None:
        """Flush, and release resources."""
        self.flush()

    def state_dict(self) -> dict[str, Any]:
        """Counts, and logs of unfinished episodes."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self._saved_names()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a saved state; a rejected one changes nothing."""
        names = self._saved_names()
        if state_dict.keys() != set(names):
            raise StateError(
                f"state of {type(self).__name__} must have the keys {sorted(names)}, got "
                f"{sorted(map(str, state_dict))}"
            )
        for name in names:
            setattr(self, name, copy.deepcopy(state_dict[name]))

    def _saved_names(self) -> list[str]:
        names = (vars(ancestor).get("state_names", ()) for ancestor in type(self).__mro__)
        return [name for own in names for name in own]

    def _contents(self, info: Mapping[str, Any]) -> dict[str, Any]:
        log = info.get("log", {})
        return {name: value for name, (level, value) in log.items() if level >= self.loglevel}


class RunningMeans:
    """Mean of each metric over the episodes that have it."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, metrics: Mapping[str, float]) -> None:
        """Add the metrics of one episode."""
        for name, value in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] = self._counts.get(name, 0) + 1

    def of(self, name: str) -> float:
        """Mean of one metric."""
        return self._sums[name] / self._counts[name]

    def all(self) -> dict[str, float]:
        """Mean of every metric."""
        return {name: self.of(name) for name in self._sums}


BufferCallback: TypeAlias = "Callable[[bool, bool, LogBuffer], object]"


class LogBuffer(LogWriter):
    """Log buffer that calls back at the end of each episode and collection.

    Args:
        callback: called as `callback(on_episode, on_collect, buffer)`; one of the flags is True.
        loglevel: entries below this level are left out.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_latest", "_means")

    def __init__(
        self, callback: BufferCallback, loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        super().__init__(loglevel)
        self.callback = callback
        self._latest: dict[str, float] | None = None
        self._means = RunningMeans()

    def clear(self) -> None:
        """Clear the metrics too."""
        super().clear()
        self._latest, self._means = None, RunningMeans()

    def episode_metrics(self) -> dict[str, float]:
        """Metrics of the last episode."""
        if self._latest is None:
            raise ValueError("no metrics yet: no episode has ended")
        return dict(self._latest)

    def collect_metrics(self) -> dict[str, float]:
        """Mean of each metric over the episodes that have it."""
        return self._means.all()

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Add the metrics of the episode, and call back."""
        self._latest = self.numbers(contents)
        self._means.add(self._latest)
        self.callback(True, False, self)

    def on_env_all_done(self) -> None:
        """Call back at the end of a collection."""
        self.callback(False, True, self)


class ConsoleWriter(LogWriter):
    """Log writer that prints a line every few episodes, each metric with its running mean.

    `prefix` is put before each line, and may be changed at any time.

    Args:
        log_every_n_episode: episodes between two lines.
        total_episodes: expected number of episodes; the last one has a line too.
        float_format: format of metrics, with a colon as in a format string.
        counter_format: format of the number of episodes.
        loglevel: entries below this level are left out.
        stream: output stream; None for the current standard output.
    """

    state_names: ClassVar[tuple[str, ...]] = ("prefix", "_means")

    def __init__(
        self,
        log_every_n_episode: int = 20,
        total_episodes: int | None = None,
        float_format: str = ":.4f",
        counter_format: str = ":4d",
        loglevel: int | LogLevel = LogLevel.PERIODIC,
        stream: TextIO | None = None,
    ) -> None:
        if log_every_n_episode < 1:
            raise ValueError(f"log_every_n_episode must be at least 1, got {log_every_n_episode}")
        super().__init__(loglevel)
        self.log_every_n_episode = log_every_n_episode
        self.total_episodes = total_episodes
        self.float_format = float_format
        self.counter_format = counter_format
        self.stream = stream
        self.prefix = ""
        self._means = RunningMeans()

    def clear(self) -> None:
        """Clear the running means too."""
        super().clear()
        self._means = RunningMeans()

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Add the metrics of the episode, and print them if due."""
        metrics = self.numbers(contents)
        self._means.add(metrics)
        is_last = self.episode_count == self.total_episodes
        if is_last or self.episode_count % self.log_every_n_episode == 0:
            stream = sys.stdout if self.stream is None else self.stream
            stream.write(self.generate_log_message(metrics) + "\n")
            stream.flush()

    def generate_log_message(self, logs: Mapping[str, float]) -> str:
        """Line for the metrics of an episode."""
        count = f"{{{self.counter_format}}}".format(self.episode_count)
        total = self.total_episodes
        counted = f"[Step {count}]" if total is None else f"[{count}/{total}]"
        number = f"{{{self.float_format}}}"
        metrics = [
            f"  {name} {number.format(value)} ({number.format(self._means.of(name))})"
            for name, value in logs.items()
        ]
        return f"{self.prefix} {counted} {''.join(metrics)}".strip()
