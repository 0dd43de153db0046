"""The bounds of a box: from what the user gave to exact arrays of the box's dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.spaces.counts import shape_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_DTYPES = "bool, integer, float16, float32 or float64"


def number_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype in native byte order, when a box can be made of it."""
    try:
        # By its name, so that two spellings of one dtype are the same object.
        found: np.dtype[Any] | None = None if dtype is None else np.dtype(np.dtype(dtype).name)
    except TypeError:
        found = None
    if found is None or found.kind not in "biuf" or found.itemsize > 8:
        raise ValueError(f"dtype must be {_DTYPES}, was {dtype!r}")
    return found


def number_array(
    value: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any], name: str
) -> NDArray[Any]:
    """A new array of `dtype` and `shape` from one number for every element or an array of them.

    Args:
        value: what the user gave.
        shape: None takes the shape of `value`.
        dtype: what to make the numbers.
        name: what the user calls the value.

    Raises:
        ValueError: a number is NaN or does not fit `dtype`, or the shapes disagree.
    """
    numbers = _numbers(value, name)
    try:
        fit = _fit_floats if dtype.kind == "f" else _fit_whole_numbers
        array: NDArray[Any] = fit(numbers, dtype, name)
    except OverflowError as cause:
        raise ValueError(f"{name} must fit {dtype}, was {value!r}") from cause
    wanted = array.shape if shape is None else shape
    if array.shape not in ((), wanted):
        raise ValueError(f"{name} must be a number or have the shape {wanted}, was {array.shape}")
    return np.array(np.broadcast_to(array, wanted))


def bound_arrays(
    low: Any, high: Any, shape: Any, dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """New arrays of the bounds with one shape; None takes it from the array among the two.

    An infinite bound is no bound: of whole numbers it becomes the limit of the dtype.
    """
    low, high = _bound(low, -np.inf, dtype, "low"), _bound(high, np.inf, dtype, "high")
    whole = (low.shape or high.shape) if shape is None else shape_of(shape)
    lows, highs = number_array(low, whole, dtype, "low"), number_array(high, whole, dtype, "high")
    if (lows > highs).any():
        index = tuple(np.argwhere(lows > highs)[0].tolist())
        raise ValueError(
            f"low must not be above high, was {lows[index]} above {highs[index]} at {list(index)}"
        )
    return lows, highs


def _bound(value: Any, nothing: float, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """The numbers of a bound; `nothing` is the infinity that stands for none on its side."""
    numbers = _numbers(value, name)
    if np.asarray(numbers == -nothing).any():
        raise ValueError(f"{name} must leave room for values, was {value!r}")
    is_nothing = np.asarray(numbers == nothing)
    if dtype.kind == "f" or not is_nothing.any():
        return numbers
    least, most = whole_limits(dtype)
    return np.where(is_nothing, np.array(least if nothing < 0 else most, object), numbers)


def _numbers(bound: Any, name: str) -> NDArray[Any]:
    # Lists become arrays of Python's own numbers: NumPy would make floats of [-1, 2**63].
    array = np.asarray(bound) if hasattr(bound, "__array__") else np.asarray(bound, dtype=object)
    numbers = array.ravel().tolist() if array.dtype.kind == "O" else []
    if array.dtype.kind not in "biufO" or not all(_is_number(number) for number in numbers):
        raise ValueError(f"{name} must be a number or an array of numbers, was {bound!r}")
    if np.asarray(array != array).any():
        raise ValueError(f"{name} must not be NaN, was {bound!r}")
    return array


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating))


def _fit_floats(array: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    wide = array.astype(np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(dtype)
    if (np.isinf(narrow) & np.isfinite(wide)).any():
        raise ValueError(f"{name} must fit {dtype}, was {wide[np.isinf(narrow)].flat[0]}")
    # Adding zero turns -0.0 into 0.0, so that equal boxes have equal bytes.
    return np.asarray(narrow + dtype.type(0))


def _fit_whole_numbers(array: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    if np.can_cast(array.dtype, dtype):
        return array.astype(dtype)
    least, most = whole_limits(dtype)
    numbers = array.ravel().tolist()
    for number in numbers:
        if number != int(number) or not least <= number <= most:
            raise ValueError(
                f"{name} must be a whole number that fits {dtype}, from {least} to {most}, "
                f"was {number}"
            )
    return np.array([int(number) for number in numbers], dtype=dtype).reshape(array.shape)


def whole_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the greatest number of an integer or bool dtype."""
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
