"""Columns: what callers give as arrays, made ready for the core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.error import OrderError

__all__ = ["columns"]

CODES = np.dtype(np.int8)
NUMBERS = np.dtype(np.int64)
DTYPES = {"kind": CODES, "side": CODES, "taker_side": CODES}
"""Columns of small numbers that stand for something; all others are `NUMBERS`."""


def columns(**given: ArrayLike | None) -> dict[str, Any]:
    """Contiguous columns of integers; one integer is said of every row, None stays None."""
    if all(_is_ready(name, values) for name, values in given.items()):
        return given
    arrays = {name: _integers(name, values) for name, values in given.items()}
    rows = next((len(a) for a in arrays.values() if a is not None and a.ndim), 1)
    return {name: None if a is None else _column(name, a, rows) for name, a in arrays.items()}


def _is_ready(name: str, values: ArrayLike | None) -> bool:
    """Whether the core can read this as it is, as it can what came out of it."""
    if type(values) is not np.ndarray:
        return values is None
    flags = values.flags
    ready = values.ndim == 1 and flags.c_contiguous and flags.aligned
    return ready and values.dtype == DTYPES.get(name, NUMBERS)


def _integers(name: str, values: ArrayLike | None) -> NDArray[Any] | None:
    if values is None:
        return None
    array = np.asarray(values)
    # An empty list has no type of its own and becomes an array of floats.
    if array.dtype.kind not in "iu" and array.size:
        raise OrderError(f'column "{name}": integers were wanted, found {array.dtype}')
    if array.ndim > 1:
        raise OrderError(f'column "{name}": one dimension was wanted, found shape {array.shape}')
    return array


def _column(name: str, array: NDArray[Any], rows: int) -> NDArray[Any]:
    dtype = DTYPES.get(name, NUMBERS)
    if array.size and not np.can_cast(array.dtype, dtype):
        _check_range(name, array, dtype)
    if array.ndim == 0:
        return np.full(rows, array, dtype)
    return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def _check_range(name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Refuse what a cast would change in silence."""
    limits = np.iinfo(dtype)
    for found in (int(array.min()), int(array.max())):
        if not limits.min <= found <= limits.max:
            raise OrderError(
                f'column "{name}": integers from {limits.min} to {limits.max} were wanted, '
                f"found {found}"
            )
