"""JSON codec of data files: model files, snapshots, specs, evaluations.

A value that JSON cannot express becomes an object with one key that begins with `$`:
`{"$tuple": [1]}`, `{"$object": ["Costs", {...}]}`. The list of tags is closed. Reading imports
nothing that a file names: classes and functions are looked up in `sekai.storage.kinds`.

Journals write the same tags by the faster `sekai.storage.strict_json.encode_record`.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Space
from sekai.storage.arrays import (
    STORED_DTYPE,
    array_from_json,
    array_to_json,
    bytes_from_json,
    bytes_to_json,
    check_dtype,
    check_space,
    checked_text,
    dict_from_pairs,
    float_from_json,
    float_to_json,
    scalar_of,
)
from sekai.storage.kinds import is_registered, kind_named, name_of_kind
from sekai.storage.strict_json import check_nodes, parse_json

DEPTH = 64
"""Maximum nesting of values."""

INT_BITS = 1024
"""Maximum bits of a whole number; states of random generators have a few hundred."""

PYTHON_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "complex": complex}
"""Python types that can be an argument, such as a dtype."""

BIT_GENERATORS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")


@dataclasses.dataclass(slots=True)
class ArrayStore:
    """Arrays stored by name beside the JSON instead of in it as base64."""

    arrays: dict[str, NDArray[Any]]
    to_array: Callable[[Any], NDArray[Any] | None] = lambda value: None
    """Convert a tensor of another library to an array; None for any other value."""

    from_array: Callable[[NDArray[Any]], Any] = lambda array: array
    """Convert an array to a tensor."""


def to_text(value: Any, name: str = "the value") -> str:
    """Encode a value as strict JSON; `from_text` decodes an equal value.

    Args:
        value: the value.
        name: its name in errors.

    Raises:
        ValueError: the value holds something that a data file cannot hold.
    """
    text = json.dumps(to_json_value(value, name), allow_nan=False)
    check_nodes(text)
    return text


def from_text(text: str) -> Any:
    """Decode a value that `to_text` encoded.

    Raises:
        ValueError: the text is malformed.
    """
    return from_json_value(parse_json(text))


def to_json_value(value: Any, name: str = "the value", store: ArrayStore | None = None) -> Any:
    """Encode a value in the types of JSON.

    Args:
        value: the value.
        name: its name in errors.
        store: receives the arrays; None writes them as base64.

    Raises:
        ValueError: the value holds something that a data file cannot hold.
    """
    return _Writer(name, store).write(value, ())


def from_json_value(value: Any, store: ArrayStore | None = None) -> Any:
    """Decode a value that `to_json_value` encoded.

    Args:
        value: parsed JSON.
        store: holds the arrays; each is taken out of it once.

    Raises:
        ValueError: the value is malformed.
    """
    try:
        return _Reader(store).read(value, 0)
    except ValueError:
        raise
    except Exception as error:
        # Constructors raise errors of their own for unexpected arguments.
        raise ValueError(f"malformed value: {type(error).__name__}: {error}") from error


def generator_from_state(state: Any) -> np.random.Generator:
    """Random generator that continues from a `bit_generator.state` of NumPy.

    Raises:
        ValueError: the state is malformed, or of an unknown bit generator.
    """
    kind = state.get("bit_generator") if isinstance(state, Mapping) else None
    if not isinstance(kind, str) or kind not in BIT_GENERATORS:
        raise ValueError(
            f"unknown bit generator {kind!r:.80}; expected one of {list(BIT_GENERATORS)}"
        )
    # Used here and not at import: NumPy imports its generators when they are first used.
    random = np.random
    classes = (random.PCG64, random.PCG64DXSM, random.Philox, random.SFC64, random.MT19937)
    bit_generator = dict(zip(BIT_GENERATORS, classes, strict=True))[kind]()
    try:
        bit_generator.state = dict(state)
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"malformed state of {kind}: {error!r}") from error
    return np.random.Generator(bit_generator)


Path = tuple[Any, ...]


class _Writer:
    """Recursive encoder."""

    def __init__(self, name: str, store: ArrayStore | None) -> None:
        self.name, self.store = name, store

    def write(self, value: Any, path: Path) -> Any:
        if len(path) > DEPTH:
            raise ValueError(f"{self.name} is nested too deeply; expected at most {DEPTH} levels")
        write = _WRITERS.get(type(value))
        if write is not None:
            return write(self, value, path)
        for base, write in _BASE_WRITERS:
            if isinstance(value, base):
                return write(self, value, path)
        tensor = None if self.store is None else self._tensor(value, path)
        return self._object(value, path) if tensor is None else tensor

    def location(self, path: Path) -> str:
        return self.name + "".join(f"[{key!r}]" for key in path)

    def integer(self, value: int, path: Path) -> int:
        if value.bit_length() > INT_BITS:
            raise ValueError(
                f"{self.location(path)} has {value.bit_length()} bits; expected at most {INT_BITS}"
            )
        return value

    def items(self, values: Any, path: Path) -> list[Any]:
        return [self.write(item, (*path, index)) for index, item in enumerate(values)]

    def mapping(self, value: Mapping[Any, Any], path: Path) -> Any:
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {key: self.write(item, (*path, key)) for key, item in value.items()}
        pairs = [
            [self.write(key, (*path, "key")), self.write(item, (*path, key))]
            for key, item in value.items()
        ]
        return {"$dict": pairs}

    def set_items(self, value: Any, path: Path) -> list[Any]:
        # A set has no order; equal sets must give equal texts.
        return sorted((self.write(item, (*path, "item")) for item in value), key=repr)

    def deque_items(self, value: deque[Any], path: Path) -> Any:
        return {"$deque": [value.maxlen, self.items(value, path)]}

    def array(self, value: Any, path: Path, tag: str = "$array") -> Any:
        array = np.asarray(value)
        if self.store is not None and STORED_DTYPE.fullmatch(array.dtype.str):
            return {tag: self._stored(array, path)}
        dtype = self.dtype(array.dtype, path)
        if array.dtype.itemsize == 0 and array.size > 1:
            raise ValueError(
                f"{self.location(path)} is an array of {array.dtype}, which has no bytes"
            )
        return {tag: array_to_json(array, dtype)}

    def raw(self, value: Any, path: Path) -> Any:
        content = bytes(value)
        if self.store is None:
            return {"$bytes": bytes_to_json(content)}
        return {"$bytes": self._stored(np.frombuffer(content, np.uint8), path)}

    def dtype(self, dtype: np.dtype[Any], path: Path) -> Any:
        if dtype.hasobject:
            raise ValueError(
                f"{self.location(path)} holds Python objects (dtype {dtype}), which a data file "
                f"cannot hold"
            )
        description = np.lib.format.dtype_to_descr(dtype)
        check_dtype(description)
        return self.write(description, (*path, "dtype"))

    def type_name(self, value: Any, path: Path) -> Any:
        if value in PYTHON_TYPES.values():
            return {"$type": value.__name__}
        if issubclass(value, np.generic) and np.dtype(value).type is value:
            return {"$type": f"numpy.{np.dtype(value).name}"}
        return self._kind(value, path)

    def member(self, value: Any, path: Path) -> Any:
        return {"$enum": [self._kind_name(type(value), value, path), value.name]}

    def space(self, value: Any, path: Path) -> Any:
        description = value.to_jsonable()
        check_space(description)
        return {"$space": description}

    def tuple_items(self, value: Any, path: Path) -> Any:
        if not hasattr(value, "_fields"):
            return {"$tuple": self.items(value, path)}
        if name_of_kind(type(value)) is None:
            raise ValueError(self._not_writable(value, path))
        return self._object(value, path)

    def _tensor(self, value: Any, path: Path) -> Any:
        assert self.store is not None, "called only with a store"
        array = self.store.to_array(value)
        if array is None:
            return None
        if not STORED_DTYPE.fullmatch(array.dtype.str):
            raise ValueError(
                f"{self.location(path)} is a tensor of {array.dtype}; convert it first"
            )
        return {"$tensor": self._stored(array, path)}

    def _stored(self, array: NDArray[Any], path: Path) -> list[str]:
        assert self.store is not None, "called only with a store"
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        # Times are stored as integers.
        plain = native.view(np.int64) if native.dtype.kind in "mM" else native
        name = ".".join(map(str, path)).encode("ascii", "replace").decode("ascii") or "value"
        while name in self.store.arrays:
            # Keys may contain dots, as paths do.
            name += "'"
        self.store.arrays[name] = np.ascontiguousarray(plain).reshape(array.shape)
        return [name, array.dtype.str]

    def _object(self, value: Any, path: Path) -> Any:
        if callable(value) and name_of_kind(value) is not None:
            return self._kind(value, path)
        if isinstance(value, np.random.Generator):
            return {"$generator": self.write(value.bit_generator.state, path)}
        fields = _fields_of(value)
        if fields is None:
            raise ValueError(self._not_writable(value, path))
        return {"$object": [self._kind_name(type(value), value, path), self.write(fields, path)]}

    def _kind(self, value: Any, path: Path) -> Any:
        return {"$kind": self._kind_name(value, value, path)}

    def _kind_name(self, kind: Any, value: Any, path: Path) -> str:
        name = name_of_kind(kind)
        if name is None:
            raise ValueError(self._not_writable(value, path))
        return name

    def _not_writable(self, value: Any, path: Path) -> str:
        what = repr(value) if callable(value) else f"of type {type(value).__name__}"
        remedy = (
            "register the function or class with sekai.registry.register_kind"
            if callable(value) or _fields_of(value) is not None or isinstance(value, enum.Enum)
            else "pass plain values, arrays or spaces, or give the class to_jsonable() and "
            "from_jsonable(), and register it with sekai.registry.register_kind"
        )
        return f"{self.location(path)} is {what:.200}, which a data file cannot hold: {remedy}"


class _Reader:
    """Recursive decoder."""

    def __init__(self, store: ArrayStore | None) -> None:
        self.store = store

    def read(self, value: Any, depth: int) -> Any:
        # A pair of a dict and the fields of an object are levels of JSON, and not of values.
        if depth > 2 * DEPTH + 2:
            raise ValueError(f"values are nested too deeply; expected at most {DEPTH} levels")
        if isinstance(value, list):
            return [self.read(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            if type(value) is float and not math.isfinite(value):
                raise ValueError(f"expected a finite number, got {value}")
            return value
        tag = next((key for key in value if key[:1] == "$"), None)
        if tag is None:
            return {key: self.read(item, depth + 1) for key, item in value.items()}
        if len(value) != 1 or tag not in _READERS:
            raise ValueError(
                f"unknown tag {sorted(value)!r:.80}; expected one key out of {sorted(_READERS)}"
            )
        return _READERS[tag](self, value[tag], depth)

    def complex_number(self, value: Any, depth: int) -> complex:
        parts = self.items(value, depth)
        if len(parts) != 2 or not all(type(part) is float for part in parts):
            raise ValueError(f"expected two numbers, got {value!r:.80}")
        return complex(*parts)

    def items(self, value: Any, depth: int) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {type(value).__name__}")
        return [self.read(item, depth + 1) for item in value]

    def pairs(self, value: Any, depth: int) -> dict[Any, Any]:
        return dict_from_pairs(self.items(value, depth))

    def deque_items(self, value: Any, depth: int) -> deque[Any]:
        maxlen, items = _checked_items(value, 2)
        if maxlen is not None and (type(maxlen) is not int or maxlen < 0):
            raise ValueError(f"expected a maximum length from 0, got {maxlen!r:.80}")
        return deque(self.items(items, depth), maxlen)

    def array(self, value: Any, depth: int) -> NDArray[Any]:
        if isinstance(value, list) and len(value) == 2:
            return self._stored(value)
        dtype, shape, text = _checked_items(value, 3)
        return array_from_json(self.dtype(dtype, depth), shape, text)

    def scalar(self, value: Any, depth: int) -> Any:
        return scalar_of(self.array(value, depth))

    def raw(self, value: Any, depth: int) -> bytes:
        if not isinstance(value, list):
            return bytes_from_json(value)
        array = self._stored(value)
        if array.dtype != np.uint8 or array.ndim != 1:
            raise ValueError(f"expected bytes, got an array of {array.dtype}")
        return array.tobytes()

    def tensor(self, value: Any, depth: int) -> Any:
        array = self._stored(value)
        assert self.store is not None, "the array came from it"
        return self.store.from_array(array)

    def dtype(self, value: Any, depth: int) -> np.dtype[Any]:
        description = self.read(value, depth + 1)
        check_dtype(description)
        dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(description)
        if dtype.hasobject:
            raise ValueError(f"expected a dtype without Python objects, got {dtype}")
        return dtype

    def type_named(self, value: Any, depth: int) -> Any:
        name = checked_text(value)
        if name in PYTHON_TYPES:
            return PYTHON_TYPES[name]
        package, _, plain = name.partition(".")
        if package != "numpy" or plain not in _NUMPY_TYPES:
            raise ValueError(f"unknown type {name!r:.80}; expected a number type")
        return _NUMPY_TYPES[plain]

    def kind(self, value: Any, depth: int) -> Any:
        if not is_registered(checked_text(value)):
            raise ValueError(
                f"unknown kind {value!r:.80}; expected one that the program registers with "
                f"sekai.registry.register_kind before it reads the file"
            )
        return kind_named(value)

    def member(self, value: Any, depth: int) -> Any:
        name, member = _checked_items(value, 2)
        kind = kind_named(name)
        if not isinstance(kind, enum.EnumMeta) or checked_text(member) not in kind.__members__:
            raise ValueError(f"{name!r:.80} has no member {member!r:.80}")
        return kind[member]

    def object(self, value: Any, depth: int) -> Any:
        name, description = _checked_items(value, 2)
        kind = kind_named(name)
        fields = self.read(description, depth + 1)
        if not isinstance(kind, type):
            raise ValueError(f"expected a class, got the function {name!r:.80}")
        try:
            return _built(name, kind, fields)
        except ValueError:
            raise
        except Exception as error:
            # Whatever a constructor raises, the file is at fault.
            raise ValueError(f"cannot build {name}: {type(error).__name__}: {error}") from error

    def space(self, value: Any, depth: int) -> Any:
        check_space(value)
        return Space.from_jsonable(value)

    def _stored(self, value: Any) -> NDArray[Any]:
        # Each array is used once, so that a small file cannot become a large value.
        name, kind = map(checked_text, _checked_items(value, 2))
        if self.store is None or name not in self.store.arrays:
            raise ValueError(f"there is no array {name!r:.80} in the file")
        if not STORED_DTYPE.fullmatch(kind):
            raise ValueError(f"expected an array of numbers, got one of {kind!r:.80}")
        dtype, array = np.dtype(kind), self.store.arrays[name]
        is_time = dtype.kind in "mM"
        if array.dtype != (np.dtype(np.int64) if is_time else dtype.newbyteorder("=")):
            raise ValueError(f"expected numbers of {dtype}, got {array.dtype}")
        del self.store.arrays[name]
        native = array.view(dtype.newbyteorder("=")) if is_time else array
        return native.astype(dtype, copy=False)


def _fields_of(value: Any) -> Any:
    """Fields from which an object is rebuilt; None if it cannot be."""
    if isinstance(value, type):
        return None
    if hasattr(value, "to_jsonable") and hasattr(type(value), "from_jsonable"):
        return value.to_jsonable()
    if dataclasses.is_dataclass(value):
        return {name: getattr(value, name) for name in _field_names(type(value))}
    return value._asdict() if hasattr(value, "_fields") else None


def _field_names(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.init]


def _built(name: str, kind: type, fields: Any) -> Any:
    if hasattr(kind, "from_jsonable"):
        return kind.from_jsonable(fields)
    if dataclasses.is_dataclass(kind):
        known = _field_names(kind)
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        known = list(kind._fields)
    else:
        raise ValueError(f"a file cannot hold an object of kind {name!r:.80}")
    if not isinstance(fields, dict) or not set(fields) <= set(known):
        names = sorted(map(str, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise ValueError(f"unknown fields of {name}: got {names!s:.200}, expected {known}")
    return kind(**fields)


def _checked_items(value: Any, count: int) -> list[Any]:
    if not isinstance(value, list) or len(value) != count:
        raise ValueError(f"expected a list of {count}, got {value!r:.80}")
    return value


def _timedelta(value: Any) -> datetime.timedelta:
    if not isinstance(value, list) or [type(part) for part in value] != [int] * 3:
        raise ValueError(f"expected days, seconds and microseconds, got {value!r:.80}")
    return datetime.timedelta(*value)


def _decimal(value: Any) -> decimal.Decimal:
    try:
        return decimal.Decimal(checked_text(value))
    except decimal.InvalidOperation as error:
        raise ValueError(f"expected a decimal number, got {value!r:.80}") from error


# Of two types that are the same on a machine, such as long and long long, the last one counts.
_NUMPY_TYPES: dict[str, type] = {
    np.dtype(code).name: np.dtype(code).type for code in "?bhiqlBHIQLefgdFGDmMSUV"
}

_WRITERS: dict[type, Callable[[_Writer, Any, Path], Any]] = {
    type(None): lambda writer, value, path: None,
    bool: lambda writer, value, path: value,
    str: lambda writer, value, path: value,
    int: _Writer.integer,
    float: lambda writer, value, path: float_to_json(value),
    list: _Writer.items,
    tuple: _Writer.tuple_items,
    dict: _Writer.mapping,
    complex: lambda writer, value, path: {"$complex": writer.items((value.real, value.imag), path)},
    set: lambda writer, value, path: {"$set": writer.set_items(value, path)},
    frozenset: lambda writer, value, path: {"$frozenset": writer.set_items(value, path)},
    deque: _Writer.deque_items,
    bytes: _Writer.raw,
    bytearray: _Writer.raw,
    np.ndarray: _Writer.array,
    datetime.timedelta: lambda writer, value, path: {
        "$timedelta": [value.days, value.seconds, value.microseconds]
    },
}
"""Encoders by exact type."""

_BASE_WRITERS: tuple[tuple[type, Callable[[_Writer, Any, Path], Any]], ...] = (
    (enum.Enum, _Writer.member),
    (np.generic, lambda writer, value, path: writer.array(value, path, "$scalar")),
    (np.dtype, lambda writer, value, path: {"$dtype": writer.dtype(value, path)}),
    (pathlib.PurePath, lambda writer, value, path: {"$path": str(value)}),
    (datetime.datetime, lambda writer, value, path: {"$datetime": value.isoformat()}),
    (datetime.date, lambda writer, value, path: {"$date": value.isoformat()}),
    (decimal.Decimal, lambda writer, value, path: {"$decimal": str(value)}),
    (type, _Writer.type_name),
    (Space, _Writer.space),
    (tuple, _Writer.tuple_items),
    (Mapping, _Writer.mapping),
)
"""Encoders by base class, tried in order."""

_READERS: dict[str, Callable[[_Reader, Any, int], Any]] = {
    "$float": lambda reader, value, depth: float_from_json(value),
    "$complex": _Reader.complex_number,
    "$tuple": lambda reader, value, depth: tuple(reader.items(value, depth)),
    "$dict": _Reader.pairs,
    "$set": lambda reader, value, depth: set(reader.items(value, depth)),
    "$frozenset": lambda reader, value, depth: frozenset(reader.items(value, depth)),
    "$deque": _Reader.deque_items,
    "$bytes": _Reader.raw,
    "$array": _Reader.array,
    "$scalar": _Reader.scalar,
    "$tensor": _Reader.tensor,
    "$dtype": _Reader.dtype,
    "$path": lambda reader, value, depth: pathlib.Path(checked_text(value)),
    "$datetime": lambda reader, value, depth: datetime.datetime.fromisoformat(checked_text(value)),
    "$date": lambda reader, value, depth: datetime.date.fromisoformat(checked_text(value)),
    "$timedelta": lambda reader, value, depth: _timedelta(value),
    "$decimal": lambda reader, value, depth: _decimal(value),
    "$generator": lambda reader, value, depth: generator_from_state(reader.read(value, depth)),
    "$type": _Reader.type_named,
    "$kind": _Reader.kind,
    "$enum": _Reader.member,
    "$object": _Reader.object,
    "$space": _Reader.space,
}
