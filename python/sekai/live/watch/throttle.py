"""How many wrong guesses are answered."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

__all__ = ["Throttle"]


class Throttle:
    """Counts guesses in a span of time; a right one is never held back by the wrong ones.

    Otherwise any page on the web could send wrong ones and so lock the kill switch.
    """

    def __init__(
        self, most: int = 10, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Say how many.

        Args:
            most: guesses that are answered as such.
            seconds: in so long a time.
            clock: what gives seconds.
        """
        self._times: deque[float] = deque(maxlen=most)
        self._seconds = seconds
        self._clock = clock

    def count(self) -> bool:
        """Count a wrong guess, and say whether there were too many."""
        now = self._clock()
        is_full = len(self._times) == self._times.maxlen
        if is_full and now - self._times[0] < self._seconds:
            return True
        self._times.append(now)
        return False
