"""How much of a Sharpe ratio is luck: after Bailey and Lopez de Prado (2012, 2014).

All ratios here are of one period, not annualised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Honesty
from sekai.evaluation.metrics.ratios import sharpe
from sekai.evaluation.metrics.tails import kurtosis, skewness
from sekai.evaluation.statistics.distributions import normal_cdf, normal_quantile
from sekai.evaluation.statistics.memory import effective_observations

__all__ = [
    "deflated_sharpe",
    "effective_trials",
    "expected_best_sharpe",
    "honesty_of",
    "least_track_record",
    "probabilistic_sharpe",
]

Floats = NDArray[np.float64]
EULER_MASCHERONI = 0.5772156649015329


def probabilistic_sharpe(
    ratio: float, observations: float, skew: float = 0.0, kurt: float = 3.0, against: float = 0.0
) -> float:
    """The chance that the true ratio is above `against`."""
    if observations < 2:
        return math.nan
    error = math.sqrt(_variance(ratio, skew, kurt) / (observations - 1))
    return normal_cdf((ratio - against) / error) if error > 0 else math.nan


def least_track_record(
    ratio: float, skew: float = 0.0, kurt: float = 3.0, against: float = 0.0, level: float = 0.95
) -> float:
    """Returns needed to tell a ratio from one that is lower; infinite where it is not above it."""
    if not ratio > against:
        return math.nan if math.isnan(ratio) else math.inf
    return 1.0 + _variance(ratio, skew, kurt) * (normal_quantile(level) / (ratio - against)) ** 2


def expected_best_sharpe(trials: float, variance: float) -> float:
    """What the best of so many trials without skill shows, if their ratios vary so much."""
    if trials < 1 or not variance >= 0:
        raise ValueError(
            f"1 trial or more and a variance of 0 or more were wanted, found {trials} trials "
            f"and a variance of {variance}"
        )
    if trials == 1:
        return 0.0
    often = normal_quantile(1.0 - 1.0 / trials)
    seldom = normal_quantile(1.0 - 1.0 / (trials * math.e))
    best = (1.0 - EULER_MASCHERONI) * often + EULER_MASCHERONI * seldom
    return math.sqrt(variance) * max(0.0, best)


def deflated_sharpe(
    ratio: float,
    observations: float,
    trials: float,
    variance: float,
    skew: float = 0.0,
    kurt: float = 3.0,
) -> float:
    """The chance that the true ratio is above what luck would show after so many trials."""
    best = expected_best_sharpe(trials, variance)
    return probabilistic_sharpe(ratio, observations, skew, kurt, against=best)


def effective_trials(returns: Floats) -> float:
    """How many independent trials a table of returns, steps by trials, is worth.

    Between 1 and their number, by the mean of their correlations; for what is not recorded
    otherwise, such as a grid of settings that hardly differ.
    """
    count = int(returns.shape[1])
    if count < 2:
        return float(count)
    correlations = np.corrcoef(returns, rowvar=False)
    mean = (float(np.sum(correlations)) - count) / (count * (count - 1))
    shared = min(max(mean, 0.0), 1.0)
    return shared + (1.0 - shared) * count


def honesty_of(returns: Floats, trials: Sequence[float] | int) -> Honesty:
    """How much of the Sharpe ratio of returns is left when luck and trials are counted.

    Returns with a memory count for as many as say as much without one: trends would else pass
    for skill.

    Args:
        returns: of the agent, step by step.
        trials: the ratios of one period of all agents judged on this data, this one included,
            NaN for one that has none; or only their number.
    """
    ratios = [] if isinstance(trials, (int, np.integer)) else list(trials)
    count = int(trials) if isinstance(trials, (int, np.integer)) else len(ratios)
    if count < 1:
        raise ValueError(f"1 trial or more was wanted, the agent's own, found {count}")
    ratio, skew, kurt = sharpe(returns, 1.0), skewness(returns), kurtosis(returns)
    worth = effective_observations(returns)
    best = expected_best_sharpe(count, _variance_of_trials(ratios, worth))
    needed = least_track_record(ratio, skew, kurt)
    return Honesty(
        trials=count,
        observations=len(returns),
        sharpe=ratio,
        expected_best=best,
        probabilistic=probabilistic_sharpe(ratio, worth, skew, kurt),
        deflated=probabilistic_sharpe(ratio, worth, skew, kurt, against=best),
        least_length=needed * len(returns) / worth if worth else needed,
    )


def _variance(ratio: float, skew: float, kurt: float) -> float:
    """The variance of an estimated ratio, times the number of returns less 1."""
    return 1.0 - skew * ratio + (kurt - 1.0) / 4.0 * ratio**2


def _variance_of_trials(ratios: Sequence[float], observations: float) -> float:
    """How much trials vary; where that is not known, as much as luck alone makes them."""
    known = [one for one in ratios if math.isfinite(one)]
    if len(known) >= 2:
        return float(np.var(known, ddof=1))
    return 1.0 / max(observations - 1.0, 1.0)
