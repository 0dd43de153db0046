"""What a journal asks of its file: to be alone with it, to cut it, and to have it on the disk."""

from __future__ import annotations

import os
from pathlib import Path

from sekai.error import JournalError

__all__ = ["cut_at", "lock", "opened", "wait_for_disk", "wait_for_folder", "written_again"]

PIECE = 2**20


def opened(path: Path, may_create: bool) -> int:
    """A file that is only ever added to."""
    if path.exists() and not path.is_file():
        raise OSError("it is no plain file")
    is_new = may_create and not path.exists()
    creating = os.O_CREAT if may_create else 0
    binary: int = getattr(os, "O_BINARY", 0)
    file = os.open(path, os.O_RDWR | os.O_APPEND | creating | binary, 0o600)
    if is_new:
        try:
            wait_for_folder(path.parent)
        except BaseException:
            os.close(file)
            raise
    return file


def lock(file: int, path: Path) -> None:
    """Keep others from opening it, until it is closed or this process dies.

    Raises:
        JournalError: somebody has it open.
    """
    try:
        if os.name == "nt":
            import msvcrt

            # Far behind the end: there it keeps nobody from reading.
            os.lseek(file, 2**40, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise JournalError(
            f"the journal {path} is open in another process, or twice in this one: a session runs "
            f"once"
        ) from error


def cut_at(file: int, end: int) -> None:
    """Leave nothing behind `end`."""
    if os.fstat(file).st_size > end:
        os.ftruncate(file, end)


def wait_for_disk(file: int) -> None:
    """Return when all of a file is on the disk."""
    os.fsync(file)


def wait_for_folder(folder: Path) -> None:
    """Return when the disk knows which files a folder has."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def written_again(path: Path, start: int) -> None:
    """Write the bytes from `start` on once more, over themselves.

    After an error the system holds bytes for written that no disk has: it does not try again.
    """
    file = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        while piece := os.pread(file, PIECE, start):
            start += os.pwrite(file, piece, start)
    finally:
        os.close(file)
