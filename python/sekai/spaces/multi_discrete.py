"""MultiDiscrete space: arrays of integers, each with its own range."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.error import SpaceError
from sekai.spaces.jsonable import numbers_from_json, numbers_to_json
from sekai.spaces.masks import allows, choices
from sekai.spaces.numbers import FEW, draw_below, integer_limits, number_array, shape_of
from sekai.spaces.space import Space, read_only

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

    from sekai.backend import Backend


class MultiDiscrete(Space["NDArray[np.intp]"]):
    """Integer arrays with each element in `start`, ..., `start + nvec - 1`.

    An array of any integer dtype is in the space if it has the shape and each element is in its
    range. Samples are uniform.

    Args:
        nvec: number of values of each element, an array of any shape.
        start: first value of each element, an array of the same shape or one number; None is 0.
        backend: array backend of samples.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    json_fields: ClassVar[tuple[str, ...]] = ("nvec", "start", "shape")

    def __init__(self, nvec: Any, start: Any = None, *, backend: Backend | None = None) -> None:
        intp = np.dtype(np.intp)
        counts = number_array(nvec, None, intp, "nvec")
        starts = number_array(0 if start is None else start, counts.shape, intp, "start")
        super().__init__(counts.shape, intp, backend=backend)
        self.nvec: NDArray[np.intp] = read_only(counts)
        self.start: NDArray[np.intp] = read_only(starts)
        if (counts < 1).any():
            raise ValueError(f"nvec must be at least 1 everywhere, got {nvec!r}")
        if (starts > integer_limits(intp)[1] - (counts - 1)).any():
            raise ValueError(f"values must fit {intp}, got {nvec!r} from {start!r}")

    @cached_property
    def last(self) -> NDArray[np.intp]:
        """Largest value of each element."""
        return read_only(self.start + (self.nvec - 1))

    @cached_property
    def offsets(self) -> NDArray[np.intp]:
        """Index of each element's first entry in a flattened value."""
        counts = self.nvec.reshape(-1)
        return read_only(np.cumsum(counts) - counts)

    def sample(self, mask: Any = None) -> NDArray[np.intp]:
        """Draw a random array.

        Args:
            mask: for each element, 1 for each value that may be drawn and 0 for the others: a tuple
                of such masks, nested as deep as `nvec` has dimensions.
        """
        values = self._positions() if mask is None else self._masked_positions(mask)
        values += self.start
        return values if self._is_numpy else self.to_backend(values)

    def _positions(self) -> NDArray[np.intp]:
        if self._has_few:
            fractions = self.rng.random(self.shape)
            fractions *= self.nvec
            return fractions.astype(np.intp)
        return np.asarray(self.rng.integers(0, self.nvec - 1, dtype=np.intp, endpoint=True))

    @cached_property
    def _has_few(self) -> bool:
        return bool(self.nvec.max(initial=1) <= FEW)

    def _masked_positions(self, mask: Any) -> NDArray[np.intp]:
        values = np.empty(self.shape, np.intp)
        for index in np.ndindex(*self.shape):
            name = "mask" + "".join(f"[{i}]" for i in index)
            part = self.to_numpy(_part(mask, index, self.shape))
            allowed = choices(part, int(self.nvec[index]), name)
            values[index] = allowed[draw_below(self.rng, allowed.size)]
        return values

    def mismatch(self, value: object) -> str | None:
        """Return None if `value` is in the space, otherwise the expectation and what it got."""
        array = value if type(value) is np.ndarray else self.to_numpy(value)
        if not isinstance(array, np.ndarray):
            return f"expected an array of shape {self.shape}, got {type(value).__name__}"
        if array.dtype.kind not in "iu":
            return f"expected an integer dtype, got {array.dtype}"
        if array.shape != self.shape:
            return f"expected shape {self.shape}, got {array.shape}"
        within = (array >= self.start) & (array <= self.last)
        if np.count_nonzero(within) == array.size:
            return None
        index = tuple(np.argwhere(~within)[0].tolist())
        expected = f"from {self.start[index]} to {self.last[index]}"
        return f"expected a value {expected} at index {list(index)}, got {array[index]}"

    def _to_fields(self) -> dict[str, Any]:
        nvec, start = numbers_to_json(self.nvec), numbers_to_json(self.start)
        return {"nvec": nvec, "start": start, "shape": list(self.shape)}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        shape = shape_of(fields["shape"])
        return cls(*(numbers_from_json(fields[name], shape, name) for name in ("nvec", "start")))

    def __repr__(self) -> str:
        start = f", start={self.start.tolist()}" if self.start.any() else ""
        return f"{type(self).__name__}({self.nvec.tolist()}{start})"


def _part(mask: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """Return the mask of one element, from masks nested as deep as `shape`."""
    for position, size in zip(index, shape, strict=True):
        if not hasattr(mask, "__len__") or len(mask) != size:
            length = len(mask) if hasattr(mask, "__len__") else type(mask).__name__
            raise SpaceError(f"mask must hold {size} masks for shape {shape}, got {length}")
        mask = mask[position]
    return mask


@allows.register(MultiDiscrete)
def _multi_discrete_allows(space: MultiDiscrete, mask: Any, value: Any) -> bool:
    if mask is None:
        return True
    if not space.contains(value):
        return False
    positions = np.asarray(value) - space.start
    return all(
        bool(_part(mask, index, space.shape)[position])
        for index, position in np.ndenumerate(positions)
    )
