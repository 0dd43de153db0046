"""Memory that the processes of a vector env share: actions in, observations and rewards out."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import SekaiError
from sekai.vector.batching import Batcher, map_arrays
from sekai.vector.bell import recv_handle, send_handle
from sekai.vector.buffers import StepBuffers

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from numpy.typing import NDArray

    from sekai.vector.timed_pipe import TimedPipe

__all__ = ["SLOTS", "SharedBlock", "VectorMemory"]

SLOTS = 2
"""Results are written to two places in turn, so that the result before the last stays whole."""


class SharedBlock:
    """A block of memory without a name: when its processes have ended, however, it is gone."""

    def __init__(self, file: int, size: int) -> None:
        self.file = file
        self.memory = mmap.mmap(file, size)

    @classmethod
    def create(cls, size: int) -> SharedBlock:
        """A new block of zeros."""
        if os.name != "posix":
            raise SekaiError("ProcVecEnv needs a POSIX system: use SyncVecEnv or AsyncVecEnv here")
        if hasattr(os, "memfd_create"):
            file = os.memfd_create("sekai")
        else:
            import tempfile

            file, path = tempfile.mkstemp(prefix="sekai-")
            os.unlink(path)
        os.ftruncate(file, size)
        return cls(file, size)

    def send(self, connection: TimedPipe, process_id: int) -> None:
        """Hand the block to the process at the other end."""
        send_handle(connection, self.file, process_id)

    @classmethod
    def receive(cls, connection: Connection[Any, Any], size: int) -> SharedBlock:
        """The block that the process at the other end hands over."""
        block = cls(recv_handle(connection), size)
        block.release_file()
        return block

    def release_file(self) -> None:
        """Give the file descriptor back; the memory lasts as long as arrays use it."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


class VectorMemory:
    """The arrays of a vector env, or of the envs `first` to `last` of it, in a shared block."""

    def __init__(
        self,
        observations: Batcher,
        actions: Batcher,
        envs: int,
        workers: int,
        shares_batches: bool = True,
    ) -> None:
        # Without batches what is left are the orders, and who is at work.
        self._batchers = (actions, *[observations] * SLOTS) if shares_batches else ()
        self._envs = envs
        self._workers = workers

    @property
    def size(self) -> int:
        """The bytes that the block must have."""
        batches = sum(batcher.nbytes(self._envs) for batcher in self._batchers)
        return batches + 8 * (self._envs + 3 * self._workers) + SLOTS * self._envs * (8 + 1 + 1)

    def attach(self, block: SharedBlock) -> VectorMemory:
        """Lay the arrays out in `block`."""
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
        """For each worker, the env that acts now: the one to blame if the worker dies."""
        self.orders = array(np.int64, self._workers)
        """For each worker, the last step it was asked for: its number, times two, plus its slot."""
        self.taken = array(np.int64, self._workers)
        """For each worker, the last step it has begun."""
        self._rewards = array(np.float64, SLOTS, self._envs)
        self._flags = array(np.bool_, SLOTS, 2, self._envs)
        return self

    def actions_of(self, first: int, last: int) -> Any:
        """A copy of the actions of some envs: they may keep them, and the next step is written."""
        return map_arrays(lambda array: array[first:last].copy(), self.actions)

    def step_of(self, slot: int, first: int = 0, last: int | None = None) -> StepBuffers:
        """Where the result of a step of some envs is written."""
        rows = slice(first, self._envs if last is None else last)
        return StepBuffers(
            map_arrays(lambda array: array[rows], self._observations[slot]),
            self._rewards[slot, rows],
            self._flags[slot, 0, rows],
            self._flags[slot, 1, rows],
        )
