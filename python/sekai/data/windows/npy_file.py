"""Arrays of floats in `.npy` files, read and written a piece at a time.

Rows are read by their place in the file and not through a map of it: mapped pages count as memory
of the process for as long as the system likes, and a file that shrinks under a map kills it.
"""

from __future__ import annotations

import ast
import hashlib
import math
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import ClosedError, DataError

__all__ = ["CHUNK_BYTES", "NpyFile", "NpyWriter"]

MAGIC = b"\x93NUMPY"
LARGEST_HEADER = 1024
CHUNK_BYTES = 1 << 24
DTYPES: dict[str, np.dtype[Any]] = {"<f4": np.dtype("<f4"), "<f8": np.dtype("<f8")}


class NpyFile:
    """An array of float32 or float64 in a file, of which rows are read as they are needed.

    It can be used by many threads, and by processes that were forked from this one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a file and check that it is what its header says; nothing is unpickled."""
        self.path = Path(path).absolute()
        binary: int = getattr(os, "O_BINARY", 0)
        self._descriptor: int | None = os.open(self.path, os.O_RDONLY | binary)
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self._lock = threading.Lock()
        try:
            self.dtype, self.shape, self._begins = self._header()
            self._check_size()
        except BaseException:
            self.close()
            raise

    @property
    def row_bytes(self) -> int:
        """How many bytes a row takes."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def read(self, first: int, target: NDArray[Any]) -> None:
        """Read the rows from `first` on into `target`, as many as it has."""
        if target.size:
            self._read_at(self._begins + first * self.row_bytes, target.data.cast("B"))

    def chunks(self) -> Iterator[NDArray[Any]]:
        """All rows, a piece at a time; a piece is overwritten by the next."""
        size = max(1, CHUNK_BYTES // max(self.row_bytes, 1))
        buffer = np.empty((min(size, self.shape[0]), *self.shape[1:]), self.dtype)
        for first in range(0, self.shape[0], size):
            piece = buffer[: self.shape[0] - first]
            self.read(first, piece)
            yield piece

    def sha256(self) -> str:
        """The hash of all values."""
        state = hashlib.sha256()
        for piece in self.chunks():
            state.update(piece.data)
        return state.hexdigest()

    def close(self) -> None:
        """Give the file back; it can be done twice."""
        self._descriptor = None
        self._close()

    def _read_at(self, offset: int, view: memoryview) -> None:
        while view:
            count = self._read_some(offset, view)
            if count == 0:
                raise DataError(
                    f"{self.path} ended at byte {offset} where {len(view)} more were wanted: "
                    "it was cut short"
                )
            offset, view = offset + count, view[count:]

    def _read_some(self, offset: int, view: memoryview) -> int:
        descriptor = self._open_descriptor()
        if hasattr(os, "preadv"):
            return os.preadv(descriptor, [view], offset)
        # Systems without it have one position a file: nobody may move it meanwhile.
        with self._lock:
            os.lseek(descriptor, offset, os.SEEK_SET)
            data = os.read(descriptor, min(len(view), CHUNK_BYTES))
        view[: len(data)] = data
        return len(data)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise ClosedError(f"{self.path} is closed: open it again")
        return self._descriptor

    def _header(self) -> tuple[np.dtype[Any], tuple[int, ...], int]:
        start = bytearray(12)
        self._read_at(0, memoryview(start))
        version, width = start[6], {1: 2, 2: 4}.get(start[6])
        if start[:6] != MAGIC or start[7] != 0 or width is None:
            raise self._not("an .npy file of version 1.0 or 2.0", bytes(start[:8]))
        length = int.from_bytes(start[8 : 8 + width], "little")
        if length > LARGEST_HEADER:
            raise self._not(f"a header of {LARGEST_HEADER} bytes at most", length)
        text = bytearray(length)
        self._read_at(8 + width, memoryview(text))
        dtype, shape = self._described(text.decode("latin1"), version)
        return dtype, shape, 8 + width + length

    def _described(self, header: str, version: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
        try:
            said = ast.literal_eval(header.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            raise self._not(f"a readable header of version {version}", header[:80]) from error
        if not isinstance(said, dict) or said.keys() != {"descr", "fortran_order", "shape"}:
            raise self._not("a header with descr, fortran_order and shape", header[:80])
        descr, shape = said["descr"], said["shape"]
        if not isinstance(descr, str) or descr not in DTYPES:
            raise self._not("float32 or float64, little-endian", descr)
        if said["fortran_order"] is not False:
            raise self._not("rows one after the other (use numpy.ascontiguousarray)", "Fortran")
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
            raise self._not("a shape", shape)
        return DTYPES[descr], shape

    def _check_size(self) -> None:
        wanted = self._begins + math.prod(self.shape) * self.dtype.itemsize
        found = os.fstat(self._open_descriptor()).st_size
        if found != wanted or not self.shape:
            raise self._not(f"{wanted} bytes for an array of shape {self.shape}", found)

    def _not(self, wanted: str, found: object) -> DataError:
        return DataError(f"{self.path}: {wanted} was wanted, found {found!r}")


class NpyWriter:
    """Writes an array of floats a piece at a time, and hashes it on the way."""

    def __init__(self, file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Write the header of an array of this shape."""
        if dtype.str not in DTYPES:
            raise ValueError(f"dtype must be float32 or float64, was {dtype}")
        self.shape = shape
        self.dtype = dtype
        self._file = file
        self._state = hashlib.sha256()
        self._left = shape[0]
        header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)

    def write(self, rows: NDArray[Any]) -> None:
        """Add rows."""
        if rows.shape[1:] != self.shape[1:] or len(rows) > self._left:
            raise ValueError(
                f"{self._left} rows of shape {self.shape[1:]} were wanted, found {rows.shape}"
            )
        rows = np.ascontiguousarray(rows, self.dtype)
        self._file.write(rows.data)
        self._state.update(rows.data)
        self._left -= len(rows)

    def finish(self) -> str:
        """The hash of all values, if there are as many as the header says."""
        if self._left:
            raise ValueError(f"{self._left} more rows were wanted")
        return self._state.hexdigest()
