"""Values that a spec names by import path, and that only `make` imports."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from sekai.registry.containers import rebuilt
from sekai.registry.entry_point import load, path_of

__all__ = ["DEFERRED_TAGS", "Deferred", "defer", "resolved"]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Deferred:
    """A value read from JSON that is imported when an env is made; it equals that value."""

    tag: str
    payload: Any
    """An import path, or a list of one and of what the class it names is given."""

    def resolve(self) -> Any:
        """Import the value, or let the class that is named build it."""
        return _RESOLVERS[self.tag](resolved(self.payload))

    def __eq__(self, other: object) -> bool:
        from sekai.registry.json_value import equal_arguments

        theirs = other if isinstance(other, Deferred) else defer(other)
        if theirs is None:
            return NotImplemented
        return equal_arguments([self.tag, self.payload], [theirs.tag, theirs.payload])

    def __hash__(self) -> int:
        return hash(self.tag)


def defer(value: Any) -> Deferred | None:
    """Name `value` by what can be imported, if it can: code, enums, dataclasses, spaces.

    Any object can take part by having `to_jsonable()` and a class method `from_jsonable()`.
    """
    path = path_of(value)
    if path is not None:
        return Deferred("$import", path)
    class_path = path_of(type(value))
    if class_path is None or isinstance(value, type):
        return None
    if isinstance(value, enum.Enum):
        return Deferred("$enum", [class_path, value.name])
    if hasattr(value, "to_jsonable") and hasattr(type(value), "from_jsonable"):
        return Deferred("$jsonable", [class_path, value.to_jsonable()])
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return Deferred("$dataclass", [class_path, {name: getattr(value, name) for name in names}])
    return None


def resolved(value: Any) -> Any:
    """`value` with everything deferred in it imported; containers are new ones."""
    if isinstance(value, Deferred):
        return value.resolve()
    return rebuilt(value, resolved)


def _resolve_enum(payload: list[Any]) -> Any:
    path, name = payload
    return _class_at(path, enum.EnumMeta)[name]


def _resolve_jsonable(payload: list[Any]) -> Any:
    path, description = payload
    found = _class_at(path, type)
    if not hasattr(found, "from_jsonable"):
        raise TypeError(f"{path!r} must have a class method from_jsonable, and has none")
    return found.from_jsonable(description)


def _resolve_dataclass(payload: list[Any]) -> Any:
    path, values = payload
    found = _class_at(path, type)
    if not hasattr(found, "__dataclass_fields__"):
        raise TypeError(f"{path!r} must be a dataclass, was {found!r}")
    return found(**values)


def _class_at(path: str, kind: type) -> Any:
    found = load(path)
    if not isinstance(found, kind):
        raise TypeError(f"{path!r} must be a class, was {found!r}")
    return found


_RESOLVERS: dict[str, Callable[[Any], Any]] = {
    "$import": load,
    "$enum": _resolve_enum,
    "$jsonable": _resolve_jsonable,
    "$dataclass": _resolve_dataclass,
}
DEFERRED_TAGS = frozenset(_RESOLVERS)
