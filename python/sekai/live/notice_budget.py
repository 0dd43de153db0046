"""How many notices of a feed are written down: a venue that repeats itself must fill no disk."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["NoticeBudget"]

WINDOW_SECONDS = 60.0
NOTICES_IN_A_WINDOW = 20


class NoticeBudget:
    """Lets so many notices of each kind through in a minute; health of the feed counts them all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with all of it.

        Args:
            clock: tells the seconds.
        """
        self._clock = clock
        self._spent: dict[str, tuple[float, int]] = {}

    def take(self, kind: str) -> int:
        """How many of a kind there is room for, with this one; 0 if there is none."""
        now = self._clock()
        begin, count = self._spent.get(kind, (now, 0))
        if now - begin >= WINDOW_SECONDS:
            begin, count = now, 0
        self._spent[kind] = begin, count + 1
        return max(NOTICES_IN_A_WINDOW - count, 0)
