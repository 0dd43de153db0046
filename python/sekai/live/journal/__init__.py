"""Journal: append-only record of a session, written before acting."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from sekai.core.base import Closeable
from sekai.error import JournalError
from sekai.live.journal.records import (
    FORMAT,
    START,
    JournalFollower,
    JournalPosition,
    JournalRecord,
    RecordKind,
    encode_line,
    open_regular_file,
    read_journal,
    read_records,
    verify_line,
)
from sekai.live.session_log import FREE_TEXT_FIELDS, redacted
from sekai.storage.files import fsync_file, fsync_folder
from sekai.storage.lock import lock_file

__all__ = ["Journal", "JournalFollower", "JournalRecord", "RecordKind", "Sync", "read_journal"]

Sync = Literal["orders", "every", "never"]
SYNCS = ("orders", "every", "never")
FIRST_RECORD = b' {"number":0,'
"""Text after the digest of a first record."""

CHUNK_BYTES = 2**20


class Journal(Closeable):
    """Append-only journal: a line for each record, chained by digests that reveal damage.

    A record survives the death of the process as soon as `append` returns. `sync` says when it
    survives a power cut:

    - `"every"`: as soon as `append` returns.
    - `"orders"`: as soon as `make_durable` returns, which is called before orders are submitted.
    - `"never"`: when the system writes it back; `make_durable` does nothing.

    One process can have a journal open, and one thread may append at a time. `make_durable` may
    run in another thread. An existing journal is verified, and its torn end is cut off.

    Args:
        path: the file; created if missing.
        sync: when records are synced to disk.
        session: name of the session; random for a new journal if not given.

    Raises:
        JournalError: the journal is open in another process, damaged before its last line, or
            belongs to another session.
    """

    def __init__(
        self, path: str | os.PathLike[str], sync: Sync = "orders", *, session: str | None = None
    ) -> None:
        if sync not in SYNCS:
            raise ValueError(f"sync must be one of {SYNCS}, got {sync!r}")
        if session == "":
            raise ValueError("session must be a name, got ''")
        self.path = Path(path)
        self.sync: Sync = sync
        self.torn = b""
        """Bytes cut off when it was opened: an incomplete record that nothing relied on."""

        self._expected_session = session
        self._file: int | None = None
        self._failure: str | None = None
        self._position = START
        self._durable = 0
        self._open(is_first=True)

    @property
    def session(self) -> str:
        """Name of the session."""
        return self._session

    @property
    def count(self) -> int:
        """Number of records."""
        return self._position.number

    def append(self, kind: RecordKind, /, **fields: Any) -> JournalRecord:
        """Append a record.

        Arrays are written several times as fast as lists of numbers.

        Raises:
            ValueError: `fields` cannot be encoded; nothing was written.
            JournalError: the record cannot be written. The journal is as before and refuses
                further records until `reopen`.
        """
        return self.append_all([(kind, fields)])[0]

    def append_all(
        self, records: Iterable[tuple[RecordKind, dict[str, Any]]]
    ) -> list[JournalRecord]:
        """Append several records in one write, all or none; see `append` for errors.

        A process that dies during the write leaves the first of them.
        """
        if self._failure is not None or self._file is None:
            raise self._error()
        lines, written, position = [], [], self._position
        for kind, fields in records:
            for name in FREE_TEXT_FIELDS:
                if fields.get(name) and isinstance(fields[name], str):
                    fields[name] = redacted(fields[name])
            now = time.time_ns()
            written.append(
                JournalRecord(number=position.number, time=now, kind=kind, fields=fields)
            )
            line, position = encode_line(position, now, kind, fields)
            lines.append(line)
        if lines:
            self._write(b"".join(lines), position)
        return written

    def make_durable(self) -> None:
        """Sync all records to disk, unless `sync` is "never".

        Raises:
            JournalError: the disk reported an error; further records are refused until `reopen`.
        """
        if self._failure is not None or self._file is None:
            raise self._error()
        if self.sync != "never":
            self._fsync()

    def reopen(self) -> None:
        """Continue after a failure; the file is verified again.

        Raises:
            JournalError: it still cannot be written, or is missing.
        """
        self.close()
        self._open(is_first=False)

    def close(self) -> None:
        """Sync unless `sync` is "never", and close the file. Closing twice is no error."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            if self._failure is None and self.sync != "never":
                fsync_file(file)
        except OSError as error:
            raise self._failed(f"fsync failed: {error}") from error
        finally:
            os.close(file)

    def _open(self, *, is_first: bool) -> None:
        try:
            file = _open_for_append(self.path, may_create=is_first)
        except OSError as error:
            raise JournalError(f"journal {self.path} cannot be opened: {error}") from error
        try:
            _lock(file, self.path)
            if not is_first and self.sync != "never":
                _rewrite(self.path, self._durable)
            self._load(file)
        except BaseException as error:
            self._file = None
            os.close(file)
            if isinstance(error, OSError):
                raise self._failed(f"it cannot be opened: {error}") from error
            raise

    def _load(self, file: int) -> None:
        """Verify the records, cut off a torn end, and continue after the last record."""
        position, session = START, self._expected_session or secrets.token_hex(6)
        with open_regular_file(self.path) as reader:
            for record, following in read_records(reader, START, self.path, verify_line):
                position = following
                if record is not None:
                    session = record.fields["session"]
            reader.seek(position.end)
            torn = reader.read()
        if self._expected_session not in (None, session):
            raise JournalError(
                f"{self.path} is the journal of session {session!r}, expected that of "
                f"{self._expected_session!r}"
            )
        if position is START and not _may_be_first(torn):
            raise JournalError(f"{self.path} is not a journal: it begins with {torn[:40]!r}")
        _truncate(file, position.end)
        self._file, self._failure, self._position = file, None, position
        self._session, self.torn = session, torn
        if position is START:
            self.append("session", format=FORMAT, session=session)
        if self.sync != "never":
            self._fsync()

    def _write(self, lines: bytes, following: JournalPosition) -> None:
        assert self._file is not None, "checked by the caller"
        before = self._position
        try:
            written = os.write(self._file, lines)
            if written != len(lines):
                raise OSError(f"only {written} of {len(lines)} bytes written")
            self._position = following
            if self.sync == "every":
                self._fsync()
        except BaseException as error:
            # Also on an interrupt: a record that `append` did not return must not remain.
            self._position = before
            self._cut_back(str(error) or "append was interrupted")
            if isinstance(error, (OSError, JournalError)):
                raise self._error() from error
            raise

    def _cut_back(self, reason: str) -> None:
        self._failure = self._failure or reason
        assert self._file is not None, "checked by the caller"
        try:
            _truncate(self._file, self._position.end)
        except OSError as error:
            # The torn end is cut off when the journal is opened next.
            self._failure += f", and its torn end could not be cut off: {error}"

    def _fsync(self) -> None:
        assert self._file is not None, "checked by the caller"
        end = self._position.end
        try:
            if os.fstat(self._file).st_nlink == 0:
                raise OSError("the file was deleted")
            fsync_file(self._file)
        except OSError as error:
            raise self._failed(f"fsync failed: {error}") from error
        self._durable = end

    def _failed(self, reason: str) -> JournalError:
        self._failure = reason
        return self._error()

    def _error(self) -> JournalError:
        if self._failure is None:
            return JournalError(f"journal {self.path} is closed")
        return JournalError(
            f"journal {self.path} cannot be written: {self._failure}. The {self.count} records "
            f"before are intact; free disk space or repair the disk, then call reopen()"
        )


