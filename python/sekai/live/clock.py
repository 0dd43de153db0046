"""Clocks of a live session: wall, monotonic and boot time; detection of steps and suspends."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Clock", "ClockGuard", "ClockReading", "age_seconds"]

SECOND = 1_000_000_000
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock:
    """Clock of this machine; simulations pass one of their own."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970 in UTC; steps when the machine's clock is set."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Nanoseconds of a clock that never steps, and stops while the machine is suspended."""
        return time.perf_counter_ns()

    def boot_ns(self) -> int:
        """Nanoseconds of a clock that never steps, and runs while the machine is suspended."""
        return self.monotonic_ns() if _BOOTTIME is None else time.clock_gettime_ns(_BOOTTIME)

    def boot_id(self) -> str:
        """Id of the current boot, within which boot times compare; empty where unknown."""
        return _boot_id()

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Reading of a clock that another process can compare with its own."""

    wall: int
    boot: int = 0
    boot_id: str = ""

    @classmethod
    def now(cls, clock: Clock) -> ClockReading:
        """Current reading."""
        return cls(clock.wall_ns(), clock.boot_ns(), clock.boot_id())


def age_seconds(earlier: ClockReading, now: ClockReading) -> float | None:
    """Seconds between two readings, of one process or two; None if unknown.

    Within one boot the boot clock counts. After a reboot only the wall clock is left, and it may
    have been set back: a negative age is unknown.
    """
    if earlier.boot_id and earlier.boot_id == now.boot_id:
        nanoseconds = now.boot - earlier.boot
    else:
        nanoseconds = now.wall - earlier.wall
    return nanoseconds / SECOND if nanoseconds >= 0 else None


@cache
def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


class ClockGuard:
    """Detects steps of the wall clock and suspends of the machine, and measures ages over both.

    Args:
        clock: the clock.
        tolerance: seconds by which clocks may differ between two samples; a wall clock that is
            adjusted slowly stays below it.
    """

    def __init__(self, clock: Clock, tolerance: float = 1.0) -> None:
        self._clock, self._tolerance = clock, round(tolerance * SECOND)
        self._last = self._sample()
        self._suspends: deque[tuple[int, int]] = deque(maxlen=100)

    def check(self) -> list[str]:
        """Compare the clocks since the last check; return a description of each anomaly."""
        wall, monotonic, boot = self._sample()
        last_wall, last_monotonic, last_boot = self._last
        self._last = wall, monotonic, boot
        passed, problems = boot - last_boot, []
        suspended = passed - (monotonic - last_monotonic)
        if suspended > self._tolerance:
            self._suspends.append((monotonic, suspended))
            problems.append(f"the machine was suspended for {suspended / SECOND:.1f} s")
        step = (wall - last_wall) - passed
        if abs(step) > self._tolerance:
            problems.append(f"the wall clock stepped by {step / SECOND:+.1f} s")
        return problems

    def age_ns(self, arrival: int) -> int:
        """Nanoseconds since `arrival` by the monotonic clock, with suspends since then."""
        suspended = sum(length for seen, length in self._suspends if seen >= arrival)
        return self._clock.monotonic_ns() - arrival + suspended

    def _sample(self) -> tuple[int, int, int]:
        clock = self._clock
        return clock.wall_ns(), clock.monotonic_ns(), clock.boot_ns()
