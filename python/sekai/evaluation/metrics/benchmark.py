"""What was earned beside a benchmark, over the same steps."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.metrics.performance import annual_return, spread
from sekai.evaluation.metrics.ratios import sharpe

__all__ = ["alpha", "beta", "information_ratio", "tracking_error"]

Floats = NDArray[np.float64]


def beta(returns: Floats, benchmark: Floats) -> float:
    """How far returns go with the benchmark; NaN where the benchmark stands still."""
    _check(returns, benchmark)
    if not spread(benchmark) > 0:
        return math.nan
    centred = benchmark - np.mean(benchmark)
    return float(np.mean(centred * returns) / np.mean(np.square(centred)))


def alpha(returns: Floats, benchmark: Floats, periods: float) -> float:
    """Growth of a year at the mean return that the benchmark does not account for."""
    left = np.mean(returns - beta(returns, benchmark) * benchmark) if len(returns) else math.nan
    return annual_return(np.array([left]), periods)


def tracking_error(returns: Floats, benchmark: Floats, periods: float) -> float:
    """Standard deviation of a year's distance from the benchmark."""
    _check(returns, benchmark)
    return spread(returns - benchmark) * math.sqrt(periods)


def information_ratio(returns: Floats, benchmark: Floats, periods: float) -> float:
    """The mean distance from the benchmark by its standard deviation, of a year."""
    _check(returns, benchmark)
    return sharpe(returns - benchmark, periods)


def _check(returns: Floats, benchmark: Floats) -> None:
    if returns.shape != benchmark.shape:
        raise ValueError(
            f"returns of the same steps were wanted, found {len(returns)} and {len(benchmark)}"
        )
