"""From samples to a batch and back.

Each function dispatches on the type of the space, so a space of your own may register its rule.
Without one, its batch is a tuple of samples.
"""

from __future__ import annotations

import copy as copying
from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sekai.backend import Backend, NumpyOps, get_backend
from sekai.error import SpaceError
from sekai.spaces.box import Box
from sekai.spaces.dict import Dict
from sekai.spaces.discrete import Discrete
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.simplex import Simplex
from sekai.spaces.structure import require_structure
from sekai.spaces.tuple import Tuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sekai.spaces.space import Space

ArraySpace: TypeAlias = "Box | Discrete | MultiDiscrete | MultiBinary | Simplex"
"""A space whose samples are each one array or one number."""


@singledispatch
def stack_samples(
    space: Space[Any], samples: Sequence[Any], out: Any = None, backend: Backend | None = None
) -> Any:
    """The samples as one batch, with a leading axis in every array.

    Args:
        space: the space each sample belongs to.
        samples: at least one of them.
        out: buffers from `empty_batch` to write into; None makes new ones.
        backend: who makes the batch; None is the backend of the space. Only NumPy's batch is
            `out` itself, another's is a copy.

    Raises:
        SpaceError: a sample has not the structure or shape of the space, or `out` not the length.
    """
    return tuple(samples)


@singledispatch
def unstack(space: Space[Any], batch: Any, *, copy: bool = True) -> list[Any]:
    """The samples of a batch, in order, each as `space.sample()` would give it.

    Args:
        space: the space each sample belongs to.
        batch: what `stack_samples` gave, or anything of that structure and shape.
        copy: False lets NumPy's samples share the memory of the batch.

    Raises:
        SpaceError: the batch has not the structure or shape of the space.
    """
    return list(batch)


@singledispatch
def copy_sample(space: Space[Any], x: Any) -> Any:
    """A copy of the sample `x` that shares no memory with it."""
    return copying.deepcopy(x)


@stack_samples.register(Box)
@stack_samples.register(Discrete)
@stack_samples.register(MultiDiscrete)
@stack_samples.register(MultiBinary)
@stack_samples.register(Simplex)
def _stack_arrays(
    space: ArraySpace,
    samples: Sequence[Any],
    out: NDArray[Any] | None = None,
    backend: Backend | None = None,
) -> Any:
    made_by = space.backend if backend is None else get_backend(backend)
    if out is None and not isinstance(made_by, NumpyOps):
        if any(np.iscomplexobj(sample) for sample in samples):
            raise SpaceError(f"wanted samples of dtype {space.dtype}, found complex numbers")
        rows = [made_by.astype(sample, space.dtype) for sample in samples]
        _require_rows(space, rows)
        return made_by.stack(rows)
    buffer = np.empty((len(samples), *space.shape), space.dtype) if out is None else out
    _fill(space, samples, buffer)
    return buffer if isinstance(made_by, NumpyOps) else made_by.astype(buffer, space.dtype)


@stack_samples.register(MaskedBox)
def _stack_masked(
    space: MaskedBox, samples: Sequence[Any], out: Any = None, backend: Backend | None = None
) -> Any:
    return stack_samples(space.parts, samples, out, backend)


@stack_samples.register(Dict)
@stack_samples.register(Tuple)
def _stack_nested(
    space: Dict | Tuple, samples: Sequence[Any], out: Any = None, backend: Backend | None = None
) -> Any:
    require_structure(space, samples)
    batch = {
        key: stack_samples(
            child, [sample[key] for sample in samples], None if out is None else out[key], backend
        )
        for key, child in space.children().items()
    }
    return batch if isinstance(space, Dict) else tuple(batch.values())


