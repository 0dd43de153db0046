"""Backend interface `BackendOps`, and `get_backend`, which selects one by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from sekai.backend.numpy_ops import NumpyOps
from sekai.backend.torch_ops import TorchOps
from sekai.error import MissingExtraError
from sekai.storage.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray


@runtime_checkable
class BackendOps(Protocol):
    """Operations of one array library.

    Dtypes are NumPy's, whatever the library. Random numbers come from a NumPy generator, so that
    every backend draws the same ones. A backend whose arrays `numpy.asarray` cannot read (they are
    on another device, say) also has a method `to_numpy(x)`.
    """

    def zeros(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Any:
        """Array of zeros."""

    def ones(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Any:
        """Array of ones."""

    def concatenate(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Concatenate arrays along an existing axis."""

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Stack arrays along a new axis."""

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        """Clip values to [low, high]."""

    def astype(self, x: Any, dtype: DTypeLike) -> Any:
        """Copy `x`, possibly a NumPy array, to a new array of this backend."""

    def random_uniform(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.float32,
    ) -> Any:
        """Draw uniform floats in [low, high)."""

    def random_integers(
        self,
        rng: np.random.Generator,
        low: Any,
        high: Any,
        shape: Sequence[int],
        dtype: DTypeLike = np.int64,
    ) -> Any:
        """Draw uniform integers in [low, high)."""

    def is_array(self, x: object) -> bool:
        """Return True if `x` is an array of this backend."""

    def array_equal(self, a: Any, b: Any) -> bool:
        """Return True if two arrays have the same shape and values."""


def as_numpy(backend: BackendOps, x: Any) -> NDArray[Any]:
    """Convert an array of `backend` to NumPy, possibly sharing its memory."""
    convert = getattr(backend, "to_numpy", np.asarray)
    array: NDArray[Any] = convert(x)
    return array


Backend: TypeAlias = "str | BackendOps"
"""Backend argument: a name, or an object with the operations."""

_NAMED: Mapping[str, BackendOps] = {"numpy": NumpyOps(), "torch": TorchOps()}


def get_backend(name_or_ops: Backend) -> BackendOps:
    """Return a backend by name, or the object itself if it has all operations.

    Args:
        name_or_ops: "numpy", "torch", or an object that implements `BackendOps`.

    Raises:
        ValueError: the name is unknown, or the object lacks operations.
        MissingExtraError: the backend's package is not installed.
    """
    if isinstance(name_or_ops, (NumpyOps, TorchOps)):
        return name_or_ops
    if isinstance(name_or_ops, str):
        return _named(name_or_ops)
    if isinstance(name_or_ops, BackendOps) and not isinstance(name_or_ops, type):
        return name_or_ops
    raise ValueError(
        f"backend must be one of {sorted(_NAMED)} or an object with all methods of "
        f"BackendOps, got {name_or_ops!r}"
    )


def _named(name: str) -> BackendOps:
    if name not in _NAMED:
        raise ValueError(f"unknown backend {name!r}{did_you_mean(name, _NAMED)}")
    if name == "torch":
        _require_torch()
    return _NAMED[name]


def _require_torch() -> None:
    # find_spec is fast; torch is imported by the first operation.
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise MissingExtraError.of("torch", "torch", "the torch backend")
