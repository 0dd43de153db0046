"""JSON codec of data files: model files, snapshots, specs.

Values that JSON has no word for become an object with one key that begins with `$`:
`{"$tuple": [1]}`, `{"$object": ["Costs", {...}]}`. The list of tags is closed. Reading imports
nothing that a file names: classes and functions are looked up in `sekai.storage.kinds`.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Space
from sekai.storage.arrays import STORED_DTYPE, base64_of, bytes_in, check_dtype, shape_in, text_in
from sekai.storage.kinds import is_registered, kind_named, name_of_kind
from sekai.storage.space_size import check_space
from sekai.storage.strict_json import check_nodes, parsed

__all__ = [
    "DEPTH",
    "ArrayStore",
    "from_json_value",
    "from_text",
    "to_json_value",
    "to_text",
]

DEPTH = 64
"""Levels of nested values, at most."""

INT_BITS = 1024
"""Bits of a whole number; states of random streams have a few hundred."""

PYTHON_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "complex": complex}
"""Types of Python that can be an argument, such as a dtype."""


@dataclasses.dataclass(slots=True)
class ArrayStore:
    """Arrays kept beside the JSON, by name, instead of in it as base64."""

    arrays: dict[str, NDArray[Any]]
    to_array: Callable[[Any], NDArray[Any] | None] = lambda value: None
    """The array of a tensor of another library; None for any other value."""

    from_array: Callable[[NDArray[Any]], Any] = lambda array: array
    """The tensor of an array."""


def to_text(value: Any, name: str = "the value") -> str:
    """`value` as strict JSON, from which `from_text` reads an equal one.

    Args:
        value: what is written.
        name: how errors call it.

    Raises:
        ValueError: there is something in it that a data file cannot hold.
    """
    text = json.dumps(to_json_value(value, name), allow_nan=False)
    check_nodes(text)
    return text


def from_text(text: str) -> Any:
    """The value that `to_text` wrote.

    Raises:
        ValueError: it is not what `to_text` writes.
    """
    return from_json_value(parsed(text))


def to_json_value(value: Any, name: str = "the value", store: ArrayStore | None = None) -> Any:
    """`value` in types that JSON knows.

    Args:
        value: what is written.
        name: how errors call it.
        store: where arrays go; None writes them as base64.

    Raises:
        ValueError: there is something in it that a data file cannot hold.
    """
    return _Writer(name, store).write(value, ())


def from_json_value(value: Any, store: ArrayStore | None = None) -> Any:
    """The value that `to_json_value` wrote.

    Args:
        value: parsed JSON.
        store: where arrays were put; each is taken out of it, once.

    Raises:
        ValueError: it is not what `to_json_value` writes.
    """
    try:
        return _Reader(store).read(value, 0)
    except ValueError:
        raise
    except Exception as error:
        # Constructors raise errors of their own when they are given what they do not expect.
        raise ValueError(f"malformed value: {type(error).__name__}: {error}") from error


Path = tuple[Any, ...]


class _Writer:
    """Turns values into JSON."""

    def __init__(self, name: str, store: ArrayStore | None) -> None:
        self.name, self.store = name, store

    def write(self, value: Any, path: Path) -> Any:
        if len(path) > DEPTH:
            raise ValueError(f"{self.name} is nested too deeply; expected at most {DEPTH} levels")
        plain = _PLAIN_WRITERS.get(type(value))
        if plain is not None:
            return plain(self, value, path)
        for family, write in _FAMILY_WRITERS:
            if isinstance(value, family):
                return write(self, value, path)
        tensor = None if self.store is None else self._tensor(value, path)
        return self._object(value, path) if tensor is None else tensor

    def place(self, path: Path) -> str:
        return self.name + "".join(f"[{key!r}]" for key in path)

    def whole(self, value: int, path: Path) -> int:
        if value.bit_length() > INT_BITS:
            raise ValueError(
                f"{self.place(path)} has {value.bit_length()} bits; expected at most {INT_BITS}"
            )
        return value

    def number(self, value: float, path: Path) -> Any:
        return value if math.isfinite(value) else {"$float": repr(value)}

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
        # A set has no order of its own; the same set must give the same text.
        return sorted((self.write(item, (*path, "item")) for item in value), key=repr)

    def array(self, value: Any, path: Path, tag: str = "$array") -> Any:
        array = np.asarray(value)
        if self.store is not None and STORED_DTYPE.fullmatch(array.dtype.str):
            return {tag: self._stored(array, path)}
        descr = self.dtype(array.dtype, path)
        if array.dtype.itemsize == 0 and array.size > 1:
            raise ValueError(f"{self.place(path)} is an array of {array.dtype}, which has no bytes")
        return {
            tag: {"dtype": descr, "shape": list(array.shape), "base64": base64_of(array.tobytes())}
        }

    def raw(self, value: Any, path: Path) -> Any:
        content = bytes(value)
        if self.store is None:
            return {"$bytes": base64_of(content)}
        return {"$bytes": self._stored(np.frombuffer(content, np.uint8), path)}

    def dtype(self, dtype: np.dtype[Any], path: Path) -> Any:
        if dtype.hasobject:
            raise ValueError(
                f"{self.place(path)} holds Python objects (dtype {dtype}), which a data file "
                f"cannot hold"
            )
        described = np.lib.format.dtype_to_descr(dtype)
        check_dtype(described)
        return self.write(described, (*path, "dtype"))

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
        if hasattr(value, "_fields") and name_of_kind(type(value)) is None:
            raise ValueError(self._not_writable(value, path))
        if hasattr(value, "_fields"):
            return self._object(value, path)
        return {"$tuple": self.items(value, path)}

    def _tensor(self, value: Any, path: Path) -> Any:
        assert self.store is not None, "asked for only with one"
        array = self.store.to_array(value)
        if array is None:
            return None
        if not STORED_DTYPE.fullmatch(array.dtype.str):
            raise ValueError(f"{self.place(path)} is a tensor of {array.dtype}; convert it first")
        return {"$tensor": self._stored(array, path)}

    def _stored(self, array: NDArray[Any], path: Path) -> list[str]:
        assert self.store is not None, "asked for only with one"
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        # Times are stored as their numbers.
        plain = native.view(np.int64) if native.dtype.kind in "mM" else native
        name = ".".join(map(str, path)).encode("ascii", "replace").decode("ascii") or "value"
        while name in self.store.arrays:
            # Keys may have dots in them, as paths do.
            name += "'"
        self.store.arrays[name] = np.ascontiguousarray(plain).reshape(array.shape)
        return [name, array.dtype.str]

    def _object(self, value: Any, path: Path) -> Any:
        if callable(value) and name_of_kind(value) is not None:
            return self._kind(value, path)
        kind = type(value)
        fields = _fields_of(value)
        if fields is None:
            raise ValueError(self._not_writable(value, path))
        return {"$object": [self._kind_name(kind, value, path), self.write(fields, path)]}

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
        return f"{self.place(path)} is {what:.200}, which a data file cannot hold: {remedy}"


class _Reader:
    """Turns JSON into values."""

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

    def number(self, value: Any, depth: int) -> float:
        if value not in ("inf", "-inf", "nan"):
            raise ValueError(f"expected 'inf', '-inf' or 'nan', got {value!r:.80}")
        return float(value)

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
        pairs = self.items(value, depth)
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise ValueError("expected pairs of a key and a value")
        read = dict(pairs)
        if len(read) != len(pairs):
            raise ValueError("expected different keys, got one twice")
        return read

    def array(self, value: Any, depth: int) -> NDArray[Any]:
        if isinstance(value, list):
            return self._stored(value)
        if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "base64"}:
            raise ValueError("expected an array with dtype, shape and base64")
        dtype = self.dtype(value["dtype"], depth)
        shape = shape_in(value["shape"])
        data = bytes_in(value["base64"])
        count = math.prod(shape)
        if count * dtype.itemsize != len(data) or count > max(len(data), 1):
            raise ValueError(f"expected an array of shape {shape}, got {len(data)} bytes")
        if dtype.kind == "b" and data.strip(b"\x00\x01"):
            raise ValueError("expected bools, got other bytes")
        array: NDArray[Any] = np.ndarray(shape, dtype, data).copy()
        return array

    def scalar(self, value: Any, depth: int) -> Any:
        array = self.array(value, depth)
        if array.shape != ():
            raise ValueError(f"expected a scalar, got an array of shape {array.shape}")
        return array[()]

    def raw(self, value: Any, depth: int) -> bytes:
        if not isinstance(value, list):
            return bytes_in(value)
        array = self._stored(value)
        if array.dtype != np.uint8 or array.ndim != 1:
            raise ValueError(f"expected bytes, got an array of {array.dtype}")
        return array.tobytes()

    def tensor(self, value: Any, depth: int) -> Any:
        array = self._stored(value)
        assert self.store is not None, "an array came from it"
        return self.store.from_array(array)

    def dtype(self, value: Any, depth: int) -> np.dtype[Any]:
        described = self.read(value, depth + 1)
        check_dtype(described)
        dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(described)
        if dtype.hasobject:
            raise ValueError(f"expected a dtype without Python objects, got {dtype}")
        return dtype

    def type_named(self, value: Any, depth: int) -> Any:
        name = text_in(value)
        if name in PYTHON_TYPES:
            return PYTHON_TYPES[name]
        package, _, plain = name.partition(".")
        if package != "numpy" or plain not in _NUMPY_TYPES:
            raise ValueError(f"unknown type {name!r:.80}; expected a number type")
        return _NUMPY_TYPES[plain]

    def kind(self, value: Any, depth: int) -> Any:
        if not is_registered(text_in(value)):
            raise ValueError(
                f"unknown kind {value!r:.80}; expected one that the program registers with "
                f"sekai.registry.register_kind before it reads the file"
            )
        return kind_named(value)

    def member(self, value: Any, depth: int) -> Any:
        name, member = _pair(value)
        kind = kind_named(name)
        if not isinstance(kind, enum.EnumMeta) or text_in(member) not in kind.__members__:
            raise ValueError(f"{name!r:.80} has no member {member!r:.80}")
        return kind[member]

    def built(self, value: Any, depth: int) -> Any:
        name, described = _pair(value)
        kind = kind_named(name)
        fields = self.read(described, depth + 1)
        if not isinstance(kind, type):
            raise ValueError(f"{name!r:.80} is a function, and an object was expected")
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
        """An array of the store, as it was: each is used once, so a small file stays small."""
        name, kind = map(text_in, _pair(value))
        if self.store is None or name not in self.store.arrays:
            raise ValueError(f"there is no array {name!r:.80} in the file")
        if not STORED_DTYPE.fullmatch(kind):
            raise ValueError(f"expected an array of numbers, got one of {kind!r:.80}")
        wanted, array = np.dtype(kind), self.store.arrays[name]
        is_time = wanted.kind in "mM"
        if array.dtype != (np.dtype(np.int64) if is_time else wanted.newbyteorder("=")):
            raise ValueError(f"expected numbers of {wanted}, got {array.dtype}")
        del self.store.arrays[name]
        native = array.view(wanted.newbyteorder("=")) if is_time else array
        return native.astype(wanted, copy=False)


def _fields_of(value: Any) -> Any:
    """What an object is rebuilt from; None if it cannot be."""
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
        raise ValueError(f"{name!r:.80} is no kind of object that a file can hold")
    if not isinstance(fields, dict) or not set(fields) <= set(known):
        found = sorted(map(str, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise ValueError(f"unknown fields of {name}: got {found!s:.200}, expected {known}")
    return kind(**fields)


def _pair(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"expected a list of two, got {value!r:.80}")
    return value


def _timedelta(reader: _Reader, value: Any, depth: int) -> datetime.timedelta:
    if not isinstance(value, list) or [type(part) for part in value] != [int] * 3:
        raise ValueError(f"expected days, seconds and microseconds, got {value!r:.80}")
    return datetime.timedelta(*value)


# Of two types that are one on a machine, such as long and long long, the last one counts.
_NUMPY_TYPES: dict[str, type] = {
    np.dtype(code).name: np.dtype(code).type for code in "?bhiqlBHIQLefgdFGDmMSUV"
}

_PLAIN_WRITERS: dict[type, Callable[[_Writer, Any, Path], Any]] = {
    type(None): lambda writer, value, path: None,
    bool: lambda writer, value, path: value,
    str: lambda writer, value, path: value,
    int: _Writer.whole,
    float: _Writer.number,
    list: _Writer.items,
    tuple: _Writer.tuple_items,
    dict: _Writer.mapping,
    complex: lambda writer, value, path: {"$complex": writer.items((value.real, value.imag), path)},
    set: lambda writer, value, path: {"$set": writer.set_items(value, path)},
    frozenset: lambda writer, value, path: {"$frozenset": writer.set_items(value, path)},
    bytes: _Writer.raw,
    bytearray: _Writer.raw,
    np.ndarray: _Writer.array,
    datetime.datetime: lambda writer, value, path: {"$datetime": value.isoformat()},
    datetime.date: lambda writer, value, path: {"$date": value.isoformat()},
    datetime.timedelta: lambda writer, value, path: {
        "$timedelta": [value.days, value.seconds, value.microseconds]
    },
}


_FAMILY_WRITERS: tuple[tuple[type, Callable[[_Writer, Any, Path], Any]], ...] = (
    (enum.Enum, _Writer.member),
    (np.generic, lambda writer, value, path: writer.array(value, path, "$scalar")),
    (np.dtype, lambda writer, value, path: {"$dtype": writer.dtype(value, path)}),
    (pathlib.PurePath, lambda writer, value, path: {"$path": str(value)}),
    (type, _Writer.type_name),
    (Space, _Writer.space),
    (tuple, _Writer.tuple_items),
    (Mapping, _Writer.mapping),
)

_READERS: dict[str, Callable[[_Reader, Any, int], Any]] = {
    "$float": _Reader.number,
    "$complex": _Reader.complex_number,
    "$tuple": lambda reader, value, depth: tuple(reader.items(value, depth)),
    "$dict": _Reader.pairs,
    "$set": lambda reader, value, depth: set(reader.items(value, depth)),
    "$frozenset": lambda reader, value, depth: frozenset(reader.items(value, depth)),
    "$bytes": _Reader.raw,
    "$array": _Reader.array,
    "$scalar": _Reader.scalar,
    "$tensor": _Reader.tensor,
    "$dtype": _Reader.dtype,
    "$path": lambda reader, value, depth: pathlib.Path(text_in(value)),
    "$datetime": lambda reader, value, depth: datetime.datetime.fromisoformat(text_in(value)),
    "$date": lambda reader, value, depth: datetime.date.fromisoformat(text_in(value)),
    "$timedelta": _timedelta,
    "$type": _Reader.type_named,
    "$kind": _Reader.kind,
    "$enum": _Reader.member,
    "$object": _Reader.built,
    "$space": _Reader.space,
}
