"""The normal and the Student distribution, without a package that brings them."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

__all__ = ["normal_cdf", "normal_quantile", "student_cdf", "student_quantile", "student_tails"]

NORMAL = NormalDist()
TINY = 1e-300
ROUNDS = 400


def normal_cdf(value: float) -> float:
    """The share of a standard normal that is at or below a value."""
    return 0.5 * math.erfc(-value / math.sqrt(2.0))


def normal_quantile(share: float) -> float:
    """The value that a share of a standard normal is below; infinite for 0 and 1."""
    if share <= 0 or share >= 1:
        return -math.inf if share <= 0 else math.inf
    return NORMAL.inv_cdf(share)


def student_tails(value: float, freedom: float) -> float:
    """The share of a Student distribution that is at least so far from 0, on both sides."""
    if math.isinf(value):
        return 0.0
    return _incomplete_beta(freedom / (freedom + value * value), freedom / 2.0, 0.5)


def _student_middle(value: float, freedom: float) -> float:
    """The share of a Student distribution that is nearer to 0, on both sides."""
    return _incomplete_beta(value * value / (freedom + value * value), 0.5, freedom / 2.0)


def student_cdf(value: float, freedom: float) -> float:
    """The share of a Student distribution that is at or below a value."""
    tail = 0.5 * student_tails(value, freedom)
    return 1.0 - tail if value > 0 else tail


@functools.lru_cache(maxsize=256)
def student_quantile(share: float, freedom: float) -> float:
    """The value that a share of a Student distribution is below; infinite for 0 and 1."""
    if share <= 0 or share >= 1:
        return -math.inf if share <= 0 else math.inf
    if share < 0.5:
        return -student_quantile(1.0 - share, freedom)

    def is_below(value: float) -> bool:
        # Near the middle what is within says more than what is without, and near the ends less.
        if share < 0.75:
            return _student_middle(value, freedom) < 2.0 * share - 1.0
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


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    # The fraction converges fast below the mean of the distribution; above it, on its mirror.
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(1.0 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    return front * _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction, evaluated from the front by the method of Lentz."""
    upper, lower = 1.0, 1.0 / _apart(1.0 - (a + b) * x / (a + 1.0))
    value = lower
    for m in range(1, ROUNDS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            lower = 1.0 / _apart(1.0 + term * lower)
            upper = _apart(1.0 + term / upper)
            value *= lower * upper
        if abs(lower * upper - 1.0) < 1e-15:
            break
    return value


def _apart(value: float) -> float:
    """The same, but never so close to 0 that dividing by it fails."""
    return value if abs(value) > TINY else TINY
