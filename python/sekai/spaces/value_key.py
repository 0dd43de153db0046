"""A hashable stand-in for any value, equal when the values are."""

from __future__ import annotations

from typing import Any

import numpy as np


def value_key(value: Any) -> Any:
    """`value` with arrays, dicts and lists turned into tuples; the order of a dict counts."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return tuple((key, value_key(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(value_key, value))
    return value
