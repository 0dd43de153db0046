"""Flattening: convert values of any space to a 1-D float array and back.

Each function dispatches on the type of the space. A custom space becomes flattenable with four
rules:

    @flatdim.register(MySpace)
    def _(space): ...

and the same for `flatten(space, x)`, `unflatten(space, flat)` and `flatten_space(space)`. A rule
returns its row, or its box, in any float dtype that represents the values; the functions convert it
to the dtype that the caller asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch, update_wrapper
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, overload

import numpy as np

from sekai.error import SpaceError
from sekai.spaces.box import Box
from sekai.spaces.dict import Dict
from sekai.spaces.discrete import Discrete
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.nested import require_structure
from sekai.spaces.simplex import Simplex
from sekai.spaces.tuple import Tuple

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from sekai.spaces.space import Space

__all__ = ["flatdim", "flatten", "flatten_space", "unflatten"]

Rule = TypeVar("Rule", bound=Callable[..., Any])


class _FloatHook:
    """`singledispatch` function whose result is cast to one float dtype."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.rules = singledispatch(function)
        update_wrapper(cast(Any, self), function)

    @overload
    def register(self, kind: type[Any]) -> Callable[[Rule], Rule]: ...
    @overload
    def register(self, kind: Rule) -> Rule: ...
    def register(self, kind: Any) -> Any:
        """Register a rule for a type of space, as `functools.singledispatch` does."""
        return self.rules.register(kind)

    def dispatch(self, kind: type[Any]) -> Callable[..., Any]:
        """Return the rule for a type of space."""
        return self.rules.dispatch(kind)


