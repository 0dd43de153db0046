"""Whether a process works on a run: told by a lock that ends with the process, however it ends."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from sekai.error import BusyError

__all__ = ["RunLock", "is_locked"]

FILE = ".lock"


class RunLock:
    """Held while a process works on a run; nobody has to clean up after a process that died."""

    def __init__(self, folder: Path) -> None:
        """Say which run.

        Args:
            folder: of the run.
        """
        self._file = folder / FILE
        self._handle: int | None = None

    def __enter__(self) -> RunLock:
        handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle)
        except OSError as error:
            os.close(handle)
            raise BusyError(
                f"another process is working on {self._file.parent}: wait for it, or stop it"
            ) from error
        self._handle = handle
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_locked(folder: Path) -> bool:
    """Whether a process works on the run."""
    if not (folder / FILE).exists():
        return False
    try:
        with RunLock(folder):
            return False
    except BusyError:
        return True


def _lock(handle: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
