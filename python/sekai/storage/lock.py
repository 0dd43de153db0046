"""File lock that is held by one process and released by the system when that process ends."""

from __future__ import annotations

import os
from pathlib import Path

from sekai.error import BusyError


class FileLock:
    """Exclusive lock on a file of its own, as a context manager.

    Args:
        path: the lock file; created if absent, never removed.
        busy: message of the `BusyError` when another process holds the lock.
    """

    def __init__(self, path: Path, busy: str) -> None:
        self._path = path
        self._busy = busy
        self._handle: int | None = None

    def __enter__(self) -> FileLock:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_file(handle)
        except OSError as error:
            os.close(handle)
            raise BusyError(self._busy) from error
        self._handle = handle
        return self

    def __exit__(self, *error: object) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_locked(path: Path) -> bool:
    """Return True if a process holds the lock on `path`."""
    if not path.exists():
        return False
    try:
        with FileLock(path, "locked"):
            return False
    except BusyError:
        return True


def lock_file(file: int) -> None:
    """Lock an open file until it is closed; `OSError` if it is locked already."""
    if os.name == "nt":
        import msvcrt

        # Far behind the end, where a lock does not block readers.
        os.lseek(file, 2**40, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
