"""Writes down what a feed brings."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

from sekai.core.closing import Closing
from sekai.live.events import FeedEvent
from sekai.live.feeds.event_lines import event_to_json

__all__ = ["EventRecorder"]


class EventRecorder(Closing):
    """Writes events to a file of JSON lines, packed if its name ends in `.gz`.

    Until `close` the file has `.part` behind its name, and `RecordedFeed` can read it there after
    a crash; a file under its own name is always whole.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Begin a file.

        Args:
            path: where it is to be; a file that is there is not replaced.
        """
        self.path = Path(path)
        self.part = self.path.with_name(self.path.name + ".part")
        for file in (self.path, self.part):
            if file.exists():
                raise FileExistsError(
                    f"a new file was wanted, {str(file)!r} is there: move it or choose another name"
                )
        self._raw = self.part.open("xb")
        packed = self.path.suffix == ".gz"
        self._file: io.IOBase = gzip.GzipFile(fileobj=self._raw, mode="wb") if packed else self._raw
        self.count = 0

    def record(self, event: FeedEvent) -> None:
        """Write an event down."""
        self._file.write(event_to_json(event).encode() + b"\n")
        self.count += 1

    def flush(self) -> None:
        """Hand what was recorded to the operating system: a killed process leaves it behind."""
        self._file.flush()
        self._raw.flush()

    def close(self) -> None:
        """Finish the file and give it its name. Closing twice is no error."""
        if self._raw.closed:
            return
        if self._file is not self._raw:
            self._file.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        os.replace(self.part, self.path)
