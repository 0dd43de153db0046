"""One file with numbers as safetensors and words as JSON in its header, written whole or not."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sekai.error import MissingExtraError, StateError
from sekai.storage.codec import ArrayStore, from_json_value, to_json_value
from sekai.storage.strict_json import parsed

__all__ = ["ModelFileError", "file_of", "read_file", "write_file"]

NAME = "agent.safetensors"
"""What the file is called in a folder."""

FORMAT = "2"
LARGEST = 64 * 2**30
"""Bytes that are read at most."""

LONGEST_HEADER = 100_000_000
"""Bytes of words and names, at most; the reader of tensors takes no more either."""


class ModelFileError(StateError):
    """A saved agent is damaged, of another version, or of another kind; nothing was loaded."""


def file_of(path: str | os.PathLike[str]) -> Path:
    """The file that a path means: itself, or the one in the folder that it names."""
    given = Path(path)
    return given if given.suffix == ".safetensors" else given / NAME


def write_file(path: str | os.PathLike[str], content: Mapping[str, Any]) -> Path:
    """Keep a nested value; who is killed while writing leaves the old file, or none.

    Raises:
        StateError: there is something in it that a data file cannot hold.
    """
    target = file_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, NDArray[Any]] = {}
    try:
        words = json.dumps(to_json_value(content, "the state", _store(tensors)), allow_nan=False)
    except ValueError as error:
        raise StateError(f"the agent cannot be kept: {error}") from error
    if len(words) > LONGEST_HEADER // 2:
        raise StateError(f"the agent cannot be kept: its JSON has {len(words)} characters")
    metadata = {"format": FORMAT, "sekai": words, "digest": _digest(words, tensors)}
    data = _in_order(_safetensors().save(tensors, metadata=metadata))
    handle, fresh = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, target)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
    return target


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The value that was kept.

    Raises:
        ModelFileError: there is none, or it is not what `write_file` writes.
    """
    file = file_of(path)
    data = _bytes_of(file)
    try:
        words = _words(data)
        tensors = _safetensors().load(data)
        if words["digest"] != _digest(words["sekai"], tensors):
            raise ModelFileError(f"{file} is damaged: its numbers are not those that were written")
        content = from_json_value(parsed(words["sekai"]), _store(tensors))
    except ModelFileError:
        raise
    except Exception as error:
        # The reader of tensors raises errors of its own, JSON others; all mean the same.
        raise ModelFileError(f"{file} is no saved agent, or a damaged one: {error}") from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{file}: an agent was wanted, found {type(content).__name__}")
    return content


def _store(tensors: dict[str, NDArray[Any]]) -> ArrayStore:
    """Arrays and torch's tensors go beside the JSON, as tensors of the file."""
    return ArrayStore(tensors, _array_of, lambda array: torch.from_numpy(array.copy()))


def _array_of(value: Any) -> NDArray[Any] | None:
    if not isinstance(value, torch.Tensor):
        return None
    try:
        array: NDArray[Any] = value.detach().cpu().numpy()
    except TypeError as error:
        raise ValueError(f"a tensor of {value.dtype} has no counterpart in NumPy") from error
    return array


def _in_order(data: bytes) -> bytes:
    """The same file with its header sorted: the library writes words in any order."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    # As long as before, so that numbers stay aligned.
    ordered = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    if len(ordered) > length:
        length = -(-len(ordered) // 8) * 8
    old = int.from_bytes(data[:8], "little")
    return length.to_bytes(8, "little") + ordered.ljust(length) + data[8 + old :]


def _digest(words: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    """What tells of damage; who wants to deceive can write a digest too."""
    found = hashlib.sha256(words.encode())
    for name in sorted(tensors):
        array = tensors[name]
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _words(data: bytes) -> dict[str, str]:
    length = int.from_bytes(data[:8], "little")
    header = parsed(data[8 : 8 + length].decode("utf-8"))
    words = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(words, dict) or not {"format", "sekai", "digest"} <= words.keys():
        raise ModelFileError("it has no description of an agent")
    if words["format"] != FORMAT:
        raise ModelFileError(
            f"expected model format {FORMAT}, got {words['format']!r:.80}: save the agent again "
            f"with this version"
        )
    return words


def _bytes_of(file: Path) -> bytes:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{file} is no plain file")
        if status.st_size > LARGEST:
            raise ModelFileError(f"{file} has {status.st_size} bytes, more than {LARGEST}")
        with file.open("rb") as opened:
            head = opened.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(status.st_size - 8, LONGEST_HEADER):
                raise ModelFileError(
                    f"{file} announces a header of {length} bytes, and has {status.st_size}"
                )
            return head + opened.read(status.st_size - 8)
    except (OSError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{file} cannot be read: {error}") from error


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise MissingExtraError.of("safetensors", "train", "Keeping an agent") from error
    return safetensors.numpy
