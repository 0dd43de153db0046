"""Reads journals, whole ones and those that are still growing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TypeVar

from sekai.core.closing import Closing
from sekai.error import JournalError
from sekai.live.journal_records import LONGEST_LINE, START, Place, Record, after, record_in

__all__ = ["JournalFollower", "open_plain", "read_journal", "steps_from"]

Read = TypeVar("Read")


def read_journal(path: str | os.PathLike[str]) -> Iterator[Record]:
    """The records of a journal one after the other; it may be open elsewhere, and grow.

    A last line that is incomplete or does not fit is where a crash cut it: it is left out.

    Raises:
        JournalError: there is none, or something before the last line is not what was written.
    """
    with JournalFollower(path) as follower:
        while records := follower.new_records(at_most=256):
            yield from records


class JournalFollower(Closing):
    """Reads a journal as it grows, from its beginning."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the journal at `path`.

        Raises:
            JournalError: there is none that can be read.
        """
        self.path = Path(path)
        try:
            self._file = open_plain(self.path)
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be read: {error}") from error
        self._place = START

    @property
    def is_at_end(self) -> bool:
        """Whether every byte belongs to a record that was read: if not, the end is torn."""
        return _size(self._file) == self._place.end

    def new_records(self, at_most: int = 10_000) -> list[Record]:
        """What was written since this was last called, oldest first; nothing is an empty list.

        Args:
            at_most: how many to read; the others are for the next call.

        Raises:
            JournalError: something before the last line is not what was written. The records
                before it were given by earlier calls; those of this call come with the next.
        """
        if _size(self._file) < self._place.end:
            raise JournalError(f"{self.path} was cut: records that were read are gone from it")
        found: list[Record] = []
        try:
            for record, place in steps_from(self._file, self._place, self.path, record_in):
                found.append(record)
                self._place = place
                if len(found) >= at_most:
                    break
        except JournalError:
            if not found:
                raise
        return found

    def close(self) -> None:
        """Let go of the file. Closing twice is no error."""
        self._file.close()


def open_plain(path: Path) -> FileIO:
    """A file to read, without a buffer that could be older than the file."""
    # A pipe or a device would be waited for, or never end.
    if path.exists() and not path.is_file():
        raise OSError("it is no plain file")
    return FileIO(path, "rb")


def steps_from(
    file: FileIO, place: Place, path: Path, read: Callable[[Place, bytes], Read]
) -> Iterator[tuple[Read, Place]]:
    """Each record from `place` on, and the place after it; ends where whole lines do.

    Args:
        file: the journal.
        place: where to begin.
        path: what it is called.
        read: what to make of each line, or to refuse it with a `ValueError`.

    Raises:
        JournalError: a line before the last is not what was written, or the first is no record.
    """
    try:
        for line in _lines_from(file, place.end):
            try:
                record = read(place, line)
            except ValueError:
                # A file without any record is somebody else's: nothing of it is ours to cut.
                if place.number > 0 and _size(file) == place.end + len(line):
                    return
                raise
            place = after(place, line)
            yield record, place
    except (OSError, ValueError) as error:
        raise JournalError(
            f"line {place.number + 1} of the journal {path} (from byte {place.end}) is not what "
            f"was written: {error}. The {place.number} records before it are whole"
        ) from error


def _lines_from(file: FileIO, start: int) -> Iterator[bytes]:
    """Whole lines with their ends; what has no end yet is left out."""
    file.seek(start)
    buffered = BufferedReader(file, 2**16)
    try:
        while line := buffered.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise ValueError(f"at most {LONGEST_LINE} bytes were wanted, found more")
            if not line.endswith(b"\n"):
                return
            yield line
    finally:
        buffered.detach()


def _size(file: FileIO) -> int:
    return os.fstat(file.fileno()).st_size
