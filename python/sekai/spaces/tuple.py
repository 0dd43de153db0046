"""Values in a fixed order, each from a space of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from sekai.error import SpaceError
from sekai.spaces.nested import adopted, nested_mismatch
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Self

    from sekai.backend import Backend


class Tuple(Space[tuple[Any, ...]]):
    """Tuples with one value from each space, in order."""

    json_fields: ClassVar[tuple[str, ...]] = ("spaces",)

    def __init__(self, spaces: Iterable[Space[Any]], *, backend: Backend | None = None) -> None:
        """Order the spaces.

        Args:
            spaces: the space of each position.
            backend: who makes the samples; None keeps the one that the spaces share.
        """
        if not isinstance(spaces, Iterable):
            raise ValueError(f"spaces must be several spaces in order, was {spaces!r}")
        children, backend = adopted(dict(enumerate(spaces)), backend)
        super().__init__(backend=backend)
        self.spaces: tuple[Space[Any], ...] = tuple(children.values())

    def children(self) -> Mapping[int, Space[Any]]:
        """The spaces by position."""
        return dict(enumerate(self.spaces))

    def sample(self, mask: Any = None) -> tuple[Any, ...]:
        """A random tuple.

        Args:
            mask: a tuple with the mask of each position, None for those that have none.
        """
        if mask is None:
            return tuple([space.sample() for space in self.spaces])
        if not isinstance(mask, (tuple, list)) or len(mask) != len(self.spaces):
            found = len(mask) if isinstance(mask, (tuple, list)) else type(mask).__name__
            raise SpaceError(f"mask must be a tuple of {len(self.spaces)} masks, found {found}")
        return tuple(space.sample(part) for space, part in zip(self.spaces, mask, strict=True))

    def mismatch(self, value: object) -> str | None:
        """None when `value` belongs, else what was wanted and what was found, and where."""
        if not isinstance(value, tuple):
            return f"wanted a tuple, found {type(value).__name__}"
        if len(value) != len(self.spaces):
            return f"wanted {len(self.spaces)} values, found {len(value)}"
        for position, space in enumerate(self.spaces):
            sentence = space.mismatch(value[position])
            if sentence is not None:
                return nested_mismatch(position, sentence)
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
            raise ValueError(f"'spaces' must be a list of spaces, was {fields['spaces']!r}")
        return cls(Space.from_jsonable(space) for space in fields["spaces"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{', '.join(map(repr, self.spaces))}])"
