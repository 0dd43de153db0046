"""Batches of samples, and buffers into which a step writes its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.backend import BackendOps, NumpyOps
from sekai.core.autoreset import FINAL_OBSERVATION
from sekai.error import InvalidActionError, SpaceError
from sekai.spaces import Discrete, Space, Tuple, empty_batch, stack_samples, unstack
from sekai.vector.infos import Infos, Rows

ALIGNMENT = 64
"""Alignment in bytes of arrays in shared memory: a cache line."""


class Batcher:
    """Stacks and unstacks samples of a space, with a fast path for plain arrays.

    Batches are NumPy arrays, whatever the backend of the space, and own their memory.
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
        """Stack samples into a batch; raise `SpaceError` if one does not fit the space."""
        if isinstance(samples, Rows) and self.fits(samples.batch, len(samples)):
            return map_arrays(lambda _, array: array.copy(), self._row, samples.batch)
        if self._is_plain and len(samples):
            batch = _array_of(samples)
            if batch.dtype == self._dtype and batch.shape[1:] == self._shape:
                return batch
        if not len(samples):
            return self.allocate(0)
        return stack_samples(self.space, list(samples), backend="numpy")

    def write(self, samples: Sequence[Any], batch: Any) -> None:
        """Write samples into an existing batch of the same length."""
        stack_samples(self.space, samples, out=batch, backend="numpy")

    def rows(self, batch: Any) -> list[Any]:
        """Split a batch into samples; NumPy arrays are views of it."""
        if self._can_iterate:
            return list(batch)
        return unstack(self.space, batch, copy=False)

    def lazy_rows(self, batch: Any, count: int) -> Sequence[Any]:
        """Return the samples of a batch of `count`, split when they are read."""
        # Split a batch of another structure now, so that the error names its origin.
        return Rows(batch, count, self.rows) if self.fits(batch, count) else self.rows(batch)

    def copied(self, sample: Any) -> Any:
        """Copy a sample, in the dtype of the space."""
        return self.rows(self.stack([sample]))[0]

    def actions(self, values: Any, count: int) -> Any:
        """Validate `count` actions, passed as a batch or one by one, and return them as a batch.

        Actions of a Tuple space are a batch if passed as a tuple, and single actions if passed as a
        list.

        Raises:
            InvalidActionError: wrong number of actions, or they do not fit the space.
        """
        if self._is_plain:
            return self._plain_actions(values, count)
        try:
            rows = unstack(self.space, values) if self._is_batch(values) else list(values)
            if len(rows) != count:
                raise InvalidActionError(f"expected {count} actions, got {len(rows)}")
            return self.stack(rows)
        except (SpaceError, TypeError, KeyError, ValueError) as error:
            if isinstance(error, InvalidActionError):
                raise
            raise InvalidActionError(
                f"expected {count} actions in {self.space}: {error}"
            ) from error

    def allocate(self, count: int) -> Any:
        """Allocate a batch of zeros."""
        if count:
            return empty_batch(self.space, count)
        return map_arrays(lambda array: array[:0], empty_batch(self.space, 1))

    def nbytes(self, count: int) -> int:
        """Size of a batch in shared memory; raise `SpaceError` if it has no fixed size."""
        total = 0

        def add(array: Any) -> None:
            nonlocal total
            if not isinstance(array, np.ndarray) or array.dtype == object:
                raise SpaceError(
                    f"{self.space!r} has values without a fixed size, which cannot "
                    f"be placed in shared memory; use SyncVecEnv or PipeVecEnv"
                )
            total += _padded(count * math.prod(array.shape[1:]) * array.dtype.itemsize)

        map_arrays(add, empty_batch(self.space, 1), everything=True)
        return total

    def view(self, count: int, buffer: memoryview) -> Any:
        """Create a batch in the memory of `buffer`, which has at least `nbytes` bytes."""
        offset = 0

        def view_of(array: NDArray[Any]) -> NDArray[Any]:
            nonlocal offset
            shape = (count, *array.shape[1:])
            view: NDArray[Any] = np.ndarray(shape, array.dtype, buffer=buffer, offset=offset)
            offset += _padded(view.nbytes)
            return view

        return map_arrays(view_of, empty_batch(self.space, 1))

    def _plain_actions(self, values: Any, count: int) -> NDArray[Any]:
        batch = _array_of(values)
        if batch.shape != (count, *self._shape):
            raise InvalidActionError(
                f"expected {count} actions in an array of shape {(count, *self._shape)}, "
                f"got shape {batch.shape}"
            )
        if batch.dtype == self._dtype:
            return batch
        assert self._dtype is not None, "plain actions have a dtype"
        # Bools are not valid actions, as in single envs.
        is_bool = batch.dtype == np.bool_
        if is_bool or not np.can_cast(batch.dtype, self._dtype, "same_kind"):
            raise InvalidActionError(f"expected actions of dtype {self._dtype}, got {batch.dtype}")
        return batch.astype(self._dtype)

    def fits(self, batch: Any, count: int) -> bool:
        """Return True if a batch consists of arrays with the shapes and dtypes of the space."""
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
    """Apply a function to each array of a nested batch, together with those of parallel batches.

    Other values are returned unchanged, unless `everything` is True.
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
    """Convert a batch of NumPy arrays to `backend`."""
    if isinstance(backend, NumpyOps):
        return batch
    return map_arrays(lambda array: backend.astype(array, array.dtype), batch)


def to_numpy(batch: Any) -> Any:
    """Convert the tensors of a nested batch or list of actions to NumPy arrays."""
    if isinstance(batch, dict):
        return {key: to_numpy(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_numpy(value) for value in batch)
    # Tensors may be on another device or require gradients; NumPy supports neither.
    return batch.detach().cpu().numpy() if hasattr(batch, "detach") else batch


def _array_of(values: Any) -> NDArray[Any]:
    try:
        return np.array(values)
    except ValueError:
        # Ragged rows have no array: the caller rejects the shape.
        return np.empty(0, dtype=object)


def _is_like(row: Any, array: Any, count: int) -> bool:
    if not (isinstance(row, np.ndarray) and isinstance(array, np.ndarray)):
        return False
    return bool(array.dtype == row.dtype) and array.shape == (count, *row.shape[1:])


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True, eq=False)
class StepBuffers:
    """Preallocated arrays for the result of a step, with a row per env."""

    observations: Any
    """One array, or a dict or tuple of them."""

    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_observations: Any = None
    """Optional, like `observations`: last observations of the episodes that ended."""

    @classmethod
    def allocate(cls, observations: Batcher, count: int) -> StepBuffers:
        """Allocate buffers for `count` envs."""
        flags = (np.zeros(count, np.bool_) for _ in range(2))
        return cls(observations.allocate(count), np.zeros(count), *flags)

    def check(self, like: StepBuffers) -> None:
        """Raise `ValueError` unless the arrays match those of `like`."""
        _check("observations", self.observations, like.observations)
        _check("rewards", self.rewards, like.rewards)
        _check("terminated", self.terminated, like.terminated)
        _check("truncated", self.truncated, like.truncated)
        if self.final_observations is not None:
            _check("final_observations", self.final_observations, like.observations)

    def copied(self) -> StepBuffers:
        """Copy the arrays."""
        return StepBuffers(
            map_arrays(np.copy, self.observations),
            self.rewards.copy(),
            self.terminated.copy(),
            self.truncated.copy(),
        )

    def taken(self, indices: Sequence[int]) -> StepBuffers:
        """Copy some of the rows."""
        rows = np.array(indices, np.int64)
        return StepBuffers(
            map_arrays(lambda array: array[rows], self.observations),
            self.rewards[rows],
            self.terminated[rows],
            self.truncated[rows],
        )

    def fill(self, result: StepBuffers) -> None:
        """Copy a result into the buffers."""
        map_arrays(np.copyto, self.observations, result.observations)
        np.copyto(self.rewards, result.rewards)
        np.copyto(self.terminated, result.terminated)
        np.copyto(self.truncated, result.truncated)

    def fill_finals(self, infos: Infos) -> None:
        """Copy the last observations of ended episodes, if requested."""
        if self.final_observations is None:
            return
        ended = np.flatnonzero(self.terminated | self.truncated)
        finals = infos.values(ended, FINAL_OBSERVATION)
        if isinstance(finals, Rows):
            self._fill_final(ended, finals.batch)
            return
        for index, final in zip(ended.tolist(), finals, strict=True):
            if final is not None:
                self._fill_final(index, final)

    def _fill_final(self, index: int | NDArray[np.int64], final: Any) -> None:
        def put(rows: NDArray[Any], row: Any) -> None:
            rows[index] = row

        map_arrays(put, self.final_observations, final)


def _check(name: str, arrays: Any, expected: Any) -> None:
    def compare(expected_array: NDArray[Any], array: Any) -> None:
        is_array = isinstance(array, np.ndarray) and array.flags.c_contiguous
        form = (expected_array.shape, expected_array.dtype)
        if not is_array or (array.shape, array.dtype) != form:
            shown = f"{array.shape} {array.dtype}" if isinstance(array, np.ndarray) else repr(array)
            raise ValueError(
                f"out.{name} must be a contiguous array of shape {form[0]} and dtype {form[1]}, "
                f"got {shown}"
            )

    try:
        map_arrays(compare, expected, arrays)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"out.{name} does not have the structure of the space: {error!r}"
        ) from error
