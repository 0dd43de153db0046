"""Findings of checks: the report, and bitwise differences between nested values."""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

WALL_CLOCK = frozenset({("elapsed_time",), ("episode", "t")})
"""Path endings of wall-clock durations, which no seed can repeat."""

Path = tuple[Any, ...]


class _Absent(enum.Enum):
    """Placeholder for an entry that one of two infos lacks."""

    ABSENT = "nothing"

    def __repr__(self) -> str:
        return self.value


ABSENT = _Absent.ABSENT


@dataclasses.dataclass(frozen=True, slots=True)
class ValueDifference:
    """Two different values at one path."""

    path: Path
    left: Any
    right: Any

    @property
    def path_text(self) -> str:
        """Path in Python syntax: `info['prices'][3]`."""
        head, *rest = self.path or ("value",)
        return str(head) + "".join(f"[{_shown_key(key)}]" for key in rest)

    def sentence(self, *moments: str) -> str:
        """Return `observation[0] was 1.0, then 2.0`, or with other verbs for the two values."""
        first, second = moments or ("was", "then")
        return f"{self.path_text} {first} {_shown(self.left)}, {second} {_shown(self.right)}"


def first_difference(left: Any, right: Any, path: Path = ()) -> ValueDifference | None:
    """Return the first difference between two nested values, or None.

    Arrays must agree in shape, dtype and every bit, except that NaN equals NaN. Objects without an
    `__eq__` of their own are not compared.
    """
    return next(_differences(left, right, path), None)


def field_differences(
    left: Mapping[str, Any], right: Mapping[str, Any]
) -> Iterator[ValueDifference]:
    """Iterate over the first difference in each field of two results and in each info entry."""
    lefts, rights = dict(_entries(left)), dict(_entries(right))
    for path in dict.fromkeys((*lefts, *rights)):
        difference = first_difference(lefts.get(path, ABSENT), rights.get(path, ABSENT), path)
        if difference is not None:
            yield difference


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


def _differences(left: Any, right: Any, path: Path) -> Iterator[ValueDifference]:
    if left is right or path[-1:] in WALL_CLOCK or path[-2:] in WALL_CLOCK:
        return
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        yield from _mapping_differences(left, right, path)
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        yield from _sequence_differences(left, right, path)
    elif dataclasses.is_dataclass(left) and type(left) is type(right):
        yield from _differences(fields_of(left), fields_of(right), path)
    elif isinstance(left, int) and isinstance(right, int):
        # Python ints may be too large for an array.
        if left != right:
            yield ValueDifference(path, left, right)
    elif _is_number_like(left) and _is_number_like(right):
        yield from _array_differences(np.asarray(left), np.asarray(right), path)
    elif not _same_objects(left, right):
        yield ValueDifference(path, left, right)


def _mapping_differences(
    left: Mapping[Any, Any], right: Mapping[Any, Any], path: Path
) -> Iterator[ValueDifference]:
    if left.keys() != right.keys():
        yield ValueDifference(path, _KeysOf(left), _KeysOf(right))
    else:
        for key in left:
            yield from _differences(left[key], right[key], (*path, key))


def _sequence_differences(
    left: list[Any] | tuple[Any, ...], right: list[Any] | tuple[Any, ...], path: Path
) -> Iterator[ValueDifference]:
    if len(left) != len(right):
        yield ValueDifference(path, left, right)
    else:
        for index, pair in enumerate(zip(left, right, strict=True)):
            yield from _differences(*pair, (*path, index))


def _array_differences(
    left: NDArray[Any], right: NDArray[Any], path: Path
) -> Iterator[ValueDifference]:
    if left.shape != right.shape or (left.shape and left.dtype != right.dtype):
        yield ValueDifference(path, left, right)
    elif left.dtype == right.dtype != object and left.tobytes() == right.tobytes():
        # The common case, and comparing bytes is fast.
        return
    elif left.dtype == object or right.dtype == object:
        pairs = zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
        unequal = next((pair for pair in pairs if not _same_objects(*pair)), None)
        if unequal is not None:
            yield ValueDifference(path, *unequal)
    else:
        indices = np.argwhere(~_same_elements(left, right))
        if len(indices):
            index = tuple(indices[0].tolist())
            yield ValueDifference((*path, *([index] if index else [])), left[index], right[index])


