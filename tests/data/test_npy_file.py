"""Files of floats are read by position, and nothing but floats is taken for them."""

from __future__ import annotations

import gc
import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sekai.data.windows.npy_file import NpyFile, NpyWriter
from sekai.error import ClosedError, DataError

linux_alone = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="open files are counted as Linux shows them"
)
VALUES = np.arange(24.0).reshape(4, 3, 2)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (42,)


def saved(path: Path, array: Any, **options: Any) -> Path:
    np.save(path, array, **options)
    return path


def as_bytes(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("has_preadv", [True, False])
def test_rows_are_read_as_numpy_wrote_them(
    dtype: Any, has_preadv: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_preadv:
        monkeypatch.delattr(os, "preadv", raising=False)
    file = NpyFile(saved(tmp_path / "a.npy", VALUES.astype(dtype)))

    target = np.empty((2, 3, 2), dtype)
    file.read(1, target)

    assert (file.shape, file.dtype) == ((4, 3, 2), dtype)
    assert np.array_equal(target, VALUES[1:3])


def test_a_header_of_version_2_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, VALUES, version=(2, 0))

    assert np.array_equal(np.concatenate(list(NpyFile(path).chunks())), VALUES)


def test_what_is_written_in_pieces_is_what_numpy_saves(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        writer = NpyWriter(file, (4, 3, 2), np.dtype(np.float64))
        writer.write(VALUES[:1])
        writer.write(VALUES[1:])
        digest = writer.finish()

    assert path.read_bytes() == as_bytes(VALUES)
    assert NpyFile(path).sha256() == digest


def test_a_writer_takes_as_many_rows_as_it_was_told(tmp_path: Path) -> None:
    writer = NpyWriter(io.BytesIO(), (2, 3), np.dtype(np.float32))

    with pytest.raises(ValueError, match=r"expected at most 2 rows of shape \(3,\)"):
        writer.write(np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"expected at most 2 rows of shape \(3,\)"):
        writer.write(np.zeros((1, 4)))
    with pytest.raises(ValueError, match="array is incomplete: 2 more rows expected"):
        writer.finish()
    with pytest.raises(ValueError, match="dtype must be float32 or float64, got int64"):
        NpyWriter(io.BytesIO(), (2, 3), np.dtype(np.int64))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (VALUES.astype(np.int64), "float32 or float64"),
        (VALUES.astype(np.float16), "float32 or float64"),
        (VALUES.astype(">f8"), "dtype must be little-endian float32 or float64, got '>f8'"),
        (VALUES.astype([("x", "<f8")]), "float32 or float64"),
        (np.asfortranarray(VALUES), "ascontiguousarray"),
        (np.float64(1.0), r"file must have 136 bytes for shape \(\), got 136"),
    ],
)
def test_other_arrays_are_refused(array: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        NpyFile(saved(tmp_path / "a.npy", array))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    objects = saved(tmp_path / "a.npy", np.array([Bomb()], object), allow_pickle=True)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Bomb()))

    for path in (objects, tmp_path / "b.npy"):
        with pytest.raises(DataError):
            NpyFile(path)


@pytest.mark.parametrize("change", [-1, -8, -190, 1, 4096])
def test_a_file_that_is_too_short_or_too_long_is_refused(change: int, tmp_path: Path) -> None:
    whole = as_bytes(VALUES)
    path = tmp_path / "a.npy"
    path.write_bytes(whole[:change] if change < 0 else whole + bytes(change))

    with pytest.raises(DataError, match=r"file must have 320 bytes for shape \(4, 3, 2\), got"):
        NpyFile(path)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 128), noise=st.binary(max_size=140), keep=st.integers(0, 128))
def test_whatever_the_header_is_there_is_an_array_or_a_data_error(
    cut: int, noise: bytes, keep: int, tmp_path: Path
) -> None:
    whole = as_bytes(VALUES)
    path = tmp_path / "a.npy"
    path.write_bytes(whole[:cut] + noise + whole[cut + len(noise) if keep < 64 else cut :])

    try:
        file = NpyFile(path)
    except DataError:
        return
    assert sum(piece.nbytes for piece in file.chunks()) < len(whole) + 140


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 3)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': 3}",
        "{'descr': '<f8', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': ['<f8'], 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (10**9, 10**9)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999999999,)}",
        "{'descr': '<f8', 'shape': (3,)}",
        "__import__('os')._exit(42)",
        "(" * 900,
        "[]",
    ],
)
def test_a_header_that_means_something_else_is_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    length = len(header).to_bytes(2, "little")
    path.write_bytes(b"\x93NUMPY\x01\x00" + length + header.encode() + bytes(24))

    with pytest.raises(DataError):
        NpyFile(path)


def test_a_header_that_would_fill_memory_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little") + bytes(100))

    with pytest.raises(DataError, match="header must have at most 1024 bytes, got 4294967295"):
        NpyFile(path)


def test_a_file_that_shrinks_after_it_was_opened_is_an_error_and_no_crash(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", VALUES)
    file = NpyFile(path)
    os.truncate(path, 200)

    with pytest.raises(DataError, match="is truncated: it ends at byte 224, 96 more bytes"):
        file.read(2, np.empty((2, 3, 2)))


@linux_alone
def test_a_closed_file_says_so_and_gives_its_descriptor_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    file = NpyFile(saved(tmp_path / "a.npy", VALUES))
    forgotten = NpyFile(tmp_path / "a.npy")

    file.close()
    file.close()
    del forgotten
    gc.collect()

    with pytest.raises(ClosedError, match="open it again"):
        file.read(0, np.empty((1, 3, 2)))
    assert len(os.listdir("/proc/self/fd")) == before


@linux_alone
def test_a_refused_file_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"garbage of some length")
    before = len(os.listdir("/proc/self/fd"))

    with pytest.raises(DataError, match="an .npy file of version") as refusal:
        NpyFile(tmp_path / "a.npy")

    # Its frames are still alive here, and with them all that they hold.
    assert refusal.tb is not None
    assert len(os.listdir("/proc/self/fd")) == before
