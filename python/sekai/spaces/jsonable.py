"""JSON format of spaces: type names, fields and exact numbers."""

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
    """Return the JSON name of a space type: bare for built-in spaces, else with the module."""
    if space_type.__module__.startswith("sekai.spaces."):
        return space_type.__name__
    return f"{space_type.__module__}:{space_type.__qualname__}"


def register_type(space_type: type[Space[Any]]) -> None:
    """Register a space type, so that JSON with its name can be read."""
    _TYPES[type_name(space_type)] = space_type


def space_type_of(description: object) -> type[Space[Any]]:
    """Return the space type of a JSON description."""
    if not isinstance(description, Mapping) or "type" not in description:
        raise ValueError(
            f"JSON of a space must be an object with the key 'type', got {description!r}"
        )
    name = description["type"]
    if not isinstance(name, str) or name not in _TYPES:
        raise ValueError(
            f"'type' must be one of {sorted(_TYPES)} (a custom space is known once the "
            f"module that defines it is imported), got {name!r}"
        )
    return _TYPES[name]


def checked_fields(description: Mapping[str, Any], expected: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a description, or raise `ValueError` unless the keys match."""
    fields = {key: value for key, value in description.items() if key != "type"}
    if set(fields) != set(expected):
        raise ValueError(
            f"the JSON of a {description['type']} has the keys {sorted(expected)} beside 'type', "
            f"got {sorted(fields, key=str)}"
        )
    return fields


def numbers_to_json(array: NDArray[Any]) -> Any:
    """Convert an array to one number if all are equal, otherwise to a flat row-major list."""
    if array.size and (array == array.flat[0]).all():
        return _number_to_json(array.flat[0].item())
    return [_number_to_json(number) for number in array.ravel().tolist()]


def numbers_from_json(value: Any, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Convert the output of `numbers_to_json` to an array of Python numbers, without loss."""
    if not isinstance(value, list):
        return np.full(shape, _number_from_json(value, name), dtype=object)
    array = np.empty(len(value), dtype=object)
    array[:] = [_number_from_json(number, name) for number in value]
    if array.size != int(np.prod(shape)):
        raise ValueError(f"{name!r} must hold {int(np.prod(shape))} numbers, got {array.size}")
    return array.reshape(shape)


def _number_to_json(number: Any) -> Any:
    if isinstance(number, float) and np.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number


def _number_from_json(value: Any, name: str) -> Any:
    if isinstance(value, str) and value in _INFINITIES:
        return _INFINITIES[value]
    if not isinstance(value, (int, float)):
        raise ValueError(f"{name!r} must hold numbers, 'inf' or '-inf', got {value!r}")
    return value
