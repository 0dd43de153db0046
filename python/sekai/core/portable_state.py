"""Portable environment state: a `state_dict` in values that a file can hold without naming code.

`state_dict` may hold anything that can be copied: dataclasses, enums, plain objects. The codec of
data files knows numbers, text, times, arrays, generators and containers of them, but no classes of
users. Here objects become placeholders that hold their fields. The env that loads the state was
built by the same constructor, and its own attributes determine the classes.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import re
import sys
from collections import deque
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from sekai.error import StateError
from sekai.spaces import Space

CODE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)
SECTIONS = ("generators", "parts", "values")

MARK = "portable"
"""Key of a captured state whose values are portable."""

FIXED = (functools.partial, re.Pattern, Space)
"""Besides code, types of values that the constructor builds and no step changes: not in files."""

PLAIN = (
    bool,
    int,
    float,
    str,
    bytes,
    bytearray,
    np.generic,
    type(None),
    datetime.date,
    datetime.timedelta,
    decimal.Decimal,
    pathlib.PurePath,
)
"""Immutable values that the codec of data files encodes."""


class Reference(enum.Enum):
    """Stands in a state for the object that the state was captured from."""

    OWNER = "owner"


@dataclasses.dataclass(frozen=True, slots=True)
class Placeholder:
    """Stands in a portable state for a value whose class no file names."""

    kind: str
    """`fields` of an object, entries of a `mapping` of another class than dict, name of an enum
    `member`, number of an object that occurred before (`same`), `fixed` or `owner`."""

    content: Any = None


UNNUMBERED = ("owner", "same", "fixed", "member")
"""Placeholders of values without a number: immutable values and references."""


def is_code(value: Any) -> bool:
    """Return True if `value` is a function, class, module or logger, which is no state."""
    # Not imported here: `import sekai` does without logging.
    logging = sys.modules.get("logging")
    loggers = () if logging is None else (logging.Logger, logging.LoggerAdapter)
    return isinstance(value, (*CODE, *loggers))


def portable(state: Any) -> Any:
    """Convert a `state_dict`, however nested, to values that a file can hold.

    Raises:
        StateError: an attribute holds something that no file can hold.
    """
    if isinstance(state, Mapping):
        if {"type", *SECTIONS} <= state.keys():
            return _portable_section(state)
        return {key: portable(part) for key, part in state.items()}
    if type(state) in (list, tuple):
        return type(state)(portable(part) for part in state)
    return state


def revived_values(owner: object, state: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a captured state, with objects in place of placeholders.

    Raises:
        StateError: the owner has no object from which a class can be taken.
    """
    values = state["values"]
    if not state.get(MARK):
        return dict(values)
    reader = _PlaceholderReader(type(owner).__qualname__)
    try:
        return {
            name: reader.read(value, getattr(owner, name, None), name)
            for name, value in values.items()
        }
    except StateError:
        raise
    except Exception as error:
        # Constructors raise errors of their own for the content of a damaged file.
        raise StateError(f"malformed state of {type(owner).__qualname__}: {error!r}") from error


def _portable_section(state: Mapping[str, Any]) -> dict[str, Any]:
    writer = _PlaceholderWriter(str(state["type"]))
    values = {name: writer.write(value, name) for name, value in state["values"].items()}
    parts = {name: portable(part) for name, part in state["parts"].items()}
    return {**state, "parts": parts, "values": values, MARK: True}


def _is_fixed(value: Any) -> bool:
    return is_code(value) or isinstance(value, FIXED)


