"""Where two nested values first differ, bit for bit."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Difference", "field_differences", "first_difference"]

WALL_CLOCK = frozenset({("elapsed_time",), ("episode", "t")})
"""Ends of paths that measure real time, which no seed can repeat."""

Path = tuple[Any, ...]


class _Absent(enum.Enum):
    """Stands for an entry that one of two infos lacks."""

    ABSENT = "nothing"

    def __repr__(self) -> str:
        return self.value


ABSENT = _Absent.ABSENT


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Two values under one path."""

    path: Path
    left: Any
    right: Any

    @property
    def place(self) -> str:
        """The path as one would write it: `info['prices'][3]`."""
        head, *rest = self.path or ("value",)
        return str(head) + "".join(f"[{_shown_key(key)}]" for key in rest)

    def sentence(self, *moments: str) -> str:
        """`observation[0] was 1.0, then 2.0`, with other words for the two moments if given."""
        first, second = moments or ("was", "then")
        return f"{self.place} {first} {_shown(self.left)}, {second} {_shown(self.right)}"


def first_difference(left: Any, right: Any, path: Path = ()) -> Difference | None:
    """The first place in which the two values differ, or None.

    Arrays must agree in shape, dtype and every bit, except that NaN equals NaN. Objects that
    define no equality of their own are not compared.
    """
    return next(_differences(left, right, path), None)


def field_differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[Difference]:
    """The first difference in each field of two results, and in each entry of their infos."""
    lefts, rights = dict(_entries(left)), dict(_entries(right))
    for path in dict.fromkeys((*lefts, *rights)):
        found = first_difference(lefts.get(path, ABSENT), rights.get(path, ABSENT), path)
        if found is not None:
            yield found


def _entries(values: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for name, value in values.items():
        if name == "info" and isinstance(value, Mapping):
            yield from _info_entries(value, (name,))
        else:
            yield (name,), value


def _info_entries(info: Mapping[Any, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for key, value in info.items():
        if isinstance(value, Mapping) and value:
            yield from _info_entries(value, (*path, key))
        else:
            yield (*path, key), value


def _differences(left: Any, right: Any, path: Path) -> Iterator[Difference]:
    if left is right or path[-1:] in WALL_CLOCK or path[-2:] in WALL_CLOCK:
        return
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        yield from _mapping_differences(left, right, path)
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        yield from _sequence_differences(left, right, path)
    elif dataclasses.is_dataclass(left) and type(left) is type(right):
        yield from _differences(_fields(left), _fields(right), path)
    elif isinstance(left, int) and isinstance(right, int):
        # Whole numbers of Python may be too large for an array.
        if left != right:
            yield Difference(path, left, right)
    elif _is_number_like(left) and _is_number_like(right):
        yield from _array_differences(np.asarray(left), np.asarray(right), path)
    elif not _same_objects(left, right):
        yield Difference(path, left, right)


def _mapping_differences(
    left: Mapping[Any, Any], right: Mapping[Any, Any], path: Path
) -> Iterator[Difference]:
    if left.keys() != right.keys():
        yield Difference(path, _KeysOf(left), _KeysOf(right))
    else:
        for key in left:
            yield from _differences(left[key], right[key], (*path, key))


def _sequence_differences(
    left: list[Any] | tuple[Any, ...], right: list[Any] | tuple[Any, ...], path: Path
) -> Iterator[Difference]:
    if len(left) != len(right):
        yield Difference(path, left, right)
    else:
        for index, pair in enumerate(zip(left, right, strict=True)):
            yield from _differences(*pair, (*path, index))


def _array_differences(left: NDArray[Any], right: NDArray[Any], path: Path) -> Iterator[Difference]:
    if left.shape != right.shape or (left.shape and left.dtype != right.dtype):
        yield Difference(path, left, right)
    elif left.dtype == right.dtype != object and left.tobytes() == right.tobytes():
        # Nearly always so, and comparing bytes takes no arithmetic.
        return
    elif left.dtype == object or right.dtype == object:
        pairs = zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
        unequal = next((pair for pair in pairs if not _same_objects(*pair)), None)
        if unequal is not None:
            yield Difference(path, *unequal)
    else:
        places = np.argwhere(~_same_elements(left, right))
        if len(places):
            index = tuple(places[0].tolist())
            yield Difference((*path, *([index] if index else [])), left[index], right[index])


def _same_elements(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.bool_]:
    same = np.asarray(left == right)
    if left.dtype.kind in "fc" and right.dtype.kind in "fc":
        same = same | (np.isnan(left) & np.isnan(right))
    if left.dtype.kind == "f" and right.dtype.kind == "f":
        # A zero and a minus zero are equal, and not the same bits.
        same = same & ((np.signbit(left) == np.signbit(right)) | np.isnan(left))
    return np.asarray(same, dtype=np.bool_)


def _same_objects(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    return not _has_own_equality(type(left)) or bool(np.all(left == right))


def _has_own_equality(kind: Any) -> bool:
    return kind.__eq__ is not object.__eq__


def _is_number_like(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex)) or hasattr(value, "__array__")


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


class _KeysOf:
    """The keys of a mapping, to be shown where two mappings have different ones."""

    def __init__(self, mapping: Mapping[Any, Any]) -> None:
        self._keys = list(mapping)

    def __repr__(self) -> str:
        return f"a dict with the keys {self._keys}"


def _shown_key(key: Any) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else repr(key)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.shape:
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, (np.generic, np.ndarray)):
        return repr(value.item())
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
