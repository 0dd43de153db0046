"""Equality by value for what results carry: nested dicts, sequences, arrays and scalars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["equal_values"]


def equal_values(left: Any, right: Any) -> bool:
    """Whether two values are the same: arrays element by element, NaN equal to NaN.

    NaN counts as equal because a result must equal its own copy: two runs that produced the
    same bytes are the same run.
    """
    if left is right:
        return True
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal_values(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        same_kind = isinstance(left, list) == isinstance(right, list)
        return same_kind and len(left) == len(right) and all(map(equal_values, left, right))
    if hasattr(left, "__array__") and hasattr(right, "__array__"):
        return _equal_arrays(np.asarray(left), np.asarray(right))
    return _equal_scalars(left, right)


def _equal_arrays(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype == object:
        return all(map(equal_values, left.ravel().tolist(), right.ravel().tolist()))
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))


def _equal_scalars(left: Any, right: Any) -> bool:
    if isinstance(left, (float, np.floating)) and isinstance(right, (float, np.floating)):
        return bool(left == right or (left != left and right != right))
    return bool(np.all(left == right))
