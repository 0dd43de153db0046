"""Worker process of a `ProcVecEnv`, which runs some of its envs."""

from __future__ import annotations

import contextlib
import pickle
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.core.autoreset import Autoreset
from sekai.core.result import ResetResult, StepResult
from sekai.error import SpaceError
from sekai.vector.batching import Batcher, map_arrays
from sekai.vector.group import (
    EnvFactory,
    EnvGroup,
    OnError,
    ResetOrder,
    observation_error,
    spaces_of,
)
from sekai.vector.messages import (
    DONE,
    FAULT,
    VALUE,
    CloudPickled,
    TimedPipe,
    dump_error,
    dumps,
    request_id,
)
from sekai.vector.shared_memory import SLOTS, SharedBlock, VectorMemory, Wakeup

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


Item = TypeVar("Item")

PARENT_CHECK_SECONDS = 1.0
ORPHAN_EXIT_CODE = 3


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Envs of a worker and their settings."""

    number: int
    """Index of the worker."""
    workers: int
    first: int
    """Index of the worker's first env in the vector env."""
    num_envs: int
    """Number of envs of the whole vector env."""
    factories: CloudPickled
    autoreset: Autoreset
    on_error: OnError
    seeds: Sequence[int | None]
    finished: Sequence[bool]
    shares_batches: bool = True
    """True if observations and actions are in shared memory; otherwise they are pickled."""
    lost: str | None = None
    """Reason of the previous worker's death, if there was one."""

    @property
    def envs(self) -> range:
        """Indices of the worker's envs in the vector env."""
        factories: list[EnvFactory] = self.factories.value
        return range(self.first, self.first + len(factories))


def serve(
    connection: Connection[Any, Any], assignment: Assignment, inherited: Sequence[TimedPipe]
) -> None:
    """Create the envs, then process requests until the vector env closes or dies."""
    prepare_process(inherited)
    try:
        worker = _Worker(connection, assignment)
    except BaseException as error:
        with contextlib.suppress(OSError):
            connection.send_bytes(b"\0" + FAULT + dumps(dump_error(error)))
        return
    worker.run()


