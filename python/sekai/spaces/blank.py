"""Blank samples: placeholders with the structure of a space that carry no information."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.backend import NumpyOps, as_numpy
from sekai.error import SpaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sekai.spaces.space import Space


def blank_sample(space: Space[Any]) -> Any:
    """Return a placeholder with the structure, shapes and dtypes of a sample.

    Floats are NaN, times NaT, integers the maximum of their dtype, bools True.
    """
    # Sample a copy, so that the space's own generator does not advance.
    return _blank(space, copy.deepcopy(space).sample())


def is_blank(value: Any) -> bool:
    """Return True if every value is the one that `blank_sample` uses.

    A Python bool counts as data, as `blank_sample` never returns one.
    """
    return all(
        not isinstance(leaf, bool) and _is_blank_array(np.asarray(leaf)) for leaf in _leaves(value)
    )


def _blank(space: Space[Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _blank(space, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_blank(space, part) for part in value])
    is_foreign = space.backend.is_array(value) and not isinstance(space.backend, NumpyOps)
    array = as_numpy(space.backend, value) if is_foreign else np.asarray(value)
    filled = np.full(array.shape, _filler(array.dtype), array.dtype)
    if is_foreign:
        return space.backend.astype(filled, filled.dtype)
    return filled[()] if isinstance(value, np.generic) else filled


def _filler(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "fc":
        return np.nan
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    if dtype.kind in "mM":
        return np.array("NaT", dtype)
    if dtype.kind == "b":
        return True
    raise SpaceError(f"expected an observation of numbers, times or bools, got dtype {dtype}")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _is_blank_array(array: NDArray[Any]) -> bool:
    if array.dtype.kind in "fcmM":
        return bool(np.all(array != array))
    return array.dtype.kind in "iub" and bool(np.all(array == _filler(array.dtype)))
