"""Environment state as plain values: what a file can keep without naming code.

`state_dict` may hold whatever can be copied: dataclasses, enums, sets, deques. A file holds
numbers, text, arrays and containers of them, and names no class. So objects become their fields,
and the env that the state is loaded into, built by the same constructor, says of which class they
are.
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
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from sekai.error import StateError
from sekai.spaces import Space

__all__ = [
    "BIT_GENERATORS",
    "SECTIONS",
    "Reference",
    "is_code",
    "portable",
    "restored_generator",
    "revived_values",
]

CODE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)
SECTIONS = ("generators", "parts", "values")

BIT_GENERATORS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")

MARK = "portable"
"""The key of a captured state whose values are plain."""

TAG = "__sekai_"
"""What the only key of a dict begins with that stands for something else."""

FIXED = (functools.partial, re.Pattern, Space)
"""Beside code, what the constructor builds and no step changes: not in the file."""

PLAIN = (bool, int, float, str, bytes, bytearray, np.generic, type(None))

TEXTS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "datetime": (
        datetime.datetime,
        datetime.datetime.isoformat,
        datetime.datetime.fromisoformat,
    ),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "path": (pathlib.PurePath, str, pathlib.Path),
}
"""Values that are written as text, and read back from it."""


class Reference(enum.Enum):
    """Stands in a state for the object that the state was taken from."""

    OWNER = "owner"


def is_code(value: Any) -> bool:
    """Whether `value` is a function, class, module or logger: no state."""
    # Imported by whoever has a logger, and not by every `import sekai`.
    logging = sys.modules.get("logging")
    loggers = () if logging is None else (logging.Logger, logging.LoggerAdapter)
    return isinstance(value, (*CODE, *loggers))


def is_fixed(value: Any) -> bool:
    """Whether the constructor builds `value` and no step changes it."""
    return is_code(value) or isinstance(value, FIXED)


def portable(state: Any) -> Any:
    """A state as `state_dict` gives it, of whatever nesting, with values that a file can keep.

    Raises:
        StateError: an attribute holds something that cannot be kept.
    """
    if isinstance(state, Mapping):
        if {"type", *SECTIONS} <= state.keys():
            return _portable_section(state)
        return {key: portable(part) for key, part in state.items()}
    if type(state) in (list, tuple):
        return type(state)(portable(part) for part in state)
    return state


def revived_values(owner: object, state: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a captured state, with the objects that plain ones stand for.

    Raises:
        StateError: the owner has nothing that says of which class an object is.
    """
    values = state["values"]
    if not state.get(MARK):
        return dict(values)
    reader = _Reader(type(owner).__qualname__)
    try:
        return {
            name: reader.read(value, getattr(owner, name, None), name)
            for name, value in values.items()
        }
    except StateError:
        raise
    except Exception as error:
        # Whatever a damaged file holds: constructors raise errors of their own.
        raise StateError(f"malformed state of {type(owner).__qualname__}: {error!r}") from error


def restored_generator(state: Mapping[str, Any]) -> np.random.Generator:
    """A generator that continues where the one with this state stood.

    Raises:
        StateError: the state is of no bit generator of NumPy.
    """
    kind = state.get("bit_generator")
    if kind not in BIT_GENERATORS:
        raise StateError(f"unknown bit generator {kind!r:.80}; expected one of {BIT_GENERATORS}")
    bit_generator = getattr(np.random, kind)()
    bit_generator.state = dict(state)
    return np.random.Generator(bit_generator)


def _portable_section(state: Mapping[str, Any]) -> dict[str, Any]:
    writer = _Writer(str(state["type"]))
    values = {name: writer.write(value, name) for name, value in state["values"].items()}
    parts = {name: portable(part) for name, part in state["parts"].items()}
    return {**state, "parts": parts, "values": values, MARK: True}


