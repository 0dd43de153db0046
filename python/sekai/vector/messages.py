"""Messages between a vector env and its worker processes: pickling, errors and pipes.

Requests are numbered. Steps, the most frequent ones, are requested in shared memory; all others in
a message of one byte for the number, one for the kind, and the payload. A reply has the number of
its request, so that the late reply to an abandoned request (Ctrl-C, say) is not taken for the next
one.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import struct
import time
import traceback
from typing import TYPE_CHECKING, Any

from sekai.error import WorkerError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


STEP = b"s"
"""Step all envs; one byte is the result slot. Not sent, but written to shared memory."""
REQUEST = b"r"
"""Run the pickled (method, arguments)."""
DONE = b"d"
"""Reply without a value."""
VALUE = b"v"
"""Reply with a pickled value."""
FAULT = b"f"
"""Reply with a pickled error."""


def request_id(count: int) -> int:
    """Return the one-byte number of the `count`-th request; 0 is a worker's greeting."""
    return count % 255 + 1


class CloudPickled:
    """Value pickled by cloudpickle, which supports closures and local classes."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getstate__(self) -> bytes:
        import cloudpickle  # type: ignore[import-untyped]

        pickled: bytes = cloudpickle.dumps(self.value)
        return pickled

    def __setstate__(self, pickled: bytes) -> None:
        self.value = pickle.loads(pickled)


def dumps(value: Any) -> bytes:
    """Pickle a value, with cloudpickle if pickle fails."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # pickle raises whatever the value's own methods raise
        import cloudpickle

        pickled: bytes = cloudpickle.dumps(value)
        return pickled


class RemoteTraceback(Exception):  # noqa: N818 - it is shown, never caught
    """Traceback of an error in another process or thread."""

    def __init__(self, text: str, where: str = "in a worker process") -> None:
        super().__init__(text, where)

    def __str__(self) -> str:
        text, where = self.args
        return f"{where}\n\n{text}"


def dump_error(error: BaseException) -> tuple[BaseException, BaseException | None, str]:
    """Return an error, its cause and its traceback in picklable form."""
    cause = error.__cause__ if _survives(error.__cause__) else None
    text = "".join(traceback.format_exception(error.__cause__ or error))
    if _survives(error):
        return error, cause, text
    return WorkerError(f"{type(error).__name__}: {error}", remote_traceback=text), cause, text


def load_error(pickled: bytes) -> BaseException:
    """Restore an error from `dump_error`, with the remote traceback as its cause."""
    error: BaseException
    error, cause, text = pickle.loads(pickled)
    # Python prints the chain of causes: remote traceback, cause, env.
    error.__cause__ = cause if cause is not None else RemoteTraceback(text)
    if cause is not None:
        cause.__cause__ = RemoteTraceback(text)
    return error


def _survives(error: BaseException | None) -> bool:
    """Return True if an error can be pickled and unpickled."""
    try:
        pickle.loads(dumps(error))
    except Exception:
        return False
    return True


LENGTH = struct.Struct("!i")
LONG_LENGTH = struct.Struct("!Q")
"""Message framing of `multiprocessing`: the length, or -1 and the length in 8 bytes."""

CHUNK = 1 << 18
"""Bytes read at once."""


class TimedPipe:
    """Non-blocking end of a duplex pipe whose other end is a `multiprocessing` connection.

    An interrupted message is completed before the next one, and incoming data is buffered while a
    message is sent: the two sides cannot deadlock with full buffers.

    Args:
        connection: end of a duplex pipe; it is closed and replaced by this object.
    """

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        connection.close()
        self._outbox = memoryview(b"")
        self._inbox = bytearray()

    def fileno(self) -> int:
        """File descriptor of the pipe."""
        return self._socket.fileno()

    @property
    def wanted_events(self) -> int:
        """Events to poll for while a message is being sent."""
        return select.POLLIN | (select.POLLOUT if self._outbox else 0)

    @property
    def is_sent(self) -> bool:
        """True if every message has been sent completely."""
        return not self._outbox

    def post(self, message: bytes) -> None:
        """Start to send a message, without waiting."""
        length = len(message)
        if length <= 0x7FFFFFFF:
            frame = LENGTH.pack(length) + message
        else:
            frame = LENGTH.pack(-1) + LONG_LENGTH.pack(length) + message
        self._outbox = memoryview(bytes(self._outbox) + frame if self._outbox else frame)
        self.push()

    def push(self) -> None:
        """Send as much as possible without waiting."""
        try:
            while self._outbox:
                sent = self._socket.send(self._outbox, socket.MSG_DONTWAIT)
                self._outbox = self._outbox[sent:]
        except BlockingIOError:
            pass
        except OSError:
            # The other end is closed, which the reader detects too.
            self._outbox = memoryview(b"")

    def pull(self) -> None:
        """Receive available data without waiting; raise `EOFError` if the other end is closed."""
        try:
            arrived = self._socket.recv(max(CHUNK, self._missing()), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not arrived:
            raise EOFError
        self._inbox += arrived

    def message(self) -> bytes | None:
        """Return the oldest complete message, or None."""
        if self._missing():
            return None
        begin, end = self._bounds()
        message = bytes(self._inbox[begin:end])
        del self._inbox[:end]
        return message

    def close(self) -> None:
        """Close the file descriptor."""
        self._socket.close()

    def _bounds(self) -> tuple[int, int]:
        """Return start and end of the oldest message in the inbox."""
        (length,) = LENGTH.unpack_from(self._inbox)
        begin = LENGTH.size
        if length < 0:
            if len(self._inbox) < begin + LONG_LENGTH.size:
                return begin, begin + LONG_LENGTH.size
            (length,) = LONG_LENGTH.unpack_from(self._inbox, begin)
            begin += LONG_LENGTH.size
        return begin, begin + length

    def _missing(self) -> int:
        """Return the minimum number of bytes that the oldest message lacks."""
        if len(self._inbox) < LENGTH.size:
            return LENGTH.size - len(self._inbox)
        return max(0, self._bounds()[1] - len(self._inbox))


def seconds_until(deadline: float | None, at_most: float) -> float:
    """Return the time left until a deadline, but no more than `at_most`."""
    if deadline is None:
        return at_most
    return min(at_most, max(0.0, deadline - time.monotonic()))
