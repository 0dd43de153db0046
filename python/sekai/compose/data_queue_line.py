"""The lines by which other processes ask for seeds: sockets that only this user can use."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import sys
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from sekai.error import SekaiError

__all__ = ["Line", "accepted", "connected", "hang_up", "listening", "release_address"]

Line: TypeAlias = "Connection[Any, Any]"

HAS_ABSTRACT_NAMES = sys.platform == "linux"
BACKLOG = 1024


def listening() -> tuple[socket.socket, str]:
    """A socket that waits for callers, and the address at which they find it.

    On Linux the address is a name without a file, which goes when its process goes. Elsewhere it
    is a file in a directory that only this user can enter.
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
    """Remove what `listening` has left in the file system."""
    if not address.startswith("\0"):
        os.unlink(address)
        os.rmdir(os.path.dirname(address))


def accepted(listener: socket.socket) -> Line | None:
    """The line of a caller; None if it is of another user."""
    return _line(listener.accept()[0])


def connected(address: str) -> Line:
    """A line to whoever listens at `address`, or `OSError` if nobody does."""
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        caller.connect(address)
    except BaseException:
        caller.close()
        raise
    line = _line(caller)
    if line is None:
        raise PermissionError("the process that offers seeds is of another user")
    return line


def hang_up(line: Line) -> None:
    """Wake whoever waits at either end of a line: nothing more will come."""
    with socket.socket(fileno=os.dup(line.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def _line(end: socket.socket) -> Line | None:
    # Seeds come as pickles, which only oneself may be allowed to send.
    if HAS_ABSTRACT_NAMES and _user_of(end) != os.geteuid():
        end.close()
        return None
    return Connection(end.detach())


def _user_of(end: socket.socket) -> int:
    form = struct.Struct("3i")
    told = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
    return int(form.unpack(told)[1])
