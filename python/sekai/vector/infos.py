"""The infos of N envs: a list of dicts to its readers, columns to those in a hurry."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sekai.core.equality import equal_values

__all__ = ["Column", "ColumnInfos", "DictInfos", "Infos", "stack_infos"]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The values under one key, of the envs that have it."""

    indices: NDArray[np.int64]
    """The envs that have the key, in order."""

    values: Sequence[Any] | NDArray[Any]
    """What they have under it."""


class Infos(Sequence[dict[str, Any]]):
    """One dict per env. Dicts are built when they are first read; columns need none."""

    __slots__ = ("_built",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._built: list[dict[str, Any]] | None = None

    @abstractmethod
    def _build(self) -> list[dict[str, Any]]:
        """The dicts, one per env."""

    def keys(self) -> Iterable[str]:
        """Every key that some env has, in the order of first appearance."""
        return dict.fromkeys(key for info in self._dicts() for key in info)

    def column(self, key: str) -> Column:
        """The values of all envs under `key`."""
        found = [(index, info[key]) for index, info in enumerate(self._dicts()) if key in info]
        return Column(np.array([index for index, _ in found], np.int64), [v for _, v in found])

    def value(self, index: int, key: str) -> Any:
        """What env `index` has under `key`, or None."""
        return self.values((index,), key)[0]

    def values(self, indices: Sequence[int], key: str) -> list[Any]:
        """What each of the envs `indices` has under `key`, or None."""
        dicts = self._dicts()
        return [dicts[index].get(key) for index in indices]

    def updated(self, changes: Mapping[int, Mapping[str, Any]]) -> Infos:
        """These infos with more, or other, entries for some envs."""
        return _UpdatedInfos(self, changes) if changes else self

    def _dicts(self) -> list[dict[str, Any]]:
        if self._built is None:
            self._built = self._build()
        return self._built

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self._dicts()[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._dicts())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Infos, list)):
            return NotImplemented
        return equal_values(self._dicts(), list(other))

    def __repr__(self) -> str:
        return repr(self._dicts())

    def __reduce__(self) -> tuple[type[DictInfos], tuple[list[dict[str, Any]]]]:
        return DictInfos, (self._dicts(),)


class DictInfos(Infos):
    """Infos that exist as dicts already."""

    __slots__ = ()

    def __init__(self, dicts: list[dict[str, Any]]) -> None:
        self._built = dicts

    def __len__(self) -> int:
        return len(self._dicts())

    def _build(self) -> list[dict[str, Any]]:
        raise AssertionError("dict infos are built from the start")


class ColumnInfos(Infos):
    """Infos that exist as columns; what a native batch gives."""

    __slots__ = ("_columns", "_count")

    def __init__(self, count: int, columns: Mapping[str, Column]) -> None:
        super().__init__()
        self._count = count
        self._columns = columns

    def __len__(self) -> int:
        return self._count

    def _build(self) -> list[dict[str, Any]]:
        dicts: list[dict[str, Any]] = [{} for _ in range(self._count)]
        for key, column in self._columns.items():
            for index, value in zip(column.indices.tolist(), column.values, strict=True):
                dicts[index][key] = value
        return dicts

    def keys(self) -> Iterable[str]:
        """Every key that some env has."""
        return self._columns.keys()

    def column(self, key: str) -> Column:
        """The values of all envs under `key`."""
        return self._columns.get(key) or Column(np.empty(0, np.int64), [])

    def values(self, indices: Sequence[int], key: str) -> list[Any]:
        """What each of the envs `indices` has under `key`, or None."""
        column = self._columns.get(key)
        if column is None:
            return [None] * len(indices)
        places = {index: place for place, index in enumerate(column.indices.tolist())}
        return [column.values[places[i]] if i in places else None for i in indices]


class _UpdatedInfos(Infos):
    """Infos of which a few entries differ from those of `inner`."""

    __slots__ = ("_changes", "_inner")

    def __init__(self, inner: Infos, changes: Mapping[int, Mapping[str, Any]]) -> None:
        super().__init__()
        self._inner = inner
        self._changes = changes

    def __len__(self) -> int:
        return len(self._inner)

    def _build(self) -> list[dict[str, Any]]:
        dicts = list(self._inner)
        for index, change in self._changes.items():
            dicts[index] = {**dicts[index], **change}
        return dicts

    def keys(self) -> Iterable[str]:
        """Every key that some env has."""
        more = (key for change in self._changes.values() for key in change)
        return dict.fromkeys([*self._inner.keys(), *more])

    def column(self, key: str) -> Column:
        """The values of all envs under `key`."""
        inner = self._inner.column(key)
        changed = {i: change[key] for i, change in self._changes.items() if key in change}
        if not changed:
            return inner
        merged = {**dict(zip(inner.indices.tolist(), inner.values, strict=True)), **changed}
        indices = sorted(merged)
        return Column(np.array(indices, np.int64), [merged[index] for index in indices])

    def values(self, indices: Sequence[int], key: str) -> list[Any]:
        """What each of the envs `indices` has under `key`, or None."""
        found = self._inner.values(indices, key)
        changes = (self._changes.get(index, {}) for index in indices)
        return [change.get(key, value) for change, value in zip(changes, found, strict=True)]


def stack_infos(infos: Sequence[Mapping[str, Any]], missing: Any = None) -> dict[str, NDArray[Any]]:
    """Info values as arrays, one per key, with one entry per env.

    Numbers, strings and arrays of one shape become typed arrays; other values stay objects. Where
    an env lacks a key that another has, its entry is `missing`: None makes that column an array
    of objects, so that nobody adds up what is not there; `missing=np.nan` keeps numbers numbers.
    """
    columns = infos if isinstance(infos, Infos) else DictInfos([dict(info) for info in infos])
    return {key: _stacked(columns.column(key), len(infos), missing) for key in columns.keys()}  # noqa: SIM118 - not a dict


def _stacked(column: Column, count: int, missing: Any) -> NDArray[Any]:
    if len(column.indices) == count:
        values = column.values
        return values.copy() if isinstance(values, np.ndarray) else _as_array(list(values))
    entries: list[Any] = [missing] * count
    for index, value in zip(column.indices.tolist(), column.values, strict=True):
        entries[index] = value
    return _as_array(entries)


def _as_array(values: list[Any]) -> NDArray[Any]:
    if all(isinstance(value, (bool, int, float, complex, np.number, np.bool_)) for value in values):
        return np.array(values)
    if all(isinstance(value, str) for value in values):
        return np.array(values)
    if all(isinstance(value, np.ndarray) and value.shape == values[0].shape for value in values):
        return np.stack(values)
    objects = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        objects[index] = value
    return objects
