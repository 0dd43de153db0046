"""Reads a data set a few seeds ahead, and gives each seed to whoever asks first."""

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
from sekai.vector.crew import chosen_context
from sekai.vector.wire import Portable, RemoteTraceback, dumps, error_from, portable_error
from sekai.vector.worker import prepare_process

__all__ = ["Loader", "Parcel", "SizedDataset", "closed_early", "reading_order"]

Seed_co = TypeVar("Seed_co", covariant=True)


class SizedDataset(Protocol[Seed_co]):
    """What has a length, and a seed at every place below it."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Seed_co: ...


def reading_order(
    dataset: SizedDataset[Any], repeat: int, shuffle: bool, seed: int
) -> Iterator[int]:
    """The places of a data set in the order in which they are read; -1 repeats without end."""
    done = 0
    while done != repeat:
        count = len(dataset)
        if not count:
            return
        if shuffle:
            # Each round has a stream of its own, whatever the rounds before it have drawn.
            order = np.random.default_rng([seed, done]).permutation(count)
            yield from map(int, order)
        else:
            yield from range(count)
        done += 1


@dataclass(frozen=True, slots=True)
class Parcel:
    """One seed: as it was read here, or pickled as it came from a reading process."""

    seed: Any = None
    pickled: bytes | None = None

    def opened(self) -> Any:
        """The seed itself."""
        return self.seed if self.pickled is None else pickle.loads(self.pickled)

    def packed(self) -> bytes:
        """The seed as another process can read it."""
        return dumps(self.seed) if self.pickled is None else self.pickled


class Loader:
    """Keeps up to `ahead` seeds read, or being read; may be asked by many threads at once.

    Nobody waits for anything but the one seed that is theirs: whoever takes a seed has the next
    one read, and waits until its own is there.
    """

    def __init__(
        self, dataset: SizedDataset[Any], order: Iterator[int], ahead: int, processes: int
    ) -> None:
        self._order = order
        self._ahead = ahead
        self._lock = threading.Lock()
        self._coming: deque[Future[Parcel]] = deque()
        self._returned: deque[Parcel] = deque()
        self._error: BaseException | None = None
        self._is_closed = False
        self._read: Callable[[int], Parcel]
        self._pool: Executor
        if processes:
            self._pool, self._read = _processes_for(dataset, processes), _read_elsewhere
        else:
            self._pool = ThreadPoolExecutor(1, "sekai-data-queue")
            self._read = _Reader(dataset)
        with self._lock:
            self._read_ahead()

    def take(self) -> Parcel:
        """The next seed.

        Raises:
            StopIteration: there are no more.
            ClosedError: the queue was closed.
            Exception: what the data set has raised, whoever asked for the seed that it befell.
        """
        with self._lock:
            self._check()
            if self._returned:
                return self._returned.popleft()
            if not self._coming:
                raise StopIteration
            future = self._coming.popleft()
            self._read_ahead()
        try:
            return future.result()
        except CancelledError:
            raise closed_early() from None
        except BaseException as error:
            if not future.done():
                # The wait was interrupted: the seed is still to be had.
                self._put_first(future)
                raise
            self.fail(error)

    def give_back(self, parcel: Parcel) -> None:
        """Keep a seed for somebody else, since whom it was meant for has died."""
        with self._lock:
            self._returned.append(parcel)

    def fail(self, error: BaseException) -> NoReturn:
        """Raise an error, here and wherever a seed is asked for from now on."""
        with self._lock:
            if self._error is None:
                self._error = _explained(error)
            for future in self._coming:
                future.cancel()
            self._check()
        raise AssertionError("an error has just been noted")

    def close(self) -> None:
        """Read no more and end what reads; whoever waits for a seed gets a `ClosedError`."""
        with self._lock:
            self._is_closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_closed:
            raise closed_early()

    def _read_ahead(self) -> None:
        try:
            while len(self._coming) < self._ahead and not self._is_closed:
                place = next(self._order, None)
                if place is None:
                    return
                self._coming.append(self._pool.submit(self._read, place))
        except Exception as error:
            # The seeds before this one are still to be had; then comes the error.
            self._order = iter(())
            failed: Future[Parcel] = Future()
            failed.set_exception(error)
            self._coming.append(failed)

    def _put_first(self, future: Future[Parcel]) -> None:
        with self._lock:
            self._coming.appendleft(future)


class _Reader:
    """Reads in a thread of this process."""

    def __init__(self, dataset: SizedDataset[Any]) -> None:
        self._dataset = dataset

    def __call__(self, place: int) -> Parcel:
        return Parcel(self._dataset[place])


_here: list[SizedDataset[Any]] = []
"""The data set of this process, if it is one that reads for another."""


def _processes_for(dataset: SizedDataset[Any], count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        count, chosen_context(None), initializer=_prepare_reading, initargs=(Portable(dataset),)
    )


def _prepare_reading(dataset: Portable) -> None:
    prepare_process()
    _here.append(dataset.value)


def _read_elsewhere(place: int) -> Parcel:
    try:
        return Parcel(pickled=dumps(_here[0][place]))
    except BaseException as error:
        raise _PackedError(dumps(portable_error(error))) from None


class _PackedError(Exception):
    """Brings an error out of a reading process, where not every error can be read back."""


def _explained(error: BaseException) -> BaseException:
    """The error of a data set as its consumers see it."""
    if isinstance(error, _PackedError):
        error = error_from(error.args[0])
    elif isinstance(error, BrokenExecutor):
        told = WorkerError("a process that reads the data set died: its seeds are lost")
        told.__cause__ = error
        return told
    elif error.__cause__ is None:
        text = "".join(traceback.format_exception(error))
        error.__cause__ = RemoteTraceback(text, "while the data set was read")
    if isinstance(error, StopIteration):
        # Consumers would take it for the end of the seeds.
        told_plainly = RuntimeError(f"the data set raised StopIteration: {error}")
        told_plainly.__cause__ = error
        return told_plainly
    return error


def closed_early() -> ClosedError:
    """The error of a consumer whose queue is gone before the seeds are used up."""
    return ClosedError(
        "the DataQueue was closed, or its process has ended, before its seeds were used up: keep "
        "it open while envs take seeds from it"
    )
