"""Spaces of sekai as spaces of gymnasium, and the other way round.

Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple have exact counterparts. gymnasium has
none for two of ours, and the nearest is a larger set:

- a `Simplex` becomes the `Box` around it, which says nothing about the sum; what comes back is
  projected onto the simplex;
- a `MaskedBox` becomes a `Dict` of a `Box` that reaches to zero and a `MultiBinary`, which says
  nothing about empty slots; what comes back has zeros in them and keeps to the bounds elsewhere.

gymnasium's Graph, Text, Sequence and OneOf have no counterpart and are refused.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import singledispatch
from typing import Any

import gymnasium.spaces as theirs
import numpy as np

from sekai import spaces as ours
from sekai.error import SpaceError

__all__ = ["space_from_gymnasium", "space_to_gymnasium"]


@singledispatch
def space_to_gymnasium(space: ours.Space[Any]) -> theirs.Space[Any]:
    """The space of gymnasium that holds what `space` holds; register here for your own spaces.

    Raises:
        SpaceError: gymnasium has no such space.
    """
    raise SpaceError(
        f"gymnasium has no counterpart of {type(space).__name__}: register one with "
        f"space_to_gymnasium.register"
    )


@singledispatch
def space_from_gymnasium(space: theirs.Space[Any]) -> ours.Space[Any]:
    """The space of sekai that holds what `space` holds.

    Raises:
        SpaceError: sekai has no such space.
    """
    raise SpaceError(
        f"sekai has no counterpart of gymnasium's {type(space).__name__}: known are Box, Discrete, "
        f"MultiDiscrete, MultiBinary, Dict and Tuple; wrap the env so that it uses one of them"
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
    # Of a plain dict gymnasium would sort the keys.
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
