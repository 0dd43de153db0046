"""Tuple space: an ordered sequence of values, each with its own space."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from sekai.error import SpaceError
from sekai.spaces.masks import allows
from sekai.spaces.nested import adopt_children, nested_mismatch
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Self

    from sekai.backend import Backend


class Tuple(Space[tuple[Any, ...]]):
    """Tuples with one value from each space, in order.

    Args:
        spaces: space of each item.
        backend: array backend of samples; None uses the backend that the spaces share.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("spaces",)

    def __init__(self, spaces: Iterable[Space[Any]], *, backend: Backend | None = None) -> None:
        if not isinstance(spaces, Iterable):
            raise ValueError(f"spaces must be an iterable of spaces, got {spaces!r}")
        children, backend = adopt_children(dict(enumerate(spaces)), backend)
        super().__init__(backend=backend)
        self.spaces: tuple[Space[Any], ...] = tuple(children.values())

    def children(self) -> Mapping[int, Space[Any]]:
        """Spaces by index."""
        return dict(enumerate(self.spaces))

    def sample(self, mask: Any = None) -> tuple[Any, ...]:
        """Draw a random tuple.

        Args:
            mask: tuple with the mask of each item, None for items without one.
        """
        if mask is None:
            return tuple([space.sample() for space in self.spaces])
        if not isinstance(mask, (tuple, list)) or len(mask) != len(self.spaces):
            length = len(mask) if isinstance(mask, (tuple, list)) else type(mask).__name__
            raise SpaceError(f"mask must be a tuple of {len(self.spaces)} masks, got {length}")
        return tuple(space.sample(part) for space, part in zip(self.spaces, mask, strict=True))

    def mismatch(self, value: object) -> str | None:
        """Return None if `value` is in the space, otherwise its path and the expectation."""
        if not isinstance(value, tuple):
            return f"expected a tuple, got {type(value).__name__}"
        if len(value) != len(self.spaces):
            return f"expected {len(self.spaces)} values, got {len(value)}"
        for position, space in enumerate(self.spaces):
            reason = space.mismatch(value[position])
            if reason is not None:
                return nested_mismatch(position, reason)
        return None

    def __getitem__(self, position: int) -> Space[Any]:
        return self.spaces[position]

    def __iter__(self) -> Iterator[Space[Any]]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)

    def _to_fields(self) -> dict[str, Any]:
        return {"spaces": [space.to_jsonable() for space in self.spaces]}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        if not isinstance(fields["spaces"], list):
            raise ValueError(f"'spaces' must be a list of spaces, got {fields['spaces']!r}")
        return cls(Space.from_jsonable(space) for space in fields["spaces"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{', '.join(map(repr, self.spaces))}])"


@allows.register(Tuple)
def _tuple_allows(space: Tuple, mask: Any, value: Any) -> bool:
    return mask is None or all(map(allows, space.spaces, mask, value))
