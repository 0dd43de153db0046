"""Long series with fewer points, of which none is a peak or a trough that was there."""

from __future__ import annotations

import itertools

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
    edges = np.linspace(1, count - 1, max((most - 2) // 3, 1) + 1).astype(np.int64)
    kept = {0, count - 1}
    for first, end in itertools.pairwise(edges):
        kept.update(int(first) + place for place in _telling(values[first:end]))
    return np.array(sorted(kept), np.int64)


def _telling(stretch: NDArray[np.float64]) -> set[int]:
    missing = np.isnan(stretch)
    if missing.all():
        return {0} if len(stretch) else set()
    found = {int(np.nanargmin(stretch)), int(np.nanargmax(stretch))}
    return found | {int(np.argmax(missing))} if missing.any() else found
