"""Checked integers, shapes, dtypes and bounds, and random draws between bounds."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from sekai.error import InvalidActionError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_DTYPES = "bool, integer, float16, float32 or float64"


def number_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return a dtype that a box supports, in native byte order."""
    try:
        # By its name, so that two spellings of one dtype are the same object.
        result: np.dtype[Any] | None = None if dtype is None else np.dtype(np.dtype(dtype).name)
    except TypeError:
        result = None
    if result is None or result.kind not in "biuf" or result.itemsize > 8:
        raise ValueError(f"dtype must be {_DTYPES}, got {dtype!r}")
    return result


def number_array(
    value: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any], name: str
) -> NDArray[Any]:
    """Return a new array of `dtype` and `shape` from one number or an array of numbers.

    Args:
        value: the user's argument.
        shape: None takes the shape of `value`.
        dtype: dtype of the result.
        name: name of the argument in errors.

    Raises:
        ValueError: a number is NaN or does not fit `dtype`, or the shapes disagree.
    """
    numbers = _numbers(value, name)
    try:
        fit = _fit_floats if dtype.kind == "f" else _fit_whole_numbers
        array: NDArray[Any] = fit(numbers, dtype, name)
    except OverflowError as cause:
        raise ValueError(f"{name} must fit {dtype}, got {value!r}") from cause
    expected = array.shape if shape is None else shape
    if array.shape not in ((), expected):
        raise ValueError(f"{name} must be a number or have the shape {expected}, got {array.shape}")
    return np.array(np.broadcast_to(array, expected))


