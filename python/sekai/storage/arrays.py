"""Arrays, floats and spaces in data files, checked against bounds before memory is allocated.

An array is a list of its dtype, its shape and its bytes in base64: `["<f8", [2], "..."]`. A fourth
item, `"zlib"`, marks compressed bytes.
"""

from __future__ import annotations

import base64
import binascii
import functools
import math
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_AXES = 32
MAX_SPACE_DEPTH = 64
SPACE_NUMBERS = 2**24
"""Maximum count of numbers in the arrays of a space; its description is short in any case."""

STORED_DTYPE = re.compile(r"[<>|](b1|[iu][1248]|f[248]|[mM]8(\[\d{0,9}[A-Za-z]{1,2}\])?)")
"""Dtypes of the arrays that an `ArrayStore` takes."""

INLINE_DTYPE = re.compile(r"[<>|][biufcmMSUV]\d{1,9}(\[\d{0,9}[A-Za-z]{1,2}\])?")
NUMBER_DTYPE = re.compile(r"[<>|][biufcmM]\d{1,2}(\[\d{0,9}[A-Za-z]{1,2}\])?")
SPACE_DTYPE = re.compile(r"(bool|u?int(8|16|32|64)|float(16|32|64))")

_NAMES_OF_FLOATS = {
    "7ff0000000000000": "inf",
    "fff0000000000000": "-inf",
    "7ff8000000000000": "nan",
}
_BITS_OF_FLOATS = {name: bits for bits, name in _NAMES_OF_FLOATS.items()}


def array_to_json(array: NDArray[Any], dtype: Any, *, compress: bool = False) -> list[Any]:
    """Encode an array as JSON.

    Args:
        array: the array.
        dtype: its dtype in JSON.
        compress: compress the bytes with zlib.
    """
    content = array.tobytes()
    if compress:
        return [dtype, list(array.shape), bytes_to_json(zlib.compress(content, 6)), "zlib"]
    return [dtype, list(array.shape), bytes_to_json(content)]


def array_from_json(
    dtype: np.dtype[Any], shape: Any, text: Any, packing: Any = None
) -> NDArray[Any]:
    """Decode an array that `array_to_json` wrote, given its dtype and the other items.

    Raises:
        ValueError: the bytes are malformed, or do not fit the dtype and the shape.
    """
    shape = checked_shape(shape)
    data = bytes_from_json(text)
    count = math.prod(shape)
    if packing is not None:
        data = _decompressed(data, packing, count * dtype.itemsize)
    if count * dtype.itemsize != len(data) or count > max(len(data), 1):
        raise ValueError(f"expected an array of shape {shape!r:.80}, got {len(data)} bytes")
    if dtype.kind == "b" and data.strip(b"\x00\x01"):
        raise ValueError("expected bools, got other bytes")
    array: NDArray[Any] = np.ndarray(shape, dtype, data).copy()
    return array


@functools.lru_cache(maxsize=64)
def number_dtype_name(dtype: np.dtype[Any]) -> str:
    """Name of a dtype of numbers or times, such as `<f8`; `ValueError` for any other."""
    # Cached: NumPy needs more time for the name than for the rest of a small array.
    name: str = dtype.str
    if not NUMBER_DTYPE.fullmatch(name):
        raise ValueError(f"expected an array of numbers, got one of {dtype}")
    return name


@functools.lru_cache(maxsize=64)
def number_dtype(name: str) -> np.dtype[Any]:
    """Inverse of `number_dtype_name`."""
    if not NUMBER_DTYPE.fullmatch(checked_text(name)):
        raise ValueError(f"expected an array of numbers, got one of {name!r:.40}")
    return np.dtype(name)


def check_dtype(descr: Any, depth: int = 0) -> None:
    """Raise `ValueError` unless `descr` is a dtype of numbers, text, times or records of them."""
    if depth > 4:
        raise ValueError("a dtype is nested too deeply")
    if isinstance(descr, str):
        if not INLINE_DTYPE.fullmatch(descr):
            raise ValueError(f"unknown dtype {descr!r:.80}")
    elif isinstance(descr, tuple) and len(descr) == 2:
        check_dtype(descr[0], depth + 1)
        checked_shape(descr[1])
    elif isinstance(descr, list) and all(
        isinstance(field, tuple) and len(field) in (2, 3) for field in descr
    ):
        for field in descr:
            names = field[0] if isinstance(field[0], tuple) else (field[0],)
            if not all(isinstance(name, str) for name in names):
                raise ValueError(f"expected fields with names, got {field[0]!r:.80}")
            check_dtype(field[1], depth + 1)
            checked_shape(field[2] if len(field) == 3 else ())
    else:
        raise ValueError(f"unknown dtype {descr!r:.80}")


