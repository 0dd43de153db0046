"""NumPy backend: the default, and the random number source of every backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray


@dataclass(frozen=True)
class NumpyOps:
    """`BackendOps` for `numpy.ndarray`."""

    def zeros(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Array of zeros."""
        return np.zeros(shape, dtype)

    def ones(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Array of ones."""
        return np.ones(shape, dtype)

    def concatenate(self, arrays: Sequence[Any], axis: int = 0) -> NDArray[Any]:
        """Concatenate arrays along an existing axis."""
        return np.concatenate(arrays, axis=axis)

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> NDArray[Any]:
        """Stack arrays along a new axis."""
        return np.stack(arrays, axis=axis)

    def clip(self, x: Any, low: Any, high: Any) -> NDArray[Any]:
        """Clip values to [low, high]."""
        return np.asarray(np.clip(x, low, high))

    def astype(self, x: Any, dtype: DTypeLike) -> NDArray[Any]:
        """Copy `x` to a new array of `dtype`."""
        return np.array(x, dtype=dtype)

    def random_uniform(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.float32,
    ) -> NDArray[Any]:
        """Draw uniform floats in [low, high)."""
        return np.asarray(rng.uniform(low, high, tuple(shape))).astype(dtype)

    def random_integers(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.int64,
    ) -> NDArray[Any]:
        """Draw uniform integers in [low, high)."""
        return np.asarray(rng.integers(low, high, tuple(shape), dtype=np.dtype(dtype).type))

    def is_array(self, x: object) -> bool:
        """Return True if `x` is a NumPy array."""
        return isinstance(x, np.ndarray)

    def array_equal(self, a: Any, b: Any) -> bool:
        """Return True if two arrays have the same shape and values."""
        return bool(np.array_equal(a, b))