def _may_be_first(torn: bytes) -> bool:
    """Return True for the beginning of a first record, as opposed to another kind of file."""
    digest, rest = torn[:16], torn[16 : 16 + len(FIRST_RECORD)]
    return not digest.strip(b"0123456789abcdef") and FIRST_RECORD.startswith(rest)


def _open_for_append(path: Path, may_create: bool) -> int:
    if path.exists() and not path.is_file():
        raise OSError("not a regular file")
    is_new = may_create and not path.exists()
    create = os.O_CREAT if may_create else 0
    binary: int = getattr(os, "O_BINARY", 0)
    file = os.open(path, os.O_RDWR | os.O_APPEND | create | binary, 0o600)
    if is_new:
        try:
            fsync_folder(path.parent)
        except BaseException:
            os.close(file)
            raise
    return file


def _lock(file: int, path: Path) -> None:
    try:
        lock_file(file)
    except OSError as error:
        raise JournalError(
            f"journal {path} is open in another process, or twice in this one; a session runs once"
        ) from error


def _truncate(file: int, end: int) -> None:
    if os.fstat(file).st_size > end:
        os.ftruncate(file, end)


def _rewrite(path: Path, start: int) -> None:
    """Write the bytes from `start` on over themselves.

    After a failed fsync the system considers pages clean that never reached the disk, and does
    not write them again by itself.
    """
    file = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        while chunk := os.pread(file, CHUNK_BYTES, start):
            start += os.pwrite(file, chunk, start)
    finally:
        os.close(file)
