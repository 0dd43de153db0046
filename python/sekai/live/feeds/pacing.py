"""When a recorded event is due: as fast as asked for, or so many times as fast as it happened."""

from __future__ import annotations

import asyncio

__all__ = ["Pacing"]

SHARED_AFTER = 64
"""Events after which others in the loop have their turn, where there is nothing to wait for."""


class Pacing:
    """Waits until an event of a certain time is due."""

    def __init__(self, speed: float | None) -> None:
        """Say how fast.

        Args:
            speed: how many times as fast as it happened; None for as fast as it is asked for.
        """
        if speed is not None and not 0 < speed < float("inf"):
            raise ValueError(f"speed must be above 0 or None, was {speed}")
        self.speed = speed
        self._origin: tuple[float, int] | None = None
        self._number = 0

    def is_free(self) -> bool:
        """Whether the next event may be taken without waiting, and without keeping others."""
        if self.speed is not None or self._number % SHARED_AFTER == SHARED_AFTER - 1:
            return False
        self._number += 1
        return True

    async def wait(self, event_time: int) -> None:
        """Return when it is due; the first event is due at once."""
        if self.speed is None:
            self._number += 1
            if self._number % SHARED_AFTER == 0:
                await asyncio.sleep(0)
            return
        now = asyncio.get_running_loop().time()
        if self._origin is None:
            self._origin = (now, event_time)
        begin, first = self._origin
        due = begin + (event_time - first) / 1e9 / self.speed
        if due > now:
            await asyncio.sleep(due - now)
