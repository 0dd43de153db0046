"""Prints how episodes go."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ClassVar, TextIO

from sekai.compose.logs.level import LogLevel
from sekai.compose.logs.means import Means
from sekai.compose.logs.writer import LogWriter

__all__ = ["ConsoleWriter"]


class ConsoleWriter(LogWriter):
    """Prints a line every few episodes, each metric with its running mean in brackets.

    `prefix` goes in front of each line, and may be changed at any time.
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
        """Print now and then.

        Args:
            log_every_n_episode: episodes from one line to the next.
            total_episodes: how many are expected; the last of them has a line too.
            float_format: of metrics, with a colon in front as in a format string.
            counter_format: of the number of episodes.
            loglevel: the least level of entries to take.
            stream: where to print; None is the standard output of the moment.
        """
        if log_every_n_episode < 1:
            raise ValueError(f"log_every_n_episode must be at least 1, was {log_every_n_episode}")
        super().__init__(loglevel)
        self.log_every_n_episode = log_every_n_episode
        self.total_episodes = total_episodes
        self.float_format = float_format
        self.counter_format = counter_format
        self.stream = stream
        self.prefix = ""
        self._means = Means()

    def clear(self) -> None:
        """Begin the running means anew too."""
        super().clear()
        self._means = Means()

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Take in the metrics of the episode, and print them if it is time."""
        metrics = self.numbers(contents)
        self._means.add(metrics)
        is_last = self.episode_count == self.total_episodes
        if is_last or self.episode_count % self.log_every_n_episode == 0:
            stream = sys.stdout if self.stream is None else self.stream
            stream.write(self.generate_log_message(metrics) + "\n")
            stream.flush()

    def generate_log_message(self, logs: Mapping[str, float]) -> str:
        """The line for the metrics of an episode."""
        count = f"{{{self.counter_format}}}".format(self.episode_count)
        total = self.total_episodes
        counted = f"[Step {count}]" if total is None else f"[{count}/{total}]"
        number = f"{{{self.float_format}}}"
        metrics = [
            f"  {name} {number.format(value)} ({number.format(self._means.of(name))})"
            for name, value in logs.items()
        ]
        return f"{self.prefix} {counted} {''.join(metrics)}".strip()
