"""Windows over the rows of a panel, whose bytes depend on nothing but the window.

A sum that runs along a series carries the rounding of everything before it. Here each window is
folded by itself: a row is the same to the last bit wherever the history began.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import logarithms, rolling_windows

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
    return rolling_windows(values, rows, "sum")


def rolling_mean(values: Floats, rows: int) -> Floats:
    """The mean of the last `rows` rows; NaN where one is missing."""
    return rolling_sum(values, rows) / rows


def rolling_maximum(values: Floats, rows: int) -> Floats:
    """The greatest of the last `rows` rows; NaN where one is missing."""
    return rolling_windows(values, rows, "maximum")


def rolling_minimum(values: Floats, rows: int) -> Floats:
    """The least of the last `rows` rows; NaN where one is missing."""
    return rolling_windows(values, rows, "minimum")


def rolling_deviation(values: Floats, rows: int) -> Floats:
    """The standard deviation of a sample of the last `rows` rows; NaN where one is missing."""
    if rows < 2:
        raise ValueError(f"a deviation needs at least 2 rows, found {rows}")
    return rolling_windows(values, rows, "deviation")


def logarithm(values: Floats) -> Floats:
    """The natural logarithm; NaN where there is none."""
    return logarithms(values)


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
