"""Journal records: their lines on disk, the segments they are in, and reading them.

A line is the digest of a record in 16 hexadecimal digits, a space, and the record in JSON. The
digest is keyed by that of the record before, so that lost, repeated, exchanged or altered lines
are detected. It detects damage, not forgery.

A journal is a file, such as `journal.jsonl`, followed by further segments `journal.000002.jsonl`
and so on. The first record of a segment has the digest of the last record before it and the number
of bytes of the segment before, so that the chain goes on, and a segment can be read alone.
"""

from __future__ import annotations

import os
import re
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
    "missing_segment",
    "open_regular_file",
    "read_journal",
    "read_records",
    "segment_fields",
    "segment_numbers",
    "segment_path",
    "segment_start",
    "torn_segment",
    "verify_line",
]

SessionKind = Literal["session", "segment", "begun", "recovered", "stopped", "snapshot", "command"]
KillKind = Literal["kill", "released", "cancel_all", "obeyed"]
RowKind = Literal["bar", "notice", "account", "observed", "decision", "universe"]
AccountKind = Literal["ledger", "reset"]
OrderKind = Literal["order", "sent", "cancel", "report", "refusal", "denied"]
RecordKind = SessionKind | KillKind | RowKind | AccountKind | OrderKind

KINDS = frozenset(
    name
    for kinds in (SessionKind, KillKind, RowKind, AccountKind, OrderKind)
    for name in get_args(kinds)
)
KEYS = {"number", "time", "kind", "fields"}
FORMAT = 3
"""Format number in the first record of a segment."""

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
    """Number of bytes before it in its segment."""

    segment: int = 1
    """Number of the segment."""


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
    return line, _after(position, digest, len(line))


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
    """Decode the first line of a segment, and only verify the others, which is much faster.

    Raises:
        ValueError: the line is damaged or does not belong there.
    """
    if position.end == 0:
        return decode_line(position, line)
    _verified(position, line)
    return None


def segment_path(path: Path, segment: int) -> Path:
    """File of a segment of the journal `path`, which is the first one."""
    return path if segment == 1 else path.with_name(f"{path.stem}.{segment:06d}{path.suffix}")


def segment_numbers(path: Path) -> list[int]:
    """Numbers of the segments that exist, in order."""
    pattern = re.compile(rf"{re.escape(path.stem)}\.(\d{{6,}}){re.escape(path.suffix)}")
    later = [match for name in os.listdir(path.parent) if (match := pattern.fullmatch(name))]
    # A name such as 0000002 is no segment: its file would never be read.
    numbers = [int(match[1]) for match in later if match[0] == _later_name(path, int(match[1]))]
    return sorted([*([1] if path.exists() else []), *numbers])


def segment_fields(position: JournalPosition, session: str) -> dict[str, Any]:
    """Fields of the first record of the segment that follows a position."""
    return {
        "format": FORMAT,
        "session": session,
        "segment": position.segment + 1,
        "digest": position.digest.hex(),
        "bytes": position.end,
    }


def segment_start(path: Path, segment: int) -> JournalPosition | None:
    """Position of the first record of a segment; None if there is no such segment.

    Only this record is read.
    """
    if segment == 1:
        return START
    try:
        with open_regular_file(segment_path(path, segment)) as file:
            line = file.readline(MAX_LINE_BYTES)
        values = decode_record(line[DIGEST_DIGITS + 1 : -1].decode("ascii"))
        digest = bytes.fromhex(values["fields"]["digest"])
        position = JournalPosition(int(values["number"]), digest, 0, segment)
        decode_line(position, line)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return position


def read_journal(
    path: str | os.PathLike[str], start: JournalPosition | None = None
) -> Iterator[JournalRecord]:
    """Records of all segments of a journal one by one; it may be open elsewhere, and grow.

    An incomplete last line is left out: a crash interrupted its write.

    Args:
        path: the first segment.
        start: position of the first record to read; the start of the journal if not given.

    Raises:
        JournalError: a segment is missing, or damaged before the last line of the journal.
    """
    with JournalFollower(path, start) as follower:
        while records := follower.new_records(at_most=256):
            yield from records
        follower.check_complete()


