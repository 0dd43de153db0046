"""Model files: saved agents as safetensors with a JSON header, validated on load."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.signature import DataSignature
from sekai.error import StateError
from sekai.spaces import Space
from sekai.storage.arrays import check_space
from sekai.storage.codec import ArrayStore, from_json_value, to_json_value
from sekai.storage.files import SHARED, atomic_write
from sekai.storage.optional import optional_import
from sekai.storage.strict_json import parse_json

__all__ = [
    "FORMAT",
    "ModelFileError",
    "check_fields",
    "file_digest",
    "file_of",
    "header_of",
    "read_arrays",
    "signature_of",
    "space_of",
    "write_arrays",
]

NAME = "agent.safetensors"
"""File name in a folder."""

FORMAT = "4"
MAX_FILE_BYTES = 64 * 2**30
"""Largest file that is read."""

MAX_HEADER_BYTES = 100_000_000
"""Largest header, as in safetensors."""


class ModelFileError(StateError):
    """Model file is damaged, of another format or of another algorithm; nothing was loaded."""


def file_of(path: str | os.PathLike[str]) -> Path:
    """Path of the model file: the path itself, or the file in that folder."""
    location = Path(path)
    return location if location.suffix == ".safetensors" else location / NAME


def write_arrays(
    path: str | os.PathLike[str], content: Mapping[str, Any], store: ArrayStore
) -> Path:
    """Write a nested value atomically: a crash leaves the old file, or none.

    Args:
        path: file, or a folder for it.
        content: the value.
        store: empty store of its arrays, which converts tensors.

    Raises:
        StateError: the value cannot be serialized.
    """
    target = file_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        words = json.dumps(to_json_value(content, "the state", store), allow_nan=False)
    except ValueError as error:
        raise StateError(f"the agent cannot be saved: {error}") from error
    if len(words) > MAX_HEADER_BYTES // 2:
        raise StateError(f"the agent cannot be saved: its JSON has {len(words)} characters")
    metadata = {"format": FORMAT, "sekai": words, "digest": file_digest(words, store.arrays)}
    data = _in_order(_safetensors().save(store.arrays, metadata=metadata))
    atomic_write(target, data, mode=SHARED)
    return target


def read_arrays(path: str | os.PathLike[str], store: ArrayStore | None = None) -> dict[str, Any]:
    """Read the value of a model file.

    Args:
        path: file, or its folder.
        store: converts arrays to tensors; None leaves arrays.

    Raises:
        ModelFileError: the file is missing, damaged or of another format.
    """
    file = file_of(path)
    data = _bytes_of(file)
    try:
        words = header_of(data)
        tensors = _safetensors().load(data)
        store = ArrayStore({}) if store is None else store
        store.arrays.update(tensors)
        if words["digest"] != file_digest(words["sekai"], tensors):
            raise ModelFileError(f"{file} is damaged: the checksum does not match")
        content = from_json_value(parse_json(words["sekai"]), store)
    except ModelFileError:
        raise
    except Exception as error:
        # safetensors and JSON raise errors of their own.
        raise ModelFileError(f"{file} is not a valid model file: {error}") from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{file} must hold an agent, got {type(content).__name__}")
    return content


def _in_order(data: bytes) -> bytes:
    """Sort the metadata, which safetensors writes in any order."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    # Same length, so that tensors stay aligned.
    ordered = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    if len(ordered) > length:
        length = -(-len(ordered) // 8) * 8
    old = int.from_bytes(data[:8], "little")
    return length.to_bytes(8, "little") + ordered.ljust(length) + data[8 + old :]


def file_digest(words: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of header and tensors: detects damage, not forgery."""
    digest = hashlib.sha256(words.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def header_of(data: bytes) -> dict[str, str]:
    """Metadata in the header of a model file."""
    length = int.from_bytes(data[:8], "little")
    header = parse_json(data[8 : 8 + length].decode("utf-8"))
    words = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(words, dict) or not {"format", "sekai", "digest"} <= words.keys():
        raise ModelFileError("the header has no metadata of an agent")
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
            raise ModelFileError(f"{file} is not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise ModelFileError(f"{file} has {status.st_size} bytes, more than {MAX_FILE_BYTES}")
        with file.open("rb") as opened:
            head = opened.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(status.st_size - 8, MAX_HEADER_BYTES):
                raise ModelFileError(
                    f"{file} has a header length of {length} bytes and a size of {status.st_size}"
                )
            return head + opened.read(status.st_size - 8)
    except (OSError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{file} cannot be read: {error}") from error


def _safetensors() -> Any:
    return optional_import("safetensors.numpy", "train", "Saving an agent")


def check_fields(content: Mapping[str, Any], path: Any, algorithm: str | None = None) -> None:
    """Raise unless a model file has the fields of an agent, of an algorithm."""
    missing = sorted(FIELDS.keys() - content.keys())
    if missing:
        raise ModelFileError(f"{path} is not a model file: {', '.join(missing)} missing")
    for name, kind in FIELDS.items():
        value = content[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ModelFileError(f"{path}: {name} must be {kind.__name__}, got {value!r:.80}")
    saved_algorithm = content["algorithm"]
    if algorithm is not None and saved_algorithm != algorithm:
        raise ModelFileError(
            f"{path} holds an agent of {saved_algorithm!r:.80}, expected {algorithm}: use the "
            "class it names"
        )


FIELDS: dict[str, type] = {
    "algorithm": str,
    "settings": dict,
    "seed": int,
    "steps": int,
    "network": dict,
    "observation_space": dict,
    "action_space": dict,
}
"""Required fields of a model file with their types."""


def signature_of(content: Mapping[str, Any]) -> DataSignature | None:
    """Data signature of a model file; None if it was trained without market data."""
    values = content.get("data_signature")
    try:
        return None if values is None else DataSignature.from_dict(values)
    except ValueError as error:
        raise ModelFileError(f"invalid data signature: {error}") from error


def space_of(content: Mapping[str, Any], name: str) -> Space[Any]:
    """Space of a model file."""
    try:
        check_space(content[name])
        return Space.from_jsonable(content[name])
    except Exception as error:
        raise ModelFileError(f"invalid {name}: {error}") from error
