"""Infos of vector envs: sequences of dicts that are stored as columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from sekai.core.result import equal_values
from sekai.storage.display import brief_value

Envs: TypeAlias = "Sequence[int] | NDArray[np.int64]"
"""Indices of envs."""

Values: TypeAlias = "Sequence[Any] | NDArray[Any]"
"""Values of some envs; an array if they are stored in one."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values under one key, of the envs that have it."""

    indices: NDArray[np.int64]
    """Indices of the envs that have the key, in order."""

    values: Sequence[Any] | NDArray[Any]
    """Values of these envs."""


class Rows(Sequence[Any]):
    """Samples of a batch of `count`, split when first read; `batch` is the unsplit batch."""

    __slots__ = ("_count", "_samples", "_unstack", "batch")

    def __init__(self, batch: Any, count: int, unstack: Callable[[Any], list[Any]]) -> None:
        self.batch = batch
        self._count = count
        self._unstack = unstack
        self._samples: list[Any] | None = None

    def _read(self) -> list[Any]:
        if self._samples is None:
            self._samples = self._unstack(self.batch)
        return self._samples

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self._read()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())


class RowDicts(Sequence[dict[str, Any]]):
    """Rows of columns as dicts, each built when it is read."""

    __slots__ = ("_columns", "_count")

    def __init__(self, count: int, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
        self._count = count
        self._columns = columns

    def with_column(self, key: str, values: Sequence[Any]) -> RowDicts:
        """Return the same rows with one column added or replaced."""
        return RowDicts(self._count, {**self._columns, key: values})

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return {key: values[index] for key, values in self._columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(self._count))


class Infos(Sequence[dict[str, Any]]):
    """Sequence of one info dict per env, built when first read; columns need no dicts."""

    __slots__ = ("_built",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._built: list[dict[str, Any]] | None = None

    @abstractmethod
    def _build(self) -> list[dict[str, Any]]:
        """Build the dicts."""

    def keys(self) -> Iterable[str]:
        """All keys, in order of first appearance."""
        return dict.fromkeys(key for info in self._dicts() for key in info)

    def column(self, key: str) -> Column:
        """Return the values of all envs under `key`."""
        pairs = [(index, info[key]) for index, info in enumerate(self._dicts()) if key in info]
        return Column(np.array([index for index, _ in pairs], np.int64), [v for _, v in pairs])

    def value(self, index: int, key: str) -> Any:
        """Return the value of env `index` under `key`, or None."""
        return self.values((index,), key)[0]

    def values(self, indices: Envs, key: str) -> Values:
        """Return the value of each env in `indices` under `key`, or None."""
        dicts = self._dicts()
        return [dicts[index].get(key) for index in _listed(indices)]

    def updated(self, changes: Mapping[int, Mapping[str, Any]]) -> Infos:
        """Return infos with added or replaced entries of some envs."""
        columns: dict[str, dict[int, Any]] = {}
        for index in sorted(changes):
            for key, value in changes[index].items():
                columns.setdefault(key, {})[index] = value
        return self.with_columns({key: _column_of(values) for key, values in columns.items()})

    def with_columns(self, columns: Mapping[str, Column]) -> Infos:
        """Return infos with added or replaced columns."""
        return _UpdatedInfos(self, columns) if columns else self

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
        return brief_value(self._dicts())

    def __reduce__(self) -> tuple[type[DictInfos], tuple[list[dict[str, Any]]]]:
        return DictInfos, (self._dicts(),)


class DictInfos(Infos):
    """Infos stored as dicts."""

    __slots__ = ()

    def __init__(self, dicts: list[dict[str, Any]]) -> None:
        self._built = dicts

    def __len__(self) -> int:
        return len(self._dicts())

    def _build(self) -> list[dict[str, Any]]:
        raise AssertionError("dict infos are built from the start")


class ColumnInfos(Infos):
    """Infos stored as columns, as native batches return them."""

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
        """All keys."""
        return self._columns.keys()

    def column(self, key: str) -> Column:
        """Return the values of all envs under `key`."""
        return self._columns.get(key) or Column(np.empty(0, np.int64), [])

    def values(self, indices: Envs, key: str) -> Values:
        """Return the value of each env in `indices` under `key`, or None."""
        column = self._columns.get(key)
        if column is None:
            return [None] * len(indices)
        if isinstance(indices, np.ndarray) and same_envs(indices, column.indices):
            return column.values
        rows = {index: row for row, index in enumerate(column.indices.tolist())}
        return [column.values[rows[i]] if i in rows else None for i in _listed(indices)]


class _UpdatedInfos(Infos):
    """Infos that override some columns of `inner`."""

    __slots__ = ("_columns", "_inner")

    def __init__(self, inner: Infos, columns: Mapping[str, Column]) -> None:
        super().__init__()
        self._inner = inner
        self._columns = columns

    def __len__(self) -> int:
        return len(self._inner)

    def _build(self) -> list[dict[str, Any]]:
        dicts = list(self._inner)
        for index in {i for column in self._columns.values() for i in column.indices.tolist()}:
            dicts[index] = dict(dicts[index])
        for key, column in self._columns.items():
            for index, value in zip(column.indices.tolist(), column.values, strict=True):
                dicts[index][key] = value
        return dicts

    def keys(self) -> Iterable[str]:
        """All keys."""
        return dict.fromkeys([*self._inner.keys(), *self._columns])

    def column(self, key: str) -> Column:
        """Return the values of all envs under `key`."""
        inner, own = self._inner.column(key), self._columns.get(key)
        if own is None:
            return inner
        if not inner.indices.size or same_envs(inner.indices, own.indices):
            return own
        return _column_of({**_by_env(inner), **_by_env(own)})

    def values(self, indices: Envs, key: str) -> Values:
        """Return the value of each env in `indices` under `key`, or None."""
        own = self._columns.get(key)
        if own is None:
            return self._inner.values(indices, key)
        if isinstance(indices, np.ndarray) and same_envs(indices, own.indices):
            return own.values
        values, changed = self._inner.values(indices, key), _by_env(own)
        pairs = zip(_listed(indices), values, strict=True)
        return [changed.get(index, value) for index, value in pairs]


def _listed(indices: Envs) -> Sequence[int]:
    return indices.tolist() if isinstance(indices, np.ndarray) else indices


def _by_env(column: Column) -> dict[int, Any]:
    return dict(zip(column.indices.tolist(), column.values, strict=True))


def _column_of(values: Mapping[int, Any]) -> Column:
    indices = sorted(values)
    return Column(np.array(indices, np.int64), [values[index] for index in indices])


def stack_infos(infos: Sequence[Mapping[str, Any]], missing: Any = None) -> dict[str, NDArray[Any]]:
    """Convert infos to arrays, one per key, with one entry per env.

    Numbers, strings and arrays of one shape become typed arrays; other values stay objects. Envs
    without the key get `missing`: None makes the column an array of objects, so that missing values
    are not summed by accident; `missing=np.nan` keeps numeric dtypes.
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


def same_envs(left: NDArray[np.int64], right: NDArray[np.int64]) -> bool:
    """Return True if two arrays hold the same indices in the same order."""
    # Comparing bytes takes a tenth of the time of array arithmetic for ten indices.
    return left is right or (left.size == right.size and left.tobytes() == right.tobytes())
