"""Shared memory of a vector env and its workers, and wake-ups between them."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import SekaiError
from sekai.vector.batching import Batcher, StepBuffers, map_arrays

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from numpy.typing import NDArray

    from sekai.vector.messages import TimedPipe


SLOTS = 2
"""Number of result slots, used in turn so that the previous result stays valid."""


class SharedBlock:
    """Anonymous block of shared memory, freed when its processes have ended."""

    def __init__(self, file: int, size: int) -> None:
        self.file = file
        self.memory = mmap.mmap(file, size)

    @classmethod
    def create(cls, size: int) -> SharedBlock:
        """Allocate a block of zeros."""
        if os.name != "posix":
            raise SekaiError("ProcVecEnv requires a POSIX system; use SyncVecEnv or AsyncVecEnv")
        if hasattr(os, "memfd_create"):
            file = os.memfd_create("sekai")
        else:
            import tempfile

            file, path = tempfile.mkstemp(prefix="sekai-")
            os.unlink(path)
        os.ftruncate(file, size)
        return cls(file, size)

    def send(self, connection: TimedPipe, process_id: int) -> None:
        """Send the block to the process at the other end."""
        send_handle(connection, self.file, process_id)

    @classmethod
    def receive(cls, connection: Connection[Any, Any], size: int) -> SharedBlock:
        """Receive a block from the process at the other end."""
        block = cls(recv_handle(connection), size)
        block.release_file()
        return block

    def release_file(self) -> None:
        """Close the file descriptor; the memory lives as long as arrays use it."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


class VectorMemory:
    """Arrays of a vector env in a shared block."""

    def __init__(
        self,
        observations: Batcher,
        actions: Batcher,
        envs: int,
        workers: int,
        shares_batches: bool = True,
    ) -> None:
        # Without batches only the requests and the current envs are shared.
        self._batchers = (actions, *[observations] * SLOTS) if shares_batches else ()
        self._envs = envs
        self._workers = workers

    @property
    def size(self) -> int:
        """Required size of the block in bytes."""
        batches = sum(batcher.nbytes(self._envs) for batcher in self._batchers)
        return batches + 8 * (self._envs + 3 * self._workers) + SLOTS * self._envs * (8 + 1 + 1)

    def attach(self, block: SharedBlock) -> VectorMemory:
        """Create the arrays in `block`."""
        view, offset = memoryview(block.memory), 0
        batches = []
        for batcher in self._batchers:
            batches.append(batcher.view(self._envs, view[offset:]))
            offset += batcher.nbytes(self._envs)

        def array(dtype: Any, *shape: int) -> NDArray[Any]:
            nonlocal offset
            placed: NDArray[Any] = np.ndarray(shape, dtype, buffer=view, offset=offset)
            offset += placed.nbytes
            return placed

        self.actions, *self._observations = batches or [None]
        self.restarts = array(np.int64, self._envs)
        self.current = array(np.int64, self._workers)
        """Per worker, the env that acts now: the one at fault if the worker dies."""
        self.orders = array(np.int64, self._workers)
        """Per worker, the last requested step: its number times two plus its slot."""
        self.taken = array(np.int64, self._workers)
        """Per worker, the last step it has started."""
        self._rewards = array(np.float64, SLOTS, self._envs)
        self._flags = array(np.bool_, SLOTS, 2, self._envs)
        return self

    def actions_of(self, first: int, last: int) -> Any:
        """Copy the actions of some envs: the next step overwrites the originals."""
        return map_arrays(lambda array: array[first:last].copy(), self.actions)

    def step_of(self, slot: int, first: int = 0, last: int | None = None) -> StepBuffers:
        """Return the result buffers of some envs."""
        rows = slice(first, self._envs if last is None else last)
        return StepBuffers(
            map_arrays(lambda array: array[rows], self._observations[slot]),
            self._rewards[slot, rows],
            self._flags[slot, 0, rows],
            self._flags[slot, 1, rows],
        )


ONE = (1).to_bytes(8, "little")


class Wakeup:
    """Wake-up of a sleeping process, with one end to wait and one to notify.

    Uses an eventfd if available: a write to a socket or pipe wakes its reader on the writer's own
    core, since the writer is expected to sleep next; but a vector env wakes several workers in a
    row, which should run in parallel.
    """

    def __init__(self, wait_fd: int, notify_fd: int) -> None:
        self._wait_fd = wait_fd
        self._notify_fd = notify_fd

    @classmethod
    def create(cls) -> Wakeup:
        """Create a new wake-up."""
        if hasattr(os, "eventfd"):
            file = os.eventfd(0)
            return cls(file, file)
        return cls(*os.pipe())

    def send_wait_end(self, connection: TimedPipe, process_id: int) -> None:
        """Send the waiting end to the process at the other end."""
        send_handle(connection, self._wait_fd, process_id)

    def send_notify_end(self, connection: TimedPipe, process_id: int) -> None:
        """Send the notifying end to the process at the other end."""
        send_handle(connection, self._notify_fd, process_id)

    @classmethod
    def receive_wait_end(cls, connection: Connection[Any, Any]) -> Wakeup:
        """Receive the waiting end."""
        return cls(recv_handle(connection), -1)

    @classmethod
    def receive_notify_end(cls, connection: Connection[Any, Any]) -> Wakeup:
        """Receive the notifying end."""
        return cls(-1, recv_handle(connection))

    def notify(self) -> None:
        """Wake the waiting process, now or at its next wait."""
        os.write(self._notify_fd, ONE)

    def wait(self) -> None:
        """Sleep until notified at least once."""
        os.read(self._wait_fd, 4096)

    def close(self) -> None:
        """Close the file descriptors."""
        for file in {self._wait_fd, self._notify_fd}:
            os.close(file)


def send_handle(connection: TimedPipe, file: int, process_id: int) -> None:
    """Send a file descriptor to the process at the other end."""
    from multiprocessing import reduction

    reduction.send_handle(connection, file, process_id)


def recv_handle(connection: Connection[Any, Any]) -> int:
    """Receive a file descriptor."""
    from multiprocessing import reduction

    return reduction.recv_handle(connection)
