"""Padded sets: rows of numbers in slots, of which some are in use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.spaces.box import Box
from sekai.spaces.dict import Dict
from sekai.spaces.nested import nested_mismatch
from sekai.spaces.sampling_mask import zero_one_mask
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from sekai.backend import Backend


class MaskedBox(Space[dict[str, Any]]):
    """Dicts of "values", an array with one row for each slot, and "mask", which slots are in use.

    Rows in use keep within `low` and `high` as in a `Box`; the other rows are zero, whatever the
    bounds. The mask holds one bool for each slot. In samples any number of slots is as likely as
    any other, and so is any choice of so many slots.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    json_fields: ClassVar[tuple[str, ...]] = Box.json_fields

    def __init__(
        self,
        low: Any,
        high: Any,
        shape: Any = None,
        dtype: DTypeLike = np.float32,
        *,
        backend: Backend | None = None,
    ) -> None:
        """Bound the rows.

        Args:
            low: the least value in a row in use, one for all elements or an array.
            high: the greatest value, likewise.
            shape: the shape of the values, whose first axis is the slots; None takes it from the
                arrays among the bounds.
            dtype: the dtype of the values.
            backend: who makes the samples.
        """
        self.box = Box(low, high, shape, dtype)
        super().__init__(self.box.shape, self.box.dtype, backend=backend)
        if not self.shape:
            raise ValueError("shape must have a first axis for the slots, was ()")

    @property
    def slots(self) -> int:
        """How many rows there is room for."""
        return self.shape[0]

    @property
    def low(self) -> NDArray[Any]:
        """The least value of each element in use."""
        return self.box.low

    @property
    def high(self) -> NDArray[Any]:
        """The greatest value of each element in use."""
        return self.box.high

    def sample(self, mask: Any = None) -> dict[str, Any]:
        """A random padded set.

        Args:
            mask: a bool for each slot, which says the slots in use; None draws them.
        """
        if mask is None:
            used = self.rng.permutation(self.slots) < self.rng.integers(self.slots + 1)
        else:
            used = zero_one_mask(self.to_numpy(mask), (self.slots,))
        values = self.box.draw(self.rng)
        values[~used] = 0
        return {"values": self.to_backend(values), "mask": self.to_backend(used)}

    @cached_property
    def parts(self) -> Dict:
        """The space of values and masks apart: what a sample must be before they must agree."""
        zero = self.dtype.type(0)
        low, high = np.minimum(self.low, zero), np.maximum(self.high, zero)
        values = Box(low, high, self.shape, self.dtype)
        mask = Box(False, True, (self.slots,), np.bool_)
        return Dict({"values": values, "mask": mask}, backend=self.backend)

    def mismatch(self, value: object) -> str | None:
        """None when `value` belongs, else what was wanted and what was found, and where."""
        sentence = self.parts.mismatch(value)
        if sentence is not None:
            return sentence
        assert isinstance(value, dict), "the parts would have refused anything else"
        values, used = self.to_numpy(value["values"]), self.to_numpy(value["mask"])
        sentence = self._values_mismatch(values, used)
        return None if sentence is None else nested_mismatch("values", sentence)

    def _values_mismatch(self, values: NDArray[Any], used: NDArray[np.bool_]) -> str | None:
        padding = values[~used]
        if padding.any():
            slot = int(np.flatnonzero(~used)[np.argwhere(padding)[0][0]])
            return f"wanted zeros in slot {slot}, which the mask leaves empty, found {values[slot]}"
        # Empty rows are zero by now; put the low bound in their place, which is always within.
        rows = used.reshape(-1, *(1,) * (values.ndim - 1))
        return self.box.mismatch(np.where(rows, values, self.low))

    def _to_fields(self) -> dict[str, Any]:
        return self.box._to_fields()

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        box = Box._from_fields(fields)
        return cls(box.low, box.high, box.shape, box.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}{repr(self.box)[len('Box') :]}"
