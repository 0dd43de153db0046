"""How each of sekai's own spaces flattens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import SpaceError
from sekai.spaces.box import Box
from sekai.spaces.dict import Dict
from sekai.spaces.discrete import Discrete
from sekai.spaces.flat_numbers import flat_box, flat_size, from_floats, rounded, to_floats
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.simplex import Simplex
from sekai.spaces.structure import require_structure
from sekai.spaces.tuple import Tuple
from sekai.spaces.utils import flatdim, flatten, flatten_space, unflatten

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sekai.spaces.space import Space


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
        raise SpaceError(f"wanted one entry that is not zero, found {hot.size}")
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
    raise SpaceError("wanted one entry that is not zero for each element")


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
        # The whole space says where the value is that one child refused.
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
    # What these spaces add to the looser one restricts its values, not how they are laid out.
    return space.box if isinstance(space, Simplex) else space.parts


def _array(space: Box | MultiBinary, x: Any) -> NDArray[Any]:
    array = space.to_numpy(x)
    if type(array) is np.ndarray and array.dtype is space.dtype and array.shape == space.shape:
        return array
    _require(space, x)
    return np.asarray(array, space.dtype)


def _require(space: Space[Any], x: Any) -> None:
    sentence = space.mismatch(x)
    if sentence is not None:
        raise SpaceError(sentence)


def _row(space: Space[Any], flat: Any) -> NDArray[Any]:
    row, size = np.asarray(space.to_numpy(flat)), flatdim(space)
    if row.shape != (size,):
        raise SpaceError(f"wanted a row of {size} floats, found shape {row.shape}")
    return row
