"""DataQueue: seeds shared by consumers in many processes, each given out once."""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import socket
import struct
import sys
import threading
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeAlias, TypeVar

import numpy as np

from sekai.compose.dataset_loader import Loader, SizedDataset, closed_error, dataset_order
from sekai.core.base import Closeable
from sekai.error import ClosedError, SekaiError, StateError
from sekai.vector.messages import DONE, FAULT, VALUE, dump_error, dumps, load_error

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DataQueue"]

Seed = TypeVar("Seed")


class DataQueue(Closeable, Generic[Seed]):
    """Queue of the items of a data set for consumers in this and other processes.

    Every item is given to exactly one consumer. `iter(queue)` makes a consumer; an active queue
    may be pickled into other processes, or inherited by them. The data set is read by a thread of
    this process, or by worker processes. An error of the data set is raised in every consumer.

        with DataQueue(orders, repeat=-1, seed=0) as seeds:
            env = vectorize_env(lambda: EnvWrapper(..., seed_iterator=seeds), "subproc", 4)

    Args:
        dataset: has a length and items.
        repeat: number of passes over the data set; -1 for no end.
        shuffle: shuffle it, anew for each pass.
        producer_num_workers: processes that read the data set, which is sent by cloudpickle; 0
            reads it in a thread of this process.
        queue_maxsize: items read ahead; 0 for the number of cores or reading processes, whichever
            is larger.
        seed: seed of the shuffling; None for a random one, see `queue.seed`.
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
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise TypeError(f"dataset must have a length and items, got {dataset!r}")
        self.dataset = dataset
        self.repeat = _checked("repeat", repeat, -1)
        if not repeat:
            raise ValueError("repeat must be at least 1, or -1 for no end, got 0")
        self.shuffle = shuffle
        self.producer_num_workers = _checked("producer_num_workers", producer_num_workers, 0)
        self.queue_maxsize = _checked("queue_maxsize", queue_maxsize, 0)
        self.seed = _random_seed() if seed is None else _checked("seed", seed, 0)
        self._owner = os.getpid()
        self._loader: Loader | None = None
        self._server: SeedServer | None = None

    def __repr__(self) -> str:
        size = f"{len(self.dataset):,} items"
        return f"{type(self).__name__}({size}, repeat={self.repeat}, seed={self.seed})"

    def activate(self) -> Self:
        """Start to read the data set and to serve seeds; a queue can be activated once."""
        if self._loader is not None:
            raise ValueError("the queue has been activated before; make a new DataQueue")
        self._owner = os.getpid()
        order = dataset_order(self.dataset, self.repeat, self.shuffle, self.seed)
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
        """Stop all threads and processes of the queue. Closing twice is no error."""
        if self._loader is not None:
            self._finalizer()

    def __enter__(self) -> Self:
        return self.activate()

    def __iter__(self) -> Iterator[Seed]:
        return _Seeds(self, self._address())

    def __reduce__(self) -> tuple[Any, ...]:
        return _RemoteQueue, (self._address(),)

    def _address(self) -> str:
        if self._server is None:
            raise ValueError(
                "the queue is not active; use it in `with queue:`, or call queue.activate(), "
                "before it is iterated or sent to other processes"
            )
        return self._server.address

    def _take(self) -> Any:
        assert self._loader is not None, "active since it was first iterated"
        return self._loader.take().opened()


class _RemoteQueue(Generic[Seed]):
    """`DataQueue` as seen from other processes."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __iter__(self) -> Iterator[Seed]:
        return _Seeds(None, self._address)


class _Seeds(Iterator[Any]):
    """Consumer of a queue: takes seeds directly or, in other processes, by a connection."""

    is_shared: ClassVar[bool] = True
    """The queue has the position, not the consumer."""

    def __init__(self, queue: DataQueue[Any] | None, address: str) -> None:
        self._queue = queue
        self._address = address
        self._connection: _SeedClient | None = None

    def __next__(self) -> Any:
        process = os.getpid()
        if self._queue is not None and self._queue._owner == process:
            return self._queue._take()
        if self._connection is None or self._connection.process != process:
            # A forked process must not use its parent's connection.
            self._connection = _SeedClient(self._address, process)
        return self._connection.take()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Seeds, (None, self._address)

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise StateError(
            "seeds of a DataQueue cannot be saved because it is shared; pass a list of seeds"
        )


class _SeedClient:
    """Connection of one process to the process that has the queue."""

    def __init__(self, address: str, process: int) -> None:
        self.process = process
        self._address = address
        self._connection: SeedConnection | None = None
        self._has_asked = self._is_over = False

    def take(self) -> Any:
        if self._is_over:
            raise StopIteration
        try:
            message = self._request()
        except (EOFError, OSError) as error:
            raise closed_error() from error
        kind, content = message[:1], message[1:]
        if kind == DONE:
            self._is_over = True
            raise StopIteration
        if kind == FAULT:
            raise load_error(content)
        return pickle.loads(content)

    def _request(self) -> bytes:
        if self._connection is None:
            self._connection = open_connection(self._address)
        if not self._has_asked:
            # The answer to an interrupted request is still to come.
            self._connection.send_bytes(b"?")
            self._has_asked = True
        message = self._connection.recv_bytes()
        self._has_asked = False
        return message


