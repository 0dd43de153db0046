"""Loader of a data set: reads a few seeds ahead in a thread or in processes."""

from __future__ import annotations

import pickle
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from sekai.error import ClosedError, WorkerError
from sekai.vector.messages import CloudPickled, RemoteTraceback, dump_error, dumps, load_error
from sekai.vector.worker import prepare_process
from sekai.vector.worker_pool import start_context

__all__ = ["LoadedSeed", "Loader", "SizedDataset", "closed_error", "dataset_order"]

Seed_co = TypeVar("Seed_co", covariant=True)


class SizedDataset(Protocol[Seed_co]):
    """Data set with a length and a seed at every index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Seed_co: ...


def dataset_order(
    dataset: SizedDataset[Any], repeat: int, shuffle: bool, seed: int
) -> Iterator[int]:
    """Indices of a data set in reading order; -1 repeats without end."""
    done = 0
    while done != repeat:
        count = len(dataset)
        if not count:
            return
        if shuffle:
            # Each pass has its own stream, independent of the passes before.
            order = np.random.default_rng([seed, done]).permutation(count)
            yield from map(int, order)
        else:
            yield from range(count)
        done += 1


@dataclass(frozen=True, slots=True)
class LoadedSeed:
    """A loaded seed: as read here, or pickled by a worker process."""

    seed: Any = None
    pickled: bytes | None = None

    def opened(self) -> Any:
        """Seed itself."""
        return self.seed if self.pickled is None else pickle.loads(self.pickled)

    def packed(self) -> bytes:
        """Pickled seed for another process."""
        return dumps(self.seed) if self.pickled is None else self.pickled


class Loader:
    """Loader that reads up to `ahead` seeds in advance; thread-safe.

    A caller waits for its own seed only: taking a seed starts the reading of the next one.
    """

    def __init__(
        self, dataset: SizedDataset[Any], order: Iterator[int], ahead: int, processes: int
    ) -> None:
        self._order = order
        self._ahead = ahead
        self._lock = threading.Lock()
        self._pending: deque[Future[LoadedSeed]] = deque()
        self._returned: deque[LoadedSeed] = deque()
        self._error: BaseException | None = None
        self._is_closed = False
        self._read: Callable[[int], LoadedSeed]
        self._pool: Executor
        if processes:
            self._pool, self._read = _processes_for(dataset, processes), _read_in_worker
        else:
            self._pool = ThreadPoolExecutor(1, "sekai-data-queue")
            self._read = _DatasetReader(dataset)
        with self._lock:
            self._read_ahead()

    def take(self) -> LoadedSeed:
        """Take the next seed.

        Raises:
            StopIteration: there are no more.
            ClosedError: the queue was closed.
            Exception: error of the data set, in every consumer.
        """
        with self._lock:
            self._check()
            if self._returned:
                return self._returned.popleft()
            if not self._pending:
                raise StopIteration
            future = self._pending.popleft()
            self._read_ahead()
        try:
            return future.result()
        except CancelledError:
            raise closed_error() from None
        except BaseException as error:
            if future.done() and future.exception() is error:
                self.fail(error)
            # The wait was interrupted: the seed can still be taken.
            self._put_first(future)
            raise

    def give_back(self, parcel: LoadedSeed) -> None:
        """Return a seed whose consumer has died to the queue."""
        with self._lock:
            self._returned.append(parcel)

    def fail(self, error: BaseException) -> NoReturn:
        """Raise an error here and in every later `take`."""
        with self._lock:
            if self._error is None:
                self._error = _explained(error)
            for future in self._pending:
                future.cancel()
            self._check()
        raise AssertionError("unreachable: _check raises the error")

    def close(self) -> None:
        """Stop reading; callers that wait for a seed get a `ClosedError`."""
        with self._lock:
            self._is_closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_closed:
            raise closed_error()

    def _read_ahead(self) -> None:
        try:
            while len(self._pending) < self._ahead and not self._is_closed:
                index = next(self._order, None)
                if index is None:
                    return
                self._pending.append(self._pool.submit(self._read, index))
        except Exception as error:
            # The seeds before this one can still be taken; then comes the error.
            self._order = iter(())
            failed: Future[LoadedSeed] = Future()
            failed.set_exception(error)
            self._pending.append(failed)

    def _put_first(self, future: Future[LoadedSeed]) -> None:
        with self._lock:
            self._pending.appendleft(future)


class _DatasetReader:
    def __init__(self, dataset: SizedDataset[Any]) -> None:
        self._dataset = dataset

    def __call__(self, index: int) -> LoadedSeed:
        return LoadedSeed(self._dataset[index])


_worker_dataset: list[SizedDataset[Any]] = []
"""Data set of this worker process."""


def _processes_for(dataset: SizedDataset[Any], count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        count, start_context(None), initializer=_prepare_reading, initargs=(CloudPickled(dataset),)
    )


def _prepare_reading(dataset: CloudPickled) -> None:
    prepare_process()
    _worker_dataset.append(dataset.value)


def _read_in_worker(index: int) -> LoadedSeed:
    try:
        return LoadedSeed(pickled=dumps(_worker_dataset[0][index]))
    except BaseException as error:
        raise _PackedError(dumps(dump_error(error))) from None


class _PackedError(Exception):
    """Error of a worker process in a form that can be unpickled here."""


def _explained(error: BaseException) -> BaseException:
    """Error of a data set as its consumers see it."""
    if isinstance(error, _PackedError):
        error = load_error(error.args[0])
    elif isinstance(error, BrokenExecutor):
        lost = WorkerError("a process that reads the data set died; its seeds are lost")
        lost.__cause__ = error
        return lost
    elif error.__cause__ is None:
        text = "".join(traceback.format_exception(error))
        error.__cause__ = RemoteTraceback(text, "while the data set was read")
    if isinstance(error, StopIteration):
        # To consumers it would be the end of the seeds.
        wrapped = RuntimeError(f"the data set raised StopIteration: {error}")
        wrapped.__cause__ = error
        return wrapped
    return error


def closed_error() -> ClosedError:
    """Error of a consumer whose queue is closed before the seeds are used up."""
    return ClosedError(
        "the DataQueue was closed, or its process has ended, before its seeds were used up; keep "
        "it open while envs take seeds from it"
    )
