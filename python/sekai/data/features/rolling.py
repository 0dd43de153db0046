"""Windows over the rows of a panel, whose bytes depend on nothing but the window.

A sum that runs along a series carries the rounding of everything before it. Here each window is
folded by itself: the windows of one row make those of two, these those of four, and so on. A row
is the same to the last bit wherever the history began, and a window costs log2 of its length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "lagged",
    "logarithm",
    "pathless",
    "rolling_deviation",
    "rolling_maximum",
    "rolling_mean",
    "rolling_minimum",
    "rolling_sum",
]

Floats = NDArray[np.float64]
Part = tuple[Floats, ...]
Merge = Callable[[Part, int, Part, int], Part]

FEWEST = 16
"""Numbers that a function of many is given at least, see `pathless`."""


def lagged(values: Floats, rows: int) -> Floats:
    """What was there so many rows before; NaN where there was no row."""
    late = np.full_like(values, np.nan)
    if rows < len(values):
        late[rows:] = values[: len(values) - rows]
    return late


def rolling_sum(values: Floats, rows: int) -> Floats:
    """The sum of the last `rows` rows; NaN where one is missing."""
    return _folded((values,), rows, lambda old, _, new, __: (old[0] + new[0],))[0]


def rolling_mean(values: Floats, rows: int) -> Floats:
    """The mean of the last `rows` rows; NaN where one is missing."""
    return rolling_sum(values, rows) / rows


def rolling_maximum(values: Floats, rows: int) -> Floats:
    """The greatest of the last `rows` rows; NaN where one is missing."""
    return _folded((values,), rows, lambda old, _, new, __: (np.maximum(old[0], new[0]),))[0]


def rolling_minimum(values: Floats, rows: int) -> Floats:
    """The least of the last `rows` rows; NaN where one is missing."""
    return _folded((values,), rows, lambda old, _, new, __: (np.minimum(old[0], new[0]),))[0]


def rolling_deviation(values: Floats, rows: int) -> Floats:
    """The standard deviation of a sample of the last `rows` rows; NaN where one is missing."""
    if rows < 2:
        raise ValueError(f"a deviation needs at least 2 rows, found {rows}")
    alone = (values, np.where(np.isnan(values), np.nan, 0.0))
    deviation: Floats = np.sqrt(_folded(alone, rows, _merged_moments)[1] / (rows - 1))
    return deviation


def logarithm(values: Floats) -> Floats:
    """The natural logarithm; NaN where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = pathless(np.log, values)
    logs[~np.isfinite(logs)] = np.nan
    return logs


def pathless(function: Any, values: Floats) -> Floats:
    """`function` of each value, with bits that do not depend on how many there are.

    A single number, or numbers with gaps between them, may take another path through NumPy than
    many in a row, and end with another last bit.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    padded = np.ones(max(flat.size, FEWEST))
    padded[: flat.size] = flat
    result: Floats = function(padded)[: flat.size].reshape(values.shape)
    return result


def _folded(block: Part, rows: int, merge: Merge) -> Part:
    """All windows of `rows` rows, put together from windows whose lengths are powers of two."""
    if rows < 1:
        raise ValueError(f"a window of at least 1 row was wanted, found {rows}")
    window: Part = ()
    covered, length = 0, 1
    while True:
        if rows & length:
            window = merge(_late(block, covered), length, window, covered) if window else block
            covered += length
        if covered == rows:
            return window
        block = merge(_late(block, length), length, block, length)
        length *= 2


def _late(part: Part, rows: int) -> Part:
    return tuple(lagged(values, rows) for values in part)


def _merged_moments(old: Part, old_count: int, new: Part, new_count: int) -> Part:
    """Mean and sum of squared distances of two samples together, without cancellation."""
    total = old_count + new_count
    distance = new[0] - old[0]
    mean = old[0] + distance * (new_count / total)
    return mean, old[1] + new[1] + distance * distance * (old_count * new_count / total)
