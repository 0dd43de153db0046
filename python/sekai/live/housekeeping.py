"""What has to be done now and then, at moments when no decision waits for it."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Housekeeping", "collecting_by_hand"]

STATUS_SECONDS = 1.0
ROWS_BETWEEN_FULL_COLLECTIONS = 200


class Housekeeping:
    """Tells those who watch, and collects garbage: right after a row, or when none comes."""

    def __init__(self, tell: Callable[[], None]) -> None:
        """Begin.

        Args:
            tell: builds and hands on the status.
        """
        self._tell = tell
        self._told = 0.0
        self._rows = 0

    def after_row(self) -> None:
        """Orders are sent, and the next row is some time away."""
        self._rows += 1
        is_long_ago = self._rows % ROWS_BETWEEN_FULL_COLLECTIONS == 0
        gc.collect(2 if is_long_ago else 0)
        if time.monotonic() - self._told >= STATUS_SECONDS:
            self.tell()

    def now_and_then(self) -> None:
        """Nothing has happened for a moment; those who watch are told if no row does it."""
        if time.monotonic() - self._told >= 1.5 * STATUS_SECONDS:
            # A feed may bring much besides rows, or nothing for weeks.
            gc.collect(1)
            self.tell()

    def tell(self) -> None:
        """Tell those who watch now."""
        self._told = time.monotonic()
        self._tell()


@contextmanager
def collecting_by_hand() -> Iterator[None]:
    """Disable automatic garbage collection in the whole process, until the last session ends.

    `Housekeeping` collects instead, and never from what is here already: looking through all that
    was imported would take longer than a decision. Afterwards the collector is as it was before
    the first session: one that was off stays off, and what was frozen stays frozen.
    """
    _sessions.begin()
    try:
        yield
    finally:
        _sessions.end()


class _Sessions:
    """The sessions of this process, and the collector as it was before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._was_enabled = self._freezes = False

    def begin(self) -> None:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._was_enabled = gc.isenabled()
                # What somebody else froze could not be told from it when it is let go.
                self._freezes = gc.get_freeze_count() == 0
                gc.disable()
                if self._freezes:
                    gc.freeze()

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0:
                if self._freezes:
                    gc.unfreeze()
                if self._was_enabled:
                    gc.enable()


_sessions = _Sessions()