def checked_shape(value: Any) -> tuple[int, ...]:
    """Shape of an array; `ValueError` if `value` is none."""
    if not isinstance(value, (list, tuple)) or len(value) > MAX_AXES:
        raise ValueError(f"expected a shape of at most {MAX_AXES} axes, got {value!r:.80}")
    for size in value:
        if type(size) is not int or not 0 <= size <= 2**40:
            raise ValueError(f"expected sizes that are whole numbers from 0, got {value!r:.80}")
    return tuple(value)


def scalar_of(array: NDArray[Any]) -> Any:
    """Scalar of an array without axes; `ValueError` for any other."""
    if array.shape != ():
        raise ValueError(f"expected a scalar, got an array of shape {array.shape}")
    return array[()]


def float_to_json(value: float) -> Any:
    """Encode a float; one that is not finite keeps its bits."""
    if math.isfinite(value):
        return value
    bits = struct.pack(">d", value).hex()
    return {"$float": _NAMES_OF_FLOATS.get(bits, bits)}


def float_from_json(text: Any) -> float:
    """Decode the content of a `$float` tag: `inf`, `-inf`, `nan` or the bits of another NaN."""
    bits = _BITS_OF_FLOATS.get(text, text) if isinstance(text, str) else ""
    try:
        value: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    except (ValueError, struct.error):
        value = 0.0
    if math.isfinite(value):
        raise ValueError(f"expected 'inf', '-inf', 'nan' or the bits of a NaN, got {text!r:.80}")
    return value


def bytes_to_json(content: bytes) -> str:
    """Encode bytes as base64."""
    return binascii.b2a_base64(content, newline=False).decode("ascii")


def bytes_from_json(text: Any) -> bytes:
    """Decode base64; `ValueError` if `text` is malformed."""
    return base64.b64decode(checked_text(text), validate=True)


def checked_text(value: Any) -> str:
    """Return `value` if it is a string; `ValueError` otherwise."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {type(value).__name__}")
    return value


def dict_from_pairs(pairs: Any) -> dict[Any, Any]:
    """Dict of a list of pairs; `ValueError` for anything else, or for a key that occurs twice."""
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("expected pairs of a key and a value")
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("expected different keys, got one twice")
    return result


def check_space(description: Any) -> None:
    """Raise `ValueError` if the space that JSON describes exceeds `SPACE_NUMBERS`."""
    if space_numbers(description) > SPACE_NUMBERS:
        raise ValueError(f"the space has too many numbers; expected at most {SPACE_NUMBERS}")


def space_numbers(description: Any, depth: int = 0) -> int:
    """Upper bound of the count of numbers in the arrays of a space.

    Raises:
        ValueError: a size or a dtype in the description is malformed.
    """
    if depth > MAX_SPACE_DEPTH:
        raise ValueError("a space is nested too deeply")
    if isinstance(description, list):
        return sum(space_numbers(part, depth + 1) for part in description)
    if isinstance(description, float) and not math.isfinite(description):
        raise ValueError(f"expected a finite number, got {description}")
    if isinstance(description, int) and abs(description) > 2**64:
        raise ValueError("expected a number of at most 64 bits")
    if not isinstance(description, Mapping):
        return 0
    dtype = description.get("dtype", "int64")
    if not isinstance(dtype, str) or not SPACE_DTYPE.fullmatch(dtype):
        raise ValueError(f"unknown dtype {dtype!r:.80}; expected a number type such as 'float32'")
    total = sum(
        _count(description[key], key) for key in ("shape", "n", "size") if key in description
    )
    if "nvec" in description:
        nvec = description["nvec"]
        sizes = [_size(value, "nvec") for value in (nvec if isinstance(nvec, list) else [nvec])]
        total += sum(sizes) if isinstance(nvec, list) else sizes[0] * max(total, 1)
    return total + sum(space_numbers(part, depth + 1) for part in description.values())


def _count(sizes: Any, name: str) -> int:
    values = sizes if isinstance(sizes, list) else [sizes]
    if len(values) > MAX_AXES:
        raise ValueError(f"expected at most {MAX_AXES} axes, got {len(values)}")
    # A size of zero must not hide the others: arrays are allocated by the first sizes.
    return math.prod(max(_size(value, name), 1) for value in values)


def _size(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= SPACE_NUMBERS:
        raise ValueError(
            f"{name} must be a whole number from 0 to {SPACE_NUMBERS}, got {value!r:.80}"
        )
    return value


def _decompressed(data: bytes, packing: Any, size: int) -> bytes:
    if packing != "zlib":
        raise ValueError(f"unknown compression {packing!r:.80}; expected 'zlib'")
    try:
        # One byte more than expected shows that there are more.
        return zlib.decompressobj().decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(f"the compressed bytes are damaged: {error}") from error
