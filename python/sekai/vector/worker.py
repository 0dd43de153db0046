"""The process in which some of the envs of a `ProcVecEnv` live."""

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

from sekai.core.result import ResetResult, StepResult
from sekai.error import SpaceError
from sekai.vector.autoreset import Autoreset
from sekai.vector.batching import Batcher, map_arrays
from sekai.vector.bell import Bell
from sekai.vector.faults import OnError, unfit
from sekai.vector.group import EnvFactory, EnvGroup, ResetOrder, spaces_of
from sekai.vector.shared_memory import SLOTS, SharedBlock, VectorMemory
from sekai.vector.timed_pipe import TimedPipe
from sekai.vector.wire import DONE, FAULT, VALUE, Portable, dumps, portable_error, short_number

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["Assignment", "prepare_process", "serve"]

Item = TypeVar("Item")

PARENT_CHECK_SECONDS = 1.0
ORPHAN_EXIT_CODE = 3


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Which envs a worker has, and how it treats them."""

    number: int
    """Of the worker."""
    workers: int
    first: int
    """Index of the worker's first env in the vector."""
    num_envs: int
    """Of the whole vector."""
    factories: Portable
    autoreset: Autoreset
    on_error: OnError
    seeds: Sequence[int | None]
    finished: Sequence[bool]
    shares_batches: bool = True
    """Whether observations and actions go through shared memory; else they are pickled."""
    lost: str | None = None
    """How the worker before this one died, if there was one."""

    @property
    def envs(self) -> range:
        """Indices of the worker's envs in the vector."""
        factories: list[EnvFactory] = self.factories.value
        return range(self.first, self.first + len(factories))


def serve(
    connection: Connection[Any, Any],
    assignment: Assignment,
    inherited: Sequence[TimedPipe],
) -> None:
    """Build the envs, then do what the vector asks until it closes or dies."""
    prepare_process(inherited)
    try:
        worker = _Worker(connection, assignment)
    except BaseException as error:
        with contextlib.suppress(OSError):
            connection.send_bytes(b"\0" + FAULT + dumps(portable_error(error)))
        return
    worker.run()


