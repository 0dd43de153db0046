"""The worker processes of a vector env: begins them, talks to them, and ends them."""

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
from sekai.vector.bell import Bell
from sekai.vector.shared_memory import SharedBlock, VectorMemory
from sekai.vector.timed_pipe import TimedPipe, seconds_until
from sekai.vector.wire import FAULT, REQUEST, STEP, VALUE, error_from, short_number
from sekai.vector.worker import Assignment, serve

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

__all__ = ["Answer", "Crew", "Lost", "chosen_context"]

CLOSE_SECONDS = 5.0
"""How long the envs of all workers together may take to close."""

ALIVE_CHECK_SECONDS = 1.0
"""How often a waiting vector makes sure that the worker it waits for is there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker said: the value, still pickled, or the error of a request."""

    pickled: bytes | None = None
    error: BaseException | None = None

    @property
    def value(self) -> Any:
        """What the worker was asked for."""
        return None if self.pickled is None else pickle.loads(self.pickled)


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker that said nothing any more."""

    reason: str
    exit_code: int | None


class WorkerProcess:
    """One worker process, seen from its parent."""

    def __init__(
        self,
        context: BaseContext,
        assignment: Assignment,
        siblings: Sequence[WorkerProcess],
        bell: Bell,
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
        self._bell = bell
        self._poller = select.poll()
        self._poller.register(self._pipe.fileno(), select.POLLIN)

    @property
    def process_id(self) -> int:
        """The id of the process."""
        assert self._process.pid is not None, "the process has been started"
        return self._process.pid

    def share(self, block: SharedBlock, memory: VectorMemory, next_bell: Bell) -> None:
        """Hand over the memory in which steps are asked for, and the bells that announce them."""
        self._orders = memory.orders
        # What the worker before this one was asked for is not asked of this one.
        self._orders[self._number] = 0
        block.send(self._pipe, self.process_id)
        self._bell.send_listener(self._pipe, self.process_id)
        next_bell.send_ringer(self._pipe, self.process_id)

    def put(self, count: int, message: bytes) -> None:
        """Leave the `count`-th request where the worker looks when it is woken.

        Of a long message, the beginning: the worker has to read before there is room for the rest.
        That a worker is dead is found when its answer does not come.
        """
        if message[:1] == STEP:
            self._orders[self._number] = 2 * count + message[1]
        else:
            self._pipe.post(bytes((short_number(count),)) + message)

    def wake(self) -> None:
        """Let the worker look for a request."""
        self._bell.ring()

    @property
    def is_told(self) -> bool:
        """Whether every request is on its way as a whole."""
        return self._pipe.is_sent

    def register(self, poller: select.poll) -> int:
        """Let a poller wait until more of a request can be sent; return the file descriptor."""
        poller.register(self._pipe.fileno(), self._pipe.wanted_events)
        return self._pipe.fileno()

    def send_more(self) -> bool:
        """Send what there is room for; return whether more will be possible."""
        try:
            self._pipe.push()
            self._pipe.pull()
        except (EOFError, OSError):
            return False
        return not self.is_told

    def receive(self, number: int, deadline: float | None) -> Answer | Lost:
        """Wait for the answer to request `number`, or find out that none will come."""
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
                return Lost("it gave no answer in time, and its process was killed", None)
            return Lost(f"its process {_describe(exit_code)}", exit_code)

    def kill(self) -> int | None:
        """End the process at once, if it has not ended; return its exit code."""
        # An ended worker keeps the exit code it had; a stopped one does not hear SIGTERM.
        self._process.join(0.2 if self._is_over() else 0)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        return self._process.exitcode

    def await_end(self, deadline: float) -> None:
        """Wait until the process has ended by itself, then help it."""
        self._process.join(max(0.0, deadline - time.monotonic()))
        self.kill()

    def release(self) -> None:
        """Give back the file descriptors of an ended process."""
        self._pipe.close()
        self._process.close()

    def _wait(self, deadline: float | None) -> None:
        while True:
            if self._poller.poll(seconds_until(deadline, ALIVE_CHECK_SECONDS) * 1e3):
                return
            if not self._process.is_alive() and not self._poller.poll(0):
                # Its end of the line is open in a process that it has left behind.
                raise EOFError
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.is_alive()

    def _is_over(self) -> bool:
        """Whether the line has been closed at the other end: the process ends, or is about to."""
        return any(event & select.POLLHUP for _, event in self._poller.poll(0))


class Crew:
    """All workers of a vector."""

    def __init__(self, context: BaseContext, assignments: Sequence[Assignment]) -> None:
        self._context = context
        self._owner = os.getpid()
        self._count = 0
        self.workers: list[WorkerProcess] = []
        self._bells = [Bell.create() for _ in assignments]
        try:
            for assignment, bell in zip(assignments, self._bells, strict=True):
                self.workers.append(WorkerProcess(context, assignment, self.workers, bell))
        except BaseException:
            self.close(polite=False)
            raise

    def exchange(
        self, messages: Mapping[int, bytes], timeout: float | None
    ) -> dict[int, Answer | Lost]:
        """Send a request to some workers and wait for what each of them says."""
        self._count += 1
        deadline = None if timeout is None else time.monotonic() + timeout
        for worker, message in messages.items():
            self.workers[worker].put(self._count, message)
        for worker in messages:
            self.workers[worker].wake()
        self._send_rest([self.workers[worker] for worker in messages], deadline)
        number = short_number(self._count)
        return {worker: self.workers[worker].receive(number, deadline) for worker in messages}

    def greetings(self, workers: Iterable[int], timeout: float) -> dict[int, Answer | Lost]:
        """What new workers say first."""
        deadline = time.monotonic() + timeout
        return {worker: self.workers[worker].receive(0, deadline) for worker in workers}

    def _send_rest(self, workers: Sequence[WorkerProcess], deadline: float | None) -> None:
        """Send what did not go at once, to all workers side by side.

        One that has stopped costs the others no time. Who has not read all of it by the deadline
        will not answer either.
        """
        untold = [worker for worker in workers if not worker.is_told]
        while untold:
            poller = select.poll()
            by_file = {worker.register(poller): worker for worker in untold}
            ready = poller.poll(seconds_until(deadline, ALIVE_CHECK_SECONDS) * 1e3)
            is_late = deadline is not None and time.monotonic() >= deadline
            if not ready and (is_late or not any(worker.is_alive for worker in untold)):
                return
            done = [by_file[file] for file, _ in ready if not by_file[file].send_more()]
            for worker in done:
                # It may have been woken before the first byte had found room.
                worker.wake()
            untold = [worker for worker in untold if worker not in done]

    def replace(self, number: int, assignment: Assignment) -> None:
        """Begin a new process in the place of one that was lost."""
        self.workers[number].release()
        others = [worker for worker in self.workers if worker is not self.workers[number]]
        bell = self._bells[number]
        self.workers[number] = WorkerProcess(self._context, assignment, others, bell)

    def share(self, number: int, block: SharedBlock, memory: VectorMemory) -> None:
        """Let a worker, new or replaced, hear of steps."""
        next_bell = self._bells[(number + 1) % len(self._bells)]
        self.workers[number].share(block, memory, next_bell)

    def close(self, polite: bool = True) -> list[BaseException]:
        """End all processes and return the errors of envs that did not close well.

        Args:
            polite: whether the envs are asked, and given time, to close.
        """
        if os.getpid() != self._owner:
            # A forked copy of this object: the workers belong to the process that began them.
            return []
        deadline = time.monotonic() + (CLOSE_SECONDS if polite else 0.0)
        answers: dict[int, Answer | Lost] = {}
        if polite:
            request = REQUEST + pickle.dumps(("close", ()))
            answers = self.exchange(dict.fromkeys(range(len(self.workers)), request), CLOSE_SECONDS)
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.await_end(deadline)
            worker.release()
        while self._bells:
            self._bells.pop().close()
        heard = [answer for answer in answers.values() if isinstance(answer, Answer)]
        return [answer.error for answer in heard if answer.error is not None]


def chosen_context(start_method: str | None) -> BaseContext:
    """Multiprocessing context of worker processes: as asked, else forkserver where there is one.

    Never the start method that the program, or a library it imports, has set for the process as a
    whole. Not fork by default: a forked child has the locks, but not the threads, of its parent,
    and a parent that trains has threads.
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
    "worker processes import the main script, which begins worker processes: put what the script "
    "does under `if __name__ == '__main__':`, or pass start_method='fork'"
)


def _preload(context: BaseContext) -> None:
    """Let the fork server import sekai once, instead of each worker."""
    from multiprocessing import forkserver

    server = forkserver._forkserver
    # A list that the program has set is left alone.
    if getattr(server, "_preload_modules", None) == ["__main__"]:
        context.set_forkserver_preload(["__main__", "sekai.vector.worker"])


def _answer(message: bytes) -> Answer:
    kind, pickled = message[1:2], message[2:]
    if kind == FAULT:
        return Answer(error=error_from(pickled))
    return Answer(pickled if kind == VALUE else None)


def _describe(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"
