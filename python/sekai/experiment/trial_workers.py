"""Concurrent trials of a sweep, in processes of this machine or as tasks of a Ray cluster."""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import os
import signal
import tempfile
import threading
import traceback
from contextlib import ExitStack, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sekai.experiment.run_folder import ExperimentError
from sekai.experiment.trial import TrialOutcome, TrialTask, run_trial

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

STOP_SECONDS = 5.0
"""Time for a process to end."""

RETRIES = 3
"""Restarts of a trial whose machine of the cluster was lost."""

POLL_SECONDS = 1.0


class TrialScore(NamedTuple):
    """Evaluation of a running trial, which waits for an answer."""

    number: int
    evaluation: int
    score: float


class TrialEnd(NamedTuple):
    """End of a trial."""

    number: int
    outcome: TrialOutcome


class TrialWorkers(Protocol):
    """Workers that run trials at the same time."""

    capacity: int
    """Number of trials at the same time."""

    def start(self, task: TrialTask, reports: bool) -> None:
        """Start a trial; it reports its evaluations if trials may be pruned."""

    def next_event(self) -> TrialScore | TrialEnd:
        """Wait for the next event of any trial."""

    def answer(self, number: int, is_pruned: bool) -> None:
        """Answer the evaluation of a trial."""


class ProcessWorkers:
    """Processes of this machine that run one trial after the other, as a context manager.

    Args:
        jobs: number of processes.
    """

    def __init__(self, jobs: int) -> None:
        self.capacity = jobs
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[tuple[SpawnProcess, Connection]] = []
        self._running: dict[int, tuple[SpawnProcess, Connection]] = {}

    def __enter__(self) -> ProcessWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        for process, connection in (*self._idle, *self._running.values()):
            _kill(process, connection)
        self._idle.clear()
        self._running.clear()

    def start(self, task: TrialTask, reports: bool) -> None:
        """Start a trial in an idle process, or in a new one."""
        process, connection = self._idle.pop() if self._idle else self._new_process()
        self._running[task.number] = process, connection
        # A process that has ended is reported by `next_event`.
        with suppress(OSError):
            connection.send((task, reports))

    def next_event(self) -> TrialScore | TrialEnd:
        """Wait for the next event of any trial."""
        connections = {connection: number for number, (_, connection) in self._running.items()}
        ready = wait(list(connections))[0]
        assert isinstance(ready, Connection), "no other objects are waited for"
        number = connections[ready]
        try:
            event = ready.recv()
        except (EOFError, OSError):
            process, connection = self._running.pop(number)
            process.join(STOP_SECONDS)
            code = process.exitcode
            _kill(process, connection)
            error = f"the process of the trial ended with exit code {code}"
            return TrialEnd(number, TrialOutcome("failed", error=error))
        if isinstance(event, TrialScore):
            return event
        self._idle.append(self._running.pop(number))
        if isinstance(event, TrialEnd):
            return event
        raise ExperimentError(f"trial {number} raised an unexpected error:\n{event}")

    def answer(self, number: int, is_pruned: bool) -> None:
        """Answer the evaluation of a trial."""
        with suppress(OSError):
            self._running[number][1].send(is_pruned)

    def _new_process(self) -> tuple[SpawnProcess, Connection]:
        here, there = self._context.Pipe()
        # Envs of a trial may start processes of their own, which those of daemons may not.
        process = self._context.Process(target=_serve, args=(there,), daemon=False)
        process.start()
        there.close()
        return process, here


def _kill(process: SpawnProcess, connection: Connection) -> None:
    connection.close()
    process.kill()
    process.join(STOP_SECONDS)


def _serve(connection: Connection) -> None:
    """Run trials in a process of their own, until the connection is closed."""
    # Ctrl-C reaches all processes of the terminal; the sweep decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(EOFError):
        while True:
            task, reports = connection.recv()
            try:
                outcome = run_trial(task, partial(_ask, connection, task) if reports else None)
            except Exception:
                connection.send(traceback.format_exc())
            else:
                connection.send(TrialEnd(task.number, outcome))


def _ask(connection: Connection, task: TrialTask, evaluation: int, score: float) -> bool:
    connection.send(TrialScore(task.number, evaluation, score))
    return bool(connection.recv())


