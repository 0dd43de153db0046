"""Torch backend: tensors on a device, with the random numbers of NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.backend.numpy_ops import NumpyOps
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

_NUMPY = NumpyOps()


@dataclass(frozen=True)
class TorchOps:
    """`BackendOps` for `torch.Tensor`; torch is imported by the first operation."""

    device: str | None = None
    """Device of new tensors, such as "cpu" or "cuda:0"; None is torch's default."""

    def zeros(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Any:
        """Tensor of zeros."""
        return _torch().zeros(tuple(shape), dtype=_torch_dtype(dtype), device=self.device)

    def ones(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Any:
        """Tensor of ones."""
        return _torch().ones(tuple(shape), dtype=_torch_dtype(dtype), device=self.device)

    def concatenate(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Concatenate tensors along an existing axis."""
        return _torch().cat(tuple(arrays), dim=axis)

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Stack tensors along a new axis."""
        return _torch().stack(tuple(arrays), dim=axis)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        """Clip values to [low, high]."""
        low, high = (
            _torch().as_tensor(bound, dtype=x.dtype, device=x.device) for bound in (low, high)
        )
        return _torch().clamp(x, low, high)

    def astype(self, x: Any, dtype: DTypeLike) -> Any:
        """Copy a tensor or NumPy array to a new tensor of `dtype`."""
        tensor = x if self.is_array(x) else _torch().from_numpy(np.array(x))
        return tensor.to(device=self.device, dtype=_torch_dtype(dtype), copy=self.is_array(x))

    def random_uniform(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.float32,
    ) -> Any:
        """Draw uniform floats in [low, high), the same as NumPy."""
        return self.astype(_NUMPY.random_uniform(rng, low, high, shape, dtype), dtype)

    def random_integers(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.int64,
    ) -> Any:
        """Draw uniform integers in [low, high), the same as NumPy."""
        return self.astype(_NUMPY.random_integers(rng, low, high, shape, dtype), dtype)

    def is_array(self, x: object) -> bool:
        """Return True if `x` is a tensor."""
        return isinstance(x, _torch().Tensor)

    def array_equal(self, a: Any, b: Any) -> bool:
        """Return True if two tensors have the same shape and values."""
        return bool(a.shape == b.shape and (a == b).all())

    def to_numpy(self, x: Any) -> NDArray[Any]:
        """Convert a tensor on any device, with or without gradient, to NumPy."""
        if not self.is_array(x):
            return np.asarray(x)
        tensor = x.detach().cpu()
        # NumPy has no bfloat16, and float32 holds each of its values exactly.
        array: NDArray[Any] = (
            tensor.float() if tensor.dtype is _torch().bfloat16 else tensor
        ).numpy()
        return array


def _torch() -> Any:
    return optional_import("torch", "torch", "the torch backend")


def _torch_dtype(dtype: DTypeLike) -> Any:
    return getattr(_torch(), np.dtype(dtype).name)
