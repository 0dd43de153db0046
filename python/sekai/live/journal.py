"""What happened in a live session, written before it is acted on."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from sekai.core.closing import Closing
from sekai.error import JournalError
from sekai.live.journal_file import cut_at, lock, opened, wait_for_disk, written_again
from sekai.live.journal_reading import JournalFollower, open_plain, read_journal, steps_from
from sekai.live.journal_records import (
    FORMAT,
    START,
    Place,
    Record,
    RecordKind,
    first_record_in,
    line_of,
)
from sekai.live.redaction import WORDS, redacted

__all__ = ["Journal", "JournalFollower", "Record", "RecordKind", "Sync", "read_journal"]

Sync = Literal["orders", "every", "never"]
SYNCS = ("orders", "every", "never")
BEGINNING = b' {"number":0,'
"""What follows the digest of a first record."""


class Journal(Closing):
    """A file that only grows: a line for each record, chained so that damage is found.

    A record that `append` returned survives the death of this process, however it dies. When it
    survives the death of the machine is what `sync` says:

    - `"every"`: as soon as `append` returns.
    - `"orders"`: as soon as `make_durable` returns, which is called before orders are sent.
    - `"never"`: when the system gets round to it, after half a minute or so; `make_durable` does
      nothing.

    One process can have a journal open, and one thread may append at a time. `make_durable` may
    run in another thread, so that nothing else waits for the disk.
    """

    def __init__(
        self, path: str | os.PathLike[str], sync: Sync = "orders", *, session: str | None = None
    ) -> None:
        """Begin a journal, or go on with one: all of it is verified, and a torn end is cut off.

        Args:
            path: the file; it is created if it is not there.
            sync: when records are made to survive a power cut.
            session: what the session is called; a new name if not given, or the one it has.

        Raises:
            JournalError: another process has it open, it is damaged before its last line, or it
                is of another session.
        """
        if sync not in SYNCS:
            raise ValueError(f"sync must be one of {SYNCS}, was {sync!r}")
        if session == "":
            raise ValueError("session must be a name, was ''")
        self.path = Path(path)
        self.sync: Sync = sync
        self.torn = b""
        """What was cut off when it was opened: the remains of a record that nobody relied on."""

        self._wanted = session
        self._file: int | None = None
        self._failure: str | None = None
        self._place = START
        self._durable = 0
        self._open(is_first=True)

    @property
    def session(self) -> str:
        """What the session is called."""
        return self._session

    @property
    def count(self) -> int:
        """How many records there are."""
        return self._place.number

    def append(self, kind: RecordKind, /, **fields: Any) -> Record:
        """Write down what happened.

        Rows of numbers should be arrays: those are written several times as fast as lists.

        Raises:
            ValueError: there is something in `fields` that cannot be written; nothing was.
            JournalError: it could not be written. The journal is as before and takes nothing
                more until `reopen`.
        """
        return self.append_all([(kind, fields)])[0]

    def append_all(self, records: Iterable[tuple[RecordKind, dict[str, Any]]]) -> list[Record]:
        """Write down several things at once: the file is asked once, and takes all or none.

        A process that dies meanwhile leaves the first of them; see `append` for what is raised.
        """
        if self._failure is not None or self._file is None:
            raise self._refused()
        lines, written, place = [], [], self._place
        for kind, fields in records:
            for name in WORDS:
                if fields.get(name) and isinstance(fields[name], str):
                    fields[name] = redacted(fields[name])
            now = time.time_ns()
            written.append(Record(number=place.number, time=now, kind=kind, fields=fields))
            line, place = line_of(place, now, kind, fields)
            lines.append(line)
        if lines:
            self._write(b"".join(lines), place)
        return written

    def make_durable(self) -> None:
        """Return when all that was appended would survive a power cut, unless `sync` is "never".

        Raises:
            JournalError: the disk did not confirm it; nothing more is taken until `reopen`.
        """
        if self._failure is not None or self._file is None:
            raise self._refused()
        if self.sync != "never":
            self._make_durable()

    def reopen(self) -> None:
        """Go on after a failure: all of it is verified again.

        Raises:
            JournalError: it still cannot be written, or it is gone.
        """
        self.close()
        self._open(is_first=False)

    def close(self) -> None:
        """Make it durable as far as `sync` says, and let others open it. Twice is no error."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            if self._failure is None and self.sync != "never":
                wait_for_disk(file)
        except OSError as error:
            raise self._failed(f"the disk did not confirm it: {error}") from error
        finally:
            os.close(file)

    def _open(self, *, is_first: bool) -> None:
        try:
            file = opened(self.path, may_create=is_first)
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be opened: {error}") from error
        try:
            lock(file, self.path)
            if not is_first and self.sync != "never":
                # What a disk refused to confirm may be in memory alone: only writing helps.
                written_again(self.path, self._durable)
            self._take_in(file)
        except BaseException as error:
            self._file = None
            os.close(file)
            if isinstance(error, OSError):
                raise self._failed(f"it cannot be opened: {error}") from error
            raise

    def _take_in(self, file: int) -> None:
        """Find where the next record belongs, and go on there."""
        place, session = START, self._wanted or secrets.token_hex(6)
        with open_plain(self.path) as reader:
            for record, following in steps_from(reader, START, self.path, first_record_in):
                place = following
                if record is not None:
                    session = record.fields["session"]
            reader.seek(place.end)
            torn = reader.read()
        if self._wanted not in (None, session):
            raise JournalError(
                f"{self.path} should be the journal of {self._wanted!r}, and is that of {session!r}"
            )
        if place is START and not _may_be_first(torn):
            raise JournalError(f"{self.path} is no journal: it begins with {torn[:40]!r}")
        cut_at(file, place.end)
        self._file, self._failure, self._place = file, None, place
        self._session, self.torn = session, torn
        if place is START:
            self.append("session", format=FORMAT, session=session)
        if self.sync != "never":
            self._make_durable()

    def _write(self, lines: bytes, following: Place) -> None:
        assert self._file is not None, "who calls has looked"
        before = self._place
        try:
            written = os.write(self._file, lines)
            if written != len(lines):
                raise OSError(f"{written} of {len(lines)} bytes could be written")
            self._place = following
            if self.sync == "every":
                self._make_durable()
        except BaseException as error:
            # Also when interrupted: what `append` did not return must not be there.
            self._place = before
            self._cut_back(str(error) or "an append was interrupted")
            if isinstance(error, (OSError, JournalError)):
                raise self._refused() from error
            raise

    def _cut_back(self, reason: str) -> None:
        self._failure = self._failure or reason
        assert self._file is not None, "who calls has looked"
        try:
            cut_at(self._file, self._place.end)
        except OSError as error:
            # Whoever opens it cuts it then: what is left there has no end.
            self._failure += f", and its torn end could not be cut off: {error}"

    def _make_durable(self) -> None:
        assert self._file is not None, "who calls has looked"
        end = self._place.end
        try:
            if os.fstat(self._file).st_nlink == 0:
                raise OSError("the file was deleted, and what is written to it is lost")
            wait_for_disk(self._file)
        except OSError as error:
            raise self._failed(f"the disk did not confirm it: {error}") from error
        self._durable = end

    def _failed(self, reason: str) -> JournalError:
        self._failure = reason
        return self._refused()

    def _refused(self) -> JournalError:
        if self._failure is None:
            return JournalError(f"the journal {self.path} is closed")
        return JournalError(
            f"the journal {self.path} cannot be written: {self._failure}. The {self.count} records "
            f"before are whole; make room or mend the disk, then call reopen()"
        )


def _may_be_first(torn: bytes) -> bool:
    """Whether this is the beginning of a first record, and not somebody else's file."""
    digest, rest = torn[:16], torn[16 : 16 + len(BEGINNING)]
    return not digest.strip(b"0123456789abcdef") and BEGINNING.startswith(rest)
