"""Answers other processes that ask for seeds: a thread for each of them, asleep in between."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import weakref
from multiprocessing.connection import wait

from sekai.compose.data_queue_line import Line, accepted, hang_up, listening, release_address
from sekai.compose.data_queue_loading import Loader
from sekai.error import ClosedError
from sekai.vector.wire import DONE, FAULT, VALUE, dumps, portable_error

__all__ = ["SeedServer"]

_open_servers: weakref.WeakSet[SeedServer] = weakref.WeakSet()


class SeedServer:
    """Gives the seeds of a loader to whoever calls at `address`.

    Consumers share no lock: one that is killed at any moment takes with it the seed that it was
    being given, and disturbs nobody.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._owner = os.getpid()
        self._is_closed = False
        self._lock = threading.Lock()
        self._lines: set[Line] = set()
        self._threads: set[threading.Thread] = set()
        self._listener, self.address = listening()
        self._wakes, self._woken = socket.socketpair()
        _open_servers.add(self)
        self._start(self._accept_all)

    def close(self) -> None:
        """Hang up on every caller and end all threads."""
        if os.getpid() != self._owner or self._is_closed:
            return
        _open_servers.discard(self)
        self._wakes.send(b"\0")
        with self._lock:
            self._is_closed = True
            for line in self._lines:
                with contextlib.suppress(OSError):
                    hang_up(line)
            threads = list(self._threads)
        for thread in threads:
            # Garbage may be collected in any thread, in one of these too.
            if thread is not threading.current_thread():
                thread.join()
        self._wakes.close()
        self._woken.close()
        release_address(self.address)

    def forget(self) -> None:
        """Close the descriptors that a forked process has inherited: they are its parent's."""
        for line in self._lines:
            line.close()
        for end in (self._wakes, self._woken, self._listener):
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
        # If callers can be admitted no more, those who wait are hung up on.
        with self._listener:
            while self._woken not in wait([self._listener, self._woken]):
                with contextlib.suppress(ConnectionError):
                    line = accepted(self._listener)
                    if line is not None:
                        self._admit(line)

    def _admit(self, line: Line) -> None:
        with self._lock:
            if self._is_closed:
                line.close()
                return
            self._lines.add(line)
            self._start(self._serve, line)

    def _serve(self, line: Line) -> None:
        try:
            while line.recv_bytes():
                self._answer(line)
        except (EOFError, OSError, ClosedError):
            pass  # The caller is gone, or this queue is.
        finally:
            with self._lock:
                self._lines.discard(line)
                line.close()

    def _answer(self, line: Line) -> None:
        try:
            parcel = self._loader.take()
            try:
                message = VALUE + parcel.packed()
            except Exception as error:
                self._loader.fail(error)
        except StopIteration:
            line.send_bytes(DONE)
        except ClosedError:
            raise
        except BaseException as error:
            line.send_bytes(FAULT + dumps(portable_error(error)))
        else:
            try:
                line.send_bytes(message)
            except OSError:
                self._loader.give_back(parcel)
                raise


def _forget_servers() -> None:
    for server in list(_open_servers):
        server.forget()


if hasattr(os, "register_at_fork"):
    # A process that keeps its parent's ends open would let consumers wait for a parent that died.
    os.register_at_fork(after_in_child=_forget_servers)
