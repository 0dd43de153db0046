"""Multiple testing: Holm's correction and the probability of backtest overfitting (PBO)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

__all__ = ["holm", "overfitting_probability"]

Floats = NDArray[np.float64]

BATCH_SIZE = 1 << 20
"""Numbers held in memory at a time."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values of simultaneous tests by Holm's method, in the same order.

    The family-wise error rate is controlled under any dependence. NaN, for a test that could not
    be made, stays NaN and is not counted.
    """
    tested = [index for index, value in enumerate(p_values) if not math.isnan(value)]
    tested.sort(key=lambda index: p_values[index])
    adjusted, highest = [math.nan] * len(p_values), 0.0
    for rank, index in enumerate(tested):
        highest = max(highest, min(1.0, (len(tested) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def overfitting_probability(returns_matrix: Floats, parts: int = 16) -> float:
    """Probability of backtest overfitting (PBO) of the best agent by Sharpe ratio.

    Combinatorially symmetric cross-validation of Bailey, Borwein, Lopez de Prado and Zhu: time is
    cut into parts, and every half of the parts selects the best agent, which is ranked on the
    rest. The result is the share of selections that rank below the median; 0.5 is expected
    without skill, or less if some agents are worse.

    Args:
        returns_matrix: returns, steps by agents.
        parts: even number of parts; surplus steps are dropped at the beginning.
    """
    steps, agents = _checked(returns_matrix, parts)
    used = returns_matrix[steps % parts :].reshape(parts, -1, agents)
    sums, squares = used.sum(axis=1), np.square(used).sum(axis=1)
    below = 0.0
    half = used.shape[1] * parts // 2
    for chosen in _halves(parts, max(1, BATCH_SIZE // agents)):
        best = _sharpes(chosen @ sums / half, chosen @ squares / half).argmax(axis=1)
        rest = 1.0 - chosen
        ratios = _sharpes(rest @ sums / half, rest @ squares / half)
        own = ratios[np.arange(len(best)), best][:, None]
        # Ties share the middle rank.
        rank = (ratios < own).sum(axis=1) + 0.5 * ((ratios == own).sum(axis=1) + 1)
        below += np.sum(rank < (agents + 1) / 2) + 0.5 * np.sum(rank == (agents + 1) / 2)
    return float(below / math.comb(parts, parts // 2))


def _checked(matrix: Floats, parts: int) -> tuple[int, int]:
    if parts < 2 or parts % 2:
        raise ValueError(f"parts must be an even number of at least 2, got {parts}")
    if matrix.ndim != 2 or matrix.shape[1] < 2 or len(matrix) < 2 * parts:
        raise ValueError(
            f"returns_matrix must have at least {2 * parts} steps of at least 2 agents, "
            f"got {' by '.join(map(str, matrix.shape))}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError("returns_matrix must be finite; leave out steps without a return")
    return len(matrix), matrix.shape[1]


def _halves(parts: int, batch: int) -> Iterator[Floats]:
    """Every choice of half the parts, as rows of 0 and 1, in batches."""
    every = combinations(range(parts), parts // 2)
    while some := list(islice(every, batch)):
        rows = np.zeros((len(some), parts))
        np.put_along_axis(rows, np.array(some), 1.0, axis=1)
        yield rows


def _sharpes(means: Floats, mean_squares: Floats) -> Floats:
    """Sharpe ratios up to a common factor; 0 without variation."""
    deviation = np.sqrt(np.maximum(mean_squares - np.square(means), 0.0))
    return np.divide(means, deviation, out=np.zeros_like(means), where=deviation > 0)
