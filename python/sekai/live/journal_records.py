"""Records of a journal, and the lines they are written as.

A line is the digest of a record in 16 hexadecimal digits, a space, and the record in JSON. The
digest is keyed by that of the record before: lines that were lost, repeated, exchanged or altered
do not fit together. It tells of damage; who wants to deceive can write digests too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, get_args

from sekai.live.journal_values import text_of, values_in

__all__ = [
    "FORMAT",
    "LONGEST_LINE",
    "START",
    "Place",
    "Record",
    "RecordKind",
    "after",
    "first_record_in",
    "line_of",
    "record_in",
]

RecordKind = Literal[
    "session", "bar", "notice", "observed", "decision", "order", "sent", "cancel", "report",
    "refusal", "account", "kill", "released", "snapshot", "recovered", "abandoned", "begun",
    "stopped", "universe",
]  # fmt: skip

KINDS = frozenset(get_args(RecordKind))
NAMES = {"number", "time", "kind", "fields"}
FORMAT = 1
"""What the first record says, and this version reads."""

LONGEST_LINE = 4 * 2**20
"""Bytes of a record, at most: a file that has no lines must not fill the memory."""

DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One thing that happened."""

    number: int
    """Counted from 0, without a gap."""

    time: int
    """In nanoseconds since 1970 in UTC, by this machine's clock."""

    kind: RecordKind
    fields: Mapping[str, Any]
    """Numbers, words, lists and dicts of them, and NumPy arrays."""


class Place(NamedTuple):
    """Where in a journal the next record belongs."""

    number: int
    digest: bytes
    """Of the record before."""

    end: int
    """Bytes of everything before."""


START = Place(0, b"sekai journal", 0)


def line_of(
    place: Place, time: int, kind: RecordKind, fields: Mapping[str, Any]
) -> tuple[bytes, Place]:
    """The record that is written at `place` as a line with its end, and the place after it.

    Raises:
        ValueError: it cannot be written.
    """
    if kind not in KINDS:
        raise ValueError(f"a record of one of {sorted(KINDS)} was wanted, found {kind!r}")
    text = (
        f'{{"number":{place.number},"time":{time},"kind":"{kind}","fields":{text_of(fields)}}}'
    ).encode("ascii")
    digest = _digest(place, text)
    line = b"%b %b\n" % (digest.hex().encode("ascii"), text)
    if len(line) > LONGEST_LINE:
        raise ValueError(f"a record takes {LONGEST_LINE} bytes at most, this would {len(line)}")
    return line, Place(place.number + 1, digest, place.end + len(line))


def after(place: Place, line: bytes) -> Place:
    """Where the record after this line belongs."""
    digest = bytes.fromhex(line[:DIGITS].decode("ascii"))
    return Place(place.number + 1, digest, place.end + len(line))


def record_in(place: Place, line: bytes) -> Record:
    """The record of a line that begins at `place`.

    Raises:
        ValueError: it is not what was written there.
    """
    text = _verified(place, line)
    found = values_in(text.decode("ascii"))
    if not isinstance(found, dict) or found.keys() != NAMES:
        raise ValueError(f"a record has the keys {sorted(NAMES)}, found {text[:80]!r}")
    _check(place, found)
    return Record(**found)


def first_record_in(place: Place, line: bytes) -> Record | None:
    """The record of a first line; others are only verified, which takes far less time.

    Raises:
        ValueError: it is not what was written there.
    """
    if place.number == 0:
        return record_in(place, line)
    _verified(place, line)
    return None


def _verified(place: Place, line: bytes) -> bytes:
    """The text of a line, if it is the one that was written at `place`."""
    text = line[DIGITS + 1 : -1]
    written = _digest(place, text).hex().encode("ascii")
    if line[: DIGITS + 1] != written + b" " or line[-1:] != b"\n":
        raise ValueError(
            "its digest does not fit: it was altered, or it is not the line that was here"
        )
    return text


def _check(place: Place, found: Mapping[str, Any]) -> None:
    number, fields = found["number"], found["fields"]
    if type(number) is not int or number != place.number or type(found["time"]) is not int:
        raise ValueError(f"record {place.number} was wanted, found {number!r:.40}")
    if not isinstance(found["kind"], str) or found["kind"] not in KINDS:
        raise ValueError(f"a kind that this version knows was wanted, found {found['kind']!r:.40}")
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise ValueError("fields by name were wanted, found something else")
    if place.number == 0:
        _check_first(found["kind"], fields)


def _check_first(kind: str, fields: Mapping[str, Any]) -> None:
    version, session = fields.get("format"), fields.get("session")
    if kind != "session" or type(version) is not int or version != FORMAT:
        raise ValueError(f"a journal of format {FORMAT} was wanted, found {version!r:.40}")
    if not isinstance(session, str) or not session:
        raise ValueError(f"the name of a session was wanted, found {session!r:.40}")


def _digest(place: Place, text: bytes) -> bytes:
    return blake2b(text, digest_size=DIGITS // 2, key=place.digest).digest()
