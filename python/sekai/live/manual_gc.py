"""Manual garbage collection between rows, when no decision waits for it."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sekai.live.clock import Clock

__all__ = ["ManualGC", "automatic_gc_disabled"]

STATUS_SECONDS = 1.0
ROWS_BETWEEN_FULL_COLLECTIONS = 200


class ManualGC:
    """Collects garbage and publishes the status after a row, or when no row arrives.

    Args:
        publish_status: function that publishes the status.
        clock: clock.
    """

    def __init__(self, publish_status: Callable[[], None], clock: Clock | None = None) -> None:
        self._publish_status = publish_status
        self._clock = clock or Clock()
        self._published = -math.inf
        self._rows = 0

    def after_row(self) -> None:
        """Collect after the orders of a row are submitted."""
        self._rows += 1
        is_full = self._rows % ROWS_BETWEEN_FULL_COLLECTIONS == 0
        gc.collect(2 if is_full else 0)
        if self._now() - self._published >= STATUS_SECONDS:
            self._publish()

    def when_idle(self) -> None:
        """Collect and publish if no row has done so for a while."""
        if self._now() - self._published >= 1.5 * STATUS_SECONDS:
            # A feed may bring many events besides rows, or nothing for weeks.
            gc.collect(1)
            self._publish()

    def _now(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def _publish(self) -> None:
        self._published = self._now()
        self._publish_status()


@contextmanager
def automatic_gc_disabled() -> Iterator[None]:
    """Disable automatic garbage collection in the process until the last session ends.

    Objects that exist already are frozen: scanning all imported modules would take longer than a
    decision. Afterwards the collector is as before the first session: one that was off stays off,
    and what was frozen stays frozen.
    """
    _sessions.begin()
    try:
        yield
    finally:
        _sessions.end()


class _Sessions:
    """Number of running sessions, and the collector's settings before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._was_enabled = self._freezes = False

    def begin(self) -> None:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._was_enabled = gc.isenabled()
                # `unfreeze` could not tell apart what others froze.
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
