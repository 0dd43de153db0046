"""Tell how training goes to who writes it down."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sekai.error import MissingExtraError
from sekai.stats import StatsTracker
from sekai.training.callbacks.callback import Callback

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Track"]

MetricsWriter = Callable[[int, Mapping[str, float]], object]
"""Takes the steps that were learnt so far, and the metrics that are known."""


class Track(Callback):
    """Hands metrics or episodes on, wherever in the list it is.

    A folder gets the curves of all metrics for TensorBoard. A `StatsTracker` hears of every
    episode that ends (nobody can say how long one took: the envs act together, and learning comes
    between, so that the time is NaN). A function is called with the steps so far and the metrics.
    """

    def __init__(self, to: str | os.PathLike[str] | StatsTracker | MetricsWriter) -> None:
        """Say who writes.

        Args:
            to: a folder, a tracker, or a function.
        """
        self.tracker: StatsTracker | None = None
        self.writer: MetricsWriter | None = None
        if isinstance(to, (str, os.PathLike)):
            self.writer = _TensorBoard(to)
        elif isinstance(to, StatsTracker):
            self.tracker = to
        elif callable(to):
            self.writer = to
        else:
            raise TypeError(f"a folder, a StatsTracker or a function was wanted, found {to!r}")

    def on_start(self, agent: Agent) -> None:
        """Have episodes listed, if somebody wants to hear of them."""
        if self.tracker is not None:
            agent.episodes.is_listing = True
            self.tracker.on_reset(_name(agent), agent.seed)

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Hand on."""
        if self.tracker is not None:
            for stats in agent.episodes.ended:
                self.tracker.on_episode_end(stats)
        if self.writer is not None:
            known = {name: value for name, value in metrics.items() if not math.isnan(value)}
            self.writer(agent.steps, known)

    def on_end(self, agent: Agent) -> None:
        """Have everything written."""
        if isinstance(self.writer, _TensorBoard):
            self.writer.close()


class _TensorBoard:
    """Curves of metrics over steps."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        _tensorboard("summary.writer")  # It is missed now, not after the first iteration.
        self._folder = os.fspath(folder)
        self._writer: Any = None

    def __call__(self, steps: int, metrics: Mapping[str, float]) -> None:
        if self._writer is None:
            writers = _tensorboard("summary.writer.event_file_writer")
            self._writer = writers.EventFileWriter(self._folder)
        events = _tensorboard("compat.proto.event_pb2")
        summaries = _tensorboard("compat.proto.summary_pb2")
        points = [
            summaries.Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()
        ]
        summary = summaries.Summary(value=points)
        self._writer.add_event(events.Event(wall_time=time.time(), step=steps, summary=summary))

    def close(self) -> None:
        """Complete the file; another training begins another one."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _name(agent: Agent) -> str:
    given = agent.env_given
    return given if isinstance(given, str) else getattr(given, "id", type(given).__name__)


def _tensorboard(module: str) -> Any:
    try:
        return import_module(f"tensorboard.{module}")
    except ImportError as error:
        raise MissingExtraError.of("tensorboard", "train", "Track(folder)") from error
