"""Journal: append-only record of a session, written before acting."""

from __future__ import annotations

import os
import secrets
import threading
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
    missing_segment,
    open_regular_file,
    read_journal,
    read_records,
    segment_fields,
    segment_numbers,
    segment_path,
    torn_segment,
    verify_line,
)
from sekai.live.session_log import redacted_record
from sekai.storage.files import fsync_file, fsync_folder
from sekai.storage.lock import lock_file

__all__ = [
    "Journal",
    "JournalFollower",
    "JournalPosition",
    "JournalRecord",
    "RecordKind",
    "Sync",
    "read_journal",
]

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

    It consists of segments: `rotate` begins a new one. An existing journal is verified from a
    position on, and its torn end is cut off; segments before are verified when they are read.

    One process can have a journal open, and one thread may append at a time. `make_durable` may
    run in another thread; `rotate`, `reopen` and `close` wait for it.

    Args:
        path: the first segment; created if missing.
        sync: when records are synced to disk.
        session: name of the session; random for a new journal if not given.
        start: position of the first record to verify, at the start of a segment; that of the
            journal if not given.

    Raises:
        JournalError: the journal is open in another process, damaged before its last line, or
            belongs to another session.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        sync: Sync = "orders",
        *,
        session: str | None = None,
        start: JournalPosition | None = None,
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
        self._lock: int | None = None
        # A descriptor that is closed during an fsync may by then be that of another file.
        self._descriptor = threading.RLock()
        self._failure: str | None = None
        self._position = self._segment_start = START if start is None else start
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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.path)!r}: {self.count:,} records>"

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
            fields = redacted_record(fields)
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
        with self._descriptor:
            if self._failure is not None or self._file is None:
                raise self._error()
            if self.sync != "never":
                self._fsync()

    def rotate(self) -> JournalPosition:
        """Begin a new segment, and return the position of its first record.

        Raises:
            JournalError: it cannot be created; the journal goes on in the old segment.
        """
        with self._descriptor:
            self.make_durable()
            before = self._position
            start = JournalPosition(before.number, before.digest, 0, before.segment + 1)
            fields = segment_fields(before, self._session)
            line, following = encode_line(start, time.time_ns(), "segment", fields)
            path = segment_path(self.path, start.segment)
            try:
                file = _create(path, line, fsync=self.sync != "never")
            except OSError as error:
                reason = f"segment {path} cannot be created: {error}"
                if path.exists():
                    raise self._failed(f"{reason}, and its file remains") from error
                raise JournalError(reason) from error
            assert self._file is not None, "checked by make_durable"
            os.close(self._file)
            self._file, self._position, self._segment_start = file, following, start
            self._durable = following.end
            return start

    def reopen(self) -> None:
        """Continue after a failure; the last segment is verified again.

        Raises:
            JournalError: it still cannot be written, or is missing.
        """
        self.close()
        self._open(is_first=False)

    def close(self) -> None:
        """Sync unless `sync` is "never", and close the file. Closing twice is no error."""
        with self._descriptor:
            file, self._file = self._file, None
            lock, self._lock = self._lock, None
            try:
                if file is not None and self._failure is None and self.sync != "never":
                    fsync_file(file)
            except OSError as error:
                raise self._failed(f"fsync failed: {error}") from error
            finally:
                for handle in (file, lock):
                    if handle is not None:
                        os.close(handle)

    def _open(self, *, is_first: bool) -> None:
        try:
            if is_first and self._is_headless():
                raise missing_segment(self.path, 1)
            lock = _open_for_append(self.path, may_create=is_first)
        except OSError as error:
            raise JournalError(f"journal {self.path} cannot be opened: {error}") from error
        try:
            _lock(lock, self.path)
            if not is_first and self.sync != "never":
                _rewrite(segment_path(self.path, self._segment_start.segment), self._durable)
            self._load()
            self._lock = lock
        except BaseException as error:
            if self._file is not None:
                os.close(self._file)
            self._file = None
            os.close(lock)
            if isinstance(error, OSError):
                raise self._failed(f"it cannot be opened: {error}") from error
            raise

    def _is_headless(self) -> bool:
        """Return True if later segments exist without the first, which must not begin anew."""
        return self.path.parent.is_dir() and segment_numbers(self.path)[:1] not in ([], [1])

    def _load(self) -> None:
        """Verify the records, cut off a torn end, and continue after the last record."""
        start, position, torn = self._verified_end()
        last = segment_numbers(self.path)[-1]
        if self._expected_session not in (None, self._session):
            raise JournalError(
                f"{self.path} is the journal of session {self._session!r}, expected that of "
                f"{self._expected_session!r}"
            )
        if position is START and not _may_be_first(torn):
            raise JournalError(f"{self.path} is not a journal: it begins with {torn[:40]!r}")
        self._file = _open_for_append(segment_path(self.path, position.segment), may_create=False)
        if position.segment < last:
            # The process died while it began this segment.
            segment_path(self.path, last).unlink()
        _truncate(self._file, position.end)
        self._failure, self._position, self._segment_start = None, position, start
        self.torn = torn
        if position is START:
            self.append("session", format=FORMAT, session=self._session)
        if self.sync != "never":
            self._fsync()

    def _verified_end(self) -> tuple[JournalPosition, JournalPosition, bytes]:
        """Start of the last segment, position after the last record, and the bytes after it."""
        self._session = self._expected_session or secrets.token_hex(6)
        start, last = self._segment_start, segment_numbers(self.path)[-1]
        while True:
            position, torn = self._verify_segment(start)
            if position.segment == last:
                return start, position, torn
            if torn:
                raise torn_segment(self.path, position)
            following = JournalPosition(position.number, position.digest, 0, position.segment + 1)
            path = segment_path(self.path, following.segment)
            if not _is_begun(path, following):
                if following.segment < last:
                    raise missing_segment(self.path, following.segment)
                return start, position, path.read_bytes()
            start = following

    def _verify_segment(self, start: JournalPosition) -> tuple[JournalPosition, bytes]:
        """Position after the last record of a segment, and the bytes after it."""
        path, position = segment_path(self.path, start.segment), start
        with open_regular_file(path) as reader:
            for record, position in read_records(reader, start, path, verify_line):  # noqa: B007
                if record is not None:
                    self._session = record.fields["session"]
            reader.seek(position.end)
            return position, reader.read()

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


def _is_begun(path: Path, start: JournalPosition) -> bool:
    """Return True if a segment has its first record; only the last one may lack it."""
    try:
        with open_regular_file(path) as reader:
            return any(True for _ in read_records(reader, start, path, verify_line))
    except FileNotFoundError:
        return False


def _create(path: Path, line: bytes, *, fsync: bool) -> int:
    """Create a segment with its first line; leave nothing behind if that fails."""
    binary: int = getattr(os, "O_BINARY", 0)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | binary, 0o600)
    try:
        written = os.write(file, line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes written")
        if fsync:
            fsync_file(file)
            fsync_folder(path.parent)
    except BaseException:
        os.close(file)
        path.unlink()
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
