"""How the numbers of a box become a row of floats and back, without losing a bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import SpaceError
from sekai.spaces.box import Box

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
    """The array that `to_floats` made a row of."""
    if box.exact_float is None:
        upper, lower = (exact(half, box.dtype) for half in np.split(flat, 2))
        return np.asarray(upper << _HALF_BITS | lower).reshape(box.shape)
    if box.dtype.kind == "f":
        return flat.astype(box.dtype).reshape(box.shape)
    return exact(flat, box.dtype).reshape(box.shape)


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


def exact(flat: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The floats as whole numbers of `dtype`; a SpaceError when that would change one."""
    with np.errstate(invalid="ignore"):
        whole = flat.astype(dtype)
    if np.count_nonzero(whole != flat):
        raise SpaceError(f"wanted whole numbers that fit {dtype}, found {flat[whole != flat][0]}")
    return whole