class _PlaceholderWriter:
    """Converts objects to placeholders; an object that occurs twice is written once."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        self._open: set[int] = set()

    def write(self, value: Any, path: str) -> Any:
        if isinstance(value, Reference):
            return Placeholder("owner")
        if _is_fixed(value):
            return Placeholder("fixed")
        if isinstance(value, enum.Enum):
            return Placeholder("member", value.name)
        if isinstance(value, PLAIN):
            return value
        if id(value) in self._open:
            raise self._refused(value, path, "refers to itself, and")
        if id(value) in self._numbers:
            return Placeholder("same", self._numbers[id(value)])
        self._numbers[id(value)] = len(self._numbers)
        # Kept alive, so that no other object gets its id.
        self._alive.append(value)
        self._open.add(id(value))
        result = self._container(value, path)
        self._open.discard(id(value))
        return result

    def _container(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in (list, tuple):
            return kind(self.write(item, f"{path}[{at}]") for at, item in enumerate(value))
        if isinstance(value, dict):
            entries = {key: self.write(item, f"{path}[{key!r}]") for key, item in value.items()}
            return entries if kind is dict else Placeholder("mapping", entries)
        if kind in (set, frozenset):
            return kind(self._element(item, path) for item in value)
        if kind is deque:
            return deque((self._item(item, path) for item in value), value.maxlen)
        if isinstance(value, np.random.Generator):
            return value
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            return value
        fields = _fields_of(value)
        if fields is not None:
            return Placeholder(
                "fields",
                {name: self.write(item, f"{path}.{name}") for name, item in fields.items()},
            )
        if hasattr(value, "detach"):
            # Tensors: the one kind of array that the codec knows, and this module does not.
            return value
        raise self._refused(value, path)

    def _item(self, value: Any, path: str) -> Any:
        """Item of a deque, which has no counterpart in the env that determines a class."""
        is_object = _fields_of(value) is not None and not (
            _is_fixed(value) or isinstance(value, PLAIN)
        )
        if is_object or isinstance(value, enum.Enum):
            raise self._refused(value, path)
        return self.write(value, path)

    def _element(self, value: Any, path: str) -> Any:
        """Element of a set; without a number, because sets have no order."""
        if _is_fixed(value):
            return Placeholder("fixed")
        if type(value) in (tuple, frozenset):
            return type(value)(self._element(item, path) for item in value)
        if isinstance(value, enum.Enum) or not isinstance(value, PLAIN):
            raise self._refused(value, path)
        return value

    def _refused(self, value: Any, path: str, why: str = "") -> StateError:
        return StateError(
            f"{self._owner}.{path} ({type(value).__name__}) {why + ' ' if why else ''}cannot be "
            "saved in a file: name it in `state_excludes`, or implement `state_dict` and "
            "`load_state_dict`"
        )


class _PlaceholderReader:
    """Converts placeholders to objects of the classes that the env's own objects have."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._objects: list[Any] = []

    def read(self, value: Any, own: Any, path: str) -> Any:
        """Revive a value; `own` is the env's counterpart of it."""
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, Placeholder) and value.kind in UNNUMBERED:
            return self._unnumbered(value, own, path)
        number = len(self._objects)
        self._objects.append(None)
        self._objects[number] = result = self._numbered(value, own, path)
        return result

    def _unnumbered(self, value: Placeholder, own: Any, path: str) -> Any:
        if value.kind == "owner":
            return Reference.OWNER
        if value.kind == "same":
            return self._objects[value.content]
        if value.kind == "fixed":
            if not _is_fixed(own):
                raise self._unknown(path, own)
            return own
        if not isinstance(own, enum.Enum) or value.content not in type(own).__members__:
            raise self._unknown(path, own)
        return type(own)[value.content]

    def _numbered(self, value: Any, own: Any, path: str) -> Any:
        if isinstance(value, Placeholder):
            return self._object(value, own, path)
        if isinstance(value, dict):
            return self._entries(value, own, path)
        if isinstance(value, (list, tuple)):
            return type(value)(
                self.read(item, _item(own, at), f"{path}[{at}]") for at, item in enumerate(value)
            )
        if isinstance(value, deque):
            return deque((self.read(item, None, path) for item in value), value.maxlen)
        if isinstance(value, (set, frozenset)) and _has_placeholder(value):
            raise self._unknown(path, own)
        return value

    def _object(self, value: Placeholder, own: Any, path: str) -> Any:
        if value.kind == "fields":
            return self._record(value.content, own, path)
        if value.kind != "mapping" or not isinstance(own, dict):
            raise self._unknown(path, own)
        result = copy.copy(own)
        result.clear()
        result.update(self._entries(value.content, own, path))
        return result

    def _entries(self, entries: Mapping[Any, Any], own: Any, path: str) -> dict[Any, Any]:
        return {
            key: self.read(item, _item(own, key), f"{path}[{key!r}]")
            for key, item in entries.items()
        }

    def _record(self, content: Mapping[str, Any], own: Any, path: str) -> Any:
        if _fields_of(own) is None:
            raise self._unknown(path, own)
        unknown = [name for name in content if not name.isidentifier() or name.startswith("__")]
        if unknown:
            raise StateError(f"{self._owner}.{path} has no field {unknown[0]!r:.80}")
        fields = {
            name: self.read(value, getattr(own, name, None), f"{path}.{name}")
            for name, value in content.items()
        }
        if isinstance(own, tuple):
            return type(own)(**fields)
        result = copy.copy(own)
        for name in [*vars(result)] if hasattr(result, "__dict__") else []:
            if name not in fields:
                object.__delattr__(result, name)
        try:
            for name, value in fields.items():
                object.__setattr__(result, name, value)
        except (AttributeError, TypeError):
            # Native records have no attributes that can be set.
            return dataclasses.replace(own, **fields)
        return result

    def _unknown(self, path: str, own: Any) -> StateError:
        return StateError(
            f"{self._owner}.{path} is of type {type(own).__name__}, but the state holds an object "
            "of another class, which no file names: create the attribute in `__init__` or "
            "`reset`, or implement `state_dict` and `load_state_dict`"
        )


def _item(own: Any, key: Any) -> Any:
    """Counterpart of an item: the env's under the same key, or else another one of its items."""
    if isinstance(own, Mapping):
        return own.get(key, next(iter(own.values()), None))
    if isinstance(own, (list, tuple)) and own:
        return own[key] if isinstance(key, int) and key < len(own) else own[0]
    return None


def _has_placeholder(value: Any) -> bool:
    if isinstance(value, (tuple, set, frozenset)):
        return any(map(_has_placeholder, value))
    return isinstance(value, Placeholder)


def _fields_of(value: Any) -> dict[str, Any] | None:
    """Fields of a dataclass, a named tuple or a plain object; None for anything else."""
    if isinstance(value, type) or value is None:
        return None
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    is_plain = all(
        getattr(type(value), name, None) is getattr(object, name, None)
        for name in ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
    )
    if not is_plain or not hasattr(value, "__dict__") or hasattr(type(value), "__slots__"):
        return None
    return dict(vars(value))
