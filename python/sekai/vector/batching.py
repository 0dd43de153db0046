"""Turns samples of one space into batches of arrays, and batches into samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.backend import BackendOps, NumpyOps
from sekai.error import InvalidActionError, SpaceError
from sekai.spaces import Discrete, Space, Tuple, empty_batch, stack_samples, unstack
from sekai.vector.columns import Rows

__all__ = ["Batcher", "map_arrays", "to_backend", "to_numpy"]

ALIGNMENT = 64
"""Arrays in shared memory begin at multiples of this: a cache line."""


class Batcher:
    """Stacks and unstacks samples of `space`, with a short way for spaces of plain arrays.

    Batches are NumPy's, whatever the backend of the space, and own their memory.
    """

    def __init__(self, space: Space[Any]) -> None:
        self.space = space
        row = empty_batch(space, 1)
        self._row = row
        self._is_plain = isinstance(row, np.ndarray) and isinstance(space.backend, NumpyOps)
        self._shape: tuple[int, ...] = row.shape[1:] if self._is_plain else ()
        self._dtype: np.dtype[Any] | None = row.dtype if self._is_plain else None
        # Iterating an array of shape (n,) gives numbers: right for Discrete, not for Box.
        self._can_iterate = self._is_plain and bool(self._shape or isinstance(space, Discrete))

    def stack(self, samples: Sequence[Any] | NDArray[Any]) -> Any:
        """A batch of the samples, or `SpaceError` if one has not the form that the space says."""
        if isinstance(samples, Rows) and self._fits(samples.batch, len(samples)):
            return map_arrays(lambda _, array: array.copy(), self._row, samples.batch)
        if self._is_plain and len(samples):
            batch = _array_of(samples)
            if batch.dtype == self._dtype and batch.shape[1:] == self._shape:
                return batch
        if not len(samples):
            return self.allocate(0)
        return stack_samples(self.space, list(samples), backend="numpy")

    def write(self, samples: Sequence[Any], batch: Any) -> None:
        """Put the samples into an existing batch of as many rows."""
        stack_samples(self.space, samples, out=batch, backend="numpy")

    def rows(self, batch: Any) -> list[Any]:
        """The samples of a batch; NumPy arrays among them are views of it."""
        if self._can_iterate:
            return list(batch)
        return unstack(self.space, batch, copy=False)

    def lazy_rows(self, batch: Any, count: int) -> Sequence[Any]:
        """The samples of a batch of `count`, taken out of it when they are read."""
        # A batch of another form is taken apart at once: here is who made it.
        return Rows(batch, count, self.rows) if self._fits(batch, count) else self.rows(batch)

    def copied(self, sample: Any) -> Any:
        """A sample of its own memory, in the space's dtype."""
        return self.rows(self.stack([sample]))[0]

    def actions(self, values: Any, count: int) -> Any:
        """A batch of `count` actions that were given as a batch or one by one.

        Actions of a Tuple space are a batch when they come in a tuple, single ones in a list.

        Raises:
            InvalidActionError: there are more or fewer, or they have not the form of the space.
        """
        if self._is_plain:
            return self._plain_actions(values, count)
        try:
            rows = unstack(self.space, values) if self._is_batch(values) else list(values)
            if len(rows) != count:
                raise InvalidActionError(f"{count} actions were wanted, found {len(rows)}")
            return self.stack(rows)
        except (SpaceError, TypeError, KeyError, ValueError) as error:
            if isinstance(error, InvalidActionError):
                raise
            raise InvalidActionError(f"{count} actions of {self.space}: {error}") from error

    def allocate(self, count: int) -> Any:
        """An empty batch."""
        if count:
            return empty_batch(self.space, count)
        return map_arrays(lambda array: array[:0], empty_batch(self.space, 1))

    def nbytes(self, count: int) -> int:
        """The room a batch takes in shared memory, or `SpaceError` if it has no fixed size."""
        total = 0

        def add(array: Any) -> None:
            nonlocal total
            if not isinstance(array, np.ndarray) or array.dtype == object:
                raise SpaceError(
                    f"{self.space!r} has values that are not arrays of one dtype, which cannot "
                    f"be shared between processes: use SyncVecEnv or PipeVecEnv"
                )
            total += _padded(count * math.prod(array.shape[1:]) * array.dtype.itemsize)

        map_arrays(add, empty_batch(self.space, 1), everything=True)
        return total

    def view(self, count: int, buffer: memoryview) -> Any:
        """A batch in the memory of `buffer`, which has the room that `nbytes` says."""
        offset = 0

        def place(array: NDArray[Any]) -> NDArray[Any]:
            nonlocal offset
            shape = (count, *array.shape[1:])
            placed: NDArray[Any] = np.ndarray(shape, array.dtype, buffer=buffer, offset=offset)
            offset += _padded(placed.nbytes)
            return placed

        return map_arrays(place, empty_batch(self.space, 1))

    def _plain_actions(self, values: Any, count: int) -> NDArray[Any]:
        batch = _array_of(values)
        if batch.shape != (count, *self._shape):
            raise InvalidActionError(
                f"{count} actions were wanted, as an array of shape {(count, *self._shape)}; "
                f"found shape {batch.shape}"
            )
        if batch.dtype == self._dtype:
            return batch
        assert self._dtype is not None, "plain actions have a dtype"
        # A truth is no choice and no number, as single envs say too.
        is_truth = batch.dtype == np.bool_
        if is_truth or not np.can_cast(batch.dtype, self._dtype, "same_kind"):
            raise InvalidActionError(f"actions of {self._dtype} were wanted, found {batch.dtype}")
        return batch.astype(self._dtype)

    def _fits(self, batch: Any, count: int) -> bool:
        """Whether a batch consists of arrays alone, of the form that the space says."""
        if self._is_plain:
            return _is_like(self._row, batch, count)
        fits = True

        def compare(row: Any, array: Any) -> None:
            nonlocal fits
            fits = fits and _is_like(row, array, count)

        try:
            map_arrays(compare, self._row, batch, everything=True)
        except (KeyError, TypeError, ValueError, IndexError):
            return False
        return fits

    def _is_batch(self, values: Any) -> bool:
        kind = tuple if isinstance(self.space, Tuple) else (Mapping, np.ndarray)
        return isinstance(values, kind) or hasattr(values, "__array__")