class _Writer:
    """Objects to plain values; what occurs twice is written once."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._numbers: dict[int, int] = {}
        self._held: list[Any] = []
        self._open: set[int] = set()

    def write(self, value: Any, path: str) -> Any:
        if isinstance(value, Reference):
            return {f"{TAG}owner": True}
        if is_fixed(value):
            return {f"{TAG}fixed": True}
        if isinstance(value, enum.Enum):
            return {f"{TAG}member": value.name}
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, datetime.timedelta):
            return {f"{TAG}timedelta": [value.days, value.seconds, value.microseconds]}
        for name, (kind, text, _) in TEXTS.items():
            if isinstance(value, kind):
                return {f"{TAG}{name}": text(value)}
        if id(value) in self._open:
            raise self._refused(value, path, "refers to itself, and")
        if id(value) in self._numbers:
            return {f"{TAG}same": self._numbers[id(value)]}
        self._numbers[id(value)] = len(self._numbers)
        # Held, so that no other object gets its id meanwhile.
        self._held.append(value)
        self._open.add(id(value))
        found = self._container(value, path)
        self._open.discard(id(value))
        return found

    def _container(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in (list, tuple):
            return kind(self.write(part, f"{path}[{at}]") for at, part in enumerate(value))
        if isinstance(value, dict):
            return self._mapping(value, path)
        if kind in (set, frozenset):
            return {f"{TAG}{kind.__name__}": self._elements(value, path)}
        if kind is deque:
            return {f"{TAG}deque": [value.maxlen, self._elements(value, path)]}
        if isinstance(value, np.random.Generator):
            return {f"{TAG}generator": value.bit_generator.state}
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            return value
        fields = _fields_of(value)
        if fields is not None:
            return {f"{TAG}fields": {k: self.write(v, f"{path}.{k}") for k, v in fields.items()}}
        if hasattr(value, "detach"):
            # Tensors: the one kind of array that is known to files, and not here.
            return value
        raise self._refused(value, path)

    def _refused(self, value: Any, path: str, why: str = "") -> StateError:
        return StateError(
            f"{self._owner}.{path} ({type(value).__name__}) {why + ' ' if why else ''}cannot be "
            "kept in a file: name it in `state_excludes`, or write `state_dict` and "
            "`load_state_dict`"
        )

    def _elements(self, values: Any, path: str) -> list[Any]:
        """What a set or deque holds; nothing there would say of which class objects are."""
        for value in values:
            is_object = _fields_of(value) is not None and not (
                is_fixed(value) or isinstance(value, PLAIN)
            )
            if is_object or isinstance(value, enum.Enum):
                raise self._refused(value, path)
        return [self.write(part, path) for part in values]

    def _mapping(self, value: dict[Any, Any], path: str) -> Any:
        found = {key: self.write(part, f"{path}[{key!r}]") for key, part in value.items()}
        if type(value) is not dict:
            return {f"{TAG}mapping": found}
        is_tag = len(found) == 1 and str(next(iter(found))).startswith(TAG)
        return {f"{TAG}dict": list(found.items())} if is_tag else found


class _Reader:
    """Plain values to objects, of the classes that the env's own have."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._made: list[Any] = []

    def read(self, value: Any, own: Any, path: str) -> Any:
        """The object of a value; `own` is what the env has in its place."""
        if isinstance(value, PLAIN):
            return value
        tag, inner = _tag_of(value)
        if tag in ATOMS:
            return self._atom(tag, inner, own, path)
        place = len(self._made)
        self._made.append(None)
        made = self._object(tag, inner, value, own, path)
        self._made[place] = made
        return made

    def _atom(self, tag: str, inner: Any, own: Any, path: str) -> Any:
        if tag == "owner":
            return Reference.OWNER
        if tag == "same":
            return self._made[inner]
        if tag == "timedelta":
            return datetime.timedelta(*inner)
        if tag in TEXTS:
            return TEXTS[tag][2](inner)
        if tag == "fixed":
            if not is_fixed(own):
                raise self._unknown(path, own)
            return own
        if not isinstance(own, enum.Enum) or inner not in type(own).__members__:
            raise self._unknown(path, own)
        return type(own)[inner]

    def _object(self, tag: str, inner: Any, value: Any, own: Any, path: str) -> Any:
        if tag == "fields":
            return self._record(inner, own, path)
        if tag == "mapping":
            if not isinstance(own, dict):
                raise self._unknown(path, own)
            made = copy.copy(own)
            made.clear()
            made.update(self._entries(inner.items(), own, path))
            return made
        if tag == "generator":
            return restored_generator(inner)
        if tag in ("set", "frozenset"):
            kind = set if tag == "set" else frozenset
            return kind(self.read(part, None, path) for part in inner)
        if tag == "deque":
            return deque((self.read(part, None, path) for part in inner[1]), maxlen=inner[0])
        if tag == "dict" or isinstance(value, dict):
            return self._entries(inner if tag == "dict" else value.items(), own, path)
        if isinstance(value, (list, tuple)):
            return type(value)(
                self.read(part, _item(own, at), f"{path}[{at}]") for at, part in enumerate(value)
            )
        return value

    def _entries(self, pairs: Any, own: Any, path: str) -> dict[Any, Any]:
        return {key: self.read(part, _item(own, key), f"{path}[{key!r}]") for key, part in pairs}

    def _record(self, inner: Mapping[str, Any], own: Any, path: str) -> Any:
        if _fields_of(own) is None:
            raise self._unknown(path, own)
        strange = [name for name in inner if not name.isidentifier() or name.startswith("__")]
        if strange:
            raise StateError(f"{self._owner}.{path} has no field {strange[0]!r:.80}")
        fields = {
            name: self.read(value, getattr(own, name, None), f"{path}.{name}")
            for name, value in inner.items()
        }
        if isinstance(own, tuple):
            return type(own)(**fields)
        made = copy.copy(own)
        for name in [*vars(made)] if hasattr(made, "__dict__") else []:
            if name not in fields:
                object.__delattr__(made, name)
        try:
            for name, value in fields.items():
                object.__setattr__(made, name, value)
        except (AttributeError, TypeError):
            # Native records have no attributes of their own to set.
            return dataclasses.replace(own, **fields)
        return made

    def _unknown(self, path: str, own: Any) -> StateError:
        return StateError(
            f"{self._owner}.{path} holds {type(own).__name__}, and the state an object whose class "
            "no file names: create the attribute in `__init__` or `reset`, or write `state_dict` "
            "and `load_state_dict`"
        )


ATOMS = {"owner", "same", "fixed", "member", "timedelta", *TEXTS}
"""Tags of values without a number: immutable ones, and references."""


def _tag_of(value: Any) -> tuple[str, Any]:
    if type(value) is dict and len(value) == 1:
        ((key, inner),) = value.items()
        if isinstance(key, str) and key.startswith(TAG):
            return key[len(TAG) :], inner
    return "", None


def _item(own: Any, key: Any) -> Any:
    """What the env has under a key, or else an element that tells of which class all are."""
    if isinstance(own, Mapping):
        return own.get(key, next(iter(own.values()), None))
    if isinstance(own, (list, tuple)) and own:
        return own[key] if isinstance(key, int) and key < len(own) else own[0]
    return None


def _fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass, a named tuple or a plain object; None of anything else."""
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
