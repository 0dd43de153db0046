"""What was earned for the risk that was taken; NaN where there was none."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.metrics.drawdown import max_drawdown
from sekai.evaluation.metrics.performance import annual_return, spread

__all__ = ["calmar", "omega", "sharpe", "sortino"]

Floats = NDArray[np.float64]


def sharpe(returns: Floats, periods: float) -> float:
    """Mean return by its standard deviation, of a year; returns are taken as they are."""
    deviation = spread(returns)
    if not deviation > 0:
        return math.nan
    return _mean(returns) / deviation * math.sqrt(periods)


def sortino(returns: Floats, periods: float) -> float:
    """Mean return by the root mean square of losses, of a year."""
    if len(returns) < 2:
        return math.nan
    below = np.minimum(returns, 0.0)
    losses = math.sqrt(float(np.dot(below, below)) / len(below))
    return _mean(returns) / losses * math.sqrt(periods) if losses > 0 else math.nan


def calmar(returns: Floats, periods: float) -> float:
    """Annual return by the deepest drawdown."""
    deepest = max_drawdown(returns)
    found = annual_return(returns, periods) / -deepest if deepest < 0 else math.nan
    return found if math.isfinite(found) else math.nan


def omega(returns: Floats) -> float:
    """All gains by all losses."""
    if len(returns) < 2:
        return math.nan
    losses = -float(np.add.reduce(np.minimum(returns, 0.0)))
    return float(np.add.reduce(np.maximum(returns, 0.0))) / losses if losses > 0 else math.nan


def _mean(returns: Floats) -> float:
    return float(np.add.reduce(returns)) / len(returns)
