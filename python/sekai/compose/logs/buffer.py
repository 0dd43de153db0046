"""Keeps the metrics of episodes at hand for those who ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from sekai.compose.logs.level import LogLevel
from sekai.compose.logs.means import Means
from sekai.compose.logs.writer import LogWriter

__all__ = ["LogBuffer"]

BufferCallback: TypeAlias = "Callable[[bool, bool, LogBuffer], object]"


class LogBuffer(LogWriter):
    """Calls back whenever an episode, or a whole collection of them, has ended."""

    state_names: ClassVar[tuple[str, ...]] = ("_latest", "_means")

    def __init__(
        self, callback: BufferCallback, loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        """Tell `callback` of ends.

        Args:
            callback: called as `callback(on_episode, on_collect, buffer)`; one of the two flags
                is True.
            loglevel: the least level of entries to take.
        """
        super().__init__(loglevel)
        self.callback = callback
        self._latest: dict[str, float] | None = None
        self._means = Means()

    def clear(self) -> None:
        """Forget the metrics too."""
        super().clear()
        self._latest, self._means = None, Means()

    def episode_metrics(self) -> dict[str, float]:
        """The metrics of the last episode."""
        if self._latest is None:
            raise ValueError("no episode has ended yet, so there are no metrics of one")
        return dict(self._latest)

    def collect_metrics(self) -> dict[str, float]:
        """The mean of each metric over the episodes that have it."""
        return self._means.all()

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Take in the metrics of the episode, and call back."""
        self._latest = self.numbers(contents)
        self._means.add(self._latest)
        self.callback(True, False, self)

    def on_env_all_done(self) -> None:
        """Call back at the end of a collection."""
        self.callback(False, True, self)
