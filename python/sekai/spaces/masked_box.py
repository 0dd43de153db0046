"""MaskedBox space: padded sets of rows with a mask of used slots."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.spaces.box import Box
from sekai.spaces.dict import Dict
from sekai.spaces.masks import allows, zero_one_mask
from sekai.spaces.nested import nested_mismatch
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from sekai.backend import Backend


class MaskedBox(Space[dict[str, Any]]):
    """Dicts of "values", an array with one row per slot, and "mask", a bool per slot.

    Rows in use are within `low` and `high` as in a `Box`; unused rows are zero, whatever the
    bounds. Samples are uniform over the number of slots in use, and over the choice of those slots.

    Args:
        low: lower bound of rows in use, a number or an array.
        high: upper bound, likewise.
        shape: shape of the values, whose first axis is the slots; None takes it from the array
            bounds.
        dtype: dtype of the values.
        backend: array backend of samples.
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
        self.box = Box(low, high, shape, dtype)
        super().__init__(self.box.shape, self.box.dtype, backend=backend)
        if not self.shape:
            raise ValueError("shape must have a first axis of slots, got ()")

    @property
    def slots(self) -> int:
        """Number of slots."""
        return self.shape[0]

    @property
    def low(self) -> NDArray[Any]:
        """Lower bound of each element in use."""
        return self.box.low

    @property
    def high(self) -> NDArray[Any]:
        """Upper bound of each element in use."""
        return self.box.high

    def sample(self, mask: Any = None) -> dict[str, Any]:
        """Draw a random padded set.

        Args:
            mask: bool per slot that selects the slots in use; None draws them.
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
        """Dict space of values and mask, without the constraint that they agree."""
        zero = self.dtype.type(0)
        low, high = np.minimum(self.low, zero), np.maximum(self.high, zero)
        values = Box(low, high, self.shape, self.dtype)
        mask = Box(False, True, (self.slots,), np.bool_)
        return Dict({"values": values, "mask": mask}, backend=self.backend)

    def mismatch(self, value: object) -> str | None:
        """Return None if `value` is in the space, otherwise its path and the expectation."""
        reason = self.parts.mismatch(value)
        if reason is not None:
            return reason
        assert isinstance(value, dict), "the parts would have refused anything else"
        values, used = self.to_numpy(value["values"]), self.to_numpy(value["mask"])
        reason = self._values_mismatch(values, used)
        return None if reason is None else nested_mismatch("values", reason)

    def _values_mismatch(self, values: NDArray[Any], used: NDArray[np.bool_]) -> str | None:
        padding = values[~used]
        if padding.any():
            slot = int(np.flatnonzero(~used)[np.argwhere(padding)[0][0]])
            return (
                f"expected zeros in slot {slot}, which the mask marks as unused, got {values[slot]}"
            )
        # Unused rows are zero here; replace them by the low bound, which is always valid.
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


@allows.register(MaskedBox)
def _masked_box_allows(space: MaskedBox, mask: Any, value: Any) -> bool:
    return mask is None or (
        space.contains(value) and np.array_equal(np.asarray(mask, bool), np.asarray(value["mask"]))
    )
