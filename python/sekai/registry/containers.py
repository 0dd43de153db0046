"""Arguments of specs: copies of their containers, and equality by value.

A made env must not share the caller's dict; but it must share the caller's market data, which
may be larger than memory would hold twice.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import numpy as np

from sekai.core.equality import equal_values
from sekai.registry.entry_point import path_of

__all__ = ["copied", "equal_arguments"]


def copied(value: Any) -> Any:
    """`value` with new containers around the same contents."""
    if type(value) is dict:
        return {copied(key): copied(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(copied(item) for item in value)
    return value


def equal_arguments(left: Any, right: Any) -> bool:
    """Whether two arguments mean the same: a dataclass and its copy, an array and its copy."""
    return equal_values(_comparable(left), _comparable(right))


def _comparable(value: Any) -> Any:
    """`value` in parts that compare by value, with the types of those that have parts."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        content = array if array.dtype.hasobject else array.tobytes()
        return [type(value), array.dtype.str, array.shape, content]
    if isinstance(value, complex):
        return [complex, value.real, value.imag]
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_comparable, value)) if type(value) in (list, tuple) else value
    if callable(value):
        return path_of(value) or value
    if isinstance(value, enum.Enum):
        return value
    if hasattr(value, "to_jsonable"):
        return [type(value), value.to_jsonable()]
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value)]
        return [type(value), {name: _comparable(getattr(value, name)) for name in fields}]
    return value
