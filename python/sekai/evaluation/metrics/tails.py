"""How bad bad steps are, and how far returns are from a bell."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.metrics.performance import spread

__all__ = [
    "conditional_value_at_risk",
    "kurtosis",
    "skewness",
    "tail_ratio",
    "value_at_risk",
]

Floats = NDArray[np.float64]


def value_at_risk(returns: Floats, share: float = 0.05) -> float:
    """The return that `share` of steps fall below: a loss is below 0."""
    return float(np.quantile(returns, share)) if len(returns) else math.nan


def conditional_value_at_risk(returns: Floats, share: float = 0.05) -> float:
    """The mean of the worst `share` of returns, the one at the edge included."""
    if not len(returns) or np.isnan(returns).any():
        return math.nan
    edge = int((len(returns) - 1) * share)
    return float(np.mean(np.partition(returns, edge)[: edge + 1]))


def tail_ratio(returns: Floats, share: float = 0.05) -> float:
    """How far the best `share` of returns begins from 0, by how far the worst does."""
    worst = abs(value_at_risk(returns, share))
    return abs(value_at_risk(returns, 1.0 - share)) / worst if worst > 0 else math.nan


def skewness(returns: Floats) -> float:
    """The third standardised moment: 0 for a bell, below it where losses are the longer tail."""
    return _moment(returns, 3)


def kurtosis(returns: Floats) -> float:
    """The fourth standardised moment: 3 for a bell, more where tails are fat."""
    return _moment(returns, 4)


def _moment(returns: Floats, order: int) -> float:
    if not spread(returns) > 0:
        return math.nan
    centred = returns - np.mean(returns)
    return float(np.mean(centred**order) / np.mean(centred**2) ** (order / 2))
