"""Named values, each from a space of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from sekai.error import SpaceError
from sekai.spaces.nested import adopted, nested_mismatch
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, KeysView, ValuesView

    from typing_extensions import Self

    from sekai.backend import Backend


class Dict(Space[dict[str, Any]]):
    """Dicts with exactly these keys, each value from the space of that name.

    The order given is the order of samples and of flattened values, so it counts when two spaces
    are compared; a dict belongs in whatever order its keys are. The space itself can be read like
    a mapping of its spaces, except that `x in space` asks whether the dict `x` belongs.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("spaces",)

    def __init__(
        self,
        spaces: Mapping[str, Space[Any]] | None = None,
        *,
        backend: Backend | None = None,
        **named: Space[Any],
    ) -> None:
        """Name the spaces.

        Args:
            spaces: the space of each name, in order.
            backend: who makes the samples; None keeps the one that the spaces share.
            **named: more of them, after those of `spaces`; the names "spaces" and "backend" can
                only be given there.
        """
        if spaces is not None and not isinstance(spaces, Mapping):
            raise ValueError(f"spaces must be a mapping of names to spaces, was {spaces!r}")
        both = {**(spaces or {}), **named}
        strange = [key for key in both if not isinstance(key, str)]
        if strange:
            raise ValueError(f"the names of spaces must be strings, was {strange[0]!r}")
        children, backend = adopted(both, backend)
        super().__init__(backend=backend)
        self.spaces: OrderedDict[str, Space[Any]] = OrderedDict(children)

    def children(self) -> Mapping[str, Space[Any]]:
        """The spaces by name."""
        return self.spaces

    def sample(self, mask: Any = None) -> dict[str, Any]:
        """A random dict.

        Args:
            mask: a dict with the masks of some or all names.
        """
        if mask is None:
            return {key: space.sample() for key, space in self.spaces.items()}
        if not isinstance(mask, Mapping) or not mask.keys() <= self.spaces.keys():
            found = list(mask) if isinstance(mask, Mapping) else type(mask).__name__
            raise SpaceError(f"mask must be a dict with keys of {list(self)}, found {found}")
        return {key: space.sample(mask.get(key)) for key, space in self.spaces.items()}

    def mismatch(self, value: object) -> str | None:
        """None when `value` belongs, else what was wanted and what was found, and where."""
        if not isinstance(value, dict):
            return f"wanted a dict, found {type(value).__name__}"
        if value.keys() != self.spaces.keys():
            return f"wanted the keys {list(self)}, found {list(value)}"
        for key, space in self.spaces.items():
            sentence = space.mismatch(value[key])
            if sentence is not None:
                return nested_mismatch(key, sentence)
        return None

    def __getitem__(self, key: str) -> Space[Any]:
        return self.spaces[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self.spaces.keys()

    def values(self) -> ValuesView[Space[Any]]:
        """The spaces."""
        return self.spaces.values()

    def items(self) -> ItemsView[str, Space[Any]]:
        """The names with their spaces."""
        return self.spaces.items()

    def _to_fields(self) -> dict[str, Any]:
        # Pairs, because a JSON object may lose its order on the way.
        return {"spaces": [[key, space.to_jsonable()] for key, space in self.spaces.items()]}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        pairs = fields["spaces"]
        if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
            raise ValueError(f"'spaces' must be a list of [name, space] pairs, was {pairs!r}")
        spaces: dict[str, Space[Any]] = {key: Space.from_jsonable(space) for key, space in pairs}
        if len(spaces) != len(pairs):
            raise ValueError(f"each name may appear once, found {[key for key, _ in pairs]}")
        return cls(spaces)

    def __repr__(self) -> str:
        inside = ", ".join(f"{key!r}: {space!r}" for key, space in self.spaces.items())
        return f"{type(self).__name__}({{{inside}}})"


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