class _Worker:
    """Request loop of some envs."""

    def __init__(self, connection: Connection[Any, Any], assignment: Assignment) -> None:
        self._connection = connection
        self._assignment = assignment
        self._group = EnvGroup(
            assignment.factories.value,
            first_index=assignment.first,
            autoreset=assignment.autoreset,
            on_error=assignment.on_error,
        )
        self._group.seeds = list(assignment.seeds)
        self._group.finished = list(assignment.finished)
        if assignment.lost is not None:
            self._group.lost = dict.fromkeys(range(len(self._group.envs)), assignment.lost)
        self._group.last_observation = self._last_observation
        self._observations = self._group.observations
        self._actions = Batcher(self._group.envs[0].action_space)
        self._slot = 0
        self._reply(b"\0", spaces_of(self._group.envs[0]))
        self._attach()

    def _attach(self) -> None:
        assignment, envs = self._assignment, self._assignment.envs
        memory = VectorMemory(
            self._observations,
            self._actions,
            assignment.num_envs,
            assignment.workers,
            assignment.shares_batches,
        )
        memory.attach(SharedBlock.receive(self._connection, memory.size))
        self._wakeup = Wakeup.receive_wait_end(self._connection)
        self._next_wakeup = Wakeup.receive_notify_end(self._connection)
        self._memory = memory
        self._order = 0
        if assignment.shares_batches:
            self._steps = [memory.step_of(slot, envs.start, envs.stop) for slot in range(SLOTS)]
        self._group.restarts = memory.restarts[envs.start : envs.stop]
        self._current = memory.current[assignment.number : assignment.number + 1]

    def run(self) -> None:
        """Sleep until there is a request, and process it."""
        inbox = select.poll()
        inbox.register(self._connection.fileno(), select.POLLIN)
        orders, worker = self._memory.orders, self._assignment.number
        while True:
            self._wakeup.wait()
            order = int(orders[worker])
            if order != self._order:
                self._order = order
                self._wake_next(order)
                self._answer(bytes((request_id(order >> 1),)), self._step, order & 1)
            while inbox.poll(0):
                try:
                    request = self._connection.recv_bytes()
                except (EOFError, OSError):
                    return
                name, arguments = pickle.loads(request[2:])
                method = getattr(self, name, None) or getattr(self._group, name)
                self._answer(request[:1], method, *arguments)
                if name == "close":
                    return

    def _wake_next(self, order: int) -> None:
        """Wake the next worker, if it too has a step to do and has not started.

        The vector env wakes all workers; but waking this one may have cost it its core, and it
        would reach the next worker only when this one is done.
        """
        orders, taken, worker = self._memory.orders, self._memory.taken, self._assignment.number
        taken[worker] = order
        following = (worker + 1) % len(orders)
        if orders[following] == order and taken[following] != order:
            self._next_wakeup.notify()

    def _answer(self, number: bytes, method: Callable[..., Any], *arguments: Any) -> None:
        try:
            self._reply(number, method(*arguments))
        except Exception as error:
            self._connection.send_bytes(number + FAULT + dumps(dump_error(error)))

    def _reply(self, number: bytes, value: Any) -> None:
        if value is None:
            self._connection.send_bytes(number + DONE)
        else:
            self._connection.send_bytes(number + VALUE + dumps(value))

    def _step(self, slot: int) -> dict[int, dict[str, Any]] | None:
        self._slot = slot
        envs = self._assignment.envs
        actions = self._actions.rows(self._memory.actions_of(envs.start, envs.stop))
        results = self._group.step(self._announced(actions))
        target = self._steps[slot]
        self._write([result.observation for result in results], target.observations, envs)
        target.rewards[:] = [result.reward for result in results]
        target.terminated[:] = [result.terminated for result in results]
        target.truncated[:] = [result.truncated for result in results]
        infos = {index: result.info for index, result in enumerate(results) if result.info}
        return infos or None

    def step_some(self, indices: Sequence[int], slot: int) -> dict[int, dict[str, Any]] | None:
        """Step some envs, and write the result to their rows of `slot`."""
        self._slot = slot
        envs, rows = self._assignment.envs, np.array(indices, np.int64)
        all_actions = self._actions.rows(self._memory.actions_of(envs.start, envs.stop))
        actions = [all_actions[index] for index in indices]
        results = self._group.step(self._announced(actions, indices), indices)
        self._write_rows([result.observation for result in results], rows)
        target = self._steps[slot]
        target.rewards[rows] = [result.reward for result in results]
        target.terminated[rows] = [result.terminated for result in results]
        target.truncated[rows] = [result.truncated for result in results]
        stepped = zip(indices, results, strict=True)
        return {index: result.info for index, result in stepped if result.info} or None

    def reset(self, orders: Sequence[ResetOrder], slot: int) -> dict[int, dict[str, Any]] | None:
        """Reset envs, and write the first observations to the rows of `slot`."""
        self._slot = slot
        results = self.reset_by_pipe(orders)
        indices = np.array([index for index, _, _ in orders], np.int64)
        self._write_rows([result.observation for result in results], indices)
        return {
            index: result.info
            for index, result in zip(indices.tolist(), results, strict=True)
            if result.info
        } or None

    def reset_by_pipe(self, orders: Sequence[ResetOrder]) -> list[ResetResult[Any]]:
        """Reset envs and return the complete results."""
        indices = [index for index, _, _ in orders]
        return self._group.reset(self._announced(orders, indices))

    def step_by_pipe(self, indices: Sequence[int], actions: Sequence[Any]) -> list[StepResult[Any]]:
        """Step some envs and return the complete results."""
        return self._group.step(self._announced(actions, indices), indices)

    def _write_rows(self, samples: Sequence[Any], indices: NDArray[np.int64]) -> None:
        batch = self._observations.allocate(len(samples))
        self._write(samples, batch, (indices + self._assignment.first).tolist())
        target = self._steps[self._slot].observations
        map_arrays(lambda rows, new: rows.__setitem__(indices, new), target, batch)

    def _write(self, samples: Sequence[Any], batch: Any, indices: Sequence[int]) -> None:
        try:
            self._observations.write(samples, batch)
        except SpaceError:
            raise observation_error(self._observations, samples, indices) from None

    def _announced(
        self, items: Iterable[Item], indices: Iterable[int] | None = None
    ) -> Iterator[Item]:
        """Yield the items, recording each time the env that acts."""
        current = self._current
        for index, item in zip(count() if indices is None else indices, items, strict=False):
            current[0] = index
            yield item

    def _last_observation(self, index: int) -> Any:
        before = self._steps[1 - self._slot].observations
        return self._observations.copied(self._observations.rows(before)[index])


def prepare_process(inherited: Sequence[TimedPipe] = ()) -> None:
    """Ignore Ctrl-C in a worker process, and end it when its parent has ended."""
    import signal
    import threading

    # Ctrl-C reaches the whole process group; the parent decides when workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for pipe in inherited:
        # A forked worker inherits its parent's ends and would never see them close.
        pipe.close()
    threading.Thread(target=_end_with_parent, name="sekai-parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has ended, even if an env hangs."""
    import os
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is None:
        return
    is_child = os.getppid() == parent.pid
    while not wait([parent.sentinel], PARENT_CHECK_SECONDS):
        # Another child of a dead parent may keep the sentinel open.
        if is_child and os.getppid() != parent.pid:
            break
    os._exit(ORPHAN_EXIT_CODE)
