"""Kill switch: a file that stops all trading of a session."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from sekai.storage.files import create_file

__all__ = ["POLL_SECONDS", "KillSwitch", "kill_reason", "kill_text", "write_kill_file"]

POLL_SECONDS = 0.05
"""Seconds for which the last check of the file is reused."""

MAX_REASON_BYTES = 4096
NO_REASON = "kill file without a reason"


class KillSwitch:
    """Kill switch that is on while its file exists, or once it was pulled in this process.

    Args:
        path: the file, see `SessionFolder.kill`.
        look_every: seconds for which the last check is reused, so that checking is cheap.
        clock: monotonic clock in seconds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        look_every: float = POLL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = Path(path)
        self._file = os.fspath(path)
        self._look_every = look_every
        self._clock = clock
        self._was_pulled = False
        self._exists = False
        self._checked = -float("inf")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def is_pulled(self) -> bool:
        """Return True if all trading must stop."""
        if self._was_pulled:
            return True
        now = self._clock()
        if now - self._checked >= self._look_every:
            self._exists = _exists(self._file)
            self._checked = now
        return self._exists

    def look(self) -> bool:
        """Check the file now, so that `is_pulled` is free for the next `look_every` seconds."""
        self._checked = -float("inf")
        return self.is_pulled()

    def reason(self) -> str:
        """Reason given in the file; empty without a file."""
        return kill_reason(self.path) or ""

    def pull(self, reason: str) -> None:
        """Stop all trading, in other processes too; the first reason is kept.

        This process stops even if the file cannot be written, which raises `OSError`.
        """
        self._was_pulled = True
        write_kill_file(self.path, reason)

    def release(self) -> None:
        """Remove the file to allow trading again; called by operators only."""
        self.path.unlink(missing_ok=True)
        self._was_pulled = False
        self._checked = -float("inf")


def kill_reason(path: Path) -> str | None:
    """Reason in a kill file; None without a file, which means that trading is allowed."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_REASON_BYTES).decode(errors="replace").strip() or NO_REASON
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"reason cannot be read: {error.strerror}"


def kill_text(reason: str) -> str:
    """Reason of a kill for operators; a file made by `touch` has none."""
    return reason or "kill file without a reason"


def write_kill_file(path: Path, reason: str) -> None:
    """Create the kill file with its reason at once; an existing file keeps the first reason."""
    # Typed text may contain lone surrogates, which UTF-8 cannot encode.
    content = reason.encode(errors="replace")[:MAX_REASON_BYTES]
    try:
        create_file(path, content)
    except OSError:
        # A full disk may still have room for an empty file, which is enough.
        path.touch()


def _exists(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        # Unknown counts as pulled.
        return True
    return True