class JournalFollower(Closeable):
    """Reads a journal from its start, or from a position, while it grows.

    Raises:
        JournalError: the file is missing or cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], start: JournalPosition | None = None) -> None:
        self.path = Path(path)
        self._position = START if start is None else start
        try:
            self._file = open_regular_file(segment_path(self.path, self._position.segment))
        except OSError as error:
            raise JournalError(f"journal {self.path} cannot be read: {error}") from error

    @property
    def is_at_end(self) -> bool:
        """True if every byte belongs to a record that was read; False for a torn end."""
        following = segment_path(self.path, self._position.segment + 1)
        return _size(self._file) == self._position.end and not following.exists()

    def new_records(self, at_most: int = 10_000) -> list[JournalRecord]:
        """Records since the last call, oldest first.

        Args:
            at_most: largest number of records to return; the next call continues.

        Raises:
            JournalError: a segment is damaged before the last line of the journal. Records before
                the damage were returned by earlier calls.
        """
        records: list[JournalRecord] = []
        try:
            while len(records) < at_most:
                # Looked for first: nothing is appended to a segment that another one follows.
                following = segment_path(self.path, self._position.segment + 1)
                has_following = following.exists()
                self._read(records, at_most)
                if len(records) >= at_most or not has_following or not self._enter(following):
                    break
        except JournalError:
            if not records:
                raise
        return records

    def check_complete(self) -> None:
        """Raise `JournalError` unless this is the end of the journal, or the next segment is torn.

        A process that dies leaves at most the last segment without its first record.
        """
        following = self._position.segment + 1
        later = [number for number in segment_numbers(self.path) if number >= following]
        if later and later[-1] != following:
            raise missing_segment(self.path, following)

    def close(self) -> None:
        """Close the file. Closing twice is no error."""
        self._file.close()

    def _read(self, records: list[JournalRecord], at_most: int) -> None:
        """Read new records of the current segment."""
        path = segment_path(self.path, self._position.segment)
        if _size(self._file) < self._position.end:
            raise JournalError(f"{path} was truncated: records that were read are missing")
        for record, position in read_records(self._file, self._position, path, decode_line):
            records.append(record)
            self._position = position
            if len(records) >= at_most:
                break

    def _enter(self, following: Path) -> bool:
        """Go on to the next segment; False while its first record is incomplete."""
        position = self._position
        if _size(self._file) != position.end:
            raise torn_segment(self.path, position)
        start = JournalPosition(position.number, position.digest, 0, position.segment + 1)
        try:
            file = open_regular_file(following)
        except OSError as error:
            raise JournalError(f"journal {following} cannot be read: {error}") from error
        try:
            is_begun = any(True for _ in read_records(file, start, following, decode_line))
        except BaseException:
            file.close()
            raise
        if not is_begun:
            file.close()
            return False
        self._file.close()
        self._file, self._position = file, start
        return True


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
            position = _after(position, digest, len(line))
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
    if position.end == 0:
        _check_first(position, kind, fields)


def _check_first(position: JournalPosition, kind: str, fields: Mapping[str, Any]) -> None:
    version, session = fields.get("format"), fields.get("session")
    expected = "session" if position.segment == 1 else "segment"
    if kind != expected or type(version) is not int or version != FORMAT:
        raise ValueError(f"expected a journal of format {FORMAT}, got {version!r:.40}")
    if not isinstance(session, str) or not session:
        raise ValueError(f"expected the name of a session, got {session!r:.40}")
    if position.segment > 1 and fields.get("segment") != position.segment:
        raise ValueError(f"expected segment {position.segment}, got {fields.get('segment')!r:.40}")


def _later_name(path: Path, segment: int) -> str:
    return segment_path(path, segment).name if segment > 1 else ""


def _after(position: JournalPosition, digest: bytes, size: int) -> JournalPosition:
    return JournalPosition(position.number + 1, digest, position.end + size, position.segment)


def torn_segment(path: Path, position: JournalPosition) -> JournalError:
    """Error for a segment with a torn end that another one follows."""
    return JournalError(
        f"line {position.number + 1} of the journal {segment_path(path, position.segment)} (from "
        f"byte {position.end}) is damaged: it is torn, and another segment follows. The "
        f"{position.number} records before it are intact"
    )


def missing_segment(path: Path, segment: int) -> JournalError:
    """Error for a segment that is not there."""
    return JournalError(
        f"segment {segment_path(path, segment)} of the journal is missing or damaged in its first "
        f"line, although a later one exists; restore it from a backup"
    )


def _digest(position: JournalPosition, text: bytes) -> bytes:
    return blake2b(text, digest_size=DIGEST_DIGITS // 2, key=position.digest).digest()


def _size(file: FileIO) -> int:
    return os.fstat(file.fileno()).st_size
