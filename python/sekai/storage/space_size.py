"""Bound on the size of a space that a file describes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["SPACE_NUMBERS", "check_space", "space_numbers"]

SPACE_NUMBERS = 2**24
"""Numbers in the arrays of a space, at most: its description is short, its arrays need not be."""

AXES = 32
DEPTH = 64
DTYPE = re.compile(r"(bool|u?int(8|16|32|64)|float(16|32|64))")


def check_space(description: Any) -> None:
    """Raise `ValueError` unless a space that JSON describes is of a size that can be meant."""
    if space_numbers(description) > SPACE_NUMBERS:
        raise ValueError(f"the space has too many numbers; expected at most {SPACE_NUMBERS}")


def space_numbers(described: Any, depth: int = 0) -> int:
    """Upper bound of the numbers in the arrays of a space, if every size in it is one."""
    if depth > DEPTH:
        raise ValueError("a space is nested too deeply")
    if isinstance(described, list):
        return sum(space_numbers(part, depth + 1) for part in described)
    if isinstance(described, float) and not math.isfinite(described):
        raise ValueError(f"expected a finite number, got {described}")
    if isinstance(described, int) and abs(described) > 2**64:
        raise ValueError("expected a number of at most 64 bits")
    if not isinstance(described, Mapping):
        return 0
    dtype = described.get("dtype", "int64")
    if not isinstance(dtype, str) or not DTYPE.fullmatch(dtype):
        raise ValueError(f"unknown dtype {dtype!r:.80}; expected a number type such as 'float32'")
    total = sum(_count(described[key], key) for key in ("shape", "n", "size") if key in described)
    if "nvec" in described:
        each = described["nvec"]
        values = each if isinstance(each, list) else [each]
        sizes = [_size(value, "nvec") for value in values]
        total += sum(sizes) if isinstance(each, list) else sizes[0] * max(total, 1)
    return total + sum(space_numbers(part, depth + 1) for part in described.values())


def _count(sizes: Any, name: str) -> int:
    values = sizes if isinstance(sizes, list) else [sizes]
    if len(values) > AXES:
        raise ValueError(f"expected at most {AXES} axes, got {len(values)}")
    # A size of zero must not hide the others: arrays are made of what the shape says first.
    return math.prod(max(_size(value, name), 1) for value in values)


def _size(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= SPACE_NUMBERS:
        raise ValueError(
            f"{name} must be a whole number from 0 to {SPACE_NUMBERS}, got {value!r:.80}"
        )
    return value
