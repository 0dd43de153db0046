"""Files of nested values: what is written comes back, and nothing else gets in."""

from __future__ import annotations

import json
import os
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from sekai.error import StateError
from sekai.policy import files
from sekai.policy.files import ModelFileError
from sekai.storage.codec import DEPTH
from sekai.training.checkpoint import read_file, write_file

KINDS = ["?", "i1", "u2", "i8", "f2", "<f4", ">f8", "M8[ns]", "m8[D]"]
plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**300), 2**300)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
)
numbers = st.sampled_from(KINDS).flatmap(
    lambda kind: arrays(np.dtype(kind), array_shapes(min_dims=0, min_side=0, max_side=3))
)
scalars = numbers.filter(lambda array: array.size > 0).map(lambda array: array.flat[0])
tensors = st.sampled_from(["f4", "f8", "i8", "?", "u1"]).flatmap(
    lambda kind: arrays(np.dtype(kind), array_shapes(max_side=3)).map(torch.from_numpy)
)
keys = st.text(max_size=3) | st.sampled_from(["a.b", "a", "$tuple", "b"]) | st.integers(0, 3)
values = st.recursive(
    plain | numbers | scalars | tensors,
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.lists(parts, max_size=3).map(tuple)
        | st.dictionaries(keys, parts, max_size=4)
    ),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    """Whether two values are of one type and the same, NaN and all."""
    if isinstance(left, np.generic) and not isinstance(left, str):
        left, right = np.asarray(left), np.asarray(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return bool(left.dtype == right.dtype) and torch.equal(
            left.nan_to_num(), right.nan_to_num()
        )
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and bool(left.tobytes() == right.tobytes())
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return repr(left) == repr(right)


@given(value=values)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_comes_back_in_value_and_type(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    path = write_file(tmp_path_factory.mktemp("kept"), {"value": value})

    assert same(read_file(path), {"value": value})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    content = {"network": {"a.b": torch.ones(2, 3), "a": {"b": np.arange(3)}}, "words": ("x", None)}

    path = write_file(tmp_path / "kept", content)

    assert path == tmp_path / "kept" / "agent.safetensors"
    assert same(read_file(tmp_path / "kept"), content)
    assert os.listdir(tmp_path / "kept") == ["agent.safetensors"]


@pytest.mark.parametrize(
    "value",
    [
        object(),
        os.system,
        np.array([object()]),
        torch.zeros(1, dtype=torch.bfloat16),
        1 << 5000,
        lambda: None,
    ],
)
def test_what_cannot_be_kept_is_refused_and_leaves_the_old_file(tmp_path: Path, value: Any) -> None:
    path = write_file(tmp_path, {"old": 1})

    with pytest.raises(StateError, match="cannot be saved"):
        write_file(tmp_path, {"new": [value]})
    assert read_file(path) == {"old": 1}
    assert os.listdir(tmp_path) == [path.name]


def test_what_holds_itself_is_refused(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(StateError, match=f"at most {DEPTH} levels"):
        write_file(tmp_path, {"endless": endless})


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file(tmp_path, {"old": 1})

    def full(*arguments: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_file(tmp_path, {"new": 1})
    assert read_file(path) == {"old": 1}
    assert os.listdir(tmp_path) == [path.name]


def forged(path: Path, words: Any, found: dict[str, Any] | None = None, **meta: str) -> Path:
    """A file as a forger writes it, digest and all."""
    text = words if isinstance(words, str) else json.dumps(words)
    held = found or {}
    metadata = {
        "format": files.FORMAT,
        "sekai": text,
        "digest": files.file_digest(text, held),
        **meta,
    }
    file = path / "forged.safetensors"
    file.write_bytes(safetensors.numpy.save(held, metadata=metadata))
    return file


ARRAY = {"x": np.arange(8, dtype=np.float64)}
WRONG: dict[str, Callable[[Path], Path]] = {
    "an unknown tag": lambda path: forged(path, {"a": {"$import": "os:system"}}),
    "a call": lambda path: forged(path, {"a": {"$pickle": "Y29zCnN5c3RlbQ=="}}),
    "an object array": lambda path: forged(path, {"a": {"$array": ["x", "|O"]}}, ARRAY),
    "a structured array": lambda path: forged(path, {"a": {"$array": ["x", "f4,f4"]}}, ARRAY),
    "a subarray": lambda path: forged(path, {"a": {"$array": ["x", "(9,)f8"]}}, ARRAY),
    "other numbers": lambda path: forged(path, {"a": {"$array": ["x", "<i8"]}}, ARRAY),
    "times of fractions": lambda path: forged(path, {"a": {"$array": ["x", "<M8[ns]"]}}, ARRAY),
    "no dtype": lambda path: forged(path, {"a": {"$array": ["x", {"names": []}]}}, ARRAY),
    "no name": lambda path: forged(path, {"a": {"$array": [["x"], "<f8"]}}, ARRAY),
    "a name that is not there": lambda path: forged(path, {"a": {"$array": ["../x", "<f8"]}}),
    "one array twice": lambda path: forged(path, {"a": [{"$array": ["x", "<f8"]}] * 2}, ARRAY),
    "a list as a key": lambda path: forged(path, {"a": {"$dict": [[[1], 2]]}}),
    "pairs of three": lambda path: forged(path, {"a": {"$dict": [[1, 2, 3]]}}),
    "a word as a tuple": lambda path: forged(path, {"a": {"$tuple": "abc"}}),
    "a word as a number": lambda path: forged(path, {"a": {"$float": "0x10"}}),
    "one key twice": lambda path: forged(path, '{"a": 1, "a": 2}'),
    "a key twice": lambda path: forged(path, {"a": {"$dict": [[1, 2], [1, 3]]}}),
    "no finite number": lambda path: forged(path, '{"a": 1e999}'),
    "a negative size": lambda path: forged(
        path, {"a": {"$array": {"dtype": "<f8", "shape": [-1, 8], "base64": "AAAAAAAAAAA="}}}
    ),
    "a size without bytes": lambda path: forged(
        path, {"a": {"$array": {"dtype": "|V0", "shape": [2**62], "base64": ""}}}
    ),
    "a truth as a size": lambda path: forged(
        path, {"a": {"$array": {"dtype": "<f8", "shape": [True], "base64": "AAAAAAAAAAA="}}}
    ),
    "many values": lambda path: forged(path, '{"a": [' + "[]," * 2**22 + "[]]}"),
    "a long JSON number": lambda path: forged(path, '{"a": ' + "9" * 100_000 + "}"),
    "deep lists": lambda path: forged(path, "[" * 100_000 + "]" * 100_000),
    "deep tags": lambda path: forged(path, '{"$tuple": [' * 400 + "]}" * 400),
    "deep keys": lambda path: forged(path, '{"$dict": [[' * 200 + "1" + ", 1]]}" * 200),
    "a list": lambda path: forged(path, [1, 2]),
    "no JSON": lambda path: forged(path, "{'a': 1}"),
    "another version": lambda path: forged(path, {}, format="1"),
    "a false digest": lambda path: forged(path, {}, digest="0" * 64),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_forged_file_is_refused_within_bounds(kind: str, tmp_path: Path) -> None:
    file = WRONG[kind](tmp_path)

    with bounded(64 * file.stat().st_size + 2**20), pytest.raises(ModelFileError):
        read_file(file)


class bounded:  # noqa: N801 - read as a word in a with statement
    """Fails if more memory is taken inside than was allowed."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __enter__(self) -> None:
        tracemalloc.start()

    def __exit__(self, *error: Any) -> None:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= self.most, f"{peak} bytes were taken, {self.most} allowed"


class Harm:
    """Runs when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    mark = tmp_path / "harmed"
    data = pickle.dumps(Harm(mark))
    for name, content in {
        "bare": data,
        "after a header": (2).to_bytes(8, "little") + b"{}" + data,
    }.items():
        file = tmp_path / f"{name}.safetensors"
        file.write_bytes(content)
        with pytest.raises(ModelFileError):
            read_file(file)
    torch.save({"harm": Harm(mark)}, tmp_path / "torch.safetensors")
    with pytest.raises(ModelFileError):
        read_file(tmp_path / "torch.safetensors")
    assert not mark.exists()


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**40, 200_000_000, 1000, 0])
def test_an_announced_header_must_fit(tmp_path: Path, length: int) -> None:
    file = tmp_path / "huge.safetensors"
    file.write_bytes(length.to_bytes(8, "little") + b"{}")

    with bounded(2**20), pytest.raises(ModelFileError):
        read_file(file)


def test_announced_tensors_must_be_there(tmp_path: Path) -> None:
    header = {"x": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}}
    words = json.dumps(
        {**header, "__metadata__": {"format": "2", "sekai": "{}", "digest": ""}}
    ).encode()
    file = tmp_path / "large.safetensors"
    file.write_bytes(len(words).to_bytes(8, "little") + words)

    with bounded(2**20), pytest.raises(ModelFileError):
        read_file(file)


def test_an_oversized_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "sparse.safetensors"
    with file.open("wb") as opened:
        opened.truncate(files.MAX_FILE_BYTES + 1)

    with bounded(2**20), pytest.raises(ModelFileError, match="more than"):
        read_file(file)


@pytest.mark.parametrize("place", ["absent", "folder.safetensors", "pipe.safetensors", "nul\0.x"])
def test_what_is_no_file_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder.safetensors").mkdir()
    os.mkfifo(tmp_path / "pipe.safetensors")

    with pytest.raises(ModelFileError):
        read_file(f"{tmp_path}/{place}")


def test_devices_are_no_files(tmp_path: Path) -> None:
    link = tmp_path / "zero.safetensors"
    link.symlink_to("/dev/zero")
    with pytest.raises(ModelFileError, match="not a regular file"):
        read_file(link)


def test_a_file_that_was_cut_or_changed_is_refused(tmp_path: Path) -> None:
    whole = write_file(tmp_path, {"a": np.arange(300), "b": ["x" * 500]}).read_bytes()
    file = tmp_path / "other.safetensors"
    for place in range(0, len(whole), 100):
        changed = bytearray(whole)
        changed[place] ^= 0x10
        for content in (whole[:place], bytes(changed), whole[:place] + whole[place + 1 :]):
            file.write_bytes(content)
            with pytest.raises(ModelFileError):
                read_file(file)


@given(data=st.binary(max_size=300), length=st.integers(0, 300))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_noise_is_refused(tmp_path: Path, data: bytes, length: int) -> None:
    file = tmp_path / "noise.safetensors"
    file.write_bytes(length.to_bytes(8, "little") + data)
    with pytest.raises(ModelFileError):
        read_file(file)


def test_the_same_value_gives_the_same_bytes(tmp_path: Path) -> None:
    content = {"a": np.arange(5.0), "b": {"c": np.ones(3, np.int64), "ä": "ö"}}
    # The library orders its words by a hash that is different each time.
    written = {write_file(tmp_path / str(place), content).read_bytes() for place in range(8)}
    assert len(written) == 1
    assert read_file(tmp_path / "0")["b"]["ä"] == "ö"
