"""Worker pool: starts the worker processes of a vector env, exchanges messages, ends them."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import SekaiError
from sekai.vector.messages import (
    FAULT,
    REQUEST,
    STEP,
    VALUE,
    TimedPipe,
    load_error,
    request_id,
    seconds_until,
)
from sekai.vector.shared_memory import SharedBlock, VectorMemory, Wakeup
from sekai.vector.worker import Assignment, serve

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess


CLOSE_SECONDS = 5.0
"""Seconds that the envs of all workers together may take to close."""

ALIVE_CHECK_SECONDS = 1.0
"""Seconds between checks that a worker is alive while waiting for its reply."""


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """Reply of a worker: a pickled value, or an error."""

    pickled: bytes | None = None
    error: BaseException | None = None

    @property
    def value(self) -> Any:
        """Unpickled value."""
        return None if self.pickled is None else pickle.loads(self.pickled)


@dataclass(frozen=True, slots=True)
class LostWorker:
    """Worker that does not reply any more."""

    reason: str
    exit_code: int | None


class WorkerProcess:
    """Worker process, as its parent sees it."""

    def __init__(
        self,
        context: BaseContext,
        assignment: Assignment,
        siblings: Sequence[WorkerProcess],
        wakeup: Wakeup,
    ) -> None:
        self._number = assignment.number
        self._orders: NDArray[np.int64] = np.empty(0, np.int64)
        ours, theirs = context.Pipe()
        self._pipe = TimedPipe(ours)
        is_fork = context.get_start_method() == "fork"
        inherited = [worker._pipe for worker in (*siblings, self)] if is_fork else []
        self._process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=serve,
            args=(theirs, assignment, inherited),
            name=f"sekai-worker-{assignment.number}",
            daemon=True,
        )
        try:
            self._process.start()
        except BaseException:
            self._pipe.close()
            raise
        finally:
            theirs.close()
        self._wakeup = wakeup
        self._poller = select.poll()
        self._poller.register(self._pipe.fileno(), select.POLLIN)

    @property
    def process_id(self) -> int:
        """Process id."""
        assert self._process.pid is not None, "the process has been started"
        return self._process.pid

    def share(self, block: SharedBlock, memory: VectorMemory, next_wakeup: Wakeup) -> None:
        """Send the shared memory of step requests, and their wake-ups."""
        self._orders = memory.orders
        # Clear the request of the previous worker.
        self._orders[self._number] = 0
        block.send(self._pipe, self.process_id)
        self._wakeup.send_wait_end(self._pipe, self.process_id)
        next_wakeup.send_notify_end(self._pipe, self.process_id)

    def put(self, count: int, message: bytes) -> None:
        """Post the `count`-th request, which the worker reads when woken.

        A long message is sent in part: the worker must read before there is room for the rest. A
        dead worker is detected by its missing reply.
        """
        if message[:1] == STEP:
            self._orders[self._number] = 2 * count + message[1]
        else:
            self._pipe.post(bytes((request_id(count),)) + message)

    def wake(self) -> None:
        """Wake the worker to look for a request."""
        self._wakeup.notify()

    @property
    def is_sent(self) -> bool:
        """True if every request has been sent completely."""
        return self._pipe.is_sent

    def register(self, poller: select.poll) -> int:
        """Register with a poller to send the rest of a request; return the file descriptor."""
        poller.register(self._pipe.fileno(), self._pipe.wanted_events)
        return self._pipe.fileno()

    def send_more(self) -> bool:
        """Send as much as possible; return True if there is more to send."""
        try:
            self._pipe.push()
            self._pipe.pull()
        except (EOFError, OSError):
            return False
        return not self.is_sent

    def receive(self, number: int, deadline: float | None) -> WorkerReply | LostWorker:
        """Wait for the reply to request `number`; return `LostWorker` if none will come."""
        try:
            while True:
                message = self._pipe.message()
                if message is None:
                    self._wait(deadline)
                    self._pipe.pull()
                elif message[0] == number:
                    return _answer(message)
        except (EOFError, OSError) as error:
            exit_code = self.kill()
            if isinstance(error, (TimeoutError, BlockingIOError)):
                return LostWorker("no reply within step_timeout, process killed", None)
            return LostWorker(f"process {_describe(exit_code)}", exit_code)

    def kill(self) -> int | None:
        """Kill the process if it is running; return its exit code."""
        # An ended worker keeps its exit code; a stopped one ignores SIGTERM.
        self._process.join(0.2 if self._is_over() else 0)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        return self._process.exitcode

    def await_end(self, deadline: float) -> None:
        """Wait until the process has ended, and kill it at the deadline."""
        self._process.join(max(0.0, deadline - time.monotonic()))
        self.kill()

    def release(self) -> None:
        """Close the file descriptors of an ended process."""
        self._pipe.close()
        self._process.close()

    def _wait(self, deadline: float | None) -> None:
        while True:
            if self._poller.poll(seconds_until(deadline, ALIVE_CHECK_SECONDS) * 1e3):
                return
            if not self._process.is_alive() and not self._poller.poll(0):
                # A child of the worker keeps its end of the pipe open.
                raise EOFError
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError

    @property
    def is_alive(self) -> bool:
        """True if the process has not ended."""
        return self._process.is_alive()

    def _is_over(self) -> bool:
        """Return True if the other end of the pipe is closed: the process ends or is about to."""
        return any(event & select.POLLHUP for _, event in self._poller.poll(0))


class WorkerPool:
    """Worker processes of a vector env."""

    def __init__(self, context: BaseContext, assignments: Sequence[Assignment]) -> None:
        self._context = context
        self._owner = os.getpid()
        self._count = 0
        self.workers: list[WorkerProcess] = []
        self._wakeups = [Wakeup.create() for _ in assignments]
        try:
            for assignment, wakeup in zip(assignments, self._wakeups, strict=True):
                self.workers.append(WorkerProcess(context, assignment, self.workers, wakeup))
        except BaseException:
            self.close(polite=False)
            raise

    def exchange(
        self, messages: Mapping[int, bytes], timeout: float | None
    ) -> dict[int, WorkerReply | LostWorker]:
        """Send requests to some workers and wait for their replies."""
        self._count += 1
        deadline = None if timeout is None else time.monotonic() + timeout
        for worker, message in messages.items():
            self.workers[worker].put(self._count, message)
        for worker in messages:
            self.workers[worker].wake()
        self._send_rest([self.workers[worker] for worker in messages], deadline)
        number = request_id(self._count)
        return {worker: self.workers[worker].receive(number, deadline) for worker in messages}

    def greetings(
        self, workers: Iterable[int], timeout: float
    ) -> dict[int, WorkerReply | LostWorker]:
        """Wait for the first message of new workers."""
        deadline = time.monotonic() + timeout
        return {worker: self.workers[worker].receive(0, deadline) for worker in workers}

    def _send_rest(self, workers: Sequence[WorkerProcess], deadline: float | None) -> None:
        """Send the rest of long messages to all workers in parallel.

        A stopped worker does not delay the others. One that has not read everything by the deadline
        will not reply either.
        """
        unsent = [worker for worker in workers if not worker.is_sent]
        while unsent:
            poller = select.poll()
            by_file = {worker.register(poller): worker for worker in unsent}
            ready = poller.poll(seconds_until(deadline, ALIVE_CHECK_SECONDS) * 1e3)
            is_late = deadline is not None and time.monotonic() >= deadline
            if not ready and (is_late or not any(worker.is_alive for worker in unsent)):
                return
            done = [by_file[file] for file, _ in ready if not by_file[file].send_more()]
            for worker in done:
                # It may have been woken before the first byte was sent.
                worker.wake()
            unsent = [worker for worker in unsent if worker not in done]

    def replace(self, number: int, assignment: Assignment) -> None:
        """Start a new process in place of a lost one."""
        self.workers[number].release()
        others = [worker for worker in self.workers if worker is not self.workers[number]]
        wakeup = self._wakeups[number]
        self.workers[number] = WorkerProcess(self._context, assignment, others, wakeup)

    def share(self, number: int, block: SharedBlock, memory: VectorMemory) -> None:
        """Send a new or replaced worker the shared memory and wake-ups."""
        next_wakeup = self._wakeups[(number + 1) % len(self._wakeups)]
        self.workers[number].share(block, memory, next_wakeup)

    def close(self, polite: bool = True) -> list[BaseException]:
        """End all processes and return the errors of envs that failed to close.

        Args:
            polite: ask the envs to close, and give them time.
        """
        if os.getpid() != self._owner:
            # A forked copy of this object: the workers belong to the parent process.
            return []
        deadline = time.monotonic() + (CLOSE_SECONDS if polite else 0.0)
        answers: dict[int, WorkerReply | LostWorker] = {}
        if polite:
            request = REQUEST + pickle.dumps(("close", ()))
            answers = self.exchange(dict.fromkeys(range(len(self.workers)), request), CLOSE_SECONDS)
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.await_end(deadline)
            worker.release()
        while self._wakeups:
            self._wakeups.pop().close()
        replies = [answer for answer in answers.values() if isinstance(answer, WorkerReply)]
        return [answer.error for answer in replies if answer.error is not None]


def start_context(start_method: str | None) -> BaseContext:
    """Return the multiprocessing context: the requested start method, else forkserver or spawn.

    The process-wide start method of the program is ignored. Not fork by default: a forked child has
    the locks, but not the threads, of its parent, and training uses threads.
    """
    import multiprocessing

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SekaiError(MAIN_GUARD)
    method = start_method
    if method is None:
        known = multiprocessing.get_all_start_methods()
        method = "forkserver" if "forkserver" in known else "spawn"
    context: BaseContext = multiprocessing.get_context(method)
    if method == "forkserver":
        _preload(context)
    return context


MAIN_GUARD = (
    "worker processes import the main script, which starts worker processes; put the script's code "
    "under `if __name__ == '__main__':`, or pass start_method='fork'"
)


def _preload(context: BaseContext) -> None:
    """Preload sekai in the fork server, so that workers need not import it."""
    from multiprocessing import forkserver

    server = forkserver._forkserver
    # Keep a preload list that the program has set.
    if getattr(server, "_preload_modules", None) == ["__main__"]:
        context.set_forkserver_preload(["__main__", "sekai.vector.worker"])


def _answer(message: bytes) -> WorkerReply:
    kind, pickled = message[1:2], message[2:]
    if kind == FAULT:
        return WorkerReply(error=load_error(pickled))
    return WorkerReply(pickled if kind == VALUE else None)


def _describe(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"
