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
LONGEST_INT = 1024
"""Bits of a whole number: states of random streams have a few hundred."""

KINDS = "biufmM"
"""Truth, whole numbers, fractions and times."""


def packed(value: Any, tensors: dict[str, NDArray[Any]], path: str = "", depth: int = 0) -> Any:
    """What JSON can hold of a value; arrays go into `tensors`, under the path they were found at.

    Raises:
        StateError: there is something in it that is no plain value, and where.
    """
    if depth > DEPTH:
        raise StateError(f"a state of at most {DEPTH} levels can be kept, found more at {path}")
    array = _array_in(value, path)
    if array is not None:
        return _array(*array, tensors, path)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {f"{TAG}int": _digits(value, path)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {f"{TAG}float": repr(value)}
    if isinstance(value, (list, tuple)):
        parts = [packed(part, tensors, f"{path}.{at}", depth + 1) for at, part in enumerate(value)]
        return parts if isinstance(value, list) else {f"{TAG}tuple": parts}
    if isinstance(value, Mapping):
        return _packed_mapping(value, tensors, path, depth + 1)
    raise StateError(f"{path or 'the state'} holds {type(value).__name__}, which cannot be kept")


def unpacked(value: Any, tensors: dict[str, NDArray[Any]], depth: int = 0) -> Any:
    """The value that was packed; the arrays that are part of it are taken out of `tensors`.

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


def _packed_mapping(
    value: Mapping[Any, Any], tensors: dict[str, NDArray[Any]], path: str, depth: int
) -> Any:
    is_plain = all(isinstance(key, str) and not key.startswith(TAG) for key in value)
    if is_plain:
        return {key: packed(part, tensors, f"{path}.{key}", depth) for key, part in value.items()}
    pairs = [
        [
            packed(key, tensors, f"{path}.{at}.key", depth),
            packed(part, tensors, f"{path}.{at}", depth),
        ]
        for at, (key, part) in enumerate(value.items())
    ]
    return {f"{TAG}pairs": pairs}


def _array_in(value: Any, path: str) -> tuple[str, NDArray[Any]] | None:
    """The array that a value is, and what it is besides."""
    if isinstance(value, torch.Tensor):
        try:
            return f"{TAG}tensor", value.detach().cpu().numpy()
        except TypeError as error:
            raise StateError(
                f"{path} is a tensor of {value.dtype}, which cannot be kept"
            ) from error
    if isinstance(value, np.ndarray):
        return f"{TAG}array", value
    # NumPy's numbers may be Python's too, and its words are: those are words.
    if isinstance(value, np.generic) and not isinstance(value, (str, bytes)):
        return f"{TAG}scalar", np.asarray(value)
    if isinstance(value, (bytes, bytearray)):
        return f"{TAG}bytes", np.frombuffer(bytes(value), np.uint8)
    return None


def _array(tag: str, array: NDArray[Any], tensors: dict[str, NDArray[Any]], path: str) -> Any:
    kind = array.dtype.str
    if array.dtype.kind not in KINDS or array.dtype.itemsize > 8:
        raise StateError(f"{path} is an array of {array.dtype}, which cannot be kept")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    # Times are kept as their numbers, and the shape of scalars beside them.
    plain = native.view(np.int64) if native.dtype.kind in "mM" else native
    name = path.encode("ascii", "replace").decode("ascii")
    while name in tensors:
        # Keys may have dots in them, as paths do.
        name += "'"
    tensors[name] = np.ascontiguousarray(plain).reshape(array.shape)
    return {tag: [name, kind]}


def _digits(number: int, path: str) -> str:
    if number.bit_length() > LONGEST_INT:
        raise StateError(f"{path} is a number of {number.bit_length()} bits, more than can be kept")
    return str(number)


def _tagged(key: str, inner: Any, tensors: dict[str, NDArray[Any]], depth: int) -> Any:
    tag = key[len(TAG) :]
    try:
        if tag == "int":
            return _int(inner)
        if tag == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[inner]
        if tag == "tuple":
            return tuple(unpacked(part, tensors, depth + 1) for part in _listed(inner))
        if tag == "pairs":
            return {
                unpacked(name, tensors, depth + 1): unpacked(part, tensors, depth + 1)
                for name, part in _listed(inner)
            }
        name, kind = _listed(inner)
        return _typed(tag, _of_kind(tensors, name, kind))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StateError(f"a state that this version writes was wanted, found {key!r}") from error


def _of_kind(tensors: dict[str, NDArray[Any]], name: str, kind: str) -> NDArray[Any]:
    """The array as it was: each is used once, so that a small file stays a small state."""
    wanted = np.dtype(_text(kind))
    array = tensors[_text(name)]
    is_time = wanted.kind in "mM"
    stored = np.dtype(np.int64) if is_time else wanted.newbyteorder("=")
    if wanted.kind not in KINDS or array.dtype != stored:
        raise ValueError(f"numbers of {wanted} were wanted, found {array.dtype}")
    del tensors[name]
    native = array.view(wanted.newbyteorder("=")) if is_time else array
    return native.astype(wanted, copy=False)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list was wanted, found {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a word was wanted, found {type(value).__name__}")
    return value


def _int(digits: Any) -> int:
    if len(_text(digits)) > LONGEST_INT:
        raise ValueError(f"a whole number was wanted, found {len(digits)} digits")
    return int(digits)


def _typed(tag: str, array: NDArray[Any]) -> Any:
    if tag == "tensor":
        return torch.from_numpy(array.copy())
    if tag == "scalar":
        return array.reshape(())[()]
    if tag == "bytes":
        return array.tobytes()
    return {"array": array}[tag]
