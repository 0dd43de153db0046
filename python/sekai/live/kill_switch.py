"""A switch that stops all trading, and that anybody who may write a file can pull."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["BELIEVED_SECONDS", "KillSwitch"]

BELIEVED_SECONDS = 0.05
"""How long what was last seen is believed."""

_LONGEST_REASON = 4096


class KillSwitch:
    """On while its file is there, whoever made it, or once it was pulled here."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        look_every: float = BELIEVED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch a file.

        Args:
            path: the file; `SessionFolder.kill` is where that of a session is.
            look_every: seconds for which what was last seen is believed, so that asking is free.
            clock: seconds that never go back.
        """
        self.path = Path(path)
        self._look_every = look_every
        self._clock = clock
        self._was_pulled = False
        self._is_there = False
        self._looked = -float("inf")

    def is_pulled(self) -> bool:
        """Whether all trading must stop."""
        if self._was_pulled:
            return True
        now = self._clock()
        if now - self._looked >= self._look_every:
            self._is_there = _is_there(self.path)
            self._looked = now
        return self._is_there

    def look(self) -> bool:
        """The same, seen now: who looks again soon enough leaves others nothing to wait for."""
        self._looked = -float("inf")
        return self.is_pulled()

    def reason(self) -> str:
        """Why it was pulled, as the file says; empty when nobody said, or nobody pulled it."""
        try:
            with self.path.open("rb") as file:
                return file.read(_LONGEST_REASON).decode(errors="replace").strip()
        except OSError:
            return ""

    def pull(self, reason: str) -> None:
        """Stop all trading, in other processes too; the first reason is kept.

        This process stops even if the file cannot be written, which raises `OSError`.
        """
        self._was_pulled = True
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            _write(draft, reason.encode()[:_LONGEST_REASON])
            _put(draft, self.path)
        finally:
            draft.unlink(missing_ok=True)

    def release(self) -> None:
        """Allow trading again: for people, nothing in sekai calls it."""
        self.path.unlink(missing_ok=True)
        self._was_pulled = False
        self._looked = -float("inf")


def _is_there(path: Path) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        # Who cannot look must not trade.
        return True
    return True


def _put(draft: Path, path: Path) -> None:
    """Let a file appear whole, unless there is one: the first reason is the one that counts."""
    with contextlib.suppress(FileExistsError):
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except (OSError, NotImplementedError):
            # A disk without links, however it says so: another reason is better than no stop.
            os.replace(draft, path)


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
