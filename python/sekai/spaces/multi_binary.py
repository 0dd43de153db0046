"""MultiBinary space: arrays of zeros and ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.spaces.masks import allows, checked_mask
from sekai.spaces.numbers import shape_of
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

    from sekai.backend import Backend

_FREE = (-1, 2)


class MultiBinary(Space["NDArray[np.int8]"]):
    """Arrays of zeros and ones.

    An array of any integer dtype or of bools is in the space if it has the shape and only zeros and
    ones. Samples are fair coin flips of dtype int8.

    Args:
        n: number of elements, or their shape.
        backend: array backend of samples.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    json_fields: ClassVar[tuple[str, ...]] = ("n",)

    def __init__(self, n: Any, *, backend: Backend | None = None) -> None:
        shape = shape_of(n, "n")
        super().__init__(shape, np.int8, backend=backend)
        self.n: int | tuple[int, ...] = shape[0] if len(shape) == 1 else shape

    def sample(self, mask: Any = None) -> NDArray[np.int8]:
        """Draw a random array.

        Args:
            mask: array of the space's shape; 0 or 1 forces the element, -1 or 2 leaves it free.
        """
        values = np.asarray(self.rng.random(self.shape) < 0.5).view(np.int8)
        if mask is not None:
            forced = checked_mask(self.to_numpy(mask), self.shape, (0, 1, *_FREE), "mask")
            values = np.where(np.isin(forced, _FREE), values, forced).astype(np.int8)
        return values if self._is_numpy else self.to_backend(values)

    def mismatch(self, value: object) -> str | None:
        """Return None if `value` is in the space, otherwise the expectation and what it got."""
        array = value if type(value) is np.ndarray else self.to_numpy(value)
        if not isinstance(array, np.ndarray):
            return f"expected an array of shape {self.shape}, got {type(value).__name__}"
        if array.dtype.kind not in "biu":
            return f"expected an integer dtype or bool, got {array.dtype}"
        if array.shape != self.shape:
            return f"expected shape {self.shape}, got {array.shape}"
        # 0 and 1 have no bits above the lowest.
        if array.dtype.kind == "b" or not np.count_nonzero(array >> 1):
            return None
        index = tuple(np.argwhere(array >> 1)[0].tolist())
        return f"expected 0 or 1 at index {list(index)}, got {array[index]}"

    def _to_fields(self) -> dict[str, Any]:
        return {"n": self.n if isinstance(self.n, int) else list(self.n)}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(fields["n"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n})"


@allows.register(MultiBinary)
def _multi_binary_allows(space: MultiBinary, mask: Any, value: Any) -> bool:
    if mask is None:
        return True
    mask, value = np.asarray(mask), np.asarray(value)
    return space.contains(value) and bool((np.isin(mask, _FREE) | (mask == value)).all())
