"""Whether a value keeps to a mask of the form that `space.sample(mask=...)` takes."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from sekai.spaces.dict import Dict
from sekai.spaces.discrete import Discrete
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.simplex import Simplex
from sekai.spaces.space import Space
from sekai.spaces.tuple import Tuple

__all__ = ["allows"]


@singledispatch
def allows(space: Space[Any], mask: Any, value: Any) -> bool:
    """Whether `value`, an element of `space`, could have been sampled under `mask`.

    A mask of None allows everything. Spaces of your own register here as they do with `flatten`.
    """
    if mask is None:
        return True
    raise TypeError(f"{type(space).__name__} has no masks: register one with allows.register")


@allows.register
def _(space: Discrete, mask: Any, value: Any) -> bool:
    return mask is None or (
        space.contains(value) and bool(np.asarray(mask)[int(value) - space.start])
    )


@allows.register
def _(space: MultiDiscrete, mask: Any, value: Any) -> bool:
    if mask is None:
        return True
    if not space.contains(value):
        return False
    positions = np.asarray(value) - space.start
    return all(
        bool(_nested(mask, index)[position]) for index, position in np.ndenumerate(positions)
    )


@allows.register
def _(space: MultiBinary, mask: Any, value: Any) -> bool:
    if mask is None:
        return True
    mask, value = np.asarray(mask), np.asarray(value)
    free = (mask == -1) | (mask == 2)
    return space.contains(value) and bool((free | (mask == value)).all())


@allows.register
def _(space: Simplex, mask: Any, value: Any) -> bool:
    if mask is None:
        return True
    return space.contains(value) and not np.asarray(value)[~np.asarray(mask, bool)].any()


@allows.register
def _(space: MaskedBox, mask: Any, value: Any) -> bool:
    return mask is None or (
        space.contains(value) and np.array_equal(np.asarray(mask, bool), np.asarray(value["mask"]))
    )


@allows.register
def _(space: Dict, mask: Any, value: Any) -> bool:
    return mask is None or all(
        allows(part, mask.get(key), value[key]) for key, part in space.spaces.items()
    )


@allows.register
def _(space: Tuple, mask: Any, value: Any) -> bool:
    return mask is None or all(map(allows, space.spaces, mask, value))


def _nested(mask: Any, index: tuple[int, ...]) -> Any:
    """The mask of one element, from masks nested as deep as the space has dimensions."""
    for position in index:
        mask = mask[position]
    return mask
