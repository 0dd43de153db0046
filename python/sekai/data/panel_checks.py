"""Looks at what a panel is made of, before it is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import priced_places

__all__ = [
    "PRICE_FIELDS", "check_shape", "checked_names", "checked_times", "hashable", "price_places",
    "priced",
]  # fmt: skip

PRICE_FIELDS = ("open", "high", "low", "close", "adj_close", "vwap", "bid", "ask")
"""Fields that are prices: where an asset is quoted they are above 0."""

HASHED_CELLS = 1 << 20


def price_places(fields: Sequence[str]) -> list[int]:
    """Which of the fields are prices."""
    return [place for place, name in enumerate(fields) if name in PRICE_FIELDS]


def priced(fields: Sequence[str], values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where all prices are there, or all values if no field is a price."""
    return priced_places(values, price_places(fields))


def hashable(array: NDArray[Any]) -> Iterator[memoryview]:
    """The bytes of an array, some rows at a time; there is one NaN, though there are many bits."""
    step = max(1, HASHED_CELLS * len(array) // max(1, array.size))
    for start in range(0, len(array), step):
        part = np.ascontiguousarray(array[start : start + step])
        if part.dtype == np.float64 and np.isnan(part).any():
            part = np.where(np.isnan(part), np.nan, part)
        yield part.data


def checked_times(given: ArrayLike) -> NDArray[np.datetime64]:
    """Stamps that ascend, in nanoseconds."""
    times = np.asarray(given)
    if times.dtype.kind != "M" or times.ndim != 1:
        raise ValueError(
            f"times must be a row of datetime64, was of {times.dtype} and shape {times.shape}"
        )
    times = times.astype("datetime64[ns]", copy=False)
    late = np.flatnonzero(~(np.diff(times.astype(np.int64)) > 0))
    if np.isnat(times).any() or late.size:
        where = f"{times[late[0]]} then {times[late[0] + 1]}" if late.size else "no time (NaT)"
        raise ValueError(f"times must be strictly ascending, found {where}")
    return times


def checked_names(what: str, given: Sequence[str]) -> tuple[str, ...]:
    """Names, of which there is at least one and each once."""
    names = tuple(given)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{what} must be one name or more, was {list(names)}")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{what} must differ from each other, found {twice} more than once")
    return names


def check_shape(name: str, array: NDArray[Any], wanted: tuple[int, ...]) -> None:
    """Refuse an array of another shape."""
    if array.shape != wanted:
        raise ValueError(f"{name} must be of shape {wanted}, was {array.shape}")
