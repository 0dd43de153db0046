"""Box space: arrays of numbers between bounds."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.error import SpaceError
from sekai.spaces.jsonable import numbers_from_json, numbers_to_json
from sekai.spaces.numbers import Draw, bound_arrays, draw_between, number_dtype, shape_of
from sekai.spaces.space import Space, read_only

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from sekai.backend import Backend


class Box(Space["NDArray[Any]"]):
    """Arrays of one shape and dtype with each element between `low` and `high`, both included.

    An array is in the box if it has the shape, its dtype casts safely to the space's, it has no NaN
    and every element is within its bounds; a box of shape () also contains Python numbers. Infinite
    float bounds mean unbounded, infinite integer bounds the limits of the dtype.

    Samples are uniform between two bounds, exponential from one bound, and normal without bounds.

    Args:
        low: lower bound, a number or an array.
        high: upper bound, a number or an array.
        shape: shape of a value; None takes it from the array bounds.
        dtype: bool, any integer, or float16, float32 or float64.
        backend: array backend of samples.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    json_fields: ClassVar[tuple[str, ...]] = ("low", "high", "shape", "dtype")

    def __init__(
        self,
        low: Any,
        high: Any,
        shape: Any = None,
        dtype: DTypeLike = np.float32,
        *,
        backend: Backend | None = None,
    ) -> None:
        checked = number_dtype(dtype)
        low, high = bound_arrays(low, high, shape, checked)
        super().__init__(low.shape, checked, backend=backend)
        self.low: NDArray[Any] = read_only(low)
        self.high: NDArray[Any] = read_only(high)
        self._is_unbounded = bool(np.isinf(low).all() and np.isinf(high).all())

    @property
    def is_bounded(self) -> tuple[bool, bool]:
        """Pair of flags: all elements bounded below, all elements bounded above."""
        return bool(np.isfinite(self.low).all()), bool(np.isfinite(self.high).all())

    @cached_property
    def exact_float(self) -> np.dtype[Any] | None:
        """Smallest float dtype that represents every value exactly; None if float64 does not."""
        if self.dtype.kind == "f":
            return np.result_type(self.dtype, np.float32)
        furthest = max(
            abs(int(bound)) for bound in (self.low.min(initial=0), self.high.max(initial=0))
        )
        if furthest <= 2**24:
            return np.dtype(np.float32)
        return np.dtype(np.float64) if furthest <= 2**53 else None

    @cached_property
    def draw(self) -> Draw:
        """Function that draws one NumPy sample from a generator."""
        return draw_between(self.low, self.high)

    def sample(self, mask: None = None) -> NDArray[Any]:
        """Draw a random array; a box takes no mask."""
        if mask is not None:
            raise SpaceError(f"a Box takes no mask, got {type(mask).__name__}")
        values = self.draw(self.rng)
        return values if self._is_numpy else self.to_backend(values)

    def mismatch(self, value: object) -> str | None:
        """Return None if `value` is in the space, otherwise the expectation and what it got."""
        array = value if type(value) is np.ndarray else self.to_numpy(value)
        if isinstance(array, np.generic):
            array = np.asarray(array)
        if not isinstance(array, np.ndarray):
            return self._plain_mismatch(array)
        if array.dtype is not self.dtype and not np.can_cast(array.dtype, self.dtype):
            return f"expected dtype {self.dtype}, got {array.dtype}"
        if array.shape != self.shape:
            return f"expected shape {self.shape}, got {array.shape}"
        # Counting is several times faster than `all`, and NaN is never counted as within.
        if self._is_unbounded:
            return self._outside(array) if np.count_nonzero(np.isnan(array)) else None
        within = np.count_nonzero((array >= self.low) & (array <= self.high))
        return None if within == array.size else self._outside(array)

    def _plain_mismatch(self, value: object) -> str | None:
        # A bool is an int to Python, but belongs to boxes of bools alone.
        kinds = {"b": (bool,), "f": (int, float)}.get(self.dtype.kind, (int,))
        fits = isinstance(value, kinds) and isinstance(value, bool) == (self.dtype.kind == "b")
        if self.shape or not fits:
            return f"expected an array of shape {self.shape}, got {type(value).__name__}"
        low, high = self.low.item(), self.high.item()
        if low <= value <= high:
            return None
        return f"expected a value from {low} to {high}, got {value}"

    def _outside(self, array: NDArray[Any]) -> str:
        index = tuple(np.argwhere(~((array >= self.low) & (array <= self.high)))[0].tolist())
        expected = f"from {self.low[index]} to {self.high[index]}"
        return f"expected a value {expected} at index {list(index)}, got {array[index]}"

    def _to_fields(self) -> dict[str, Any]:
        return {
            "low": numbers_to_json(self.low),
            "high": numbers_to_json(self.high),
            "shape": list(self.shape),
            "dtype": self.dtype.name,
        }

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        shape = shape_of(fields["shape"])
        low, high = (numbers_from_json(fields[name], shape, name) for name in ("low", "high"))
        return cls(low, high, shape, fields["dtype"])

    def __repr__(self) -> str:
        low, high = _short(self.low), _short(self.high)
        return f"{type(self).__name__}({low}, {high}, {self.shape}, {self.dtype})"


def _short(bound: NDArray[Any]) -> str:
    if bound.size and (bound == bound.flat[0]).all():
        return str(bound.flat[0])
    return " ".join(np.array2string(bound, threshold=6, edgeitems=2).split())
