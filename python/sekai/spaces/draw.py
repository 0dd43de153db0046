"""Random numbers between bounds: uniform, exponential or normal as the bounds allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Draw: TypeAlias = "Callable[[np.random.Generator], NDArray[Any]]"

# Up to here scaling a 53-bit uniform number is uniform to one part in 2**29, and several times
# faster than drawing whole numbers without any bias.
FEW = 2**24


def draw_below(rng: np.random.Generator, count: int) -> int:
    """A uniform whole number from 0 up to and without `count`."""
    if count <= FEW:
        return int(rng.random() * count)
    return int(rng.integers(0, count - 1, dtype=np.uint64, endpoint=True))


def draw_between(low: NDArray[Any], high: NDArray[Any]) -> Draw:
    """A function that draws an array with each element from `low` to `high`, both possible.

    Elements with two bounds are uniform, with one bound exponential away from it, with none normal.
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
