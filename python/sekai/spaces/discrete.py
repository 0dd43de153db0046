"""Discrete space: a range of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.spaces.masks import allows, choices
from sekai.spaces.numbers import checked_integer, draw_below, integer_limits
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from sekai.backend import Backend


class Discrete(Space[np.intp]):
    """Integers `start`, `start + 1`, ..., `start + n - 1`.

    Python ints, NumPy integers and 0-d integer arrays can be elements; bools and floats never are.
    Samples are uniform.

    Args:
        n: number of values.
        start: first value.
        backend: array backend of samples.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    json_fields: ClassVar[tuple[str, ...]] = ("n", "start")

    def __init__(self, n: int, start: int = 0, *, backend: Backend | None = None) -> None:
        super().__init__((), np.intp, backend=backend)
        self.n = checked_integer(n, "n", 1)
        self.start = checked_integer(start, "start")
        self._stop = self.start + self.n
        least, most = integer_limits(self.dtype)
        if self.n > most or self.start < least or self._stop - 1 > most:
            raise ValueError(f"values must fit {self.dtype}, got {self.start} to {self._stop - 1}")

    def sample(self, mask: Any = None) -> np.intp:
        """Draw a random value.

        Args:
            mask: 1 for each value that may be drawn and 0 for the others, in order.
        """
        if mask is None:
            position = draw_below(self.rng, self.n)
        else:
            allowed = choices(self.to_numpy(mask), self.n)
            position = int(allowed[draw_below(self.rng, allowed.size)])
        value = np.intp(self.start + position)
        return value if self._is_numpy else self.to_backend(value)

    def mismatch(self, value: object) -> str | None:
        """Return None if `value` is in the space, otherwise the expectation and what it got."""
        number = value if type(value) is int else self._whole(value)
        if number is None:
            return f"expected an integer, got {_described(value)}"
        if self.start <= number < self._stop:
            return None
        return f"expected a value from {self.start} to {self._stop - 1}, got {number}"

    def _whole(self, value: object) -> int | None:
        if isinstance(value, np.integer):
            return int(value)
        value = self.to_numpy(value)
        if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "iu":
            return int(value)
        return int(value) if isinstance(value, int) and not isinstance(value, bool) else None

    def __repr__(self) -> str:
        start = f", start={self.start}" if self.start else ""
        return f"{type(self).__name__}({self.n}{start})"


def _described(value: object) -> str:
    name = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"{name} of shape {value.shape} and dtype {value.dtype}"
    return f"{name} {value!r}"


@allows.register(Discrete)
def _discrete_allows(space: Discrete, mask: Any, value: Any) -> bool:
    return mask is None or (
        space.contains(value) and bool(np.asarray(mask)[int(value) - space.start])
    )
