"""Nested values as plain JSON and named tensors: nothing that is read back can run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sekai.error import StateError

__all__ = ["packed", "unpacked"]

TAG = "$"
"""A dict of JSON whose only key begins with this is no dict, but what the key says."""

DEPTH = 64
KINDS = "biufmM"
"""Truth, whole numbers, fractions and times."""


def packed(value: Any, tensors: dict[str, NDArray[Any]], path: str = "") -> Any:
    """What JSON can hold of a value; arrays go into `tensors`, under the path they were found at.

    Raises:
        StateError: there is something in it that is no plain value, and where.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {f"{TAG}int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {f"{TAG}float": repr(value)}
    if isinstance(value, torch.Tensor):
        return _array(f"{TAG}tensor", value.detach().cpu().numpy(), tensors, path)
    if isinstance(value, np.ndarray):
        return _array(f"{TAG}array", value, tensors, path)
    if isinstance(value, np.generic):
        return _array(f"{TAG}scalar", np.asarray(value), tensors, path)
    if isinstance(value, (bytes, bytearray)):
        return _array(f"{TAG}bytes", np.frombuffer(bytes(value), np.uint8), tensors, path)
    if isinstance(value, (list, tuple)):
        parts = [packed(part, tensors, f"{path}.{at}") for at, part in enumerate(value)]
        return parts if isinstance(value, list) else {f"{TAG}tuple": parts}
    if isinstance(value, Mapping):
        return _packed_mapping(value, tensors, path)
    raise StateError(f"{path or 'the state'} holds {type(value).__name__}, which cannot be kept")


def unpacked(value: Any, tensors: Mapping[str, NDArray[Any]], depth: int = 0) -> Any:
    """The value that was packed.

    Raises:
        StateError: it is not what `packed` writes.
    """
    if depth > DEPTH:
        raise StateError(f"a state of at most {DEPTH} levels was wanted, found more")
    if isinstance(value, list):
        return [unpacked(part, tensors, depth + 1) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key.startswith(TAG):
            return _tagged(key, inner, tensors, depth)
    return {key: unpacked(part, tensors, depth + 1) for key, part in value.items()}


def _packed_mapping(value: Mapping[Any, Any], tensors: dict[str, NDArray[Any]], path: str) -> Any:
    is_plain = all(isinstance(key, str) and not key.startswith(TAG) for key in value)
    if is_plain:
        return {key: packed(part, tensors, f"{path}.{key}") for key, part in value.items()}
    pairs = [
        [packed(key, tensors, f"{path}.{at}.key"), packed(part, tensors, f"{path}.{at}")]
        for at, (key, part) in enumerate(value.items())
    ]
    return {f"{TAG}pairs": pairs}


def _array(tag: str, array: NDArray[Any], tensors: dict[str, NDArray[Any]], path: str) -> Any:
    kind = array.dtype.str
    if array.dtype.kind not in KINDS:
        raise StateError(f"{path} is an array of {array.dtype}, which cannot be kept")
    # Times are kept as their numbers, and the shape of scalars beside them.
    plain = array.view(np.int64) if array.dtype.kind in "mM" else array
    tensors[path] = np.ascontiguousarray(plain).reshape(array.shape)
    return {tag: [path, kind]}


def _tagged(key: str, inner: Any, tensors: Mapping[str, NDArray[Any]], depth: int) -> Any:
    tag = key[len(TAG) :]
    try:
        if tag == "int":
            return int(inner) if len(inner) < 400 else _refuse(inner)
        if tag == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[inner]
        if tag == "tuple":
            return tuple(unpacked(part, tensors, depth + 1) for part in inner)
        if tag == "pairs":
            return {_key(k, tensors): unpacked(v, tensors, depth + 1) for k, v in inner}
        array = tensors[inner[0]]
        kind = np.dtype(inner[1])
        if kind.kind not in KINDS:
            raise ValueError(f"numbers were wanted, found {kind}")
        array = array.view(kind) if kind.kind in "mM" else array.astype(kind, copy=False)
        return _typed(tag, array)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StateError(f"a state that this version writes was wanted, found {key!r}") from error


def _typed(tag: str, array: NDArray[Any]) -> Any:
    if tag == "tensor":
        return torch.from_numpy(array.copy())
    if tag == "scalar":
        return array.reshape(())[()]
    if tag == "bytes":
        return array.tobytes()
    return {"array": array}[tag]


def _key(key: Any, tensors: Mapping[str, NDArray[Any]]) -> Any:
    return unpacked(key, tensors)


def _refuse(inner: Any) -> int:
    raise ValueError(f"a whole number of less than 400 digits was wanted, found {len(inner)}")
