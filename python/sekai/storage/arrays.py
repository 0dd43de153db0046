"""Arrays in data files: base64, shapes and dtypes, each checked before anything is made of it."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

__all__ = [
    "STORED_DTYPE",
    "base64_of",
    "bytes_in",
    "check_dtype",
    "shape_in",
    "text_in",
]

AXES = 32
STORED_DTYPE = re.compile(r"[<>|](b1|[iu][1248]|f[248]|[mM]8(\[\d{0,9}[A-Za-z]{1,2}\])?)")
"""Dtypes of the arrays that an `ArrayStore` takes."""

INLINE_DTYPE = re.compile(r"[<>|][biufcmMSUV]\d{1,9}(\[\d{0,9}[A-Za-z]{1,2}\])?")


def base64_of(content: bytes) -> str:
    """Bytes as text."""
    return binascii.b2a_base64(content, newline=False).decode("ascii")


def bytes_in(text: Any) -> bytes:
    """The bytes that `base64_of` wrote."""
    return base64.b64decode(text_in(text), validate=True)


def text_in(value: Any) -> str:
    """`value`, if it is text."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {type(value).__name__}")
    return value


def shape_in(value: Any) -> tuple[int, ...]:
    """`value`, if it is the shape of an array."""
    if not isinstance(value, (list, tuple)) or len(value) > AXES:
        raise ValueError(f"expected a shape of at most {AXES} axes, got {value!r:.80}")
    if not all(type(size) is int and 0 <= size <= 2**40 for size in value):
        raise ValueError(f"expected sizes that are whole numbers from 0, got {value!r:.80}")
    return tuple(value)


def check_dtype(descr: Any, depth: int = 0) -> None:
    """Raise unless `descr` describes a dtype of numbers, text, times or records of them."""
    if depth > 4:
        raise ValueError("a dtype is nested too deeply")
    if isinstance(descr, str):
        if not INLINE_DTYPE.fullmatch(descr):
            raise ValueError(f"unknown dtype {descr!r:.80}")
    elif isinstance(descr, tuple) and len(descr) == 2:
        check_dtype(descr[0], depth + 1)
        shape_in(descr[1])
    elif isinstance(descr, list) and all(
        isinstance(field, tuple) and len(field) in (2, 3) for field in descr
    ):
        for field in descr:
            names = field[0] if isinstance(field[0], tuple) else (field[0],)
            if not all(isinstance(name, str) for name in names):
                raise ValueError(f"expected fields with names, got {field[0]!r:.80}")
            check_dtype(field[1], depth + 1)
            shape_in(field[2] if len(field) == 3 else ())
    else:
        raise ValueError(f"unknown dtype {descr!r:.80}")
