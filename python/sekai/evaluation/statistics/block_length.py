"""How long the blocks of a bootstrap should be, from the data: Politis and White, as corrected."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["block_length"]

Floats = NDArray[np.float64]


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
    covariances = _autocovariances(series, total, _most_lags(total) + _needed(total))
    if not covariances[0] > 0:
        return 1.0
    lags = _lags_that_matter(covariances / covariances[0], total)
    distance = np.arange(1, 2 * lags + 1)
    weighted = np.clip(2.0 - distance / lags, 0.0, 1.0) * covariances[distance]
    curvature = 2.0 * float(np.sum(weighted * distance))
    long_run = float(covariances[0]) + 2.0 * float(np.sum(weighted))
    if not long_run > 0:
        return float(longest)
    return min(max(1.0, math.pow(total * (curvature / long_run) ** 2, 1.0 / 3.0)), float(longest))


def _lags_that_matter(correlations: Floats, total: int) -> int:
    """The first lag after which so many in a row are too small to be told from 0."""
    negligible = np.abs(correlations[1:]) < 2.0 * math.sqrt(math.log10(total) / total)
    needed = _needed(total)
    for lag in range(_most_lags(total)):
        if negligible[lag : lag + needed].all():
            return max(lag, 1)
    return _most_lags(total) // 2


def _autocovariances(series: Sequence[Floats], total: int, most: int) -> Floats:
    mean = sum(float(np.sum(one)) for one in series) / total
    found = np.zeros(2 * most + 1)
    for one in series:
        centred = one - mean
        for lag in range(min(len(found), len(centred))):
            found[lag] += np.dot(centred[: len(centred) - lag], centred[lag:])
    return found / total


def _needed(total: int) -> int:
    return max(5, math.ceil(math.sqrt(math.log10(total))))


def _most_lags(total: int) -> int:
    return math.ceil(math.sqrt(total)) + _needed(total)
