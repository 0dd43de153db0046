"""Spaces as strict JSON: the names of their types, their fields, and exact numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sekai.spaces.space import Space

_TYPES: dict[str, type[Space[Any]]] = {}
_INFINITIES = {"inf": np.inf, "-inf": -np.inf}


def type_name(space_type: type[Space[Any]]) -> str:
    """The name in JSON: bare for sekai's own spaces, with the module for everyone else's."""
    if space_type.__module__.startswith("sekai.spaces."):
        return space_type.__name__
    return f"{space_type.__module__}:{space_type.__qualname__}"


def remember_type(space_type: type[Space[Any]]) -> None:
    """Let JSON that carries the type's name be read."""
    _TYPES[type_name(space_type)] = space_type


def described_type(description: object) -> type[Space[Any]]:
    """The type of space that `description` is about."""
    if not isinstance(description, Mapping) or "type" not in description:
        raise ValueError(f"a space's JSON is an object with the key 'type', was {description!r}")
    name = description["type"]
    if not isinstance(name, str) or name not in _TYPES:
        raise ValueError(
            f"'type' must be one of {sorted(_TYPES)} (a space of your own is known once the "
            f"module that defines it is imported), was {name!r}"
        )
    return _TYPES[name]


def checked_fields(description: Mapping[str, Any], wanted: tuple[str, ...]) -> dict[str, Any]:
    """The description without its type, when it has exactly the wanted keys."""
    fields = {key: value for key, value in description.items() if key != "type"}
    if set(fields) != set(wanted):
        raise ValueError(
            f"the JSON of a {description['type']} has the keys {sorted(wanted)} beside 'type', "
            f"found {sorted(fields, key=str)}"
        )
    return fields


def numbers_to_json(array: NDArray[Any]) -> Any:
    """One number when all are equal, else a flat list in row-major order."""
    if array.size and (array == array.flat[0]).all():
        return _number_to_json(array.flat[0].item())
    return [_number_to_json(number) for number in array.ravel().tolist()]


def numbers_from_json(value: Any, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """The array that `numbers_to_json` wrote, still of Python's own numbers: no bit is lost."""
    if not isinstance(value, list):
        return np.full(shape, _number_from_json(value, name), dtype=object)
    array = np.empty(len(value), dtype=object)
    array[:] = [_number_from_json(number, name) for number in value]
    if array.size != int(np.prod(shape)):
        raise ValueError(f"{name!r} must hold {int(np.prod(shape))} numbers, found {array.size}")
    return array.reshape(shape)


def _number_to_json(number: Any) -> Any:
    if isinstance(number, float) and np.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number


def _number_from_json(value: Any, name: str) -> Any:
    if isinstance(value, str) and value in _INFINITIES:
        return _INFINITIES[value]
    if not isinstance(value, (int, float)):
        raise ValueError(f"{name!r} must hold numbers, 'inf' or '-inf', found {value!r}")
    return value
