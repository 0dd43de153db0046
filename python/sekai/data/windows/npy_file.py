"""Float arrays in `.npy` files, read and written in chunks.

Rows are read by offset and not through a memory map: mapped pages count as memory of the process,
and a mapped file that shrinks kills it.
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

MAGIC = b"\x93NUMPY"
MAX_HEADER = 1024
CHUNK_BYTES = 1 << 24
DTYPES: dict[str, np.dtype[Any]] = {"<f4": np.dtype("<f4"), "<f8": np.dtype("<f8")}


class NpyFile:
    """float32 or float64 array in an `.npy` file, read by rows; nothing is unpickled.

    It can be shared by threads and by forked processes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
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
        """Bytes per row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def read(self, first: int, target: NDArray[Any]) -> None:
        """Read as many rows as `target` has, starting at `first`."""
        if target.size:
            self._read_at(self._begins + first * self.row_bytes, target.data.cast("B"))

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield all rows in chunks; a chunk is overwritten by the next."""
        size = max(1, CHUNK_BYTES // max(self.row_bytes, 1))
        buffer = np.empty((min(size, self.shape[0]), *self.shape[1:]), self.dtype)
        for first in range(0, self.shape[0], size):
            piece = buffer[: self.shape[0] - first]
            self.read(first, piece)
            yield piece

    def sha256(self) -> str:
        """Hash of all values."""
        state = hashlib.sha256()
        for piece in self.chunks():
            state.update(piece.data)
        return state.hexdigest()

    def close(self) -> None:
        """Close the file; repeated calls have no effect."""
        self._descriptor = None
        self._close()

    def _read_at(self, offset: int, view: memoryview) -> None:
        while view:
            count = self._read_some(offset, view)
            if count == 0:
                raise DataError(
                    f"{self.path} is truncated: it ends at byte {offset}, {len(view)} more bytes "
                    "expected"
                )
            offset, view = offset + count, view[count:]

    def _read_some(self, offset: int, view: memoryview) -> int:
        descriptor = self._open_descriptor()
        if hasattr(os, "preadv"):
            return os.preadv(descriptor, [view], offset)
        # Without preadv the file position is shared between threads.
        with self._lock:
            os.lseek(descriptor, offset, os.SEEK_SET)
            data = os.read(descriptor, min(len(view), CHUNK_BYTES))
        view[: len(data)] = data
        return len(data)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise ClosedError(f"{self.path} is closed; open it again")
        return self._descriptor

    def _header(self) -> tuple[np.dtype[Any], tuple[int, ...], int]:
        start = bytearray(12)
        self._read_at(0, memoryview(start))
        version, width = start[6], {1: 2, 2: 4}.get(start[6])
        if start[:6] != MAGIC or start[7] != 0 or width is None:
            raise self._error("expected an .npy file of version 1.0 or 2.0", bytes(start[:8]))
        length = int.from_bytes(start[8 : 8 + width], "little")
        if length > MAX_HEADER:
            raise self._error(f"header must have at most {MAX_HEADER} bytes", length)
        text = bytearray(length)
        self._read_at(8 + width, memoryview(text))
        dtype, shape = self._parse_header(text.decode("latin1"), version)
        return dtype, shape, 8 + width + length

    def _parse_header(self, header: str, version: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
        try:
            content = ast.literal_eval(header.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            raise self._error(f"malformed header of version {version}", header[:80]) from error
        if not isinstance(content, dict) or content.keys() != {"descr", "fortran_order", "shape"}:
            raise self._error("header must have descr, fortran_order and shape", header[:80])
        descr, shape = content["descr"], content["shape"]
        if not isinstance(descr, str) or descr not in DTYPES:
            raise self._error("dtype must be little-endian float32 or float64", descr)
        if content["fortran_order"] is not False:
            raise self._error("array must be in C order (use numpy.ascontiguousarray)", "Fortran")
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
            raise self._error("malformed shape", shape)
        return DTYPES[descr], shape

    def _check_size(self) -> None:
        expected = self._begins + math.prod(self.shape) * self.dtype.itemsize
        size = os.fstat(self._open_descriptor()).st_size
        if size != expected or not self.shape:
            raise self._error(f"file must have {expected} bytes for shape {self.shape}", size)

    def _error(self, problem: str, value: object) -> DataError:
        return DataError(f"{self.path}: {problem}, got {value!r}")


class NpyWriter:
    """Writer of an `.npy` float array in chunks, with a hash of its values."""

    def __init__(self, file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if dtype.str not in DTYPES:
            raise ValueError(f"dtype must be float32 or float64, got {dtype}")
        self.shape = shape
        self.dtype = dtype
        self._file = file
        self._state = hashlib.sha256()
        self._left = shape[0]
        header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)

    def write(self, rows: NDArray[Any]) -> None:
        """Append rows."""
        if rows.shape[1:] != self.shape[1:] or len(rows) > self._left:
            raise ValueError(
                f"expected at most {self._left} rows of shape {self.shape[1:]}, got {rows.shape}"
            )
        rows = np.ascontiguousarray(rows, self.dtype)
        self._file.write(rows.data)
        self._state.update(rows.data)
        self._left -= len(rows)

    def finish(self) -> str:
        """Return the hash of all values; raise unless all rows were written."""
        if self._left:
            raise ValueError(f"array is incomplete: {self._left} more rows expected")
        return self._state.hexdigest()
