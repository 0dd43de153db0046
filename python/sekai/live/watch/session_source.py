"""A live session as those who watch see it: by the files in its folder alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from datetime import datetime, timezone
from typing import Any

from sekai.live.session_folder import SessionFolder
from sekai.live.status import SessionStatus
from sekai.live.watch.file_mark import FileMark, mark_of
from sekai.live.watch.kill_file import kill_reason, put_kill_file, remove_kill_file
from sekai.live.watch.source import Kind
from sekai.live.watch.status_check import checked_status, plain_status

__all__ = ["SILENT_SECONDS", "SessionSource"]

SILENT_SECONDS = 5.0
"""A process that is there replaces its status about once a second."""

MOST_BYTES = 8 * 2**20
"""Of a status: what is larger was not written by a session."""

WITH_PROCESS = ("starting", "trading", "halted", "killed")
"""States of a session whose process should be there."""


class SessionSource:
    """Reads how a session is doing, and can stop its trading."""

    kind: Kind = "session"

    def __init__(self, folder: SessionFolder, clock: Callable[[], float] = time.time) -> None:
        """Say which session.

        Args:
            folder: of the session; nothing need be in it yet.
            clock: what gives seconds since 1970.
        """
        self.folder = folder
        self._clock = clock
        self._mark: FileMark = None
        self._status: SessionStatus | None = None
        self._note = "the session has not told anything yet"

    @property
    def title(self) -> str:
        """What the session is called."""
        return self.folder.path.name

    def version(self) -> Hashable:
        """Which files there are, and whether the process gives a sign of life."""
        files = mark_of(self.folder.status), mark_of(self.folder.kill)
        return *files, self._silent_since() is not None

    def read(self) -> dict[str, Any]:
        """The last good status, what is odd about it, and whether trading was stopped."""
        self._look()
        return {
            "kind": self.kind,
            "title": self.title,
            "status": None if self._status is None else plain_status(self._status),
            "note": self._note,
            "silent_since": self._silent_since(),
            "kill": kill_reason(self.folder.kill),
        }

    def kill(self, reason: str) -> None:
        """Stop all trading of the session."""
        put_kill_file(self.folder.kill, reason)

    def release(self, name: str) -> None:
        """Allow trading again.

        Args:
            name: of the session, typed by a person who means it.
        """
        if name != self.title:
            raise ValueError(f"the name of the session was wanted, {self.title!r}, found {name!r}")
        remove_kill_file(self.folder.kill)

    def _look(self) -> None:
        """Read the status if it is another one than before."""
        mark = mark_of(self.folder.status)
        if mark is None:
            known = self._status is not None
            self._note = "status.json has gone: this is the last that was read" if known else (
                "the session has not told anything yet"
            )  # fmt: skip
        elif mark != self._mark:
            try:
                self._status, self._note = self._loaded(mark), ""
            except (OSError, ValueError, RecursionError, OverflowError) as error:
                self._note = f"status.json cannot be read, this is the last that could: {error}"
        self._mark = mark

    def _loaded(self, mark: tuple[int, int, int]) -> SessionStatus:
        if mark[2] > MOST_BYTES:
            raise ValueError(f"it has {mark[2]:,} bytes, and at most {MOST_BYTES:,} were wanted")
        return checked_status(self.folder.status.read_text(encoding="utf-8"))

    def _silent_since(self) -> str | None:
        """Since when the process has said nothing, if it should have."""
        status, mark = self._status, self._mark
        if status is None or status.state not in WITH_PROCESS or mark is None:
            return None
        now = self._clock()
        last = _seconds(status.updated)
        # A clock that is ahead tells nothing, nor one from before all clocks: then what the file
        # system says counts.
        if last is None or not 0 < last <= now:
            last = mark[1] / 1e9
        if now - last <= SILENT_SECONDS:
            return None
        return datetime.fromtimestamp(last, timezone.utc).isoformat(timespec="seconds")


def _seconds(text: str) -> float | None:
    try:
        # Python 3.10 does not know the letter.
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
