"""Tells an observation of the wrong form from one whose values are out of bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sekai.spaces import Box, Dict, MaskedBox, Simplex, Space, Tuple

__all__ = ["form_mismatch", "has_nan"]


def form_mismatch(space: Space[Any], value: Any) -> str | None:
    """Why `value` has not the keys, length, shape or dtype of the space, if it has not."""
    if isinstance(space, MaskedBox):
        return form_mismatch(space.parts, value)
    if isinstance(space, (Dict, Tuple)):
        return _nested_form_mismatch(space, value)
    if space.shape is None or space.dtype is None:
        return None
    return _array_form_mismatch(space, value)


def has_nan(value: Any) -> bool:
    """Whether any number in a nested value is not a number."""
    if isinstance(value, dict):
        return any(map(has_nan, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_nan, value))
    if not hasattr(value, "__array__") and not isinstance(value, float):
        return False
    array = np.asarray(value)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _nested_form_mismatch(space: Dict | Tuple, value: Any) -> str | None:
    children: Mapping[Any, Space[Any]] = space.children()
    wanted, is_dict = list(children), isinstance(space, Dict)
    if not isinstance(value, dict if is_dict else tuple):
        return f"wanted a {'dict' if is_dict else 'tuple'}, found {type(value).__name__}"
    found = list(value) if is_dict else list(range(len(value)))
    if set(found) != set(wanted):
        return f"wanted the keys {wanted}, found {found}"
    for key, child in children.items():
        reason = form_mismatch(child, value[key])
        if reason is not None:
            return f"[{key!r}] {reason}"
    return None


def _array_form_mismatch(space: Space[Any], value: Any) -> str | None:
    assert space.dtype is not None, "only spaces of arrays come here"
    if not isinstance(value, (int, float, bool)) and not hasattr(value, "__array__"):
        return f"wanted an array of shape {space.shape}, found {type(value).__name__}"
    array = np.asarray(value)
    if array.shape != space.shape:
        return f"wanted shape {space.shape}, found {array.shape}"
    # A Python number has no dtype that it could have wrong, only a kind.
    is_exact = isinstance(space, (Box, Simplex)) and hasattr(value, "__array__")
    if not np.can_cast(array.dtype, space.dtype, "safe" if is_exact else "same_kind"):
        return f"wanted dtype {space.dtype}, found {array.dtype}"
    return None