def bound_arrays(
    low: Any, high: Any, shape: Any, dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return arrays of both bounds with one shape; None takes it from the array bound.

    An infinite integer bound becomes the limit of the dtype.
    """
    low, high = _bound(low, -np.inf, dtype, "low"), _bound(high, np.inf, dtype, "high")
    common_shape = (low.shape or high.shape) if shape is None else shape_of(shape)
    lows, highs = (
        number_array(low, common_shape, dtype, "low"),
        number_array(high, common_shape, dtype, "high"),
    )
    if (lows > highs).any():
        index = tuple(np.argwhere(lows > highs)[0].tolist())
        raise ValueError(
            f"low must not be above high, got {lows[index]} above {highs[index]} at {list(index)}"
        )
    return lows, highs


def _bound(value: Any, nothing: float, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """Return the numbers of a bound; `nothing` is the infinity that means unbounded on its side."""
    numbers = _numbers(value, name)
    if np.asarray(numbers == -nothing).any():
        raise ValueError(f"{name} must leave at least one value, got {value!r}")
    is_nothing = np.asarray(numbers == nothing)
    if dtype.kind == "f" or not is_nothing.any():
        return numbers
    least, most = integer_limits(dtype)
    return np.where(is_nothing, np.array(least if nothing < 0 else most, object), numbers)


def _numbers(bound: Any, name: str) -> NDArray[Any]:
    # Lists become arrays of Python's own numbers: NumPy would make floats of [-1, 2**63].
    array = np.asarray(bound) if hasattr(bound, "__array__") else np.asarray(bound, dtype=object)
    numbers = array.ravel().tolist() if array.dtype.kind == "O" else []
    if array.dtype.kind not in "biufO" or not all(_is_number(number) for number in numbers):
        raise ValueError(f"{name} must be a number or an array of numbers, got {bound!r}")
    if np.asarray(array != array).any():
        raise ValueError(f"{name} must not be NaN, got {bound!r}")
    return array


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating))


def _fit_floats(array: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    wide = array.astype(np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(dtype)
    if (np.isinf(narrow) & np.isfinite(wide)).any():
        raise ValueError(f"{name} must fit {dtype}, got {wide[np.isinf(narrow)].flat[0]}")
    # Adding zero turns -0.0 into 0.0, so that equal boxes have equal bytes.
    return np.asarray(narrow + dtype.type(0))


def _fit_whole_numbers(array: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    if np.can_cast(array.dtype, dtype):
        return array.astype(dtype)
    least, most = integer_limits(dtype)
    numbers = array.ravel().tolist()
    for number in numbers:
        if number != int(number) or not least <= number <= most:
            raise ValueError(
                f"{name} must be an integer that fits {dtype}, from {least} to {most}, got {number}"
            )
    return np.array([int(number) for number in numbers], dtype=dtype).reshape(array.shape)


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest and largest value of an integer or bool dtype."""
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def checked_integer(value: Any, name: str, minimum: int | None = None) -> int:
    """Return `value` as an int, or raise `ValueError` if it is none or below `minimum`."""
    number = None if _is_bool(value) else _index(value)
    if number is None or (minimum is not None and number < minimum):
        least = "" if minimum is None else f" of at least {minimum}"
        raise ValueError(f"{name} must be an integer{least}, got {value!r}")
    return number


def shape_of(value: Any, name: str = "shape") -> tuple[int, ...]:
    """Return an integer or a sequence of integers as a shape."""
    sizes = value if isinstance(value, Iterable) else (value,)
    shape = tuple(checked_integer(size, f"each size in {name}", 0) for size in sizes)
    if math.prod(shape) > sys.maxsize:
        raise ValueError(f"{name} must have a number of elements that fits memory, got {shape}")
    return shape


def _is_bool(value: Any) -> bool:
    # Python and NumPy treat True as a number; as a count it is a mistake.
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


def _index(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None


Draw: TypeAlias = "Callable[[np.random.Generator], NDArray[Any]]"

# Up to here scaling a 53-bit uniform number is uniform to one part in 2**29, and several times
# faster than drawing integers without any bias.
FEW = 2**24


def draw_below(rng: np.random.Generator, count: int) -> int:
    """Draw a uniform integer in [0, count)."""
    if count <= FEW:
        return int(rng.random() * count)
    return int(rng.integers(0, count - 1, dtype=np.uint64, endpoint=True))


def draw_between(low: NDArray[Any], high: NDArray[Any]) -> Draw:
    """Return a function that draws arrays between `low` and `high`, both included.

    Elements with two bounds are uniform, with one bound exponential from it, without bounds normal.
    """
    return _floats(low, high) if low.dtype.kind == "f" else _whole_numbers(low, high)


def _whole_numbers(low: NDArray[Any], high: NDArray[Any]) -> Draw:
    kind, shape = low.dtype.type, low.shape
    if low.size and (low == low.flat[0]).all() and (high == high.flat[0]).all():
        # One pair of Python numbers is drawn several times faster than arrays of them.
        least, most = int(low.flat[0]), int(high.flat[0])
        return lambda rng: rng.integers(least, most, size=shape, dtype=kind, endpoint=True)
    return lambda rng: np.asarray(rng.integers(low, high, dtype=kind, endpoint=True))


def _floats(low: NDArray[Any], high: NDArray[Any]) -> Draw:
    dtype, largest = low.dtype, float(np.finfo(low.dtype).max)
    low, high = low.astype(np.float64), high.astype(np.float64)
    below, above = np.isfinite(low), np.isfinite(high)
    kinds = [
        (below & above, _uniform),
        (below & ~above, lambda low, _: _exponential(low, largest)),
        (~below & above, lambda _, high: _negative_exponential(high, largest)),
        (~below & ~above, lambda low, _: _normal(low.shape)),
    ]
    for where, kind in kinds:
        if where.all():
            draw = kind(low, high)
            return lambda rng: np.asarray(draw(rng), dtype)
    parts = [(where, kind(low[where], high[where])) for where, kind in kinds if where.any()]
    return lambda rng: np.asarray(_assembled(rng, parts, low.shape), dtype)


def _assembled(
    rng: np.random.Generator, parts: list[tuple[NDArray[Any], Draw]], shape: tuple[int, ...]
) -> NDArray[Any]:
    values = np.empty(shape)
    for where, draw in parts:
        values[where] = draw(rng)
    return values


def _uniform(low: NDArray[Any], high: NDArray[Any]) -> Draw:
    with np.errstate(over="ignore"):
        span = high - low
    if not np.isfinite(span).all():
        return lambda rng: _between_extremes(rng, low, high)

    def draw(rng: np.random.Generator) -> NDArray[Any]:
        values = rng.random(low.shape)
        values *= span
        values += low
        # Never above `high`: the fraction is at most 1 - 2**-53, which takes more off the product
        # than the rounding of the span can have added.
        return values

    return draw


def _between_extremes(
    rng: np.random.Generator, low: NDArray[Any], high: NDArray[Any]
) -> NDArray[Any]:
    # Here high - low overflows, so each bound is scaled before they are added.
    fraction = rng.random(low.shape)
    values = low * (1.0 - fraction) + high * fraction
    return np.asarray(np.minimum(np.maximum(values, low), high))


def _exponential(low: NDArray[Any], largest: float) -> Draw:
    # The dtype may hold less than the float64 that is drawn: end at its largest number.
    return lambda rng: np.minimum(rng.standard_exponential(low.shape) + low, largest)


def _negative_exponential(high: NDArray[Any], largest: float) -> Draw:
    return lambda rng: np.maximum(high - rng.standard_exponential(high.shape), -largest)


def _normal(shape: tuple[int, ...]) -> Draw:
    return lambda rng: rng.standard_normal(shape)


Value = TypeVar("Value")


def require_real(action: Value) -> Value:
    """Return the action, or raise `InvalidActionError` if it has complex numbers."""
    value: Any = action
    if np.iscomplexobj(value):
        raise InvalidActionError(
            f"action has complex numbers; expected real numbers, got {action!r}; pass its real "
            f"part if that is intended"
        )
    return action