def _close(owner: int, loader: Loader, server: SeedServer) -> None:
    if os.getpid() == owner:
        loader.close()
        server.close()


def _checked(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def _random_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


_open_servers: weakref.WeakSet[SeedServer] = weakref.WeakSet()


class SeedServer:
    """Server of a loader's seeds at `address`: a thread for each client.

    Clients share no lock: one that is killed loses the seed it was being sent, and affects no
    other.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._owner = os.getpid()
        self._is_closed = False
        self._lock = threading.Lock()
        self._connections: set[SeedConnection] = set()
        self._threads: set[threading.Thread] = set()
        self._listener, self.address = open_listener()
        self._wake_sender, self._wake_receiver = socket.socketpair()
        _open_servers.add(self)
        self._start(self._accept_all)

    def close(self) -> None:
        """Close all connections and end all threads."""
        if os.getpid() != self._owner or self._is_closed:
            return
        _open_servers.discard(self)
        self._wake_sender.send(b"\0")
        with self._lock:
            self._is_closed = True
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    shut_down(connection)
            threads = list(self._threads)
        for thread in threads:
            # The garbage collector may call this in one of these threads.
            if thread is not threading.current_thread():
                thread.join()
        self._wake_sender.close()
        self._wake_receiver.close()
        release_address(self.address)

    def forget(self) -> None:
        """Close the descriptors that a forked process inherited from its parent."""
        for connection in self._connections:
            connection.close()
        for end in (self._wake_sender, self._wake_receiver, self._listener):
            end.close()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(
            target=self._run, args=(target, *arguments), name="sekai-data-queue", daemon=True
        )
        self._threads.add(thread)
        thread.start()

    def _run(self, target: object, *arguments: object) -> None:
        try:
            target(*arguments)  # type: ignore[operator]
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _accept_all(self) -> None:
        # Closing the listener rejects clients that still wait.
        with self._listener:
            while self._wake_receiver not in wait([self._listener, self._wake_receiver]):
                with contextlib.suppress(ConnectionError):
                    connection = accept_connection(self._listener)
                    if connection is not None:
                        self._admit(connection)

    def _admit(self, connection: SeedConnection) -> None:
        with self._lock:
            if self._is_closed:
                connection.close()
                return
            self._connections.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: SeedConnection) -> None:
        try:
            while connection.recv_bytes():
                self._answer(connection)
        except (EOFError, OSError, ClosedError):
            pass  # The client is gone, or this queue is closed.
        finally:
            with self._lock:
                self._connections.discard(connection)
                connection.close()

    def _answer(self, connection: SeedConnection) -> None:
        try:
            loaded = self._loader.take()
            try:
                message = VALUE + loaded.packed()
            except Exception as error:
                self._loader.fail(error)
        except StopIteration:
            connection.send_bytes(DONE)
        except ClosedError:
            raise
        except BaseException as error:
            connection.send_bytes(FAULT + dumps(dump_error(error)))
        else:
            try:
                connection.send_bytes(message)
            except OSError:
                self._loader.give_back(loaded)
                raise


def _forget_servers() -> None:
    for server in list(_open_servers):
        server.forget()


if hasattr(os, "register_at_fork"):
    # Descriptors inherited by a child would keep clients waiting for a dead parent.
    os.register_at_fork(after_in_child=_forget_servers)


SeedConnection: TypeAlias = "Connection[Any, Any]"

HAS_ABSTRACT_NAMES = sys.platform == "linux"
BACKLOG = 1024


def open_listener() -> tuple[socket.socket, str]:
    """Listening Unix socket, and its address.

    On Linux the address is an abstract name, which vanishes with its process. Elsewhere it is a
    file in a directory that only this user can enter.
    """
    if os.name != "posix":
        raise SekaiError("DataQueue needs a POSIX system")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if HAS_ABSTRACT_NAMES:
            address = f"\0sekai-{secrets.token_hex(16)}"
        else:
            import tempfile

            address = os.path.join(tempfile.mkdtemp(prefix="sekai-"), "seeds")
        listener.bind(address)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener, address


def release_address(address: str) -> None:
    """Remove the file and directory of `open_listener`."""
    if not address.startswith("\0"):
        os.unlink(address)
        os.rmdir(os.path.dirname(address))


def accept_connection(listener: socket.socket) -> SeedConnection | None:
    """Accept a connection; None if it is of another user."""
    return _checked_connection(listener.accept()[0])


def open_connection(address: str) -> SeedConnection:
    """Connect to the server at `address`; `OSError` if there is none."""
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        caller.connect(address)
    except BaseException:
        caller.close()
        raise
    connection = _checked_connection(caller)
    if connection is None:
        raise PermissionError("the process that serves seeds is of another user")
    return connection


def shut_down(connection: SeedConnection) -> None:
    """Shut down both ends of a connection and wake their readers."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def _checked_connection(end: socket.socket) -> SeedConnection | None:
    # Seeds are pickled, so only the same user may send them.
    if HAS_ABSTRACT_NAMES and _user_of(end) != os.geteuid():
        end.close()
        return None
    return Connection(end.detach())


def _user_of(end: socket.socket) -> int:
    form = struct.Struct("3i")
    credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
    return int(form.unpack(credentials)[1])
