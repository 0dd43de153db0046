"""Seeds of which each is used once, however many processes ask for them."""

from __future__ import annotations

import os
import pickle
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np

from sekai.compose.data_queue_line import Line, connected
from sekai.compose.data_queue_loading import Loader, SizedDataset, closed_early, reading_order
from sekai.compose.data_queue_server import SeedServer
from sekai.core.closing import Closing
from sekai.error import StateError
from sekai.vector.wire import DONE, FAULT, error_from

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DataQueue"]

Seed = TypeVar("Seed")


class DataQueue(Closing, Generic[Seed]):
    """Shares the items of a data set out to consumers, in this process and in others.

    Every item is given to exactly one consumer. `iter(queue)` makes a consumer; the queue may be
    pickled into other processes, or inherited by them, once it is active. The data set stays
    here, where one thread reads it, or in the processes that read for it. An error of the data
    set is raised in every consumer that asks for more.

        with DataQueue(orders, repeat=-1, seed=0) as seeds:
            env = vectorize_env(lambda: EnvWrapper(..., seed_iterator=seeds), "subproc", 4)
    """

    def __init__(
        self,
        dataset: SizedDataset[Seed],
        repeat: int = 1,
        shuffle: bool = True,
        producer_num_workers: int = 0,
        queue_maxsize: int = 0,
        seed: int | None = None,
    ) -> None:
        """Say what is shared out, and in which order.

        Args:
            dataset: has a length and items.
            repeat: how many times all of it is given out; -1 goes on without end.
            shuffle: whether it is shuffled, anew for each repeat.
            producer_num_workers: processes that read the data set, which cloudpickle takes to
                them; 0 reads it in a thread of this process.
            queue_maxsize: how many items are read before anybody asks for them; 0 reads as many
                as there are cores or reading processes, whichever are more.
            seed: of the shuffling; None takes a random one, which `queue.seed` tells.
        """
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise TypeError(f"dataset must have a length and items, was {dataset!r}")
        self.dataset = dataset
        self.repeat = _checked("repeat", repeat, -1)
        if not repeat:
            raise ValueError("repeat must be at least 1, or -1 to go on without end; was 0")
        self.shuffle = shuffle
        self.producer_num_workers = _checked("producer_num_workers", producer_num_workers, 0)
        self.queue_maxsize = _checked("queue_maxsize", queue_maxsize, 0)
        self.seed = _random_seed() if seed is None else _checked("seed", seed, 0)
        self._owner = os.getpid()
        self._loader: Loader | None = None
        self._server: SeedServer | None = None

    def activate(self) -> Self:
        """Begin to read the data set and to give seeds out; a queue does so once."""
        if self._loader is not None:
            raise ValueError("the queue has been activated before: make a new DataQueue")
        self._owner = os.getpid()
        order = reading_order(self.dataset, self.repeat, self.shuffle, self.seed)
        ahead = self.queue_maxsize or max(_cores(), self.producer_num_workers)
        self._loader = Loader(self.dataset, order, ahead, self.producer_num_workers)
        try:
            self._server = SeedServer(self._loader)
        except BaseException:
            self._loader.close()
            raise
        self._finalizer = weakref.finalize(self, _close, self._owner, self._loader, self._server)
        return self

    def close(self) -> None:
        """End everything that belongs to the queue. Closing twice is no error."""
        if self._loader is not None:
            self._finalizer()

    def __enter__(self) -> Self:
        return self.activate()

    def __iter__(self) -> Iterator[Seed]:
        return _Seeds(self, self._address())

    def __reduce__(self) -> tuple[Any, ...]:
        return _ElsewhereQueue, (self._address(),)

    def _address(self) -> str:
        if self._server is None:
            raise ValueError(
                "the queue is not active: use it in `with queue:`, or call queue.activate(), "
                "before it is iterated or given to other processes"
            )
        return self._server.address

    def _take(self) -> Any:
        assert self._loader is not None, "active since it was first iterated"
        return self._loader.take().opened()


class _ElsewhereQueue(Generic[Seed]):
    """A `DataQueue` as other processes have it: they may ask it for seeds."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __iter__(self) -> Iterator[Seed]:
        return _Seeds(None, self._address)


class _Seeds(Iterator[Any]):
    """One consumer of a queue: takes seeds from it, directly or, in other processes, by a line."""

    is_shared: ClassVar[bool] = True
    """The queue knows which seeds are left, whoever asks for the next."""

    def __init__(self, queue: DataQueue[Any] | None, address: str) -> None:
        self._queue = queue
        self._address = address
        self._line: _SeedLine | None = None

    def __next__(self) -> Any:
        process = os.getpid()
        if self._queue is not None and self._queue._owner == process:
            return self._queue._take()
        if self._line is None or self._line.process != process:
            # A forked process must not speak on its parent's line.
            self._line = _SeedLine(self._address, process)
        return self._line.take()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Seeds, (None, self._address)

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise StateError(
            "seeds that have been taken from a DataQueue cannot be put back, so that its position "
            "is no state: give the env a list of seeds"
        )


class _SeedLine:
    """The line of one process to the process that has the queue."""

    def __init__(self, address: str, process: int) -> None:
        self.process = process
        self._address = address
        self._line: Line | None = None
        self._has_asked = self._is_over = False

    def take(self) -> Any:
        if self._is_over:
            raise StopIteration
        try:
            message = self._asked()
        except (EOFError, OSError) as error:
            raise closed_early() from error
        kind, content = message[:1], message[1:]
        if kind == DONE:
            self._is_over = True
            raise StopIteration
        if kind == FAULT:
            raise error_from(content)
        return pickle.loads(content)

    def _asked(self) -> bytes:
        if self._line is None:
            self._line = connected(self._address)
        if not self._has_asked:
            # An answer that was not awaited, because of an interrupt, is still on its way.
            self._line.send_bytes(b"?")
            self._has_asked = True
        message = self._line.recv_bytes()
        self._has_asked = False
        return message


def _close(owner: int, loader: Loader, server: SeedServer) -> None:
    if os.getpid() == owner:
        loader.close()
        server.close()


def _checked(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, was {value!r}")
    return int(value)


def _random_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
