"""Writes the arguments of a spec as strict JSON, exactly, and reads them back.

What JSON has no word for becomes an object with one key that begins with `$`: `{"$tuple": [1]}`.
Reading imports and unpickles nothing: what must be imported stays a `Deferred` until `make`.
"""

from __future__ import annotations

import base64
import datetime
import math
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sekai.core.equality import equal_values
from sekai.registry.containers import rebuilt
from sekai.registry.deferred import DEFERRED_TAGS, Deferred, defer
from sekai.registry.entry_point import EntryPoint, named

__all__ = ["entry_point_to_json", "equal_arguments", "from_json_value", "to_json_value"]


def to_json_value(value: Any, name: str) -> Any:
    """`value` in types that JSON knows; `name` is what an error calls it."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is list:
        return _items_to_json(value, name)
    if type(value) is dict and all(type(key) is str and key[:1] != "$" for key in value):
        return {key: to_json_value(item, f"{name}[{key!r}]") for key, item in value.items()}
    kind = _KINDS.get(type(value)) or _kind_of_family(value)
    if kind is not None:
        return {kind.tag: kind.write(value, name)}
    deferred = value if isinstance(value, Deferred) else defer(value)
    if deferred is None:
        raise ValueError(_not_writable(value, name))
    return {deferred.tag: to_json_value(deferred.payload, name)}


def from_json_value(value: Any) -> Any:
    """The value that `to_json_value` wrote."""
    if isinstance(value, list):
        return [from_json_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next((key for key in value if key.startswith("$")), None)
    if tag is None:
        return {key: from_json_value(item) for key, item in value.items()}
    if len(value) == 1 and tag in DEFERRED_TAGS:
        return Deferred(tag, from_json_value(value[tag]))
    if len(value) == 1 and tag in _READERS:
        return _READERS[tag](value[tag])
    known = sorted([*_READERS, *DEFERRED_TAGS])
    raise ValueError(f"a tagged value has one key out of {known}, found {sorted(value)}")


def equal_arguments(left: Any, right: Any) -> bool:
    """Whether two arguments mean the same: a class and its import path, an array and its copy."""
    return equal_values(_canonical(left), _canonical(right))


def _canonical(value: Any) -> Any:
    try:
        return to_json_value(value, "it")
    except ValueError:
        return rebuilt(value, _canonical)


def entry_point_to_json(entry_point: EntryPoint, name: str) -> str:
    """The import path of `entry_point`."""
    path = named(entry_point)
    if not isinstance(path, str):
        raise ValueError(_not_writable(entry_point, name))
    return path


def _not_writable(value: Any, name: str) -> str:
    if callable(value):
        return (
            f"{name} is {value!r}, which no import finds again, so a spec cannot hold it as JSON: "
            f"define it at the top level of a module and pass it by that name"
        )
    return (
        f"{name} is of type {type(value).__name__}, which a spec cannot hold as JSON: pass plain "
        f"values, arrays, spaces or dataclasses, or give the class to_jsonable() and "
        f"from_jsonable()"
    )


class _Kind(NamedTuple):
    """How values of one type are written and read."""

    tag: str
    write: Callable[[Any, str], Any]
    read: Callable[[Any], Any]


def _items_to_json(items: Any, name: str) -> list[Any]:
    return [to_json_value(item, f"{name}[{index}]") for index, item in enumerate(items)]


def _pairs_to_json(value: dict[Any, Any], name: str) -> list[Any]:
    return [
        [to_json_value(key, f"a key of {name}"), to_json_value(item, f"{name}[{key!r}]")]
        for key, item in value.items()
    ]


def _set_to_json(value: Any, name: str) -> list[Any]:
    # A set has no order of its own; the same set must give the same text.
    return sorted((to_json_value(item, f"an item of {name}") for item in value), key=repr)


def _array_to_json(value: np.ndarray[Any, Any] | np.generic, name: str) -> dict[str, Any]:
    array = np.asarray(value)
    return {
        "dtype": _dtype_to_json(array.dtype, name),
        "shape": list(array.shape),
        "base64": _bytes_to_text(array.tobytes(), name),
    }


def _array_from_json(value: dict[str, Any]) -> np.ndarray[Any, Any]:
    flat = np.frombuffer(_bytes_from_text(value["base64"]), _dtype_from_json(value["dtype"]))
    return np.array(flat.reshape(value["shape"]))


def _scalar_from_json(value: dict[str, Any]) -> Any:
    return _array_from_json(value)[()]


def _dtype_to_json(dtype: np.dtype[Any], name: str) -> Any:
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects (dtype {dtype}), which JSON cannot hold")
    return to_json_value(np.lib.format.dtype_to_descr(dtype), name)


def _dtype_from_json(value: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(from_json_value(value))
    if dtype.hasobject:
        raise ValueError(f"a dtype without Python objects was wanted, found {dtype}")
    return dtype


def _bytes_to_text(value: bytes, name: str) -> str:
    return base64.b64encode(value).decode("ascii")


def _bytes_from_text(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _float_from_json(text: str) -> float:
    if text not in ("inf", "-inf", "nan"):
        raise ValueError(f"'inf', '-inf' or 'nan' was wanted, found {text!r}")
    return float(text)


def _kind_of_family(value: Any) -> _Kind | None:
    """The kind of values that come in many types."""
    families = {np.generic: _SCALAR, np.dtype: _DTYPE, pathlib.Path: _PATH}
    return next((kind for family, kind in families.items() if isinstance(value, family)), None)


_SCALAR = _Kind("$scalar", _array_to_json, _scalar_from_json)
_DTYPE = _Kind("$dtype", _dtype_to_json, _dtype_from_json)
_PATH = _Kind("$path", lambda value, _: str(value), pathlib.Path)
_KINDS: dict[type, _Kind] = {
    float: _Kind("$float", lambda value, _: str(value), _float_from_json),
    complex: _Kind(
        "$complex",
        lambda value, name: _items_to_json((value.real, value.imag), name),
        lambda parts: complex(*from_json_value(parts)),
    ),
    tuple: _Kind("$tuple", _items_to_json, lambda items: tuple(from_json_value(items))),
    dict: _Kind("$dict", _pairs_to_json, lambda pairs: dict(from_json_value(pairs))),
    set: _Kind("$set", _set_to_json, lambda items: set(from_json_value(items))),
    frozenset: _Kind("$frozenset", _set_to_json, lambda items: frozenset(from_json_value(items))),
    bytes: _Kind("$bytes", _bytes_to_text, _bytes_from_text),
    np.ndarray: _Kind("$array", _array_to_json, _array_from_json),
    datetime.datetime: _Kind(
        "$datetime", lambda value, _: value.isoformat(), datetime.datetime.fromisoformat
    ),
    datetime.date: _Kind("$date", lambda value, _: value.isoformat(), datetime.date.fromisoformat),
    datetime.timedelta: _Kind(
        "$timedelta",
        lambda value, _: [value.days, value.seconds, value.microseconds],
        lambda parts: datetime.timedelta(*parts),
    ),
}
_READERS = {kind.tag: kind.read for kind in (*_KINDS.values(), _SCALAR, _DTYPE, _PATH)}
