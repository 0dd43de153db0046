"""Values that are the same to the last bit: type, dtype, shape, keys in order, and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np


def identical(one: Any, other: Any) -> bool:
    """Return True if two values are identical in type, dtype, shape and bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(identical(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(identical, one, other))
    if isinstance(one, (np.ndarray, np.generic)):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    return bool(one == other)


def in_numpy(value: Any) -> Any:
    """The value with every tensor in it as a NumPy array."""
    if isinstance(value, dict):
        return {key: in_numpy(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(in_numpy, value))
    return value.numpy() if hasattr(value, "numpy") else value
