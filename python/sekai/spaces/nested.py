"""What spaces made of spaces share: taking children in, and saying where one disagrees."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from sekai.backend import get_backend
from sekai.error import SpaceError
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sekai.backend import Backend, BackendOps

Key = TypeVar("Key", str, int)


def adopted(
    spaces: Mapping[Key, Space[Any]], backend: Backend | None
) -> tuple[dict[Key, Space[Any]], Backend]:
    """The children of a new space, and the backend they share.

    A space that appears twice is copied, so that no two children draw from one stream. With a
    `backend` given the children that use another are copied too; without one they must agree.
    """
    if not spaces:
        raise ValueError("at least one nested space is needed, found none")
    children: dict[Key, Space[Any]] = {}
    seen: set[int] = set()
    for key, space in spaces.items():
        if not isinstance(space, Space):
            raise ValueError(f"[{key!r}] must be a space, was {space!r}")
        child = space if seen.isdisjoint(_ids(space)) else copy.deepcopy(space)
        if backend is not None and child.backend != get_backend(backend):
            child = child.with_backend(backend)
        children[key] = child
        seen |= _ids(child)
    return children, _shared_backend(children) if backend is None else backend


def nested_mismatch(key: str | int, sentence: str) -> str:
    """The child's sentence with the path to it in front."""
    rest = sentence[len("at ") :] if sentence.startswith("at [") else f": {sentence}"
    return f"at [{key!r}]{rest}"


def _ids(space: Space[Any]) -> set[int]:
    return {id(space)}.union(*(_ids(child) for child in space.children().values()))


def _shared_backend(children: Mapping[Key, Space[Any]]) -> BackendOps:
    first, *others = (child.backend for child in children.values())
    if any(other != first for other in others):
        raise SpaceError(
            f"nested spaces must share one backend, found {[first, *others]}: pass backend="
        )
    return first
