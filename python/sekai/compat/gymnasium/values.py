"""Observations and actions in the form that gymnasium's spaces want, and back.

All functions take one value or a batch along a leading axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai import spaces as ours
from sekai.backend import as_numpy
from sekai.core.real_numbers import real_numbers

__all__ = ["owned", "value_from_gymnasium", "value_to_gymnasium"]

BISECTIONS = 64
"""Enough to find a number between 0 and 1 to the last bit."""


def value_to_gymnasium(space: ours.Space[Any], value: Any) -> Any:
    """`value`, an element of our `space`, as its counterpart in gymnasium holds it."""
    if isinstance(space, ours.Dict):
        return {key: value_to_gymnasium(part, value[key]) for key, part in space.items()}
    if isinstance(space, ours.Tuple):
        return tuple(map(value_to_gymnasium, space, value))
    if isinstance(space, ours.MaskedBox):
        used = as_numpy(space.backend, value["mask"]).astype(np.int8)
        return {"values": as_numpy(space.backend, value["values"]), "mask": used}
    if space.dtype is None:
        return value
    array = as_numpy(space.backend, value)
    if isinstance(space, ours.Simplex):
        # A weight may pass its cap by our tolerance, which gymnasium does not know.
        array = np.minimum(array, space.caps)
    if isinstance(space, ours.Discrete):
        # One number is a scalar to gymnasium, never an array without axes.
        return np.int64(array) if array.ndim == 0 else array.astype(np.int64, copy=False)
    return array.astype(space.dtype, copy=False)


def value_from_gymnasium(space: ours.Space[Any], value: Any) -> Any:
    """What gymnasium's counterpart of `space` holds as an element of our `space`."""
    if isinstance(space, ours.Dict):
        return {key: value_from_gymnasium(part, value[key]) for key, part in space.items()}
    if isinstance(space, ours.Tuple):
        return tuple(map(value_from_gymnasium, space, value))
    if isinstance(space, ours.MaskedBox):
        return _padded(space, value["values"], value["mask"])
    if isinstance(space, ours.Simplex):
        return _projected(space, np.asarray(real_numbers(value)))
    return value


def owned(value: Any) -> Any:
    """A copy of a nested value, so that nobody else writes to it."""
    if isinstance(value, dict):
        return {key: owned(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(owned, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def _padded(space: ours.MaskedBox, values: Any, mask: Any) -> dict[str, Any]:
    values, used = np.clip(values, space.low, space.high), np.asarray(mask).astype(np.bool_)
    rows = used.reshape(*used.shape, *(1,) * (values.ndim - used.ndim))
    return {"values": np.where(rows, values, values.dtype.type(0)), "mask": used}


def _projected(space: ours.Simplex, values: NDArray[Any]) -> NDArray[Any]:
    """The nearest weights that sum to one and keep to their caps; weights that do stay as they are.

    The nearest are `clip(values - shift, 0, caps)` with the one shift that makes them sum to one.
    """
    if values.ndim > 1:
        return np.stack([_projected(space, row) for row in values])
    if values in space:
        return values
    wide, caps = values.astype(np.float64), space.caps.astype(np.float64)
    low, high = float((wide - caps).min()), float(wide.max())
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_too_much = np.clip(wide - middle, 0.0, caps).sum() > 1.0
        low, high = (middle, high) if is_too_much else (low, middle)
    return np.clip(wide - high, 0.0, caps).astype(space.dtype)
