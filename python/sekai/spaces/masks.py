"""Action masks: validation, and the rule `allows` of each space."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import SpaceError

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from sekai.spaces.space import Space


@singledispatch
def allows(space: Space[Any], mask: Any, value: Any) -> bool:
    """Return True if `value`, an element of `space`, may be sampled under `mask`.

    A mask of None allows everything. Each space registers its rule; register one for a custom
    space.
    """
    if mask is None:
        return True
    raise TypeError(f"{type(space).__name__} has no mask rule; register one with allows.register")


def zero_one_mask(mask: Any, shape: tuple[int, ...], name: str = "mask") -> NDArray[np.bool_]:
    """Validate a mask of 0 and 1 (or bools) and return it as bools."""
    return checked_mask(mask, shape, (0, 1), name).astype(np.bool_)


def choices(mask: Any, count: int, name: str = "mask") -> NDArray[np.intp]:
    """Return the indices of the ones in a 0/1 mask of `count` entries; at least one is required."""
    allowed = np.flatnonzero(zero_one_mask(mask, (count,), name))
    if not allowed.size:
        raise SpaceError(f"{name} must allow at least one of {count} values, all were 0")
    return allowed


def checked_mask(
    mask: Any, shape: tuple[int, ...], values: Collection[int], name: str
) -> NDArray[Any]:
    """Validate the shape and the values of an integer mask."""
    try:
        array = np.asarray(mask)
    except (TypeError, ValueError) as cause:
        raise SpaceError(f"{name} must be an array of shape {shape}: {cause}") from cause
    if array.dtype.kind not in "biu":
        raise SpaceError(f"{name} must hold integers or bools, got dtype {array.dtype}")
    if array.shape != shape:
        raise SpaceError(f"{name} must have shape {shape}, got {array.shape}")
    invalid = array[~np.isin(array, list(values))]
    if invalid.size:
        raise SpaceError(f"{name} must hold only {sorted(values)}, got {invalid[0]}")
    return array
