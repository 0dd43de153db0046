"""Whole numbers and shapes that callers give, checked."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable
from typing import Any


def whole_number(value: Any, name: str, minimum: int | None = None) -> int:
    """`value` as an int; a ValueError names the argument when it is none, or below `minimum`."""
    number = None if _is_bool(value) else _index(value)
    if number is None or (minimum is not None and number < minimum):
        least = "" if minimum is None else f" of at least {minimum}"
        raise ValueError(f"{name} must be a whole number{least}, was {value!r}")
    return number


def shape_of(value: Any, name: str = "shape") -> tuple[int, ...]:
    """`value`, a whole number or several, as the shape of an array."""
    sizes = value if isinstance(value, Iterable) else (value,)
    shape = tuple(whole_number(size, f"each size in {name}", 0) for size in sizes)
    if math.prod(shape) > sys.maxsize:
        raise ValueError(f"{name} must have a number of elements that fits memory, was {shape}")
    return shape


def _is_bool(value: Any) -> bool:
    # Python and NumPy both call True a number; as a count it is a slip.
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


def _index(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None