def map_arrays(
    function: Callable[..., Any], batch: Any, *others: Any, everything: bool = False
) -> Any:
    """A batch of what `function` makes of each array of a nested batch, and of those beside it.

    Values that are not arrays stay as they are, unless `everything` is to be handed over.
    """
    if isinstance(batch, dict):
        return {
            key: map_arrays(
                function, value, *(other[key] for other in others), everything=everything
            )
            for key, value in batch.items()
        }
    if isinstance(batch, tuple):
        return tuple(
            map_arrays(function, value, *rest, everything=everything)
            for value, *rest in zip(batch, *others, strict=True)
        )
    return function(batch, *others) if everything or isinstance(batch, np.ndarray) else batch


def to_backend(backend: BackendOps, batch: Any) -> Any:
    """A batch of NumPy arrays as `backend` holds it."""
    if isinstance(backend, NumpyOps):
        return batch
    return map_arrays(lambda array: backend.astype(array, array.dtype), batch)


def to_numpy(batch: Any) -> Any:
    """A nested batch, or list of actions, whose tensors have become NumPy arrays."""
    if isinstance(batch, dict):
        return {key: to_numpy(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_numpy(value) for value in batch)
    # Tensors may live on another device or carry a gradient; NumPy takes neither.
    return batch.detach().cpu().numpy() if hasattr(batch, "detach") else batch


def _array_of(values: Any) -> NDArray[Any]:
    try:
        return np.array(values)
    except ValueError:
        # Rows of different shapes have no array: the caller finds that the shape is not its own.
        return np.empty(0, dtype=object)


def _is_like(row: Any, array: Any, count: int) -> bool:
    if not (isinstance(row, np.ndarray) and isinstance(array, np.ndarray)):
        return False
    return bool(array.dtype == row.dtype) and array.shape == (count, *row.shape[1:])


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
