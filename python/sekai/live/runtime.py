"""Runtime of a live session: its clock, its threads, and the worker that runs the policy.

A session takes all of them from here, so that a simulation can replace them by a virtual clock and
one event loop.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sekai.live.clock import Clock
from sekai.live.status import StatusWriter

__all__ = ["PolicyWorker", "Runtime", "call_in_loop"]

Result = TypeVar("Result")

BLOCKING_SECONDS = 0.004
"""Time for which the event loop waits for a policy without giving way: waking a thread through the
event loop costs more than most decisions."""

JOIN_SECONDS = 2.0
"""Time to wait for the watchdog's thread to end."""


class PolicyWorker:
    """Runs a policy in a thread of its own, with a deadline.

    A decision that comes too late is discarded. Until then the worker is busy, and further
    observations are refused.

    Args:
        decide: function of the observation.
        timeout: deadline in seconds.
    """

    def __init__(self, decide: Callable[[Any], Any], timeout: float) -> None:
        self._decide, self._timeout = decide, timeout
        self._inbox: queue.SimpleQueue[tuple[Any, _Decision] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._current: _Decision | None = None

    @property
    def is_busy(self) -> bool:
        """True while a decision that came too late is still being made."""
        return self._current is not None and not self._current.done.is_set()

    async def decide(self, observation: Any) -> Any:
        """Action of the policy.

        Raises:
            TimeoutError: the policy is late, or still busy with an earlier observation.
        """
        if self.is_busy:
            raise TimeoutError("the policy is still busy with an earlier row")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sekai-policy", daemon=True)
            self._thread.start()
        decision = self._current = _Decision()
        self._inbox.put((observation, decision))
        if not decision.done.wait(min(BLOCKING_SECONDS, self._timeout)):
            await self._wait(decision)
        return decision.result()

    def close(self) -> None:
        """End the thread when it is idle; a policy that hangs does not keep the process alive."""
        self._inbox.put(None)

    async def _wait(self, decision: _Decision) -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                # The loop was closed meanwhile.
                return

        decision.wake = wake
        if decision.done.is_set():
            return
        try:
            await asyncio.wait_for(event.wait(), self._timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(f"the policy did not decide in {self._timeout:g} s") from None

    def _run(self) -> None:
        while (item := self._inbox.get()) is not None:
            observation, decision = item
            try:
                decision.value = self._decide(observation)
            except BaseException as error:
                # Raised again in the session.
                decision.error = error
            decision.finish()


class _Decision:
    """Decision of a policy in the making."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.wake: Callable[[], None] = lambda: None

    def finish(self) -> None:
        self.done.set()
        self.wake()

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class Runtime:
    """Clock and threads of a session on this machine."""

    def __init__(self, clock: Clock | None = None, seed: int | None = None) -> None:
        self.clock = clock or Clock()
        self.rng = np.random.default_rng(seed)
        """Random numbers of back-offs."""

    def policy_worker(self, decide: Callable[[Any], Any], timeout: float) -> PolicyWorker:
        """Worker that runs the policy."""
        return PolicyWorker(decide, timeout)

    async def run_blocking(self, function: Callable[[], Result]) -> Result:
        """Run a function that blocks, such as an fsync, while the event loop continues."""
        return await asyncio.to_thread(function)

    def start_watchdog(
        self, main: Callable[[], Coroutine[Any, Any, None]]
    ) -> Callable[[], Awaitable[None]]:
        """Run the watchdog in a thread with an event loop of its own.

        Returns:
            Function that waits for its end, for a bounded time.
        """
        thread = threading.Thread(
            target=lambda: asyncio.run(main()), name="sekai-watchdog", daemon=True
        )
        thread.start()

        async def join() -> None:
            await asyncio.to_thread(thread.join, JOIN_SECONDS)

        return join

    def status_writer(self, path: Path) -> StatusWriter:
        """Writer of the status file."""
        return StatusWriter(path)


async def call_in_loop(
    loop: asyncio.AbstractEventLoop, request: Callable[[], Awaitable[Result]]
) -> Result:
    """Await a call in the event loop of another thread."""

    async def call() -> Result:
        return await request()

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), loop))