def _exit_with_parent() -> None:
    """End this process when the sweep was killed, so that no two processes train one trial."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "called in a process of a trial"
    wait([parent.sentinel])
    os._exit(1)


class RayWorkers:
    """A task of a Ray cluster for each trial, as a context manager.

    Machines need no shared folder: a task returns the files of its trial. A task whose machine is
    lost is started again.

    Args:
        address: address of the cluster, "auto", or "local" for a new one on this machine.
        jobs: number of trials at the same time; None for one per core of the cluster.
    """

    def __init__(self, address: str, jobs: int | None) -> None:
        self._address, self._jobs = address, jobs
        self.capacity = jobs or 1
        self._tasks: dict[Any, TrialTask] = {}

    def __enter__(self) -> RayWorkers:
        from sekai.training.ray.cluster import connected, cores_of

        with ExitStack() as opened:
            ray = self._ray = opened.enter_context(connected(self._address, self._jobs))
            self.capacity = self._jobs or cores_of(ray)
            # No core: the mailbox waits nearly all of the time.
            self._mailbox = ray.remote(num_cpus=0)(TrialMailbox).remote()
            opened.callback(ray.kill, self._mailbox)
            self._run = ray.remote(num_cpus=1, max_retries=RETRIES)(_run_on_cluster)
            self._event = self._mailbox.take.remote()
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with self._opened:
            for answer in self._tasks:
                with suppress(self._ray.exceptions.RayError):
                    self._ray.cancel(answer, force=True)
            self._tasks.clear()

    def start(self, task: TrialTask, reports: bool) -> None:
        """Start a trial as a task."""
        mailbox = self._mailbox if reports else None
        self._tasks[self._run.remote(task, mailbox)] = task

    def next_event(self) -> TrialScore | TrialEnd:
        """Wait for the next event of any trial."""
        ready: list[Any] = []
        while not ready:
            awaited = [self._event, *self._tasks]
            ready, _ = self._ray.wait(awaited, num_returns=1, timeout=POLL_SECONDS)
        if ready[0] is self._event or ready[0] == self._event:
            score: TrialScore = self._ray.get(self._event)
            self._event = self._mailbox.take.remote()
            return score
        return self._ended(ready[0])

    def answer(self, number: int, is_pruned: bool) -> None:
        """Answer the evaluation of a trial."""
        self._mailbox.answer.remote(number, is_pruned)

    def _ended(self, answer: Any) -> TrialEnd:
        from sekai.training.ray.cluster import answered

        task = self._tasks.pop(answer)
        try:
            outcome, files = answered(self._ray, answer)
        except (
            self._ray.exceptions.WorkerCrashedError,
            self._ray.exceptions.OutOfMemoryError,
            self._ray.exceptions.ObjectLostError,
        ) as error:
            first_line = str(error).strip().partition("\n")[0]
            lost = f"the task of the trial was lost {RETRIES + 1} times: {first_line}"
            return TrialEnd(task.number, TrialOutcome("failed", error=lost))
        for name, content in files.items():
            task.folder.mkdir(parents=True, exist_ok=True)
            (task.folder / name).write_bytes(content)
        return TrialEnd(task.number, outcome)


class TrialMailbox:
    """Remote actor between the trials on a cluster and the sweep, which prunes them."""

    def __init__(self) -> None:
        self._scores: asyncio.Queue[TrialScore] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[bool]] = {}

    async def report(self, score: TrialScore) -> bool:
        """Deliver an evaluation and wait for the answer."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._answers[score.number] = answer
        await self._scores.put(score)
        return await answer

    async def take(self) -> TrialScore:
        """Next evaluation of any trial."""
        return await self._scores.get()

    async def answer(self, number: int, is_pruned: bool) -> None:
        """Answer the evaluation of a trial."""
        waiting = self._answers.pop(number, None)
        if waiting is not None:
            waiting.set_result(is_pruned)


def _run_on_cluster(task: TrialTask, mailbox: Any) -> tuple[TrialOutcome, dict[str, bytes]]:
    import ray

    def report(evaluation: int, score: float) -> bool:
        return bool(ray.get(mailbox.report.remote(TrialScore(task.number, evaluation, score))))

    with tempfile.TemporaryDirectory() as folder:
        # Below a folder of the same name, since the names of runs are recorded.
        path = Path(folder) / task.folder.parent.name / task.folder.name
        own = dataclasses.replace(task, folder=path)
        outcome = run_trial(own, None if mailbox is None else report)
        files = [file for file in path.glob("*") if file.is_file()] if path.is_dir() else []
        return outcome, {file.name: file.read_bytes() for file in files if file.name != ".lock"}
