"""What has to be done now and then, at moments when no decision waits for it."""

from __future__ import annotations

import gc
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
    """Garbage is collected by `Housekeeping` alone, and never from what is here already.

    Looking through all that was imported would take longer than a decision.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
