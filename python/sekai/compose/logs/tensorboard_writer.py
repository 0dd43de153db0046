"""Episodes as curves of TensorBoard."""

from __future__ import annotations

import os
import time
from typing import Any

from sekai.compose.logs.level import LogLevel
from sekai.compose.logs.packages import needed
from sekai.compose.logs.writer import LogWriter
from sekai.error import ClosedError

__all__ = ["TensorBoardWriter"]


class TensorBoardWriter(LogWriter):
    """Writes a point of every metric for each episode, over all the steps taken until then.

    Uses TensorBoard's own writer, so torch is not needed. The event file appears with the first
    episode; points are on disk when all envs are done, and after `flush()` or `close()`.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        loglevel: int | LogLevel = LogLevel.PERIODIC,
        prefix: str = "",
    ) -> None:
        """Write below `log_dir`.

        Args:
            log_dir: the folder that `tensorboard --logdir` is pointed at; made if it is not there.
            loglevel: the least level of entries to take.
            prefix: goes in front of the names of metrics, such as `"val/"`.
        """
        super().__init__(loglevel)
        _tensorboard("summary.writer")  # It is missed now, not after the first long episode.
        self.log_dir = os.fspath(log_dir)
        self.prefix = prefix
        self._file: Any = None
        self._is_closed = False

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Write a point of every metric of the episode."""
        if self._is_closed:
            raise ClosedError("the TensorBoardWriter is closed: make a new one")
        if self._file is None:
            files = _tensorboard("summary.writer.event_file_writer")
            self._file = files.EventFileWriter(self.log_dir)
        events = _tensorboard("compat.proto.event_pb2")
        summaries = _tensorboard("compat.proto.summary_pb2")
        points = [
            summaries.Summary.Value(tag=f"{self.prefix}{name}", simple_value=value)
            for name, value in self.numbers(contents).items()
        ]
        summary = summaries.Summary(value=points)
        event = events.Event(wall_time=time.time(), step=self.global_step, summary=summary)
        self._file.add_event(event)

    def on_env_all_done(self) -> None:
        """Bring the points of the collection to disk."""
        self.flush()

    def flush(self) -> None:
        """Wait until everything written so far is on disk."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Complete the event file; a second call does nothing."""
        self._is_closed = True
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _tensorboard(module: str) -> Any:
    """A module of TensorBoard, imported when it is needed; the package has no types."""
    return needed(f"tensorboard.{module}", "logging", "TensorBoardWriter")
