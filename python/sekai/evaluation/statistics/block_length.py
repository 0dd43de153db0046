"""How long the blocks of a bootstrap should be, from the data: Politis and White, as corrected."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["block_length"]

Floats = NDArray[np.float64]

IN_A_ROW = 5
"""Correlations that have to be negligible before all that follow count so."""


def block_length(series: Sequence[Floats]) -> float:
    """The expected length of blocks at which a stationary bootstrap of the mean errs least.

    Follows Politis and White (2004) with the correction of Patton, Politis and White (2009).
    Series of several episodes count together, about the mean of all: what differs between
    episodes then shows as a dependence that does not fade, and blocks become long.
    """
    total = sum(len(one) for one in series)
    if total < 4:
        return 1.0
    longest = math.ceil(min(3.0 * math.sqrt(total), total / 3.0))
    covariances = _autocovariances(series, total)
    if not covariances[0] > 0:
        return 1.0
    window = _window(covariances / covariances[0], total)
    distance = np.arange(1, window + 1)
    weighted = np.minimum(2.0 - 2.0 * distance / window, 1.0) * covariances[distance]
    curvature = 2.0 * float(np.sum(weighted * distance))
    long_run = float(covariances[0]) + 2.0 * float(np.sum(weighted))
    if not long_run > 0:
        return float(longest)
    return min(max(1.0, math.pow(total * (curvature / long_run) ** 2, 1.0 / 3.0)), float(longest))


def _window(correlations: Floats, total: int) -> int:
    """Twice the first lag of so many in a row that are too small to be told from 0."""
    negligible = np.abs(correlations[1:]) < 2.0 * math.sqrt(math.log10(total) / total)
    most = _most_lags(total)
    for lag in range(most - IN_A_ROW):
        if negligible[lag : lag + IN_A_ROW].all():
            return min(2 * (lag + 1), most)
    return most


def _autocovariances(series: Sequence[Floats], total: int) -> Floats:
    mean = sum(float(np.sum(one)) for one in series) / total
    found = np.zeros(_most_lags(total) + 1)
    for one in series:
        centred = one - mean
        for lag in range(min(len(found), len(centred))):
            found[lag] += np.dot(centred[: len(centred) - lag], centred[lag:])
    return found / total


def _most_lags(total: int) -> int:
    return math.ceil(math.sqrt(total)) + IN_A_ROW
