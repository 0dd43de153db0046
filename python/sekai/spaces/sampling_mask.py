"""Masks that say what `sample` may draw, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import SpaceError

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray


def zero_one_mask(mask: Any, shape: tuple[int, ...], place: str = "mask") -> NDArray[np.bool_]:
    """A mask of 0 and 1 (or of bools) with the shape, as bools."""
    return checked_mask(mask, shape, (0, 1), place).astype(np.bool_)


def choices(mask: Any, count: int, place: str = "mask") -> NDArray[np.intp]:
    """The positions of the ones in a 0/1 mask of `count` entries; at least one is needed."""
    allowed = np.flatnonzero(zero_one_mask(mask, (count,), place))
    if not allowed.size:
        raise SpaceError(f"{place} must allow at least one of {count} values, all were 0")
    return allowed


def checked_mask(
    mask: Any, shape: tuple[int, ...], values: Collection[int], place: str
) -> NDArray[Any]:
    """A mask of whole numbers with the shape and nothing but the values."""
    try:
        array = np.asarray(mask)
    except (TypeError, ValueError) as cause:
        raise SpaceError(f"{place} must be an array of shape {shape}: {cause}") from cause
    if array.dtype.kind not in "biu":
        raise SpaceError(f"{place} must hold whole numbers or bools, found dtype {array.dtype}")
    if array.shape != shape:
        raise SpaceError(f"{place} must have shape {shape}, found {array.shape}")
    strange = array[~np.isin(array, list(values))]
    if strange.size:
        raise SpaceError(f"{place} must hold only {sorted(values)}, found {strange[0]}")
    return array
