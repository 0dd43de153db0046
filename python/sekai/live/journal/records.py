"""Journal records: their lines on disk, and reading them.

A line is the digest of a record in 16 hexadecimal digits, a space, and the record in JSON. The
digest is keyed by that of the record before, so that lost, repeated, exchanged or altered lines
are detected. It detects damage, not forgery.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from sekai.core.base import Closeable
from sekai.error import JournalError
from sekai.storage.strict_json import decode_record, encode_record

__all__ = [
    "FORMAT",
    "MAX_LINE_BYTES",
    "START",
    "JournalFollower",
    "JournalPosition",
    "JournalRecord",
    "RecordKind",
    "encode_line",
    "open_regular_file",
    "read_journal",
    "read_records",
    "verify_line",
]

SessionKind = Literal["session", "begun", "recovered", "stopped", "snapshot", "kill", "released"]
RowKind = Literal["bar", "notice", "account", "observed", "decision", "universe"]
OrderKind = Literal["order", "sent", "cancel", "report", "refusal", "abandoned"]
RecordKind = SessionKind | RowKind | OrderKind

KINDS = frozenset((*get_args(SessionKind), *get_args(RowKind), *get_args(OrderKind)))
KEYS = {"number", "time", "kind", "fields"}
FORMAT = 2
"""Format number in the first record."""

MAX_LINE_BYTES = 4 * 2**20
"""Largest line, so that a file without line ends does not fill memory."""

DIGEST_DIGITS = 16

Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """Record of a journal."""

    number: int
    """Consecutive number from 0."""

    time: int
    """Nanoseconds since 1970 in UTC, by this machine's clock."""

    kind: RecordKind
    fields: Mapping[str, Any]
    """Numbers, strings, lists and dicts of them, and NumPy arrays."""


class JournalPosition(NamedTuple):
    """Position of the next record in a journal."""

    number: int
    digest: bytes
    """Digest of the record before."""

    end: int
    """Number of bytes before."""


START = JournalPosition(0, b"sekai journal", 0)


def encode_line(
    position: JournalPosition, time: int, kind: RecordKind, fields: Mapping[str, Any]
) -> tuple[bytes, JournalPosition]:
    """Line of a record at `position`, and the position after it.

    Raises:
        ValueError: the record cannot be encoded.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of record {kind!r}; expected one of {sorted(KINDS)}")
    text = (
        f'{{"number":{position.number},"time":{time},"kind":"{kind}","fields":{encode_record(fields)}}}'
    ).encode("ascii")
    digest = _digest(position, text)
    line = b"%b %b\n" % (digest.hex().encode("ascii"), text)
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a record can take {MAX_LINE_BYTES} bytes, got {len(line)}")
    return line, JournalPosition(position.number + 1, digest, position.end + len(line))


def decode_line(position: JournalPosition, line: bytes) -> JournalRecord:
    """Record of the line at `position`.

    Raises:
        ValueError: the line is damaged or does not belong there.
    """
    text = _verified(position, line)
    values = decode_record(text.decode("ascii"))
    if not isinstance(values, dict) or values.keys() != KEYS:
        raise ValueError(f"a record needs the keys {sorted(KEYS)}, got {text[:80]!r}")
    _check(position, values)
    return JournalRecord(**values)


def verify_line(position: JournalPosition, line: bytes) -> JournalRecord | None:
    """Decode the first line, and only verify the others, which is much faster.

    Raises:
        ValueError: the line is damaged or does not belong there.
    """
    if position.number == 0:
        return decode_line(position, line)
    _verified(position, line)
    return None


def read_journal(path: str | os.PathLike[str]) -> Iterator[JournalRecord]:
    """Records of a journal one by one; it may be open elsewhere, and grow.

    An incomplete last line is left out: a crash interrupted its write.

    Raises:
        JournalError: the file is missing, or damaged before its last line.
    """
    with JournalFollower(path) as follower:
        while records := follower.new_records(at_most=256):
            yield from records


class JournalFollower(Closeable):
    """Reads a journal from its start while it grows.

    Raises:
        JournalError: the file is missing or cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._file = open_regular_file(self.path)
        except OSError as error:
            raise JournalError(f"journal {self.path} cannot be read: {error}") from error
        self._position = START

    @property
    def is_at_end(self) -> bool:
        """True if every byte belongs to a record that was read; False for a torn end."""
        return _size(self._file) == self._position.end

    def new_records(self, at_most: int = 10_000) -> list[JournalRecord]:
        """Records since the last call, oldest first.

        Args:
            at_most: largest number of records to return; the next call continues.

        Raises:
            JournalError: the file is damaged before its last line. Records before the damage
                were returned by earlier calls.
        """
        if _size(self._file) < self._position.end:
            raise JournalError(f"{self.path} was truncated: records that were read are missing")
        records: list[JournalRecord] = []
        try:
            for record, position in read_records(
                self._file, self._position, self.path, decode_line
            ):
                records.append(record)
                self._position = position
                if len(records) >= at_most:
                    break
        except JournalError:
            if not records:
                raise
        return records

    def close(self) -> None:
        """Close the file. Closing twice is no error."""
        self._file.close()


