"""The NumPy backend: the default, and the source of every backend's random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray


@dataclass(frozen=True)
class NumpyOps:
    """`BackendOps` on `numpy.ndarray`."""

    def zeros(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """An array of zeros."""
        return np.zeros(shape, dtype)

    def ones(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """An array of ones."""
        return np.ones(shape, dtype)

    def concatenate(self, arrays: Sequence[Any], axis: int = 0) -> NDArray[Any]:
        """The arrays one after another along an axis they have."""
        return np.concatenate(arrays, axis=axis)

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> NDArray[Any]:
        """The arrays side by side along a new axis."""
        return np.stack(arrays, axis=axis)

    def clip(self, x: Any, low: Any, high: Any) -> NDArray[Any]:
        """`x` with what is below `low` or above `high` moved to that bound."""
        return np.asarray(np.clip(x, low, high))

    def astype(self, x: Any, dtype: DTypeLike) -> NDArray[Any]:
        """A new array with the values of `x` in `dtype`."""
        return np.array(x, dtype=dtype)

    def random_uniform(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.float32,
    ) -> NDArray[Any]:
        """Uniform numbers from `low` to `high`."""
        return np.asarray(rng.uniform(low, high, tuple(shape))).astype(dtype)

    def random_integers(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.int64,
    ) -> NDArray[Any]:
        """Uniform whole numbers from `low` up to and without `high`."""
        return np.asarray(rng.integers(low, high, tuple(shape), dtype=np.dtype(dtype).type))

    def is_array(self, x: object) -> bool:
        """Whether `x` is a NumPy array."""
        return isinstance(x, np.ndarray)

    def array_equal(self, a: Any, b: Any) -> bool:
        """Whether two arrays have one shape and the same values."""
        return bool(np.array_equal(a, b))
