"""Virtual time: a clock, an event loop that never sleeps, and a runtime without threads."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sekai.live.clock import Clock
from sekai.live.runtime import PolicyWorker, Runtime
from sekai.live.status import SessionStatus

Result = TypeVar("Result")

SECOND = 1_000_000_000
MOST_TIMERS = 100
"""Number of timers above which cancelled ones are removed."""


class VirtualClock(Clock):
    """Clock that moves when the event loop would sleep."""

    def __init__(self, wall: int) -> None:
        self._monotonic = SECOND
        self._boot = SECOND
        self._wall = wall
        self.true_wall = wall
        """Time of the world, which steps of the machine's clock do not change."""

        self.boot = "boot-1"

    def wall_ns(self) -> int:
        return self._wall

    def monotonic_ns(self) -> int:
        return self._monotonic

    def boot_ns(self) -> int:
        return self._boot

    def boot_id(self) -> str:
        return self.boot

    async def sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        await loop.sleeper(seconds)

    def advance(self, nanoseconds: int) -> None:
        """Let time pass."""
        self._monotonic += nanoseconds
        self._boot += nanoseconds
        self._wall += nanoseconds
        self.true_wall += nanoseconds

    def step_wall(self, nanoseconds: int) -> None:
        """Set the machine's clock."""
        self._wall += nanoseconds

    def suspend(self, nanoseconds: int) -> None:
        """Suspend the machine: the monotonic clock stands still."""
        self._boot += nanoseconds
        self._wall += nanoseconds
        self.true_wall += nanoseconds

    def reboot(self, nanoseconds: int, wall_step: int) -> None:
        """Restart the machine after a time, with its clock set wrong."""
        self.suspend(nanoseconds)
        self._boot = self._monotonic = SECOND
        self._wall += wall_step
        self.boot += "'"


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop whose timers are due at once, in order: virtual time passes instead.

    Nothing comes from outside, so that no file is ever waited for.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._virtual_clock = clock
        self.slow_callback_duration = float("inf")
        # Of the base class, which has no types.
        self._scheduled: list[Any] = []
        self._timer_cancelled_count = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = itertools.count()

    def sleeper(self, seconds: float) -> asyncio.Future[None]:
        """Future that is done after a time: most waits of a session, without a timer each."""
        future: asyncio.Future[None] = self.create_future()
        due = self._virtual_clock.monotonic_ns() + round(seconds * SECOND)
        heapq.heappush(self._sleepers, (due, next(self._count), future))
        return future

    def time(self) -> float:
        return self._virtual_clock.monotonic_ns() / SECOND

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False
        if len(scheduled) > MOST_TIMERS and self._timer_cancelled_count > len(scheduled) / 2:
            for handle in scheduled:
                handle._scheduled = not handle._cancelled
            scheduled = self._scheduled = [one for one in scheduled if not one._cancelled]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        clock, sleepers = self._virtual_clock, self._sleepers
        if not ready and (scheduled or sleepers):
            due = round(scheduled[0]._when * SECOND) if scheduled else sleepers[0][0]
            due = min(due, sleepers[0][0]) if sleepers else due
            clock.advance(max(0, due - clock.monotonic_ns()))
        while sleepers and sleepers[0][0] <= clock.monotonic_ns():
            future = heapq.heappop(sleepers)[2]
            if not future.done():
                future.set_result(None)
        end = self.time() + self._clock_resolution  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._when < end:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _write_to_self(self) -> None:
        """Wake nothing: all callbacks are of this thread."""


class VirtualWorker(PolicyWorker):
    """Policy worker whose decisions take the virtual time that the policy says."""

    def __init__(self, decide: Callable[[Any], Any], timeout: float, clock: VirtualClock) -> None:
        super().__init__(decide, timeout)
        self._virtual_clock = clock
        self._busy_until = 0

    async def decide(self, observation: Any) -> Any:
        if self._virtual_clock.monotonic_ns() < self._busy_until:
            raise TimeoutError("the policy is still busy with an earlier row")
        action = self._decide(observation)
        seconds = getattr(self._decide, "seconds", 0.0)
        if seconds:
            begin = self._virtual_clock.monotonic_ns()
            self._busy_until = begin + round(seconds * SECOND)
            await asyncio.sleep(min(seconds, self._timeout))
            if seconds > self._timeout:
                raise TimeoutError(f"the policy did not decide in {self._timeout:g} s")
        return action

    def close(self) -> None:
        return


class StatusRecorder:
    """Status writer that keeps statuses in memory."""

    def __init__(self, clock: VirtualClock) -> None:
        self._virtual_clock = clock
        self.statuses: list[SessionStatus] = []
        self.cause_times: dict[str, int] = {}
        """True time of the first status with each cause."""

        self.failures = 0
        self.last_error: Exception | None = None

    def offer(self, status: SessionStatus) -> None:
        try:
            status.to_json()
        except ValueError as error:
            self.failures += 1
            self.last_error = error
        self.statuses.append(status)
        for name in status.causes:
            self.cause_times.setdefault(name, self._virtual_clock.true_wall)

    def __enter__(self) -> StatusRecorder:
        return self

    def __exit__(self, *error: object) -> None:
        return


class VirtualRuntime(Runtime):
    """Runtime on one virtual event loop: the watchdog is a task of it."""

    def __init__(self, clock: VirtualClock, recorder: StatusRecorder, seed: int) -> None:
        super().__init__(clock, seed)
        self._virtual_clock, self._recorder = clock, recorder

    def policy_worker(self, decide: Callable[[Any], Any], timeout: float) -> PolicyWorker:
        return VirtualWorker(decide, timeout, self._virtual_clock)

    async def run_blocking(self, function: Callable[[], Result]) -> Result:
        return function()

    def start_watchdog(
        self, main: Callable[[], Coroutine[Any, Any, None]]
    ) -> Callable[[], Awaitable[None]]:
        task = asyncio.ensure_future(main())

        async def join() -> None:
            await asyncio.wait({task}, timeout=2.0)

        return join

    def status_writer(self, path: Any) -> Any:
        return self._recorder
