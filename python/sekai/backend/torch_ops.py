"""The torch backend: the same numbers as NumPy's, as tensors on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.backend.numpy_ops import NumpyOps
from sekai.error import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

_NUMPY = NumpyOps()


@dataclass(frozen=True)
class TorchOps:
    """`BackendOps` on `torch.Tensor`; torch is imported when an operation is first called."""

    device: str | None = None
    """Where tensors are made, such as "cpu" or "cuda:0"; None leaves it to torch."""

    def zeros(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Any:
        """A tensor of zeros."""
        return _torch().zeros(tuple(shape), dtype=_torch_dtype(dtype), device=self.device)

    def ones(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Any:
        """A tensor of ones."""
        return _torch().ones(tuple(shape), dtype=_torch_dtype(dtype), device=self.device)

    def concatenate(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """The tensors one after another along an axis they have."""
        return _torch().cat(tuple(arrays), dim=axis)

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """The tensors side by side along a new axis."""
        return _torch().stack(tuple(arrays), dim=axis)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        """`x` with what is below `low` or above `high` moved to that bound."""
        low, high = (
            _torch().as_tensor(bound, dtype=x.dtype, device=x.device) for bound in (low, high)
        )
        return _torch().clamp(x, low, high)

    def astype(self, x: Any, dtype: DTypeLike) -> Any:
        """A new tensor with the values of `x`, a tensor or a NumPy array, in `dtype`."""
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
        """Uniform numbers from `low` to `high`, the ones NumPy would draw."""
        return self.astype(_NUMPY.random_uniform(rng, low, high, shape, dtype), dtype)

    def random_integers(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.int64,
    ) -> Any:
        """Uniform whole numbers from `low` up to and without `high`, the ones NumPy would draw."""
        return self.astype(_NUMPY.random_integers(rng, low, high, shape, dtype), dtype)

    def is_array(self, x: object) -> bool:
        """Whether `x` is a tensor."""
        return isinstance(x, _torch().Tensor)

    def array_equal(self, a: Any, b: Any) -> bool:
        """Whether two tensors have one shape and the same values."""
        return bool(a.shape == b.shape and (a == b).all())

    def to_numpy(self, x: Any) -> NDArray[Any]:
        """The values of a tensor on any device, with or without a gradient."""
        if not self.is_array(x):
            return np.asarray(x)
        tensor = x.detach().cpu()
        # NumPy has no bfloat16, and float32 holds each of its values exactly.
        array: NDArray[Any] = (
            tensor.float() if tensor.dtype is _torch().bfloat16 else tensor
        ).numpy()
        return array


def _torch() -> Any:
    try:
        import torch
    except ImportError as cause:
        raise MissingExtraError.of("torch", "torch", "the torch backend") from cause
    return torch


def _torch_dtype(dtype: DTypeLike) -> Any:
    return getattr(_torch(), np.dtype(dtype).name)
