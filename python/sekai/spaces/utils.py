"""Flatten any space to a row of floats and back; register your own spaces with these hooks.

Each function dispatches on the type of the space. A new space becomes flattenable with four rules:

    @flatdim.register(MySpace)
    def _(space): ...

and the same for `flatten`, `unflatten` and `flatten_space`.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sekai.spaces.box import Box
    from sekai.spaces.space import Space

__all__ = ["flatdim", "flatten", "flatten_space", "unflatten"]


@singledispatch
def flatdim(space: Space[Any]) -> int:
    """How many floats a value of the space flattens to.

    A number takes one, a `Discrete` one for each of its values (one-hot). Integers that reach
    beyond 2**53 take two, their upper and lower 32 bits, because no float holds them.
    """
    _no_rule("flatdim", space)


@singledispatch
def flatten(space: Space[Any], x: Any) -> NDArray[Any]:
    """The value `x` as a new row of floats, made by the space's backend.

    float32, unless that would lose information: then float64.

    Raises:
        SpaceError: `x` has not the structure or shape of the space.
        TypeError: the space, or one nested in it, has no rule.
    """
    _no_rule("flatten", space)


@singledispatch
def unflatten(space: Space[Any], flat: Any) -> Any:
    """The value that `flatten` made `flat` from, bit for bit.

    Raises:
        SpaceError: `flat` has another length, or holds what no value flattens to.
        TypeError: the space, or one nested in it, has no rule.
    """
    _no_rule("unflatten", space)


@singledispatch
def flatten_space(space: Space[Any]) -> Box:
    """The `Box` that holds every flattened value of the space."""
    _no_rule("flatten_space", space)


def has_rules(space_type: type) -> bool:
    """Whether all four hooks know the type of space."""
    hooks = (flatdim, flatten, unflatten, flatten_space)
    return all(hook.dispatch(space_type) is not hook.dispatch(object) for hook in hooks)


def _no_rule(hook: str, space: object) -> NoReturn:
    name = type(space).__name__
    raise TypeError(
        f"{hook} has no rule for {name}: register one with @sekai.spaces.utils.{hook}.register("
        f"{name})"
    )
