"""Conversion of spaces and their values between sekai and gymnasium.

Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple have exact counterparts. Two
spaces of sekai have none, and become a larger set:

- a `Simplex` becomes the `Box` around it, without the constraint on the sum; values converted back
  are projected onto the simplex;
- a `MaskedBox` becomes a `Dict` of a `Box` that includes zero and a `MultiBinary`, without the
  constraint on empty slots; values converted back are zero there and clipped elsewhere.

gymnasium's Graph, Text, Sequence and OneOf have no counterpart and are rejected. Values are one
value or a batch along a leading axis.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import singledispatch
from typing import Any

import gymnasium.spaces as theirs
import numpy as np
from numpy.typing import NDArray

from sekai import spaces as ours
from sekai.backend import as_numpy
from sekai.error import SpaceError
from sekai.spaces.numbers import require_real

__all__ = [
    "owned",
    "space_from_gymnasium",
    "space_to_gymnasium",
    "value_from_gymnasium",
    "value_to_gymnasium",
]


@singledispatch
def space_to_gymnasium(space: ours.Space[Any]) -> theirs.Space[Any]:
    """Convert a space to gymnasium; register a converter here for your own spaces.

    Raises:
        SpaceError: gymnasium has no such space.
    """
    raise SpaceError(
        f"gymnasium has no counterpart of {type(space).__name__}; register a converter with "
        "space_to_gymnasium.register"
    )


@singledispatch
def space_from_gymnasium(space: theirs.Space[Any]) -> ours.Space[Any]:
    """Convert a space of gymnasium to sekai.

    Raises:
        SpaceError: sekai has no such space.
    """
    raise SpaceError(
        f"sekai has no counterpart of gymnasium's {type(space).__name__}; expected Box, Discrete, "
        "MultiDiscrete, MultiBinary, Dict or Tuple: wrap the env so that it uses one of them"
    )


@space_to_gymnasium.register
def _(space: ours.Box) -> theirs.Box:
    return theirs.Box(space.low.copy(), space.high.copy(), space.shape, space.dtype.type)


@space_to_gymnasium.register
def _(space: ours.Discrete) -> theirs.Discrete:
    return theirs.Discrete(space.n, start=space.start)


@space_to_gymnasium.register
def _(space: ours.MultiDiscrete) -> theirs.MultiDiscrete:
    return theirs.MultiDiscrete(space.nvec.copy(), start=space.start.copy())


@space_to_gymnasium.register
def _(space: ours.MultiBinary) -> theirs.MultiBinary:
    return theirs.MultiBinary(space.n)


@space_to_gymnasium.register
def _(space: ours.Simplex) -> theirs.Box:
    return theirs.Box(np.zeros_like(space.caps), space.caps.copy(), space.shape, space.dtype.type)


@space_to_gymnasium.register
def _(space: ours.MaskedBox) -> theirs.Dict:
    values = space_to_gymnasium(space.parts["values"])
    return theirs.Dict(OrderedDict(values=values, mask=theirs.MultiBinary(space.slots)))


@space_to_gymnasium.register
def _(space: ours.Dict) -> theirs.Dict:
    # gymnasium would sort the keys of a plain dict.
    return theirs.Dict(OrderedDict((key, space_to_gymnasium(part)) for key, part in space.items()))


@space_to_gymnasium.register
def _(space: ours.Tuple) -> theirs.Tuple[Any]:
    return theirs.Tuple([space_to_gymnasium(part) for part in space])


@space_from_gymnasium.register
def _(space: theirs.Box) -> ours.Box:
    return ours.Box(space.low, space.high, space.shape, space.dtype)


@space_from_gymnasium.register
def _(space: theirs.Discrete) -> ours.Discrete:
    return ours.Discrete(int(space.n), int(space.start))


@space_from_gymnasium.register
def _(space: theirs.MultiDiscrete) -> ours.MultiDiscrete:
    return ours.MultiDiscrete(space.nvec, space.start)


@space_from_gymnasium.register
def _(space: theirs.MultiBinary) -> ours.MultiBinary:
    n = space.n
    return ours.MultiBinary(int(n) if isinstance(n, (int, np.integer)) else tuple(n))


@space_from_gymnasium.register
def _(space: theirs.Dict) -> ours.Dict:
    return ours.Dict({key: space_from_gymnasium(part) for key, part in space.spaces.items()})


@space_from_gymnasium.register(theirs.Tuple)
def _(space: theirs.Tuple[Any]) -> ours.Tuple:
    return ours.Tuple([space_from_gymnasium(part) for part in space.spaces])


BISECTIONS = 64
"""Enough for a number between 0 and 1 to the last bit."""


def value_to_gymnasium(space: ours.Space[Any], value: Any) -> Any:
    """Convert a value of a sekai space to gymnasium."""
    if isinstance(space, ours.Dict):
        return {key: value_to_gymnasium(part, value[key]) for key, part in space.items()}
    if isinstance(space, ours.Tuple):
        return tuple(map(value_to_gymnasium, space, value))
    if isinstance(space, ours.MaskedBox):
        used = as_numpy(space.backend, value["mask"]).astype(np.int8)
        return {"values": as_numpy(space.backend, value["values"]), "mask": used}
    if space.dtype is None:
        return value
    array = as_numpy(space.backend, value)
    if isinstance(space, ours.Simplex):
        # A weight may exceed its cap by sekai's tolerance, which gymnasium has not.
        array = np.minimum(array, space.caps)
    if isinstance(space, ours.Discrete):
        # gymnasium expects a scalar, not an array without axes.
        return np.int64(array) if array.ndim == 0 else array.astype(np.int64, copy=False)
    return array.astype(space.dtype, copy=False)


def value_from_gymnasium(space: ours.Space[Any], value: Any) -> Any:
    """Convert a value of gymnasium's counterpart of `space` to sekai."""
    if isinstance(space, ours.Dict):
        return {key: value_from_gymnasium(part, value[key]) for key, part in space.items()}
    if isinstance(space, ours.Tuple):
        return tuple(map(value_from_gymnasium, space, value))
    if isinstance(space, ours.MaskedBox):
        return _padded(space, value["values"], value["mask"])
    if isinstance(space, ours.Simplex):
        return _projected(space, np.asarray(require_real(value)))
    return value


def owned(value: Any) -> Any:
    """Copy the arrays of a nested value."""
    if isinstance(value, dict):
        return {key: owned(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(owned, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def _padded(space: ours.MaskedBox, values: Any, mask: Any) -> dict[str, Any]:
    values, used = np.clip(values, space.low, space.high), np.asarray(mask).astype(np.bool_)
    rows = used.reshape(*used.shape, *(1,) * (values.ndim - used.ndim))
    return {"values": np.where(rows, values, values.dtype.type(0)), "mask": used}


def _projected(space: ours.Simplex, values: NDArray[Any]) -> NDArray[Any]:
    """Project weights onto the simplex with caps; valid weights stay as they are.

    The projection is `clip(values - shift, 0, caps)` with the shift that makes it sum to one.
    """
    if values.ndim > 1:
        return np.stack([_projected(space, row) for row in values])
    if values in space:
        return values
    wide, caps = values.astype(np.float64), space.caps.astype(np.float64)
    low, high = float((wide - caps).min()), float(wide.max())
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_too_much = np.clip(wide - middle, 0.0, caps).sum() > 1.0
        low, high = (middle, high) if is_too_much else (low, middle)
    return np.clip(wide - high, 0.0, caps).astype(space.dtype)
