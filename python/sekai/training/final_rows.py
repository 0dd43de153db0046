"""The last observations of episodes that were cut off, first in, first out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.vector.batching import Batcher, map_arrays

__all__ = ["FinalRows"]

ROOM = 64
"""Rows there is room for at first."""


class FinalRows:
    """Rows by the numbers they were given when they came; there is room for as many as come."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self.clear()

    def __len__(self) -> int:
        return self._end - self._first

    def clear(self) -> None:
        """Forget everything."""
        self._first = self._end = 0
        self._room = ROOM
        self._rows = self._batcher.allocate(ROOM)

    def add(self, batch: Any, count: int) -> NDArray[np.int64]:
        """Keep a batch, and tell by which numbers."""
        self._make_room(count)
        numbers = np.arange(self._end, self._end + count)
        self._put(numbers, batch)
        self._end += count
        return numbers

    def forget(self, count: int) -> None:
        """Let go of the oldest."""
        self._first += count

    def read(self, numbers: NDArray[np.int64]) -> Any:
        """The rows of some numbers."""
        places = numbers % self._room
        return map_arrays(lambda array: array[places], self._rows)

    def change(self, name: str, numbers: NDArray[np.int64], rows: NDArray[Any]) -> None:
        """Keep other values of one part of some rows."""
        self._rows[name][numbers % self._room] = rows

    def _put(self, numbers: NDArray[np.int64], batch: Any) -> None:
        places = numbers % self._room

        def put(array: NDArray[Any], rows: NDArray[Any]) -> None:
            array[places] = rows

        map_arrays(put, self._rows, batch)

    def _make_room(self, count: int) -> None:
        if len(self) + count <= self._room:
            return
        numbers = np.arange(self._first, self._end)
        kept = self.read(numbers)
        while self._room < len(self) + count:
            self._room *= 2
        self._rows = self._batcher.allocate(self._room)
        self._put(numbers, kept)

    def state(self) -> dict[str, Any]:
        """Everything that is kept."""
        numbers = np.arange(self._first, self._end)
        return {"first": self._first, "count": len(self), "rows": self.read(numbers)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Keep what was saved instead."""
        self.clear()
        self._first = self._end = int(state["first"])
        self.add(state["rows"], int(state["count"]))
