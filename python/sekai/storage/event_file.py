"""TensorBoard event files, written without torch."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from sekai.error import ClosedError
from sekai.storage.optional import optional_import


class EventFile:
    """Scalar curves in a TensorBoard event file, which appears with the first point.

    Args:
        folder: the folder that `tensorboard --logdir` is pointed at; created if absent.
        extra: the extra of sekai that installs tensorboard, for the error if it is missing.
        purpose: what writes the curves, for the same error.
        flush_seconds: longest time between a point and its arrival on disk.
    """

    def __init__(
        self, folder: str | os.PathLike[str], extra: str, purpose: str, flush_seconds: int = 120
    ) -> None:
        self.folder = os.fspath(folder)
        self._missing = (extra, purpose)
        self._flush_seconds = flush_seconds
        self._writer: Any = None
        self._closed = False
        self._module("summary.writer")  # A missing package is reported now, not at the first point.

    def add_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write one point of each curve at `step`."""
        self.check_open()
        if self._writer is None:
            writers = self._module("summary.writer.event_file_writer")
            self._writer = writers.EventFileWriter(self.folder, flush_secs=self._flush_seconds)
        events = self._module("compat.proto.event_pb2")
        summaries = self._module("compat.proto.summary_pb2")
        points = [
            summaries.Summary.Value(tag=name, simple_value=value) for name, value in values.items()
        ]
        summary = summaries.Summary(value=points)
        self._writer.add_event(events.Event(wall_time=time.time(), step=step, summary=summary))

    def check_open(self) -> None:
        """Raise `ClosedError` after `close`."""
        if self._closed:
            raise ClosedError(f"the event file in {self.folder} is closed; open a new one")

    def flush(self) -> None:
        """Wait until every point is on disk."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Complete the event file; a second call does nothing."""
        self._closed = True
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _module(self, name: str) -> Any:
        return optional_import(f"tensorboard.{name}", *self._missing)
