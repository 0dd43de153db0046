"""An array of whole numbers, each one of finitely many."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.error import SpaceError
from sekai.spaces.bounds import number_array, whole_limits
from sekai.spaces.counts import shape_of
from sekai.spaces.draw import FEW, draw_below
from sekai.spaces.jsonable import numbers_from_json, numbers_to_json
from sekai.spaces.sampling_mask import choices
from sekai.spaces.space import Space, read_only

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

    from sekai.backend import Backend


class MultiDiscrete(Space["NDArray[np.intp]"]):
    """Arrays whose elements are each one of `start`, ..., `start + nvec - 1`, element by element.

    An array of any integer dtype belongs when it has the shape and each element is one of its
    values. Samples are uniform.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    json_fields: ClassVar[tuple[str, ...]] = ("nvec", "start", "shape")

    def __init__(self, nvec: Any, start: Any = None, *, backend: Backend | None = None) -> None:
        """Count the values of each element.

        Args:
            nvec: how many values each element has, an array of any shape.
            start: the first value of each element, an array of the same shape or one number;
                None begins at 0.
            backend: who makes the samples.
        """
        intp = np.dtype(np.intp)
        counts = number_array(nvec, None, intp, "nvec")
        starts = number_array(0 if start is None else start, counts.shape, intp, "start")
        super().__init__(counts.shape, intp, backend=backend)
        self.nvec: NDArray[np.intp] = read_only(counts)
        self.start: NDArray[np.intp] = read_only(starts)
        if (counts < 1).any():
            raise ValueError(f"nvec must be at least 1 everywhere, was {nvec!r}")
        if (starts > whole_limits(intp)[1] - (counts - 1)).any():
            raise ValueError(f"the values must fit {intp}, were {nvec!r} from {start!r}")

    @cached_property
    def last(self) -> NDArray[np.intp]:
        """The greatest value of each element."""
        return read_only(self.start + (self.nvec - 1))

    @cached_property
    def offsets(self) -> NDArray[np.intp]:
        """Where the entries of each element begin in a flattened value."""
        counts = self.nvec.reshape(-1)
        return read_only(np.cumsum(counts) - counts)

    def sample(self, mask: Any = None) -> NDArray[np.intp]:
        """A random array.

        Args:
            mask: for each element 1 for each value that may be drawn and 0 for the others: a tuple
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
            place = "mask" + "".join(f"[{i}]" for i in index)
            part = self.to_numpy(_part(mask, index, self.shape))
            allowed = choices(part, int(self.nvec[index]), place)
            values[index] = allowed[draw_below(self.rng, allowed.size)]
        return values

    def mismatch(self, value: object) -> str | None:
        """None when `value` belongs, else what was wanted and what was found."""
        array = value if type(value) is np.ndarray else self.to_numpy(value)
        if not isinstance(array, np.ndarray):
            return f"wanted an array of shape {self.shape}, found {type(value).__name__}"
        if array.dtype.kind not in "iu":
            return f"wanted an integer dtype, found {array.dtype}"
        if array.shape != self.shape:
            return f"wanted shape {self.shape}, found {array.shape}"
        within = (array >= self.start) & (array <= self.last)
        if np.count_nonzero(within) == array.size:
            return None
        index = tuple(np.argwhere(~within)[0].tolist())
        wanted = f"from {self.start[index]} to {self.last[index]}"
        return f"wanted a value {wanted} at index {list(index)}, found {array[index]}"

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
    """The mask of one element, from masks nested as deep as `shape`."""
    for position, size in zip(index, shape, strict=True):
        if not hasattr(mask, "__len__") or len(mask) != size:
            found = len(mask) if hasattr(mask, "__len__") else type(mask).__name__
            raise SpaceError(f"mask must hold {size} masks for shape {shape}, found {found}")
        mask = mask[position]
    return mask
