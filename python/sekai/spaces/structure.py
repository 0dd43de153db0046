"""Whether values have the keys or the length of a nested space, whatever is inside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sekai.error import SpaceError
from sekai.spaces.dict import Dict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sekai.spaces.tuple import Tuple


def require_structure(space: Dict | Tuple, values: Sequence[Any]) -> None:
    """A SpaceError unless each value is a dict or tuple with a place for each child of `space`."""
    if isinstance(space, Dict):
        keys = space.spaces.keys()
        fits = [isinstance(value, dict) and value.keys() == keys for value in values]
    else:
        length = len(space.spaces)
        fits = [isinstance(value, tuple) and len(value) == length for value in values]
    if not all(fits):
        raise SpaceError(str(space.mismatch(values[fits.index(False)])))
