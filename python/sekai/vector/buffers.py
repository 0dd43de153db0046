"""Arrays of the caller's that a step writes into: a row of a trainer's storage, say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.vector.autoreset import FINAL_OBSERVATION
from sekai.vector.batching import Batcher, map_arrays
from sekai.vector.columns import Rows
from sekai.vector.infos import Infos

__all__ = ["StepBuffers"]


@dataclass(frozen=True, slots=True, eq=False)
class StepBuffers:
    """Where the result of a step goes, with a row for each env."""

    observations: Any
    """One array, or a dict or tuple of them."""

    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_observations: Any = None
    """Like `observations`, if wanted: rows of envs whose episode ended get its last observation."""

    @classmethod
    def allocate(cls, observations: Batcher, count: int) -> StepBuffers:
        """New buffers for `count` envs."""
        flags = (np.zeros(count, np.bool_) for _ in range(2))
        return cls(observations.allocate(count), np.zeros(count), *flags)

    def check(self, like: StepBuffers) -> None:
        """Raise `ValueError` unless the arrays are of the form of those in `like`."""
        _check("observations", self.observations, like.observations)
        _check("rewards", self.rewards, like.rewards)
        _check("terminated", self.terminated, like.terminated)
        _check("truncated", self.truncated, like.truncated)
        if self.final_observations is not None:
            _check("final_observations", self.final_observations, like.observations)

    def copied(self) -> StepBuffers:
        """The same in arrays of its own."""
        return StepBuffers(
            map_arrays(np.copy, self.observations),
            self.rewards.copy(),
            self.terminated.copy(),
            self.truncated.copy(),
        )

    def taken(self, places: Sequence[int]) -> StepBuffers:
        """Some of the rows, in arrays of their own."""
        rows = np.array(places, np.int64)
        return StepBuffers(
            map_arrays(lambda array: array[rows], self.observations),
            self.rewards[rows],
            self.terminated[rows],
            self.truncated[rows],
        )

    def fill(self, result: StepBuffers) -> None:
        """Copy a result that is elsewhere."""
        map_arrays(np.copyto, self.observations, result.observations)
        np.copyto(self.rewards, result.rewards)
        np.copyto(self.terminated, result.terminated)
        np.copyto(self.truncated, result.truncated)

    def fill_finals(self, infos: Infos) -> None:
        """Copy the last observations of episodes that have just ended, if they are wanted."""
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


def _check(name: str, found: Any, wanted: Any) -> None:
    def compare(wanted_array: NDArray[Any], array: Any) -> None:
        is_array = isinstance(array, np.ndarray) and array.flags.c_contiguous
        form = (wanted_array.shape, wanted_array.dtype)
        if not is_array or (array.shape, array.dtype) != form:
            shown = f"{array.shape} {array.dtype}" if isinstance(array, np.ndarray) else repr(array)
            raise ValueError(
                f"out.{name} needs contiguous arrays like {form[0]} {form[1]}, found {shown}"
            )

    try:
        map_arrays(compare, wanted, found)
    except (KeyError, TypeError) as error:
        raise ValueError(f"out.{name} has not the structure of the space: {error!r}") from error
