"""One of finitely many whole numbers in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.spaces.bounds import whole_limits
from sekai.spaces.counts import whole_number
from sekai.spaces.draw import draw_below
from sekai.spaces.sampling_mask import choices
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from sekai.backend import Backend


class Discrete(Space[np.intp]):
    """The whole numbers `start`, `start + 1`, ..., `start + n - 1`.

    A Python int, a NumPy integer or a 0-d array of integers belongs when it is one of them; bools
    and floats never do. Samples are uniform.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    json_fields: ClassVar[tuple[str, ...]] = ("n", "start")

    def __init__(self, n: int, start: int = 0, *, backend: Backend | None = None) -> None:
        """Count the values.

        Args:
            n: how many values there are.
            start: the first of them.
            backend: who makes the samples.
        """
        super().__init__((), np.intp, backend=backend)
        self.n = whole_number(n, "n", 1)
        self.start = whole_number(start, "start")
        self._stop = self.start + self.n
        least, most = whole_limits(self.dtype)
        if self.n > most or self.start < least or self._stop - 1 > most:
            raise ValueError(
                f"the values must fit {self.dtype}, were {self.start} to {self._stop - 1}"
            )

    def sample(self, mask: Any = None) -> np.intp:
        """A random value.

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
        """None when `value` belongs, else what was wanted and what was found."""
        number = value if type(value) is int else self._whole(value)
        if number is None:
            return f"wanted a whole number, found {_described(value)}"
        if self.start <= number < self._stop:
            return None
        return f"wanted a value from {self.start} to {self._stop - 1}, found {number}"

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