class _Flatten(_FloatHook):
    def __call__(self, space: Space[Any], x: Any, *, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        target = _float_dtype(dtype)
        row = self.rules(space, x)
        if isinstance(row, np.ndarray):
            return row if row.dtype == target else cast_row(row, target)
        # A tensor's dtype has no NumPy name, and a cast to the same dtype is cheap.
        made: NDArray[Any] = space.backend.astype(row, target)
        return made


class _FlattenSpace(_FloatHook):
    def __call__(self, space: Space[Any], *, dtype: DTypeLike = np.float32) -> Box:
        target = _float_dtype(dtype)
        box: Box = self.rules(space)
        if box.dtype == target:
            return box
        low, high = cast_row(box.low, target), cast_row(box.high, target)
        return Box(low, high, dtype=target, backend=box.backend)


@singledispatch
def flatdim(space: Space[Any]) -> int:
    """Number of floats that a value of the space flattens to.

    A number takes one, a `Discrete` one per value (one-hot). Integers beyond 2**53 take two, their
    upper and lower 32 bits, because no float represents them.
    """
    _no_rule("flatdim", space)


@_Flatten
def flatten(space: Space[Any], x: Any, *, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Flatten a value to a new 1-D float array of the space's backend.

    float32 represents integers up to 2**24 exactly and 24 bits of every number; values above 3.4e38
    become infinite. `dtype=np.float64` keeps every bit of every value.

    Args:
        space: space of `x`.
        x: the value.
        dtype: float dtype of the result.

    Raises:
        SpaceError: `x` does not have the structure or shape of the space.
        TypeError: the space, or one nested in it, has no rule.
    """
    _no_rule("flatten", space)


@singledispatch
def unflatten(space: Space[Any], flat: Any) -> Any:
    """Restore a value from its flattened form, exactly if `flat` is float64.

    Integers are rounded to the nearest: 2.9999998 is 3.

    Raises:
        SpaceError: `flat` has another length, or no value flattens to it.
        TypeError: the space, or one nested in it, has no rule.
    """
    _no_rule("unflatten", space)


@_FlattenSpace
def flatten_space(space: Space[Any], *, dtype: DTypeLike = np.float32) -> Box:
    """Return the `Box` of all flattened values of the space.

    Args:
        space: space whose values are flattened.
        dtype: float dtype of the box, as in `flatten`.
    """
    _no_rule("flatten_space", space)


def cast_row(row: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Cast floats to another dtype; overflow becomes infinite without a warning."""
    with np.errstate(over="ignore"):
        return row.astype(dtype)


def has_rules(space_type: type) -> bool:
    """Return True if all four functions have a rule for the type of space."""
    hooks = (flatdim, flatten, unflatten, flatten_space)
    return all(hook.dispatch(space_type) is not hook.dispatch(object) for hook in hooks)


def _float_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    checked = np.dtype(dtype)
    if checked.kind != "f":
        raise ValueError(f"dtype must be float32, float64 or another float, got {checked}")
    return checked


def _no_rule(hook: str, space: object) -> NoReturn:
    name = type(space).__name__
    raise TypeError(
        f"{hook} has no rule for {name}; register one with @sekai.spaces.utils.{hook}.register("
        f"{name})"
    )


@flatdim.register(Box)
def _box_dim(space: Box) -> int:
    return flat_size(space)


@flatten.register(Box)
def _flatten_box(space: Box, x: Any) -> Any:
    return space.to_backend(to_floats(space, _array(space, x)))


@unflatten.register(Box)
def _unflatten_box(space: Box, flat: Any) -> Any:
    return space.to_backend(from_floats(space, _row(space, flat)))


@flatten_space.register(Box)
def _flatten_box_space(space: Box) -> Box:
    return flat_box(space)


@flatdim.register(Discrete)
def _discrete_dim(space: Discrete) -> int:
    return space.n


@flatten.register(Discrete)
def _flatten_discrete(space: Discrete, x: Any) -> Any:
    _require(space, x)
    flat = np.zeros(space.n, np.float32)
    flat[int(x) - space.start] = 1
    return space.to_backend(flat)


@unflatten.register(Discrete)
def _unflatten_discrete(space: Discrete, flat: Any) -> Any:
    (hot,) = _row(space, flat).nonzero()
    if hot.size != 1:
        raise SpaceError(f"expected exactly one non-zero entry, got {hot.size}")
    return space.to_backend(np.intp(space.start + int(hot[0])))


@flatdim.register(MultiDiscrete)
def _multi_discrete_dim(space: MultiDiscrete) -> int:
    return sum(space.nvec.ravel().tolist())


@flatten.register(MultiDiscrete)
def _flatten_multi_discrete(space: MultiDiscrete, x: Any) -> Any:
    _require(space, x)
    positions = (space.to_numpy(x) - space.start).reshape(-1)
    flat = np.zeros(flatdim(space), np.float32)
    flat[space.offsets + positions] = 1
    return space.to_backend(flat)


@unflatten.register(MultiDiscrete)
def _unflatten_multi_discrete(space: MultiDiscrete, flat: Any) -> Any:
    (hot,) = _row(space, flat).nonzero()
    if hot.size == space.offsets.size:
        positions = (hot - space.offsets).reshape(space.shape)
        if ((positions >= 0) & (positions < space.nvec)).all():
            return space.to_backend(np.asarray(positions + space.start))
    raise SpaceError("expected exactly one non-zero entry per element")


@flatdim.register(MultiBinary)
def _multi_binary_dim(space: MultiBinary) -> int:
    return math.prod(space.shape)


@flatten.register(MultiBinary)
def _flatten_multi_binary(space: MultiBinary, x: Any) -> Any:
    return space.to_backend(_array(space, x).astype(np.float32).reshape(-1))


@unflatten.register(MultiBinary)
def _unflatten_multi_binary(space: MultiBinary, flat: Any) -> Any:
    return space.to_backend(rounded(_row(space, flat), space.dtype).reshape(space.shape))


@flatten_space.register(Discrete)
@flatten_space.register(MultiDiscrete)
@flatten_space.register(MultiBinary)
def _zero_one_space(space: Discrete | MultiDiscrete | MultiBinary) -> Box:
    return Box(0, 1, (flatdim(space),), np.float32, backend=space.backend)


@flatdim.register(Simplex)
@flatdim.register(MaskedBox)
def _loose_dim(space: Simplex | MaskedBox) -> int:
    return flatdim(_loose(space))


@flatten.register(Simplex)
@flatten.register(MaskedBox)
def _flatten_loose(space: Simplex | MaskedBox, x: Any) -> Any:
    return flatten.rules(_loose(space), x)


@unflatten.register(Simplex)
@unflatten.register(MaskedBox)
def _unflatten_loose(space: Simplex | MaskedBox, flat: Any) -> Any:
    return unflatten(_loose(space), flat)


@flatten_space.register(Simplex)
@flatten_space.register(MaskedBox)
def _flatten_loose_space(space: Simplex | MaskedBox) -> Box:
    box: Box = flatten_space.rules(_loose(space))
    return box


@flatdim.register(Dict)
@flatdim.register(Tuple)
def _nested_dim(space: Dict | Tuple) -> int:
    return sum(flatdim(child) for child in space.children().values())


@flatten.register(Dict)
@flatten.register(Tuple)
def _flatten_nested(space: Dict | Tuple, x: Any) -> Any:
    require_structure(space, [x])
    try:
        parts = [flatten.rules(child, x[key]) for key, child in space.children().items()]
    except SpaceError as cause:
        # The mismatch of the whole space includes the path to the value.
        raise SpaceError(space.mismatch(x) or str(cause)) from cause
    return space.backend.concatenate(parts)


@unflatten.register(Dict)
@unflatten.register(Tuple)
def _unflatten_nested(space: Dict | Tuple, flat: Any) -> Any:
    row, begin, values = _row(space, flat), 0, {}
    for key, child in space.children().items():
        end = begin + flatdim(child)
        values[key] = unflatten(child, row[begin:end])
        begin = end
    return values if isinstance(space, Dict) else tuple(values.values())


@flatten_space.register(Dict)
@flatten_space.register(Tuple)
def _flatten_nested_space(space: Dict | Tuple) -> Box:
    boxes = [flatten_space.rules(child) for child in space.children().values()]
    low = np.concatenate([box.low for box in boxes])
    high = np.concatenate([box.high for box in boxes])
    return Box(low, high, dtype=low.dtype, backend=space.backend)


def _loose(space: Simplex | MaskedBox) -> Box | Dict:
    # These spaces restrict the values of the looser one, not their layout.
    return space.box if isinstance(space, Simplex) else space.parts


def _array(space: Box | MultiBinary, x: Any) -> NDArray[Any]:
    array = space.to_numpy(x)
    if type(array) is np.ndarray and array.dtype is space.dtype and array.shape == space.shape:
        return array
    _require(space, x)
    return np.asarray(array, space.dtype)


def _require(space: Space[Any], x: Any) -> None:
    reason = space.mismatch(x)
    if reason is not None:
        raise SpaceError(reason)


def _row(space: Space[Any], flat: Any) -> NDArray[Any]:
    row, size = np.asarray(space.to_numpy(flat)), flatdim(space)
    if row.shape != (size,):
        raise SpaceError(f"expected a row of {size} floats, got shape {row.shape}")
    return row


# Integers beyond 2**53 fit no float. They become two each: all the upper halves, then the lower.
_HALF_BITS = 32
_LOWER_HALF = 2**_HALF_BITS - 1


def flat_size(box: Box) -> int:
    """Number of floats that an array of the box flattens to."""
    return box.low.size * (1 if box.exact_float is not None else 2)


def to_floats(box: Box, array: NDArray[Any]) -> NDArray[Any]:
    """Flatten an array of the box."""
    if box.exact_float is not None:
        return array.astype(box.exact_float).reshape(-1)
    upper, lower = array >> _HALF_BITS, array & array.dtype.type(_LOWER_HALF)
    return np.concatenate([upper.reshape(-1), lower.reshape(-1)]).astype(np.float64)


def from_floats(box: Box, flat: NDArray[Any]) -> NDArray[Any]:
    """Restore an array from `to_floats`; of rounded floats, the nearest array in the box."""
    wide = np.dtype(np.float64 if box.exact_float is None else box.exact_float)
    was_rounded = flat.dtype.kind == "f" and flat.dtype.itemsize < wide.itemsize
    if was_rounded:
        flat = _within_bounds(flat, flat_box(box))
    if box.exact_float is None:
        upper, lower = (rounded(half, box.dtype) for half in np.split(flat, 2))
        integers = np.asarray(upper << _HALF_BITS | lower).reshape(box.shape)
        # Each half may have been rounded up.
        return np.asarray(np.clip(integers, box.low, box.high)) if was_rounded else integers
    if box.dtype.kind == "f":
        return flat.astype(box.dtype).reshape(box.shape)
    return rounded(flat, box.dtype).reshape(box.shape)


def flat_box(box: Box) -> Box:
    """Return the box of flattened arrays."""
    if box.exact_float is not None:
        low, high, dtype = box.low.reshape(-1), box.high.reshape(-1), box.exact_float
        return Box(low, high, dtype=dtype, backend=box.backend)
    low, high = to_floats(box, box.low), to_floats(box, box.high)
    # Lower halves keep the box's own bounds only where the upper halves cannot differ.
    upper_differ = low[: box.low.size] != high[: box.low.size]
    free = np.concatenate([np.zeros_like(upper_differ), upper_differ])
    low[free], high[free] = 0, _LOWER_HALF
    return Box(low, high, dtype=np.float64, backend=box.backend)


def rounded(flat: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round floats to integers, or raise `SpaceError` if one does not fit `dtype`."""
    nearest: NDArray[Any] = np.rint(flat)
    with np.errstate(invalid="ignore"):
        integers = nearest.astype(dtype)
    if np.count_nonzero(integers != nearest):
        invalid = flat[integers != nearest][0]
        raise SpaceError(f"expected integers that fit {dtype}, got {invalid}")
    return integers


def _within_bounds(flat: NDArray[Any], box: Box) -> NDArray[Any]:
    """Clip values that rounding has moved past a bound."""
    low, high, wide = box.low, box.high, flat.astype(box.dtype)
    # Values further out were never in the box and stay unchanged.
    below = (wide < low) & (flat >= cast_row(low, flat.dtype))
    above = (wide > high) & (flat <= cast_row(high, flat.dtype))
    return np.where(below, low, np.where(above, high, wide))
