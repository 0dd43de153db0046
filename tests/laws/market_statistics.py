"""Stylised facts of markets: tails, volatility clustering, order flow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAIL = 0.05
"""The part of the largest moves that Hill's estimate looks at: automatic cut-offs disagree."""


def returns(prices: Floats, horizon: int = 1) -> Floats:
    """Log returns over `horizon` ticks that do not overlap."""
    changes: Floats = np.diff(np.log(prices[::horizon]))
    return changes


def autocorrelation(values: Floats, lag: int) -> float:
    apart = values - values.mean()
    return float((apart[lag:] * apart[:-lag]).sum() / (apart * apart).sum())


def excess_kurtosis(values: Floats) -> float:
    apart = values - values.mean()
    return float((apart**4).mean() / (apart**2).mean() ** 2 - 3.0)


def hill_index(values: Floats) -> float:
    sizes = np.sort(np.abs(values))[::-1]
    count = int(TAIL * len(sizes))
    return float(count / np.log(sizes[:count] / sizes[count]).sum())


def t_statistic(values: Floats) -> float:
    return float(values.mean() / (values.std(ddof=1) / np.sqrt(len(values))))
