"""The space of many samples at once, and buffers that hold them.

Each function dispatches on the type of the space, so a space of your own may register its rule.
Without one, its batch is a tuple of samples.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.spaces.box import Box
from sekai.spaces.counts import whole_number
from sekai.spaces.dict import Dict
from sekai.spaces.discrete import Discrete
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.simplex import Simplex
from sekai.spaces.stacking import ArraySpace, copy_sample, stack_samples, unstack
from sekai.spaces.tuple import Tuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sekai.spaces.space import Space

__all__ = ["batch_space", "copy_sample", "empty_batch", "stack_samples", "unstack"]


@singledispatch
def batch_space(space: Space[Any], n: int) -> Space[Any]:
    """A space that every batch of `n` samples of `space` belongs to.

    Arrays get a leading axis and nested spaces keep their structure. What ties the parts of one
    sample together (the sum of a `Simplex`, the padding of a `MaskedBox`) is not asked of a batch.
    """
    return Tuple([space] * _count(n))


@singledispatch
def empty_batch(space: Space[Any], n: int) -> Any:
    """NumPy buffers of zeros that `stack_samples` can write `n` samples of `space` into."""
    return (None,) * _count(n)


@batch_space.register(Box)
def _batch_box(space: Box, n: int) -> Box:
    low, high = _repeated(space.low, n), _repeated(space.high, n)
    return Box(low, high, dtype=space.dtype, backend=space.backend)


@batch_space.register(Discrete)
def _batch_discrete(space: Discrete, n: int) -> MultiDiscrete:
    return MultiDiscrete(np.full(_count(n), space.n), space.start, backend=space.backend)


@batch_space.register(MultiDiscrete)
def _batch_multi_discrete(space: MultiDiscrete, n: int) -> MultiDiscrete:
    nvec, start = _repeated(space.nvec, n), _repeated(space.start, n)
    return MultiDiscrete(nvec, start, backend=space.backend)


@batch_space.register(MultiBinary)
def _batch_multi_binary(space: MultiBinary, n: int) -> MultiBinary:
    return MultiBinary((_count(n), *space.shape), backend=space.backend)


@batch_space.register(Simplex)
def _batch_simplex(space: Simplex, n: int) -> Space[Any]:
    return batch_space(space.box, n)


@batch_space.register(MaskedBox)
def _batch_masked_box(space: MaskedBox, n: int) -> Space[Any]:
    return batch_space(space.parts, n)


@batch_space.register(Dict)
def _batch_dict(space: Dict, n: int) -> Dict:
    return Dict({key: batch_space(child, n) for key, child in space.items()})


@batch_space.register(Tuple)
def _batch_tuple(space: Tuple, n: int) -> Tuple:
    return Tuple([batch_space(child, n) for child in space])


@empty_batch.register(Box)
@empty_batch.register(Discrete)
@empty_batch.register(MultiDiscrete)
@empty_batch.register(MultiBinary)
@empty_batch.register(Simplex)
def _empty_array(space: ArraySpace, n: int) -> NDArray[Any]:
    return np.zeros((_count(n), *space.shape), space.dtype)


@empty_batch.register(MaskedBox)
def _empty_masked_box(space: MaskedBox, n: int) -> Any:
    return empty_batch(space.parts, n)


@empty_batch.register(Dict)
def _empty_dict(space: Dict, n: int) -> dict[str, Any]:
    return {key: empty_batch(child, n) for key, child in space.items()}


@empty_batch.register(Tuple)
def _empty_tuple(space: Tuple, n: int) -> tuple[Any, ...]:
    return tuple(empty_batch(child, n) for child in space)


def _count(n: int) -> int:
    return whole_number(n, "n", 1)


def _repeated(array: NDArray[Any], n: int) -> NDArray[Any]:
    return np.broadcast_to(array, (_count(n), *array.shape))
