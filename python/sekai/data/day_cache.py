"""Remembers the days that were read last, within stated bounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any

__all__ = ["DayCache"]


class DayCache:
    """Values by key; those not used for longest make room for new ones.

    It can be shared by threads and by several sources, whose keys say which is which. A copy or
    a pickle of it has the same bounds and is empty.
    """

    def __init__(self, max_bytes: int = 256 << 20, max_entries: int = 100_000) -> None:
        """Set the bounds.

        Args:
            max_bytes: the most bytes of arrays that are kept; 0 keeps none.
            max_entries: the most values that are kept.
        """
        for name, bound in (("max_bytes", max_bytes), ("max_entries", max_entries)):
            if bound < 0:
                raise ValueError(f"{name} must be at least 0, was {bound}")
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        """How many values there are."""
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """How many bytes of arrays there are."""
        return self._bytes

    def get(self, key: Hashable) -> Any:
        """The value of a key, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Keep a value, if it fits at all."""
        with self._lock:
            self._drop(key)
            if nbytes > self.max_bytes or self.max_entries == 0:
                return
            self._kept[key] = (value, nbytes)
            self._bytes += nbytes
            while self._bytes > self.max_bytes or len(self._kept) > self.max_entries:
                self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _drop(self, key: Hashable) -> None:
        _, nbytes = self._kept.pop(key, (None, 0))
        self._bytes -= nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.max_bytes, self.max_entries)