class _Worker:
    """Some envs, and the line to the vector that they belong to."""

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
        self._tell(b"\0", spaces_of(self._group.envs[0]))
        self._attach()

    def _attach(self) -> None:
        mine, envs = self._assignment, self._assignment.envs
        memory = VectorMemory(
            self._observations, self._actions, mine.num_envs, mine.workers, mine.shares_batches
        )
        memory.attach(SharedBlock.receive(self._connection, memory.size))
        self._bell = Bell.receive_listener(self._connection)
        self._next_bell = Bell.receive_ringer(self._connection)
        self._memory = memory
        self._order = 0
        if mine.shares_batches:
            self._steps = [memory.step_of(slot, envs.start, envs.stop) for slot in range(SLOTS)]
        self._group.restarts = memory.restarts[envs.start : envs.stop]
        self._current = memory.current[mine.number : mine.number + 1]

    def run(self) -> None:
        """Sleep until there is something to do, and do it."""
        inbox = select.poll()
        inbox.register(self._connection.fileno(), select.POLLIN)
        orders, mine = self._memory.orders, self._assignment.number
        while True:
            self._bell.wait()
            order = int(orders[mine])
            if order != self._order:
                self._order = order
                self._wake_next(order)
                self._answer(bytes((short_number(order >> 1),)), self._step, order & 1)
            while inbox.poll(0):
                try:
                    request = self._connection.recv_bytes()
                except (EOFError, OSError):
                    return
                name, arguments = pickle.loads(request[2:])
                self._answer(request[:1], getattr(self, name), *arguments)
                if name == "close":
                    return

    def _wake_next(self, order: int) -> None:
        """Ring for the next worker, if it too is to step and has not begun.

        The vector rings for all of them; but waking this one may have cost it the core that it
        runs on, and it would come to the next worker only when this one is done.
        """
        orders, taken, mine = self._memory.orders, self._memory.taken, self._assignment.number
        taken[mine] = order
        following = (mine + 1) % len(orders)
        if orders[following] == order and taken[following] != order:
            self._next_bell.ring()

    def _answer(self, number: bytes, method: Callable[..., Any], *arguments: Any) -> None:
        try:
            self._tell(number, method(*arguments))
        except Exception as error:
            self._connection.send_bytes(number + FAULT + dumps(portable_error(error)))

    def _tell(self, number: bytes, value: Any) -> None:
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
        infos = {place: result.info for place, result in enumerate(results) if result.info}
        return infos or None

    def step_some(self, places: Sequence[int], slot: int) -> dict[int, dict[str, Any]] | None:
        """Let some envs act; the result goes into their rows of `slot`."""
        self._slot = slot
        envs, rows = self._assignment.envs, np.array(places, np.int64)
        everyone = self._actions.rows(self._memory.actions_of(envs.start, envs.stop))
        actions = [everyone[place] for place in places]
        results = self._group.step(self._announced(actions, places), places)
        self._write_rows([result.observation for result in results], rows)
        target = self._steps[slot]
        target.rewards[rows] = [result.reward for result in results]
        target.terminated[rows] = [result.terminated for result in results]
        target.truncated[rows] = [result.truncated for result in results]
        told = zip(places, results, strict=True)
        return {place: result.info for place, result in told if result.info} or None

    def reset(self, orders: Sequence[ResetOrder], slot: int) -> dict[int, dict[str, Any]] | None:
        """Begin episodes; the first observations go into the rows of `slot`."""
        self._slot = slot
        results = self.reset_by_pipe(orders)
        places = np.array([place for place, _, _ in orders], np.int64)
        self._write_rows([result.observation for result in results], places)
        return {
            place: result.info
            for place, result in zip(places.tolist(), results, strict=True)
            if result.info
        } or None

    def reset_by_pipe(self, orders: Sequence[ResetOrder]) -> list[ResetResult[Any]]:
        """Begin episodes, and tell all of it."""
        places = [place for place, _, _ in orders]
        return self._group.reset(self._announced(orders, places))

    def step_by_pipe(self, places: Sequence[int], actions: Sequence[Any]) -> list[StepResult[Any]]:
        """Let some envs act, and tell all of it."""
        return self._group.step(self._announced(actions, places), places)

    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each env."""
        return self._group.get_attr(name)

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """Set the attribute of each env."""
        self._group.set_attr(name, values)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Call the method of each env."""
        return self._group.call(name, args, kwargs)

    def state(self) -> list[dict[str, Any]]:
        """The state of each env."""
        return self._group.state()

    def load_state(self, states: Sequence[dict[str, Any]]) -> None:
        """Give each env its state."""
        self._group.load_state(states)

    def close(self) -> None:
        """Close every env."""
        self._group.close()

    def _write_rows(self, samples: Sequence[Any], places: NDArray[np.int64]) -> None:
        batch = self._observations.allocate(len(samples))
        self._write(samples, batch, (places + self._assignment.first).tolist())
        target = self._steps[self._slot].observations
        map_arrays(lambda rows, new: rows.__setitem__(places, new), target, batch)

    def _write(self, samples: Sequence[Any], batch: Any, indices: Sequence[int]) -> None:
        try:
            self._observations.write(samples, batch)
        except SpaceError:
            raise unfit(self._observations, samples, indices) from None

    def _announced(
        self, items: Iterable[Item], places: Iterable[int] | None = None
    ) -> Iterator[Item]:
        """The items one by one, saying each time which env has its turn."""
        current = self._current
        for place, item in zip(count() if places is None else places, items, strict=False):
            current[0] = place
            yield item

    def _last_observation(self, place: int) -> Any:
        before = self._steps[1 - self._slot].observations
        return self._observations.copied(self._observations.rows(before)[place])


def prepare_process(inherited: Sequence[TimedPipe] = ()) -> None:
    """Let a worker process leave Ctrl-C to its parent, and end when its parent has ended."""
    import signal
    import threading

    # Ctrl-C reaches the whole process group; what becomes of the workers is the parent's choice.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for pipe in inherited:
        # A forked worker has its parent's ends too, and would never see them close.
        pipe.close()
    threading.Thread(target=_end_with_parent, name="sekai-parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has, even if an env never returns."""
    import os
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is None:
        return
    is_child = os.getppid() == parent.pid
    while not wait([parent.sentinel], PARENT_CHECK_SECONDS):
        # Another child of a dead parent may hold its end of the sentinel open.
        if is_child and os.getppid() != parent.pid:
            break
    os._exit(ORPHAN_EXIT_CODE)
