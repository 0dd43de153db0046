"""Dict space: named values, each with its own space."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from sekai.error import SpaceError
from sekai.spaces.masks import allows
from sekai.spaces.nested import adopt_children, nested_mismatch
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, KeysView, ValuesView

    from typing_extensions import Self

    from sekai.backend import Backend


class Dict(Space[dict[str, Any]]):
    """Dicts with exactly these keys, each value in the space of its key.

    The order of keys is the order of samples and flattened values, so it counts when two spaces are
    compared; a value may have its keys in any order. The space is a read-only mapping of its
    spaces, except that `x in space` tests whether the dict `x` is in the space.

    Args:
        spaces: space of each key, in order.
        backend: array backend of samples; None uses the backend that the spaces share.
        **named: further spaces, after those of `spaces`; the names "spaces" and "backend" can only
            be passed in `spaces`.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("spaces",)

    def __init__(
        self,
        spaces: Mapping[str, Space[Any]] | None = None,
        *,
        backend: Backend | None = None,
        **named: Space[Any],
    ) -> None:
        if spaces is not None and not isinstance(spaces, Mapping):
            raise ValueError(f"spaces must be a mapping of names to spaces, got {spaces!r}")
        both = {**(spaces or {}), **named}
        invalid = [key for key in both if not isinstance(key, str)]
        if invalid:
            raise ValueError(f"names of spaces must be strings, got {invalid[0]!r}")
        children, backend = adopt_children(both, backend)
        super().__init__(backend=backend)
        self.spaces: OrderedDict[str, Space[Any]] = OrderedDict(children)

    def children(self) -> Mapping[str, Space[Any]]:
        """Spaces by key."""
        return self.spaces

    def sample(self, mask: Any = None) -> dict[str, Any]:
        """Draw a random dict.

        Args:
            mask: dict with the masks of some or all keys.
        """
        if mask is None:
            return {key: space.sample() for key, space in self.spaces.items()}
        if not isinstance(mask, Mapping) or not mask.keys() <= self.spaces.keys():
            keys = list(mask) if isinstance(mask, Mapping) else type(mask).__name__
            raise SpaceError(f"mask must be a dict with keys of {list(self)}, got {keys}")
        return {key: space.sample(mask.get(key)) for key, space in self.spaces.items()}

    def mismatch(self, value: object) -> str | None:
        """Return None if `value` is in the space, otherwise its path and the expectation."""
        if not isinstance(value, dict):
            return f"expected a dict, got {type(value).__name__}"
        if value.keys() != self.spaces.keys():
            return f"expected the keys {list(self)}, got {list(value)}"
        for key, space in self.spaces.items():
            reason = space.mismatch(value[key])
            if reason is not None:
                return nested_mismatch(key, reason)
        return None

    def __getitem__(self, key: str) -> Space[Any]:
        return self.spaces[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)

    def keys(self) -> KeysView[str]:
        """Keys of the space."""
        return self.spaces.keys()

    def values(self) -> ValuesView[Space[Any]]:
        """Spaces of the keys."""
        return self.spaces.values()

    def items(self) -> ItemsView[str, Space[Any]]:
        """Pairs of key and space."""
        return self.spaces.items()

    def _to_fields(self) -> dict[str, Any]:
        # Pairs, because a JSON object may lose its order on the way.
        return {"spaces": [[key, space.to_jsonable()] for key, space in self.spaces.items()]}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        pairs = fields["spaces"]
        if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
            raise ValueError(f"'spaces' must be a list of [name, space] pairs, got {pairs!r}")
        spaces: dict[str, Space[Any]] = {key: Space.from_jsonable(space) for key, space in pairs}
        if len(spaces) != len(pairs):
            raise ValueError(f"names must be unique, got {[key for key, _ in pairs]}")
        return cls(spaces)

    def __repr__(self) -> str:
        inside = ", ".join(f"{key!r}: {space!r}" for key, space in self.spaces.items())
        return f"{type(self).__name__}({{{inside}}})"


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


@allows.register(Dict)
def _dict_allows(space: Dict, mask: Any, value: Any) -> bool:
    return mask is None or all(
        allows(child, mask.get(key), value[key]) for key, child in space.spaces.items()
    )
