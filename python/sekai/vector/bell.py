"""Wakes a process that sleeps until there is something to do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from sekai.vector.timed_pipe import TimedPipe

__all__ = ["Bell"]

ONE = (1).to_bytes(8, "little")


class Bell:
    """A bell with one end to ring and one to listen.

    An event descriptor where there is one: a write to a socket or a pipe wakes its reader on the
    writer's own core, since the writer is expected to sleep next; but a vector wakes one worker
    after another, and they are to work side by side.
    """

    def __init__(self, listens: int, rings: int) -> None:
        self._listens = listens
        self._rings = rings

    @classmethod
    def create(cls) -> Bell:
        """A new bell."""
        if hasattr(os, "eventfd"):
            file = os.eventfd(0)
            return cls(file, file)
        return cls(*os.pipe())

    def send_listener(self, connection: TimedPipe, process_id: int) -> None:
        """Let the process at the other end listen."""
        send_handle(connection, self._listens, process_id)

    def send_ringer(self, connection: TimedPipe, process_id: int) -> None:
        """Let the process at the other end ring."""
        send_handle(connection, self._rings, process_id)

    @classmethod
    def receive_listener(cls, connection: Connection[Any, Any]) -> Bell:
        """The end to listen at that the process at the other end hands over."""
        return cls(recv_handle(connection), -1)

    @classmethod
    def receive_ringer(cls, connection: Connection[Any, Any]) -> Bell:
        """The end to ring that the process at the other end hands over."""
        return cls(-1, recv_handle(connection))

    def ring(self) -> None:
        """Wake the listener, now or when it next listens."""
        os.write(self._rings, ONE)

    def wait(self) -> None:
        """Sleep until the bell has been rung, once or more."""
        os.read(self._listens, 4096)

    def close(self) -> None:
        """Give the file descriptors back."""
        for file in {self._listens, self._rings}:
            os.close(file)


def send_handle(connection: TimedPipe, file: int, process_id: int) -> None:
    """Hand a file descriptor to the process at the other end."""
    from multiprocessing import reduction

    reduction.send_handle(connection, file, process_id)


def recv_handle(connection: Connection[Any, Any]) -> int:
    """The file descriptor that the process at the other end hands over."""
    from multiprocessing import reduction

    return reduction.recv_handle(connection)
