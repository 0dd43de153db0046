"""Pipe to a worker process in which no read and no write waits longer than its deadline."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["TimedPipe", "seconds_until"]

LENGTH = struct.Struct("!i")
LONG_LENGTH = struct.Struct("!Q")
"""How `multiprocessing` frames messages: the length, or -1 and the length in 8 bytes."""

CHUNK = 1 << 18
"""Bytes that are read at once."""


class TimedPipe:
    """One end of a duplex pipe whose other end is a `multiprocessing` connection.

    A message that is interrupted half-way is completed before the next one, and what arrives while
    a message is sent is kept: neither side can wait for the other with its own buffers full.
    """

    def __init__(self, connection: Connection[Any, Any]) -> None:
        """Take over a connection.

        Args:
            connection: an end of a duplex pipe; it is closed, and this object used in its place.
        """
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        connection.close()
        self._outbox = memoryview(b"")
        self._inbox = bytearray()

    def fileno(self) -> int:
        """The file descriptor, to hand others over this pipe and to wait for it."""
        return self._socket.fileno()

    @property
    def wanted_events(self) -> int:
        """What to poll for while a message is being sent."""
        return select.POLLIN | (select.POLLOUT if self._outbox else 0)

    @property
    def is_sent(self) -> bool:
        """Whether every message is on its way as a whole."""
        return not self._outbox

    def post(self, message: bytes) -> None:
        """Begin to send a message, without waiting."""
        length = len(message)
        if length <= 0x7FFFFFFF:
            frame = LENGTH.pack(length) + message
        else:
            frame = LENGTH.pack(-1) + LONG_LENGTH.pack(length) + message
        self._outbox = memoryview(bytes(self._outbox) + frame if self._outbox else frame)
        self.push()

    def push(self) -> None:
        """Send what the other end has room for, without waiting."""
        try:
            while self._outbox:
                sent = self._socket.send(self._outbox, socket.MSG_DONTWAIT)
                self._outbox = self._outbox[sent:]
        except BlockingIOError:
            pass
        except OSError:
            # The other end is gone, which the reader finds too: nothing can be sent to it.
            self._outbox = memoryview(b"")

    def pull(self) -> None:
        """Take in what has arrived, without waiting; `EOFError` when the other end is closed."""
        try:
            arrived = self._socket.recv(max(CHUNK, self._missing()), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not arrived:
            raise EOFError
        self._inbox += arrived

    def message(self) -> bytes | None:
        """The oldest message that has arrived as a whole, if there is one."""
        if self._missing():
            return None
        begin, end = self._bounds()
        message = bytes(self._inbox[begin:end])
        del self._inbox[:end]
        return message

    def close(self) -> None:
        """Give the file descriptor back."""
        self._socket.close()

    def _bounds(self) -> tuple[int, int]:
        """Where the oldest message begins and ends in what has arrived."""
        (length,) = LENGTH.unpack_from(self._inbox)
        begin = LENGTH.size
        if length < 0:
            if len(self._inbox) < begin + LONG_LENGTH.size:
                return begin, begin + LONG_LENGTH.size
            (length,) = LONG_LENGTH.unpack_from(self._inbox, begin)
            begin += LONG_LENGTH.size
        return begin, begin + length

    def _missing(self) -> int:
        """How many bytes the oldest message lacks at least."""
        if len(self._inbox) < LENGTH.size:
            return LENGTH.size - len(self._inbox)
        return max(0, self._bounds()[1] - len(self._inbox))


def seconds_until(deadline: float | None, at_most: float) -> float:
    """How long to wait for a deadline, if there is one, and in any case no longer than that."""
    if deadline is None:
        return at_most
    return min(at_most, max(0.0, deadline - time.monotonic()))
