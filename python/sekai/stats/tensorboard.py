"""Writes the curves of TensorBoard."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from sekai.core.closing import Closing
from sekai.error import ClosedError, MissingExtraError
from sekai.stats.counting import CountingTracker
from sekai.stats.episode import EpisodeStats

__all__ = ["TensorBoardTracker"]


class TensorBoardTracker(Closing, CountingTracker):
    """Writes return, length and duration of every episode over the steps taken until then.

    Uses TensorBoard's own writer, so torch is not needed. The event file appears with the first
    episode; `close()`, or leaving a `with`, completes it.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str], prefix: str = "episode", flush_seconds: int = 30
    ) -> None:
        """Write below `log_dir`.

        Args:
            log_dir: the folder that `tensorboard --logdir` is pointed at; made if absent.
            prefix: curves are named `<prefix>/return` and so on.
            flush_seconds: how long a point may wait before it is on disk.
        """
        super().__init__()
        _tensorboard("summary.writer")  # It is missed now, not after the first long episode.
        self.log_dir = os.fspath(log_dir)
        self.prefix = prefix
        self._flush_seconds = flush_seconds
        self._writer: Any = None
        self._closed = False

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Write one point of every curve."""
        if self._closed:
            raise ClosedError("the TensorBoardTracker is closed: make a new one")
        super().on_episode_end(stats)
        if self._writer is None:
            writers = _tensorboard("summary.writer.event_file_writer")
            self._writer = writers.EventFileWriter(self.log_dir, flush_secs=self._flush_seconds)
        self._write(
            {
                "return": stats.episode_return,
                "length": float(stats.episode_length),
                "elapsed_time": stats.elapsed_time,
            }
        )

    def flush(self) -> None:
        """Wait until everything written so far is on disk."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Complete the event file; a second call does nothing."""
        self._closed = True
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def summary(self) -> dict[str, Any]:
        """How much has ended, and where the curves are."""
        return {**super().summary(), "log_dir": self.log_dir}

    def _write(self, values: dict[str, float]) -> None:
        events = _tensorboard("compat.proto.event_pb2")
        summaries = _tensorboard("compat.proto.summary_pb2")
        points = [
            summaries.Summary.Value(tag=f"{self.prefix}/{name}", simple_value=value)
            for name, value in values.items()
        ]
        summary = summaries.Summary(value=points)
        event = events.Event(wall_time=time.time(), step=self.total_steps, summary=summary)
        self._writer.add_event(event)


def _tensorboard(module: str) -> Any:
    """A module of TensorBoard, imported when it is needed; the package has no types."""
    try:
        return importlib.import_module(f"tensorboard.{module}")
    except ImportError as error:
        raise MissingExtraError.of("tensorboard", "train", "TensorBoardTracker") from error