def _same_elements(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.bool_]:
    same = np.asarray(left == right)
    if left.dtype.kind in "fc" and right.dtype.kind in "fc":
        same = same | (np.isnan(left) & np.isnan(right))
    if left.dtype.kind == "f" and right.dtype.kind == "f":
        # 0.0 and -0.0 are equal but have different bits.
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


class _KeysOf:
    """Keys of a mapping, shown if two mappings have different keys."""

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


MARK = "written by check_env"
"""Entry that `overwrite` leaves in dicts and lists."""


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a result or another dataclass by name."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def deep_copy(value: Any) -> Any:
    """Return a deep copy; values that cannot be copied are returned themselves."""
    if isinstance(value, Mapping):
        return {key: deep_copy(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(deep_copy, value))
    try:
        return copy.deepcopy(value)
    except Exception:
        # Infos may hold locks, modules or handles, which are not compared.
        return value


def overwrite(value: Any) -> None:
    """Overwrite every mutable part of `value`."""
    if isinstance(value, MutableMapping):
        for part in value.values():
            overwrite(part)
        value.clear()
        value[MARK] = True
    elif isinstance(value, (list, tuple)):
        for part in value:
            overwrite(part)
        if isinstance(value, list):
            value[:] = [MARK]
    elif hasattr(value, "__array__") and not isinstance(value, np.generic):
        _scribble_array(np.asarray(value))


def _scribble_array(array: np.ndarray[Any, Any]) -> None:
    if not array.flags.writeable:
        return
    if array.dtype.kind == "b":
        np.logical_not(array, out=array)
    elif array.dtype.kind in "iu":
        np.bitwise_xor(array, 1, out=array)
    elif array.dtype.kind in "fc":
        array[...] = np.where(np.isfinite(array) & (array != 0), -array / 2, 1)


@dataclasses.dataclass(slots=True)
class _Finding:
    level: str
    sentence: str
    count: int = 1


class Report:
    """Errors and warnings, in the order of their first occurrence.

    A broken env usually fails at every step, so findings have a topic: the first message of a topic
    is original and its occurrences are counted.
    """

    def __init__(self) -> None:
        self._findings: dict[str, _Finding] = {}

    @property
    def has_errors(self) -> bool:
        """True if there is an error, not only warnings."""
        return any(finding.level == "ERROR" for finding in self._findings.values())

    def error(self, topic: str, sentence: str) -> None:
        """Add a violation of the environment API."""
        self._add("ERROR", topic, sentence)

    def warn(self, topic: str, sentence: str) -> None:
        """Add something that is allowed but probably not intended."""
        self._add("WARNING", topic, sentence)

    def lines(self, with_warnings: bool = True) -> list[str]:
        """Return the findings as `check_env` does."""
        levels = ("ERROR", "WARNING") if with_warnings else ("ERROR",)
        return [_line(finding) for finding in self._findings.values() if finding.level in levels]

    def guarded(self, check: Callable[[], object]) -> None:
        """Run a check; an exception becomes a finding, so that other checks go on."""
        try:
            check()
        except Exception as error:
            self.error(f"guarded {error}", describe_error(error))

    def _add(self, level: str, topic: str, sentence: str) -> None:
        key = f"{level} {topic}"
        if key in self._findings:
            self._findings[key].count += 1
        else:
            self._findings[key] = _Finding(level, sentence)


class CheckStopped(Exception):  # noqa: N818 - it ends a check, and says what the env did wrong
    """A check cannot continue; the message is the reason."""


@contextmanager
def stopping(call: str) -> Iterator[None]:
    """Stop the check if `call`, which the block makes, raises an exception."""
    try:
        yield
    except Exception as error:
        raise CheckStopped(f"{call} raised {describe_error(error)}") from error


def describe_error(error: BaseException) -> str:
    """Return type, message and location of an exception in one line."""
    if isinstance(error, CheckStopped):
        return str(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{_place(error)}"


def _place(error: BaseException) -> str:
    traceback = error.__traceback__
    if traceback is None:
        return ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    file_name = traceback.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f" ({file_name} line {traceback.tb_lineno})"


def _line(finding: _Finding) -> str:
    often = f" ({finding.count} times in all)" if finding.count > 1 else ""
    return f"{finding.level}: {finding.sentence}{often}"
