"""Flatten any space to a row of floats and back; register your own spaces with these hooks.

Each function dispatches on the type of the space. A new space becomes flattenable with four rules:

    @flatdim.register(MySpace)
    def _(space): ...

and the same for `flatten(space, x)`, `unflatten(space, flat)` and `flatten_space(space)`. A rule
returns its row, or its box, in whatever float dtype holds the values; the hooks bring it to the
dtype that the caller asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch, update_wrapper
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from sekai.spaces.box import Box
    from sekai.spaces.space import Space

__all__ = ["flatdim", "flatten", "flatten_space", "unflatten"]

Rule = TypeVar("Rule", bound=Callable[..., Any])


class _FloatHook:
    """A `singledispatch` hook in front of which a result is brought to one float dtype."""

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
        """The rule for a type of space."""
        return self.rules.dispatch(kind)


class _Flatten(_FloatHook):
    def __call__(self, space: Space[Any], x: Any, *, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        wanted = _float_dtype(dtype)
        row = self.rules(space, x)
        if isinstance(row, np.ndarray):
            return row if row.dtype == wanted else cast_row(row, wanted)
        # A tensor's dtype has no NumPy name of its own, and a cast to the same one costs little.
        made: NDArray[Any] = space.backend.astype(row, wanted)
        return made


class _FlattenSpace(_FloatHook):
    def __call__(self, space: Space[Any], *, dtype: DTypeLike = np.float32) -> Box:
        wanted = _float_dtype(dtype)
        box: Box = self.rules(space)
        if box.dtype == wanted:
            return box
        from sekai.spaces.box import Box as AnyBox  # spaces import this module

        low, high = cast_row(box.low, wanted), cast_row(box.high, wanted)
        return AnyBox(low, high, dtype=wanted, backend=box.backend)


@singledispatch
def flatdim(space: Space[Any]) -> int:
    """How many floats a value of the space flattens to.

    A number takes one, a `Discrete` one for each of its values (one-hot). Integers that reach
    beyond 2**53 take two, their upper and lower 32 bits, because no float holds them.
    """
    _no_rule("flatdim", space)


@_Flatten
def flatten(space: Space[Any], x: Any, *, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """The value `x` as a new row of floats, made by the space's backend.

    float32 holds integers up to 2**24 exactly, and of every number the first 24 bits; what is
    larger than 3.4e38 becomes infinite. `dtype=np.float64` keeps every bit of every value.

    Args:
        space: the space of `x`.
        x: the value.
        dtype: the float dtype of the row.

    Raises:
        SpaceError: `x` has not the structure or shape of the space.
        TypeError: the space, or one nested in it, has no rule.
    """
    _no_rule("flatten", space)


@singledispatch
def unflatten(space: Space[Any], flat: Any) -> Any:
    """The value that `flatten` made `flat` from, to the last bit if `flat` is float64.

    Whole numbers are rounded to the nearest: 2.9999998 is 3.

    Raises:
        SpaceError: `flat` has another length, or holds what no value flattens to.
        TypeError: the space, or one nested in it, has no rule.
    """
    _no_rule("unflatten", space)


@_FlattenSpace
def flatten_space(space: Space[Any], *, dtype: DTypeLike = np.float32) -> Box:
    """The `Box` that holds every flattened value of the space.

    Args:
        space: the space whose values are flattened.
        dtype: the float dtype of the rows, as in `flatten`.
    """
    _no_rule("flatten_space", space)


def cast_row(row: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The floats in another dtype; what is too large for it is infinite, without a warning."""
    with np.errstate(over="ignore"):
        return row.astype(dtype)


def has_rules(space_type: type) -> bool:
    """Whether all four hooks know the type of space."""
    hooks = (flatdim, flatten, unflatten, flatten_space)
    return all(hook.dispatch(space_type) is not hook.dispatch(object) for hook in hooks)


def _float_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    checked = np.dtype(dtype)
    if checked.kind != "f":
        raise ValueError(f"dtype must be float32, float64 or another float, was {checked}")
    return checked


def _no_rule(hook: str, space: object) -> NoReturn:
    name = type(space).__name__
    raise TypeError(
        f"{hook} has no rule for {name}: register one with @sekai.spaces.utils.{hook}.register("
        f"{name})"
    )
