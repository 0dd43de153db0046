"""Reads what is new in a folder of Parquet and JSON-lines files that others write."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sekai.data import Bar, MarketData
from sekai.data.reading.extras import needed
from sekai.error import FeedError
from sekai.live.feeds.frame import LARGEST_FRAME, read_json, shown
from sekai.live.feeds.row_assembler import RowAssembler

__all__ = ["FolderReader", "Garbage"]

SUFFIXES = (".jsonl", ".parquet")
BYTES_AT_ONCE = 1 << 20
LINES_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Garbage:
    """Something that could not be read."""

    detail: str


class FolderReader:
    """Gives the rows of files in the order of their names; not from the loop, since disks wait.

    A line is whole with its end, a Parquet file with its last bytes; until then they are left
    for later. Names that begin with a dot or an underscore are drafts, and passed over.
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
        self._offsets: dict[str, int] = {}
        self._done: set[str] = set()
        self._first_seen: dict[str, float] = {}
        self._lines: deque[Any] = deque()

    def read(self) -> list[Bar | Garbage] | None:
        """The rows of the next lines, some megabytes at once; None if there is nothing new."""
        if not self._lines:
            self._read_some()
        if not self._lines:
            return None
        found: list[Bar | Garbage] = []
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
        return found

    def _read_some(self) -> None:
        names = sorted(
            file.name for file in self._path.iterdir()
            if file.suffix in SUFFIXES and file.name[0] not in "._"
        )  # fmt: skip
        # What is gone needs no place any more.
        self._done.intersection_update(names)
        for name in names:
            if name in self._done:
                continue
            file = self._path / name
            self._lines.extend(self._json(file) if file.suffix == ".jsonl" else self._parquet(file))
            if self._lines:
                return
            if file.suffix == ".parquet" and name not in self._done:
                # Half of it is there: what comes after it in time must wait for it.
                return

    def _json(self, file: Path) -> Iterator[bytes | Garbage]:
        offset = self._offsets.get(file.name, 0)
        try:
            size = file.stat().st_size
        except FileNotFoundError:
            # It was taken away since the folder was listed.
            return
        if size == offset:
            return
        if size < offset:
            # It was written anew; what came before is late by its times.
            offset = 0
        with file.open("rb") as opened:
            opened.seek(offset)
            part = opened.read(BYTES_AT_ONCE)
        whole = part.rfind(b"\n") + 1
        if whole == 0 and len(part) >= LARGEST_FRAME:
            self._done.add(file.name)
            yield Garbage(f"lines of at most {LARGEST_FRAME} bytes were wanted in {file.name!r}")
            return
        self._offsets[file.name] = offset + whole
        yield from (line for line in part[:whole].split(b"\n") if line.strip())

    def _parquet(self, file: Path) -> list[Any]:
        parquet = needed("pyarrow.parquet", "FolderFeed")
        arrow = needed("pyarrow", "FolderFeed")
        try:
            table = parquet.read_table(file)
            rows: list[Any] = _with_counts(arrow, table).to_pylist()
        except (arrow.ArrowException, OSError, ValueError) as error:
            first = self._first_seen.setdefault(file.name, time.monotonic())
            if time.monotonic() - first < self._patience:
                return []
            self._done.add(file.name)
            return [Garbage(f"{shown(file.name)} is no Parquet file: {type(error).__name__}")]
        self._done.add(file.name)
        self._first_seen.pop(file.name, None)
        return rows


def _with_counts(arrow: Any, table: Any) -> Any:
    """Times as nanoseconds, since those of Python have no room for them."""
    place = table.schema.get_field_index("time")
    if place < 0 or not arrow.types.is_timestamp(table.schema.field(place).type):
        return table
    column = table.column(place).cast(arrow.timestamp("ns", "UTC")).cast(arrow.int64())
    return table.set_column(place, "time", column)
