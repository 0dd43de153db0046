"""Reads what is new in a folder of Parquet and JSON-lines files that others write."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sekai.data import Bar, MarketData
from sekai.data.reading.extras import needed
from sekai.error import FeedError
from sekai.live.feeds.frame import LARGEST_FRAME, read_json, shown
from sekai.live.feeds.garbage import Garbage
from sekai.live.feeds.row_assembler import RowAssembler

__all__ = ["FolderReader"]

SUFFIXES = (".jsonl", ".parquet")
BYTES_AT_ONCE = 1 << 20
LINES_AT_ONCE = 1 << 16
BYTES_COMPARED = 256

Mark = tuple[int, int, int]
"""What differs when a file was written or replaced."""


@dataclass(slots=True)
class Place:
    """How far a file of lines was read."""

    offset: int = 0
    tail: bytes = b""
    """The last bytes before it: where they are others, the file is another one."""

    mark: Mark | None = None
    """Of the file when all of it was read."""

    is_again: bool = False
    """Whether what is read now comes for the second time."""


class FolderReader:
    """Gives the rows of files in the order of their names; not from the loop, since disks wait.

    A line is whole with its end, a Parquet file with its last bytes; until then they are left
    for later. Names that begin with a dot or an underscore are drafts, and passed over. A file
    that was replaced or written anew is read again, and gives the rows that have not been.
    """

    def __init__(self, path: Path, history: MarketData, patience: float) -> None:
        """Take the folder.

        Args:
            path: the folder.
            history: what the rows are of; those up to its end are late.
            patience: seconds after which a Parquet file that is still not whole is given up.
        """
        self.assembler = RowAssembler(history)
        self._path = path
        self._patience = patience
        self._places: dict[str, Place] = {}
        self._done: dict[str, Mark] = {}
        self._given_up: dict[str, Mark] = {}
        self._first_seen: dict[str, float] = {}
        self._lines: deque[Any] = deque()
        self._is_again = False

    def read(self) -> list[Bar | Garbage] | None:
        """The rows of the next lines, some megabytes at once; None if there is nothing new."""
        if not self._lines:
            self._read_some()
        if not self._lines:
            return None
        found: list[Bar | Garbage] = []
        late, duplicates = self.assembler.late, self.assembler.duplicates
        while self._lines and len(found) < LINES_AT_ONCE:
            line = self._lines.popleft()
            try:
                if isinstance(line, Garbage):
                    found.append(line)
                else:
                    parsed = read_json(line) if isinstance(line, bytes) else line
                    found.extend(self.assembler.add(parsed))
            except FeedError as error:
                found.append(Garbage(str(error)))
        if self._is_again:
            # They were on time when they were read first.
            self.assembler.late, self.assembler.duplicates = late, duplicates
        return found

    def _read_some(self) -> None:
        names = sorted(
            file.name for file in self._path.iterdir()
            if file.suffix in SUFFIXES and file.name[0] not in "._"
        )  # fmt: skip
        for known in (self._places, self._done, self._given_up, self._first_seen):
            # What is gone needs no place any more, and what comes by its name is something else.
            for gone in known.keys() - set(names):
                del known[gone]
        for name in names:
            file = self._path / name
            self._is_again = False
            self._lines.extend(self._json(file) if file.suffix == ".jsonl" else self._parquet(file))
            # Half of a Parquet file is there: what comes after it in time must wait for it.
            if self._lines or name in self._first_seen:
                return

    def _json(self, file: Path) -> Iterable[bytes | Garbage]:
        place = self._places.setdefault(file.name, Place())
        try:
            mark = _mark(file)
            if mark == place.mark:
                return []
            with file.open("rb") as opened:
                part = self._part(opened, place)
        except FileNotFoundError:
            # It was taken away since the folder was listed.
            return []
        self._is_again = place.is_again
        if len(part) < BYTES_AT_ONCE:
            place.mark, place.is_again = mark, False
        is_within_line = place.tail[-1:] not in (b"", b"\n")
        whole = part.rfind(b"\n") + 1
        is_too_long = whole == 0 and len(part) >= LARGEST_FRAME
        if is_too_long:
            whole = len(part)
        place.offset += whole
        place.tail = (place.tail + part[:whole])[-BYTES_COMPARED:]
        if is_too_long:
            words = f"lines of at most {LARGEST_FRAME} bytes were wanted in {shown(file.name)}"
            return [] if is_within_line else [Garbage(words)]
        # What is left of a line that is too long is none.
        lines = part[:whole].split(b"\n")[is_within_line:]
        return (line for line in lines if line.strip())

    def _part(self, opened: BinaryIO, place: Place) -> bytes:
        """What comes next in a file; all of it if it is not the file that was read before."""
        opened.seek(place.offset - len(place.tail))
        found = opened.read(len(place.tail) + BYTES_AT_ONCE)
        if found.startswith(place.tail):
            return found[len(place.tail) :]
        place.offset, place.tail, place.is_again = 0, b"", True
        opened.seek(0)
        return opened.read(BYTES_AT_ONCE)

    def _parquet(self, file: Path) -> list[Any]:
        parquet = needed("pyarrow.parquet", "FolderFeed")
        arrow = needed("pyarrow", "FolderFeed")
        name = file.name
        try:
            mark = _mark(file)
            if mark in (self._done.get(name), self._given_up.get(name)):
                return []
            table = parquet.read_table(file)
            rows: list[Any] = _with_counts(arrow, table).to_pylist()
        except FileNotFoundError:
            return []
        except (arrow.ArrowException, OSError, ValueError) as error:
            return self._half(name, mark, error)
        self._first_seen.pop(name, None)
        self._is_again = name in self._done
        self._done[name] = mark
        return rows

    def _half(self, name: str, mark: Mark, error: Exception) -> list[Any]:
        """Wait for the rest of a Parquet file, but not for ever, and tell of it once."""
        if name in self._given_up:
            self._given_up[name] = mark
            return []
        first = self._first_seen.setdefault(name, time.monotonic())
        if time.monotonic() - first < self._patience:
            return []
        del self._first_seen[name]
        self._given_up[name] = mark
        return [Garbage(f"{shown(name)} is no Parquet file: {type(error).__name__}")]


def _mark(file: Path) -> Mark:
    found = file.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _with_counts(arrow: Any, table: Any) -> Any:
    """Times as nanoseconds, since those of Python have no room for them."""
    place = table.schema.get_field_index("time")
    if place < 0 or not arrow.types.is_timestamp(table.schema.field(place).type):
        return table
    column = table.column(place).cast(arrow.timestamp("ns", "UTC")).cast(arrow.int64())
    return table.set_column(place, "time", column)