@unstack.register(Box)
@unstack.register(Discrete)
@unstack.register(MultiDiscrete)
@unstack.register(MultiBinary)
@unstack.register(Simplex)
def _unstack_arrays(space: ArraySpace, batch: Any, *, copy: bool = True) -> list[Any]:
    rows = space.to_numpy(batch) if isinstance(space.backend, NumpyOps) else batch
    if not hasattr(rows, "shape") or tuple(rows.shape[1:]) != space.shape or not rows.shape:
        found = getattr(rows, "shape", type(rows).__name__)
        raise SpaceError(f"wanted a batch of shape (n, *{space.shape}), found {found}")
    if not isinstance(space.backend, NumpyOps):
        rows = space.backend.astype(rows, space.dtype)
        return [rows[i] for i in range(len(rows))]
    rows = _cast(np.asarray(rows), space.dtype, copy)
    # Iterating an array of shape (n,) gives numbers, which is what Discrete samples are.
    is_array = space.shape == () and not isinstance(space, Discrete)
    return [rows[i, ...] for i in range(len(rows))] if is_array else list(rows)


@unstack.register(MaskedBox)
def _unstack_masked(space: MaskedBox, batch: Any, *, copy: bool = True) -> list[Any]:
    return unstack(space.parts, batch, copy=copy)


@unstack.register(Dict)
@unstack.register(Tuple)
def _unstack_nested(space: Dict | Tuple, batch: Any, *, copy: bool = True) -> list[Any]:
    require_structure(space, [batch])
    columns = {
        key: unstack(child, batch[key], copy=copy) for key, child in space.children().items()
    }
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise SpaceError(f"wanted as many samples under every key, found {lengths}")
    rows = zip(*columns.values(), strict=True)
    return (
        [dict(zip(columns, row, strict=True)) for row in rows]
        if isinstance(space, Dict)
        else list(rows)
    )


@copy_sample.register(Box)
@copy_sample.register(Discrete)
@copy_sample.register(MultiDiscrete)
@copy_sample.register(MultiBinary)
@copy_sample.register(Simplex)
def _copy_array(space: ArraySpace, x: Any) -> Any:
    if space.backend.is_array(x):
        return space.backend.astype(x, space.dtype)
    return copying.copy(x)


@copy_sample.register(MaskedBox)
def _copy_masked(space: MaskedBox, x: Any) -> Any:
    return copy_sample(space.parts, x)


@copy_sample.register(Dict)
def _copy_dict(space: Dict, x: Any) -> Any:
    return {key: copy_sample(child, x[key]) for key, child in space.spaces.items()}


@copy_sample.register(Tuple)
def _copy_tuple(space: Tuple, x: Any) -> Any:
    return tuple(copy_sample(child, part) for child, part in zip(space.spaces, x, strict=True))


def _fill(space: ArraySpace, samples: Sequence[Any], buffer: NDArray[Any]) -> None:
    is_numpy = isinstance(space.backend, NumpyOps)
    rows = samples if is_numpy else [space.to_numpy(sample) for sample in samples]
    _require_rows(space, rows)
    if buffer.shape != (len(rows), *space.shape):
        wanted = (len(rows), *space.shape)
        raise SpaceError(f"wanted a buffer of shape {wanted}, found {buffer.shape}")
    try:
        # Stacking is several times slower than joining along an axis that is there already.
        if space.shape and buffer.flags.c_contiguous:
            joined = buffer.reshape(len(rows) * space.shape[0], *space.shape[1:])
            np.concatenate(rows, out=joined, casting="same_kind")
        else:
            np.copyto(buffer, np.array(rows), casting="same_kind")
    except TypeError as cause:
        raise SpaceError(f"wanted samples of dtype {buffer.dtype}: {cause}") from cause


def _require_rows(space: ArraySpace, rows: Sequence[Any]) -> None:
    if not rows:
        raise SpaceError("wanted at least one sample, found none")
    for row in rows:
        # A plain number has no shape, and is a sample of spaces with the shape ().
        if getattr(row, "shape", ()) != space.shape:
            raise SpaceError(f"wanted samples of shape {space.shape}, found {np.shape(row)}")


def _cast(array: NDArray[Any], dtype: np.dtype[Any], copy: bool) -> NDArray[Any]:
    try:
        return array.astype(dtype, casting="same_kind", copy=copy)
    except TypeError as cause:
        raise SpaceError(f"wanted a batch of dtype {dtype}: {cause}") from cause
