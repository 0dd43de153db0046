"""Long series with fewer points, of which none is a peak or a trough that was there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_POINTS", "kept_points"]

MOST_POINTS = 1500
"""Of one line: more than a wide screen has room for."""

LEAST_POINTS = 5
"""The first, the last, and three of what is between."""


def kept_points(values: NDArray[np.float64], most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Where the points are that draw the same line, in order: at most `most` of them.

    The first and the last are kept, and of each of equally long stretches in between the lowest,
    the highest, and, where a line is broken, one that is no number.
    """
    if most < LEAST_POINTS:
        raise ValueError(f"most must be at least {LEAST_POINTS} points, was {most}")
    count = len(values)
    if count <= most:
        return np.arange(count)
    inner = values[1:-1]
    stretches = (most - 2) // 3
    width = -(-len(inner) // stretches)
    table = np.full(stretches * width, np.nan)
    table[: len(inner)] = inner
    telling = _telling(table.reshape(stretches, width))
    places = np.unique(telling + np.arange(stretches) * width)
    return np.concatenate([[0], places[places < len(inner)] + 1, [count - 1]])


def _telling(stretches: NDArray[np.float64]) -> NDArray[np.int64]:
    """Where in each row the lowest, the highest and the first hole are."""
    holes = np.isnan(stretches)
    lowest = np.where(holes, np.inf, stretches).argmin(axis=1)
    highest = np.where(holes, -np.inf, stretches).argmax(axis=1)
    return np.stack([lowest, highest, holes.argmax(axis=1)])
