"""What was earned, how often, and how unevenly."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["annual_return", "hit_rate", "spread", "total_return", "volatility"]

Floats = NDArray[np.float64]

UNIT_ROUNDING = 1e-15
RELATIVE_ROUNDING = 1e-12


def total_return(returns: Floats) -> float:
    """What was gained from first to last, as a share of what was there; NaN without returns."""
    return _growth(returns) - 1.0


def annual_return(returns: Floats, periods: float) -> float:
    """Growth of a year at this pace; -1 where nothing is left, NaN without returns."""
    growth = _growth(returns)
    if math.isnan(growth) or not periods > 0:
        return math.nan
    if growth <= 0:
        return -1.0
    exponent = math.log(growth) * periods / len(returns)
    # Few returns of a fast market can promise more than a number can hold.
    return math.expm1(exponent) if exponent < 700 else math.inf


def volatility(returns: Floats, periods: float) -> float:
    """Standard deviation of a year's return; NaN for fewer than 2 returns."""
    return spread(returns) * math.sqrt(periods)


def hit_rate(returns: Floats) -> float:
    """The share of gains among the steps in which anything was gained or lost."""
    if np.isnan(returns).any():
        return math.nan
    moved = np.count_nonzero(returns)
    return float(np.count_nonzero(returns > 0) / moved) if moved else math.nan


def spread(values: Floats) -> float:
    """The standard deviation of a sample; exactly 0 where values differ by rounding alone."""
    if len(values) < 2:
        return math.nan
    mean = float(np.add.reduce(values)) / len(values)
    # Several times as fast as numpy's own for the short arrays that a bootstrap has thousands of.
    centred = values - mean
    found = math.sqrt(float(np.dot(centred, centred)) / (len(values) - 1))
    return 0.0 if found <= UNIT_ROUNDING + RELATIVE_ROUNDING * abs(mean) else found


def _growth(returns: Floats) -> float:
    return float(np.prod(1.0 + returns)) if len(returns) else math.nan
