"""The file in which a session says how it is doing."""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path

from sekai.core.closing import Closing
from sekai.error import JournalError
from sekai.live.status import SessionStatus
from sekai.live.whole_file import replaced

__all__ = ["StatusWriter", "read_status"]

LARGEST = 16 * 2**20
"""Bytes that are read at most."""


class StatusWriter(Closing):
    """Replaces a file with the newest status, in a thread of its own and not too often."""

    def __init__(self, path: str | os.PathLike[str], every: float = 1.0) -> None:
        """Begin to write.

        Args:
            path: the file.
            every: seconds from one replacement to the next, at least.
        """
        if not every >= 0.0:
            raise ValueError(f"every must be at least 0 seconds, was {every}")
        self.path = Path(path)
        self.every = every
        self.written = 0
        """How often the file was replaced."""

        self.failures = 0
        """How often it could not be; the next status is tried all the same."""

        self.last_error: Exception | None = None
        # Threads put in and take out of a deque in one step: nothing is lost between.
        self._newest: deque[SessionStatus] = deque(maxlen=1)
        self._has_news = threading.Event()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sekai-status", daemon=True)
        self._thread.start()

    def offer(self, status: SessionStatus) -> None:
        """Have this written, unless a newer one comes before its time; returns at once."""
        if self._is_closing.is_set():
            raise JournalError(f"a status cannot be written to {self.path}: it is closed")
        self._newest.append(status)
        self._has_news.set()

    def close(self) -> None:
        """Return when the newest is written. Closing twice is no error."""
        self._is_closing.set()
        self._has_news.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing.is_set():
            self._has_news.wait()
            self._has_news.clear()
            self._write_newest()
            self._is_closing.wait(self.every)
        self._write_newest()

    def _write_newest(self) -> None:
        if not self._newest:
            return
        try:
            status = self._newest.pop()
            replaced(self.path, status.to_json().encode("utf-8"), wait=False)
            self.written += 1
        except Exception as error:
            # Trading goes on, and so must this thread; who watches sees that the time is old.
            self.failures += 1
            self.last_error = error


def read_status(path: str | os.PathLike[str]) -> SessionStatus:
    """What was written last.

    Raises:
        JournalError: there is nothing, or it is no status.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(f"at most {LARGEST} bytes were wanted, found more")
        return SessionStatus.from_json(content.decode("utf-8"))
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise JournalError(f"{path} is not the status of a session: {error}") from error
