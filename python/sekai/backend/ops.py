"""What an array library must offer to make the arrays of spaces and vector envs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray


@runtime_checkable
class BackendOps(Protocol):
    """The operations of one array library.

    Dtypes are NumPy's, whatever the library. Random numbers come from a NumPy generator, so that
    every backend draws the same ones. A backend whose arrays `numpy.asarray` cannot read (they
    live on another device, say) also has a method `to_numpy(x)`.
    """

    def zeros(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Any:
        """An array of zeros."""

    def ones(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Any:
        """An array of ones."""

    def concatenate(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """The arrays one after another along an axis they have."""

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """The arrays side by side along a new axis."""

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        """`x` with what is below `low` or above `high` moved to that bound."""

    def astype(self, x: Any, dtype: DTypeLike) -> Any:
        """A new array of this backend with the values of `x`, which may be a NumPy array."""

    def random_uniform(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.float32,
    ) -> Any:
        """Uniform numbers from `low` to `high`."""

    def random_integers(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.int64,
    ) -> Any:
        """Uniform whole numbers from `low` up to and without `high`."""

    def is_array(self, x: object) -> bool:
        """Whether `x` is an array of this backend."""

    def array_equal(self, a: Any, b: Any) -> bool:
        """Whether two arrays have one shape and the same values."""


def as_numpy(backend: BackendOps, x: Any) -> NDArray[Any]:
    """The values of `x`, an array of `backend`, as a NumPy array that may share its memory."""
    convert = getattr(backend, "to_numpy", np.asarray)
    array: NDArray[Any] = convert(x)
    return array
