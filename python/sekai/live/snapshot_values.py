"""Builds the objects that a state has in it, if they are of packages that are trusted."""

from __future__ import annotations

from typing import Any

from sekai.registry.containers import rebuilt
from sekai.registry.deferred import Deferred
from sekai.registry.entry_point import load

__all__ = ["trusted_value"]

BUILT = ("$dataclass", "$enum", "$jsonable")


def trusted_value(value: Any, packages: tuple[str, ...]) -> Any:
    """`value` with every object in it built; its class must be defined in one of `packages`.

    Raises:
        ValueError: it is somebody else's.
    """
    if not isinstance(value, Deferred):
        return rebuilt(value, lambda part: trusted_value(part, packages))
    if value.tag not in BUILT or not isinstance(value.payload, list):
        raise ValueError(f"values and objects were wanted in a state, found {value.tag}")
    place, content = value.payload
    module, _, name = str(place).partition(":")
    is_trusted = _package(module) in packages and name.isidentifier()
    # What a module has imported is reached through it as well, and has another home.
    if not is_trusted or _package(getattr(load(place), "__module__", "")) not in packages:
        raise ValueError(f"classes of {list(packages)} were wanted in a state, found {place!r:.80}")
    return Deferred(value.tag, [place, trusted_value(content, packages)]).resolve()


def _package(module: str) -> str:
    return module.partition(".")[0]
