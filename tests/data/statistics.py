"""Statistical tests with a stated chance of a false alarm.

Seeds are fixed, so that a test which passes goes on passing; the chance is what a correct change
of the random streams risks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

FALSE_ALARM = 1e-6
"""The chance that a correct simulator fails one comparison."""

DEVIATIONS = 4.9
"""Standard errors that a normal number goes beyond, on either side, once in a million."""


def assert_mean(found: ArrayLike, mean: float, deviation: float | None = None) -> None:
    """The mean of independent numbers is what was said, as far as their number can tell."""
    numbers = np.asarray(found, np.float64)
    spread = numbers.std(ddof=1) if deviation is None else deviation
    error = spread / np.sqrt(len(numbers))
    assert abs(numbers.mean() - mean) < DEVIATIONS * error, (numbers.mean(), mean, error)


def assert_variance(found: ArrayLike, variance: float) -> None:
    """The variance of independent normal numbers is what was said."""
    numbers = np.asarray(found, np.float64)
    error = variance * np.sqrt(2 / (len(numbers) - 1))
    assert abs(numbers.var(ddof=1) - variance) < DEVIATIONS * error, (numbers.var(), variance)


def assert_correlation(one: ArrayLike, other: ArrayLike, correlation: float) -> None:
    """The correlation of normal pairs is what was said, by Fisher's transformation."""
    count = len(np.asarray(one))
    found = float(np.corrcoef(np.asarray(one), np.asarray(other))[0, 1])
    distance = np.arctanh(found) - np.arctanh(correlation)
    assert abs(distance) < DEVIATIONS / np.sqrt(count - 3), (found, correlation)
