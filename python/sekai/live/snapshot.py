"""Snapshots: the states of all parts of a session in one file, at a position of its journal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from sekai.error import JournalError
from sekai.live.journal.records import JournalPosition, segment_start
from sekai.storage.files import atomic_write
from sekai.storage.strict_json import decode_record, encode_record, parse_json

__all__ = [
    "Snapshot",
    "SnapshotFiles",
    "StatefulPart",
    "read_snapshot",
    "remove_drafts",
    "write_snapshot",
]

SNAPSHOT_FORMAT = "sekai snapshot 4"
MAX_SNAPSHOT_BYTES = 2**30
MAX_HEAD_BYTES = 1_000


class StatefulPart(Protocol):
    """Part of a session whose state is saved in snapshots."""

    def state_dict(self) -> dict[str, Any]:
        """State as numbers, strings, bytes, arrays, and lists and dicts of them."""

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Continue from a saved state."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """States of the parts of a session, and their position in its journal."""

    parts: dict[str, Any]
    position: JournalPosition
    """Position of the first record after the states: the start of a segment."""


class SnapshotFiles:
    """The two last snapshots, in files that are written in turn.

    A snapshot that cannot be written, or was damaged, leaves the one before it.

    Args:
        path: path such as `snapshot.json`, for the files `snapshot.1.json` and `snapshot.2.json`.
    """

    def __init__(self, path: Path) -> None:
        self.paths = tuple(path.with_name(f"{path.stem}.{n}{path.suffix}") for n in (1, 2))
        self._newest = self.paths[1]

    def newest(self, journal: Path, warnings: list[str]) -> Snapshot | None:
        """Newest snapshot of a journal that can be used; None if there is none.

        Args:
            journal: first segment of the journal.
            warnings: receives the reason why a snapshot is not used.
        """
        for path in sorted(filter(Path.exists, self.paths), key=_number, reverse=True):
            try:
                snapshot = read_snapshot(path)
            except JournalError as error:
                warnings.append(f"snapshot not used, an earlier one or the journal is: {error}")
                continue
            if segment_start(journal, snapshot.position.segment) == snapshot.position:
                self._newest = path
                return snapshot
            # A power cut may lose the end of the journal and not the snapshot.
            warnings.append(
                f"{path} not used: it is newer than the journal {journal}, or of another one"
            )
        return None

    def write(self, parts: Mapping[str, Any], position: JournalPosition) -> None:
        """Write a snapshot in place of the older one; see `write_snapshot`."""
        path = self.paths[self._newest == self.paths[0]]
        write_snapshot(path, parts, position)
        self._newest = path


def write_snapshot(
    path: str | os.PathLike[str], parts: Mapping[str, Any], position: JournalPosition
) -> None:
    """Write a snapshot atomically; a crash leaves the old file.

    Args:
        path: the file.
        parts: `state_dict()` of each part, by name.
        position: position of the first journal record after them.

    Raises:
        ValueError: a state cannot be encoded.
        JournalError: the file cannot be written; the old one is unchanged.
    """
    text = encode_record(parts)
    place = _place(position)
    head = json.dumps({"format": SNAPSHOT_FORMAT, **place, "state": _digest(place, text)})
    try:
        atomic_write(Path(path), f"{head}\n{text}\n".encode("ascii"), fsync=True)
    except OSError as error:
        raise JournalError(f"snapshot cannot be written to {path}: {error}") from error


def read_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Read a snapshot; nothing is imported.

    Raises:
        JournalError: the file is missing, incomplete, altered or of another format.
    """
    try:
        head, text = _head_and_text(Path(path))
        if head["format"] != SNAPSHOT_FORMAT:
            raise ValueError(f"expected the format {SNAPSHOT_FORMAT!r}, got {head['format']!r:.40}")
        place = {name: head[name] for name in ("number", "digest", "segment")}
        if head["state"] != _digest(place, text):
            raise ValueError("digest mismatch: the file is incomplete or was altered")
        parts = decode_record(text)
        if not isinstance(parts, dict) or not all(isinstance(name, str) for name in parts):
            raise ValueError(f"expected states by name, got {type(parts).__name__}")
        number, segment = int(place["number"]), int(place["segment"])
        position = JournalPosition(number, bytes.fromhex(place["digest"]), 0, segment)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise JournalError(f"{path} is not a usable snapshot: {error}") from error
    return Snapshot(parts, position)


def remove_drafts(folder: Path, *names: str) -> None:
    """Remove temporary files that killed processes left of these files.

    Only call this with the lock of the files' owner held: a running process has drafts as well.

    Args:
        folder: the folder.
        names: names of the files, such as `status.json`.
    """
    for name in names:
        stem, suffix = Path(name).stem, Path(name).suffix
        pattern = re.compile(rf"\.{re.escape(stem)}\.[0-9a-f]{{16}}{re.escape(suffix)}")
        for file in filter(pattern.fullmatch, os.listdir(folder)):
            (folder / file).unlink(missing_ok=True)


def _number(path: Path) -> int:
    """Record number of a snapshot by its first line; -1 if that is damaged."""
    try:
        with path.open("rb") as file:
            head = parse_json(file.readline(MAX_HEAD_BYTES).decode("ascii"))
        return int(head["number"])
    except (OSError, ValueError, KeyError, TypeError):
        return -1


def _head_and_text(path: Path) -> tuple[dict[str, Any], str]:
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        content = file.read(MAX_SNAPSHOT_BYTES + 1)
    if len(content) > MAX_SNAPSHOT_BYTES or content[-1:] != b"\n":
        raise ValueError(f"incomplete, or larger than {MAX_SNAPSHOT_BYTES} bytes")
    head, _, text = content[:-1].decode("ascii").partition("\n")
    header = parse_json(head)
    if not isinstance(header, dict):
        raise ValueError("the first line is not a header")
    return header, text


def _place(position: JournalPosition) -> dict[str, Any]:
    return {
        "number": position.number,
        "digest": position.digest.hex(),
        "segment": position.segment,
    }


def _digest(place: Mapping[str, Any], text: str) -> str:
    return blake2b(f"{json.dumps(place)} {text}".encode("ascii"), digest_size=16).hexdigest()
