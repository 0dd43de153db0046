"""Batches of samples: `batch_space`, `stack_samples`, `unstack` and their buffers.

Each function dispatches on the type of the space; register a rule for a custom space. Without a
rule, a batch of its samples is a tuple.
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
from sekai.spaces.nested import require_structure
from sekai.spaces.numbers import checked_integer
from sekai.spaces.simplex import Simplex
from sekai.spaces.tuple import Tuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sekai.spaces.space import Space


@singledispatch
def batch_space(space: Space[Any], n: int) -> Space[Any]:
    """Return the space of batches of `n` samples.

    Arrays get a leading axis and nested spaces keep their structure. Constraints between the parts
    of one sample (the sum of a `Simplex`, the padding of a `MaskedBox`) do not apply to a batch.
    """
    return Tuple([space] * _count(n))


@singledispatch
def empty_batch(space: Space[Any], n: int) -> Any:
    """Allocate NumPy buffers of zeros for `n` samples, which `stack_samples` can write into."""
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
    return checked_integer(n, "n", 1)


def _repeated(array: NDArray[Any], n: int) -> NDArray[Any]:
    return np.broadcast_to(array, (_count(n), *array.shape))


ArraySpace: TypeAlias = "Box | Discrete | MultiDiscrete | MultiBinary | Simplex"
"""Space whose samples are single arrays or numbers."""


@singledispatch
def stack_samples(
    space: Space[Any], samples: Sequence[Any], out: Any = None, backend: Backend | None = None
) -> Any:
    """Stack samples into one batch, with a leading axis in every array.

    Args:
        space: space of each sample.
        samples: at least one sample.
        out: buffers from `empty_batch` to write into; None allocates new ones.
        backend: array backend of the batch; None is the backend of the space. With another backend
            than NumPy the batch is a copy of `out`.

    Raises:
        SpaceError: a sample does not have the structure or shape of the space, or `out` has another
            length.
    """
    return tuple(samples)


@singledispatch
def unstack(space: Space[Any], batch: Any, *, copy: bool = True) -> list[Any]:
    """Split a batch into a list of samples.

    Args:
        space: space of each sample.
        batch: a result of `stack_samples`, or anything of that structure and shape.
        copy: False lets NumPy samples share the memory of the batch.

    Raises:
        SpaceError: the batch does not have the structure or shape of the space.
    """
    return list(batch)


@singledispatch
def copy_sample(space: Space[Any], x: Any) -> Any:
    """Copy a sample, sharing no memory with it."""
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
            raise SpaceError(f"expected samples of dtype {space.dtype}, got complex numbers")
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
        shape = getattr(rows, "shape", type(rows).__name__)
        raise SpaceError(f"expected a batch of shape (n, *{space.shape}), got {shape}")
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
        raise SpaceError(f"expected the same number of samples under every key, got {lengths}")
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
        expected = (len(rows), *space.shape)
        raise SpaceError(f"expected a buffer of shape {expected}, got {buffer.shape}")
    try:
        # np.stack is several times slower than concatenation along an existing axis.
        if space.shape and buffer.flags.c_contiguous:
            joined = buffer.reshape(len(rows) * space.shape[0], *space.shape[1:])
            np.concatenate(rows, out=joined, casting="same_kind")
        else:
            np.copyto(buffer, np.array(rows), casting="same_kind")
    except TypeError as cause:
        raise SpaceError(f"expected samples of dtype {buffer.dtype}: {cause}") from cause


def _require_rows(space: ArraySpace, rows: Sequence[Any]) -> None:
    if not rows:
        raise SpaceError("expected at least one sample, got none")
    for row in rows:
        # A plain number has no shape, and is a sample of spaces with the shape ().
        if getattr(row, "shape", ()) != space.shape:
            raise SpaceError(f"expected samples of shape {space.shape}, got {np.shape(row)}")


def _cast(array: NDArray[Any], dtype: np.dtype[Any], copy: bool) -> NDArray[Any]:
    try:
        return array.astype(dtype, casting="same_kind", copy=copy)
    except TypeError as cause:
        raise SpaceError(f"expected a batch of dtype {dtype}: {cause}") from cause
