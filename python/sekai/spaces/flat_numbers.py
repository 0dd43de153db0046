"""Numbers of a box as a row of floats, without losing a bit, and back, rounded where they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import SpaceError
from sekai.spaces.box import Box
from sekai.spaces.utils import cast_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Integers beyond 2**53 fit no float. They become two each: all the upper halves, then the lower.
_HALF_BITS = 32
_LOWER_HALF = 2**_HALF_BITS - 1


def flat_size(box: Box) -> int:
    """How many floats an array of the box becomes."""
    return box.low.size * (1 if box.exact_float is not None else 2)


def to_floats(box: Box, array: NDArray[Any]) -> NDArray[Any]:
    """The array as a new row of floats."""
    if box.exact_float is not None:
        return array.astype(box.exact_float).reshape(-1)
    upper, lower = array >> _HALF_BITS, array & array.dtype.type(_LOWER_HALF)
    return np.concatenate([upper.reshape(-1), lower.reshape(-1)]).astype(np.float64)


def from_floats(box: Box, flat: NDArray[Any]) -> NDArray[Any]:
    """The array that `to_floats` made a row of; of a row that was rounded, the nearest there is."""
    wide = np.dtype(np.float64 if box.exact_float is None else box.exact_float)
    was_rounded = flat.dtype.kind == "f" and flat.dtype.itemsize < wide.itemsize
    if was_rounded:
        flat = _within_bounds(flat, flat_box(box))
    if box.exact_float is None:
        upper, lower = (rounded(half, box.dtype) for half in np.split(flat, 2))
        whole = np.asarray(upper << _HALF_BITS | lower).reshape(box.shape)
        # Each half may have been rounded up.
        return np.asarray(np.clip(whole, box.low, box.high)) if was_rounded else whole
    if box.dtype.kind == "f":
        return flat.astype(box.dtype).reshape(box.shape)
    return rounded(flat, box.dtype).reshape(box.shape)


def flat_box(box: Box) -> Box:
    """The box of the rows."""
    if box.exact_float is not None:
        low, high, dtype = box.low.reshape(-1), box.high.reshape(-1), box.exact_float
        return Box(low, high, dtype=dtype, backend=box.backend)
    low, high = to_floats(box, box.low), to_floats(box, box.high)
    # Lower halves keep the box's own bounds only where the upper halves cannot differ.
    upper_differ = low[: box.low.size] != high[: box.low.size]
    free = np.concatenate([np.zeros_like(upper_differ), upper_differ])
    low[free], high[free] = 0, _LOWER_HALF
    return Box(low, high, dtype=np.float64, backend=box.backend)


def rounded(flat: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The floats as the nearest whole numbers; a SpaceError when one does not fit `dtype`."""
    nearest: NDArray[Any] = np.rint(flat)
    with np.errstate(invalid="ignore"):
        whole = nearest.astype(dtype)
    if np.count_nonzero(whole != nearest):
        strange = flat[whole != nearest][0]
        raise SpaceError(f"wanted whole numbers that fit {dtype}, found {strange}")
    return whole


def _within_bounds(flat: NDArray[Any], box: Box) -> NDArray[Any]:
    """A row of the box that was rounded, without what rounding has carried past a bound."""
    low, high, wide = box.low, box.high, flat.astype(box.dtype)
    # What is further out was never a value of the box, and is left as it is.
    below = (wide < low) & (flat >= cast_row(low, flat.dtype))
    above = (wide > high) & (flat <= cast_row(high, flat.dtype))
    return np.where(below, low, np.where(above, high, wide))
