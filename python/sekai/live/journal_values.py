"""What a record says, as strict JSON and back, bit for bit.

What JSON has no word for becomes an object with one key that begins with `$`. Nothing is imported
or unpickled when it is read.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import math
import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["text_of", "values_in"]

KINDS = "biufcmM"
"""Truth, whole numbers, fractions, complex ones and times: what arrays may hold."""

MOST_AXES = 32
DTYPE = re.compile(rf"[<>|][{KINDS}]\d{{1,2}}(\[\d{{0,9}}[A-Za-z]{{1,2}}\])?")
"""How NumPy calls them."""

SIMPLE = frozenset({str, int, float, bool, type(None), np.ndarray})
"""What needs no look inside before it is written."""


def text_of(fields: Mapping[str, Any]) -> str:
    """`fields` as JSON; tuples become lists, and NumPy's numbers those of Python.

    Raises:
        ValueError: there is something in them that is no plain value.
    """
    try:
        if not _is_tagged(fields) and not _any_needs_tags(fields.values()):
            return _encoded(fields)
        return _encode(_tagged(fields))
    except RecursionError as error:
        raise ValueError("fields of few levels were wanted, found too many") from error


def _encoded(fields: Mapping[str, Any]) -> str:
    try:
        return _encode(fields)
    except ValueError:
        # JSON has no word for numbers that are not finite; what else was wrong is wrong again.
        return _encode(_tagged(fields))


def values_in(text: str) -> Any:
    """What `text_of` wrote, or a larger text that it is part of.

    Raises:
        ValueError: it is something else.
    """
    try:
        return _decoder.decode(text)
    except (RecursionError, TypeError, KeyError, struct.error, OverflowError) as error:
        raise ValueError(f"values of a record were wanted, found others: {error}") from error


def _needs_tags(value: Any) -> bool:
    """Whether keys would be read back as something else."""
    if type(value) in SIMPLE:
        return False
    # Before mappings: whether something is one takes far longer to find out.
    if isinstance(value, (list, tuple)):
        return _any_needs_tags(value)
    return isinstance(value, (dict, Mapping)) and (
        _is_tagged(value) or _any_needs_tags(value.values())
    )


def _any_needs_tags(values: Any) -> bool:
    return not SIMPLE.issuperset(map(type, values)) and any(map(_needs_tags, values))


def _is_tagged(mapping: Mapping[Any, Any]) -> bool:
    try:
        return "$" in "".join(mapping)
    except TypeError:
        return True


def _tagged(value: Any) -> Any:
    """The same where every value is one that JSON has words for."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": struct.pack(">d", value).hex()}
    if isinstance(value, (dict, Mapping)):
        if _is_tagged(value):
            return {"$pairs": [[_key(key), _tagged(part)] for key, part in value.items()]}
        return {key: _tagged(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tagged(part) for part in value]
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return _tagged(value.item()) if value.dtype.itemsize <= 8 else _other(value)
    return value


def _key(value: Any) -> Any:
    if value is not None and not isinstance(value, (str, int, float)):
        raise ValueError(f"keys that are words or numbers were wanted, found {value!r:.80}")
    return _tagged(value)


def _other(value: Any) -> Any:
    """The words for what the encoder does not know."""
    if isinstance(value, np.ndarray):
        return {"$array": [_name_of(value.dtype), value.shape, _in_base64(value.tobytes())]}
    if isinstance(value, np.generic):
        if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            return value.item()
        return {"$scalar": [_name_of(value.dtype), _in_base64(value.tobytes())]}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": _in_base64(bytes(value))}
    if isinstance(value, (dict, Mapping)):
        return dict(value)
    raise ValueError(
        f"numbers, words, lists, dicts and arrays of numbers can be journaled, found "
        f"{type(value).__name__}: write what it consists of"
    )


@functools.lru_cache(maxsize=64)
def _name_of(dtype: np.dtype[Any]) -> str:
    # Remembered: NumPy takes longer to say this than the rest of a small array takes.
    name: str = dtype.str
    if not DTYPE.fullmatch(name):
        raise ValueError(f"arrays of numbers can be journaled, found one of {dtype}")
    return name


def _in_base64(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode("ascii")


def _untagged(found: dict[str, Any]) -> Any:
    if len(found) != 1:
        return found
    ((tag, inner),) = found.items()
    if tag[:1] != "$":
        return found
    if tag == "$array":
        return _array(*inner)
    if tag == "$scalar":
        kind, content = inner
        return _array(kind, [], content)[()]
    if tag == "$float":
        return struct.unpack(">d", bytes.fromhex(inner))[0]
    if tag == "$bytes":
        return base64.b64decode(inner, validate=True)
    if tag == "$pairs":
        return dict(inner)
    raise ValueError(f"a tag that this version writes was wanted, found {tag[:40]!r}")


def _array(kind: str, shape: list[int], content: str) -> NDArray[Any]:
    if not DTYPE.fullmatch(kind):
        raise ValueError(f"an array of numbers was wanted, found one of {kind!r:.40}")
    dtype = np.dtype(kind)
    data = base64.b64decode(content, validate=True)
    # Before they are multiplied: words times numbers are longer words.
    is_shape = len(shape) <= MOST_AXES and all(type(size) is int and size >= 0 for size in shape)
    if not is_shape or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"an array of shape {shape!r:.80} was wanted, found {len(data)} bytes")
    if dtype.kind == "b" and data.strip(b"\x00\x01"):
        raise ValueError("an array of truths was wanted, found other bytes")
    array: NDArray[Any] = np.ndarray(shape, dtype, data).copy()
    return array


def _no_constant(name: str) -> Any:
    raise ValueError(f"strict JSON was wanted, found {name}")


_encode = json.JSONEncoder(
    # Circles are found as too many levels, which takes no time where there are none.
    check_circular=False,
    allow_nan=False,
    separators=(",", ":"),
    default=_other,
).encode
_decoder = json.JSONDecoder(object_hook=_untagged, parse_constant=_no_constant)
