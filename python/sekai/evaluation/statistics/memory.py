"""How long returns remember: what one of them tells of those that follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Memory", "effective_observations", "memory_of"]

Floats = NDArray[np.float64]

IN_A_ROW = 5
"""Correlations that have to be negligible before all that follow count so."""


class Memory(NamedTuple):
    """Sums of autocovariances over the lags that matter, in both directions."""

    variance: float
    """Of one return."""

    long_run: float
    """Of a mean of returns, times their number."""

    curvature: float
    """The same sum, with each lag times its length."""


def memory_of(series: Sequence[Floats]) -> Memory:
    """The memory of returns, by the flat-topped window of Politis and White (2004).

    Series of several episodes count together, about the mean of all: what differs between
    episodes then shows as a memory that does not fade.
    """
    total = sum(len(one) for one in series)
    covariances = _autocovariances(series, total)
    variance = float(covariances[0])
    if not variance > 0:
        return Memory(variance, variance, 0.0)
    window = _window(covariances / variance, total)
    lag = np.arange(1, window + 1)
    weighted = 2.0 * np.minimum(2.0 - 2.0 * lag / window, 1.0) * covariances[lag]
    return Memory(variance, variance + float(np.sum(weighted)), float(np.sum(weighted * lag)))


def effective_observations(returns: Floats) -> float:
    """How many independent returns say as much of the mean; never more than there are."""
    if len(returns) < 4:
        return float(len(returns))
    memory = memory_of([returns])
    if not memory.long_run > memory.variance:
        return float(len(returns))
    return len(returns) * memory.variance / memory.long_run


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
