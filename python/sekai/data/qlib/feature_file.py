"""Files of one field of one symbol: a start index and a value for each slot of the calendar."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sekai.error import DataError

__all__ = ["FeatureFile", "encoded"]

Floats32 = NDArray[np.float32]
KIND = np.dtype("<f4")
EXACT = 1 << 24
"""Up to here every integer is a float of 32 bits."""


@dataclass(frozen=True, slots=True)
class FeatureFile:
    """A file that was looked at: where its values begin, and how many there are."""

    path: str
    start: int
    """The slot of the calendar to which the first value belongs."""
    count: int

    @classmethod
    def opened(cls, path: str, slots: int) -> FeatureFile:
        """Look at the head of a file; see `read` for what `slots` is."""
        with _open(path) as file:
            return cls._head(path, os.read(file, KIND.itemsize), os.fstat(file).st_size, slots)

    @classmethod
    def read(cls, path: str, slots: int, first: int, stop: int) -> Floats32:
        """The values of some slots, NaN where the file has none; only these are read.

        Args:
            path: the file; `FileNotFoundError` if there is none.
            slots: how many slots the calendar has.
            first: the first slot wanted.
            stop: the one after the last.
        """
        with _open(path) as file:
            size = os.fstat(file).st_size
            head = cls._head(path, os.read(file, KIND.itemsize), size, slots)
            begin = min(max(first, head.start), stop)
            end = max(begin, min(stop, head.start + head.count))
            wanted = (end - begin) * KIND.itemsize
            os.lseek(file, (1 + begin - head.start) * KIND.itemsize, os.SEEK_SET)
            content = os.read(file, wanted)
        if len(content) != wanted:
            raise DataError(f"{path}: {wanted} bytes were wanted, found {len(content)}")
        with np.errstate(invalid="ignore"):
            # Some bits are numbers that warn whoever reckons with them: from here on they do not.
            found: Floats32 = np.frombuffer(content, KIND) * np.float32(1)
        if len(found) == stop - first:
            return found
        values = np.full(stop - first, np.nan, np.float32)
        values[begin - first : end - first] = found
        return values

    @classmethod
    def _head(cls, path: str, content: bytes, size: int, slots: int) -> FeatureFile:
        if size < KIND.itemsize or size % KIND.itemsize or len(content) < KIND.itemsize:
            raise DataError(
                f"{path}: a start index and values of 4 bytes each were wanted, found {size} bytes"
            )
        start = float(np.frombuffer(content, KIND)[0].item())
        count = size // KIND.itemsize - 1
        if not 0 <= start <= slots or start != int(start):
            raise DataError(
                f"{path}: a start index from 0 to {slots}, the length of the calendar, was "
                f"wanted, found {start:g}"
            )
        if int(start) + count > slots:
            raise DataError(
                f"{path}: at most {slots - int(start)} values were wanted from slot {start:g} to "
                f"the end of the calendar, found {count}: the calendar is of other data"
            )
        return cls(path, int(start), count)


def encoded(values: NDArray[np.float64], start: int, what: str) -> bytes:
    """The content of a file; refused where 32 bits cannot say it."""
    if start > EXACT:
        raise DataError(
            f"{what}: a start index up to {EXACT} was wanted, as 32 bits say no higher one "
            f"exactly, found {start}: begin the calendar later"
        )
    with np.errstate(over="ignore"):
        narrow = values.astype(KIND)
    if np.any(np.isinf(narrow) & np.isfinite(values)):
        raise DataError(f"{what}: values below 3.4e38 were wanted, which is as far as 32 bits go")
    return np.concatenate([np.array([start], KIND), narrow]).tobytes()


@contextmanager
def _open(path: str) -> Iterator[int]:
    # Far less work than a file object, of which thousands would be made for a panel.
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        yield file
    finally:
        os.close(file)