def open_regular_file(path: Path) -> FileIO:
    """Open a file for unbuffered reading."""
    # A pipe or a device might block, or never end.
    if path.exists() and not path.is_file():
        raise OSError("not a regular file")
    return FileIO(path, "rb")


def read_records(
    file: FileIO,
    position: JournalPosition,
    path: Path,
    decode: Callable[[JournalPosition, bytes], Decoded],
) -> Iterator[tuple[Decoded, JournalPosition]]:
    """Decode complete lines from `position` on, each with the position after it.

    Args:
        file: the journal.
        position: position of the first line.
        path: path for error messages.
        decode: function of position and line; raises `ValueError` for damage.

    Raises:
        JournalError: a line before the last is damaged, or the first is no record.
    """
    try:
        for line in _lines_from(file, position.end):
            try:
                record = decode(position, line)
            except ValueError:
                # A file without any record is not a journal, and nothing of it may be cut off.
                if position.number > 0 and _size(file) == position.end + len(line):
                    return
                raise
            digest = bytes.fromhex(line[:DIGEST_DIGITS].decode("ascii"))
            position = JournalPosition(position.number + 1, digest, position.end + len(line))
            yield record, position
    except (OSError, ValueError) as error:
        raise JournalError(
            f"line {position.number + 1} of the journal {path} (from byte {position.end}) is "
            f"damaged: {error}. The {position.number} records before it are intact"
        ) from error


def _lines_from(file: FileIO, start: int) -> Iterator[bytes]:
    """Complete lines from byte `start` on."""
    file.seek(start)
    buffered = BufferedReader(file, 2**16)
    try:
        while line := buffered.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"line is longer than {MAX_LINE_BYTES} bytes")
            if not line.endswith(b"\n"):
                return
            yield line
    finally:
        buffered.detach()


def _verified(position: JournalPosition, line: bytes) -> bytes:
    """Text of a line whose digest is right."""
    text = line[DIGEST_DIGITS + 1 : -1]
    expected = _digest(position, text).hex().encode("ascii")
    if line[: DIGEST_DIGITS + 1] != expected + b" " or line[-1:] != b"\n":
        raise ValueError("digest mismatch: the line was altered or moved")
    return text


def _check(position: JournalPosition, values: Mapping[str, Any]) -> None:
    number, kind, fields = values["number"], values["kind"], values["fields"]
    if type(number) is not int or number != position.number or type(values["time"]) is not int:
        raise ValueError(f"expected record {position.number}, got {number!r:.40}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"unknown kind of record {kind!r:.40}")
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise ValueError("fields must be a dict with string keys")
    if position.number == 0:
        _check_first(kind, fields)


def _check_first(kind: str, fields: Mapping[str, Any]) -> None:
    version, session = fields.get("format"), fields.get("session")
    if kind != "session" or type(version) is not int or version != FORMAT:
        raise ValueError(f"expected a journal of format {FORMAT}, got {version!r:.40}")
    if not isinstance(session, str) or not session:
        raise ValueError(f"expected the name of a session, got {session!r:.40}")


def _digest(position: JournalPosition, text: bytes) -> bytes:
    return blake2b(text, digest_size=DIGEST_DIGITS // 2, key=position.digest).digest()


def _size(file: FileIO) -> int:
    return os.fstat(file.fileno()).st_size
