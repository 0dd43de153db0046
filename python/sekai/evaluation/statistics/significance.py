"""Significance over seeds: Student's t intervals and paired t-tests."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Interval
from sekai.evaluation.metrics.returns import sample_std

__all__ = [
    "check_level",
    "normal_cdf",
    "normal_quantile",
    "paired",
    "seed_interval",
    "student_cdf",
    "student_quantile",
    "student_tails",
]

Floats = NDArray[np.float64]

NORMAL = NormalDist()
SMALLEST = 1e-300
MAX_ITERATIONS = 400


def seed_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Mean over seeds with Student's t confidence interval.

    Bounds are NaN, with a reason, for a single value and for identical values, which may be copies
    of one episode. A NaN value makes the mean NaN.
    """
    check_level(level)
    array = np.asarray(values, np.float64)
    mean = float(np.mean(array)) if len(array) else math.nan
    error = _standard_error(array)
    reach = student_quantile(0.5 + level / 2.0, len(array) - 1) * error if error > 0 else math.nan
    return Interval(
        value=mean,
        low=mean - reach,
        high=mean + reach,
        level=level,
        method="seeds",
        reason="" if error > 0 else _why_unbounded(mean, len(array)),
    )


def paired(
    agent_values: Sequence[float],
    baseline_values: Sequence[float],
    higher_is_better: bool = True,
    level: float = 0.95,
) -> tuple[Interval, float, float]:
    """Paired t-test of an agent against a baseline on the same seeds.

    Returns:
        The mean difference, positive where the agent is better, with its confidence interval; the
        two-sided p-value; and the share of seeds on which the agent is better. The p-value of
        identical differences is NaN, or 1 if they are 0.
    """
    if len(agent_values) != len(baseline_values):
        raise ValueError(
            f"agent and baseline must have values of the same seeds, got {len(agent_values)} and "
            f"{len(baseline_values)} values"
        )
    difference = np.asarray(agent_values, np.float64) - np.asarray(baseline_values, np.float64)
    difference = difference if higher_is_better else -difference
    if not len(difference):
        raise ValueError("values of at least 1 seed are required, got none")
    wins = float(np.mean(difference > 0)) if not np.isnan(difference).any() else math.nan
    return seed_interval(list(difference), level), _p_value(difference), wins


def check_level(level: float) -> None:
    """Raise ValueError unless `level` is a confidence level between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, such as 0.95, got {level}")


def normal_cdf(value: float) -> float:
    """Cumulative distribution function of the standard normal."""
    return 0.5 * math.erfc(-value / math.sqrt(2.0))


def normal_quantile(share: float) -> float:
    """Quantile of the standard normal; infinite for 0 and 1."""
    if share <= 0 or share >= 1:
        return -math.inf if share <= 0 else math.inf
    return NORMAL.inv_cdf(share)


def student_tails(value: float, freedom: float) -> float:
    """Two-sided tail probability of Student's t distribution."""
    if math.isinf(value):
        return 0.0
    return _incomplete_beta(freedom / (freedom + value * value), freedom / 2.0, 0.5)


def student_cdf(value: float, freedom: float) -> float:
    """Cumulative distribution function of Student's t."""
    tail = 0.5 * student_tails(value, freedom)
    return 1.0 - tail if value > 0 else tail


@functools.lru_cache(maxsize=256)
def student_quantile(share: float, freedom: float) -> float:
    """Quantile of Student's t distribution, by bisection; infinite for 0 and 1."""
    if share <= 0 or share >= 1:
        return -math.inf if share <= 0 else math.inf
    if share < 0.5:
        return -student_quantile(1.0 - share, freedom)

    def is_below(value: float) -> bool:
        # The central probability is more accurate near the median, the tails further out.
        if share < 0.75:
            central = value * value / (freedom + value * value)
            return _incomplete_beta(central, 0.5, freedom / 2.0) < 2.0 * share - 1.0
        return student_tails(value, freedom) > 2.0 * (1.0 - share)

    low, high = 0.0, 1.0
    while is_below(high):
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return 0.5 * (low + high)


def _why_unbounded(mean: float, count: int) -> str:
    if not math.isfinite(mean):
        return "undefined"
    return "one episode" if count == 1 else "equal values"


def _p_value(difference: Floats) -> float:
    if not np.any(difference):
        return 1.0
    error = _standard_error(difference)
    if not error > 0:
        return math.nan
    return student_tails(float(np.mean(difference)) / error, len(difference) - 1)


def _standard_error(values: Floats) -> float:
    return sample_std(values) / math.sqrt(len(values)) if len(values) else math.nan


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularized incomplete beta function, by its continued fraction."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    # The fraction converges fast below the mean of the distribution; above, use the symmetry.
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(1.0 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    return front * _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Continued fraction of the incomplete beta function, by Lentz's method."""
    upper, lower = 1.0, 1.0 / _nonzero(1.0 - (a + b) * x / (a + 1.0))
    value = lower
    for m in range(1, MAX_ITERATIONS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            lower = 1.0 / _nonzero(1.0 + term * lower)
            upper = _nonzero(1.0 + term / upper)
            value *= lower * upper
        if abs(lower * upper - 1.0) < 1e-15:
            break
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > SMALLEST else SMALLEST
