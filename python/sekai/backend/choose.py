"""Find a backend by its name, or take the one that is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sekai.backend.numpy_ops import NumpyOps
from sekai.backend.ops import BackendOps
from sekai.backend.torch_ops import TorchOps
from sekai.error import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Mapping

Backend: TypeAlias = "str | BackendOps"
"""A backend as users give it: its name or an object with its operations."""

_NAMED: Mapping[str, BackendOps] = {"numpy": NumpyOps(), "torch": TorchOps()}


def get_backend(name_or_ops: Backend) -> BackendOps:
    """The operations of the backend with that name, or the given object when it has them all.

    Args:
        name_or_ops: "numpy", "torch", or an object that follows `BackendOps`.

    Raises:
        ValueError: no backend has the name, or the object lacks operations.
        MissingExtraError: the backend's package is not installed.
    """
    if isinstance(name_or_ops, (NumpyOps, TorchOps)):
        return name_or_ops
    if isinstance(name_or_ops, str):
        return _named(name_or_ops)
    if isinstance(name_or_ops, BackendOps) and not isinstance(name_or_ops, type):
        return name_or_ops
    raise ValueError(
        f"backend must be one of {sorted(_NAMED)} or an object with every operation of "
        f"BackendOps, was {name_or_ops!r}"
    )


def _named(name: str) -> BackendOps:
    if name not in _NAMED:
        raise ValueError(f"backend must be one of {sorted(_NAMED)}, was {name!r}{_hint(name)}")
    if name == "torch":
        _require_torch()
    return _NAMED[name]


def _hint(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), _NAMED, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _require_torch() -> None:
    # Finding the package is quick, importing it is not: that waits until a tensor is made.
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise MissingExtraError.of("torch", "torch", "the torch backend")
