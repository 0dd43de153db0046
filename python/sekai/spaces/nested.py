"""Nested spaces: child spaces, their shared backend, and paths in messages."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from sekai.backend import get_backend
from sekai.error import SpaceError
from sekai.spaces.space import Space

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sekai.backend import Backend, BackendOps
    from sekai.spaces.dict import Dict
    from sekai.spaces.tuple import Tuple

Key = TypeVar("Key", str, int)


def adopt_children(
    spaces: Mapping[Key, Space[Any]], backend: Backend | None
) -> tuple[dict[Key, Space[Any]], Backend]:
    """Return the children of a new nested space and the backend they share.

    A space that appears twice is copied, so that no two children share a random generator. If
    `backend` is passed, children with another backend are copied too; otherwise they must agree.
    """
    if not spaces:
        raise ValueError("expected at least one nested space, got none")
    children: dict[Key, Space[Any]] = {}
    seen: set[int] = set()
    for key, space in spaces.items():
        if not isinstance(space, Space):
            raise ValueError(f"[{key!r}] must be a space, got {space!r}")
        child = space if seen.isdisjoint(_ids(space)) else copy.deepcopy(space)
        if backend is not None and child.backend != get_backend(backend):
            child = child.with_backend(backend)
        children[key] = child
        seen |= _ids(child)
    return children, _shared_backend(children) if backend is None else backend


def nested_mismatch(key: str | int, reason: str) -> str:
    """Prefix the mismatch of a child with its key."""
    rest = reason[len("at ") :] if reason.startswith("at [") else f": {reason}"
    return f"at [{key!r}]{rest}"


def _ids(space: Space[Any]) -> set[int]:
    return {id(space)}.union(*(_ids(child) for child in space.children().values()))


def _shared_backend(children: Mapping[Key, Space[Any]]) -> BackendOps:
    first, *others = (child.backend for child in children.values())
    if any(other != first for other in others):
        raise SpaceError(
            f"nested spaces must share one backend, got {[first, *others]}; pass backend="
        )
    return first


def require_structure(space: Dict | Tuple, values: Sequence[Any]) -> None:
    """Raise `SpaceError` unless each value is a dict or tuple with an item per child."""
    if isinstance(space.spaces, dict):
        keys = space.spaces.keys()
        fits = [isinstance(value, dict) and value.keys() == keys for value in values]
    else:
        length = len(space.spaces)
        fits = [isinstance(value, tuple) and len(value) == length for value in values]
    if not all(fits):
        raise SpaceError(str(space.mismatch(values[fits.index(False)])))
