"""Whether picking the best of many back-tests picks luck: Bailey, Borwein, Lopez de Prado, Zhu."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

__all__ = ["overfitting_probability"]

Floats = NDArray[np.float64]
AT_ONCE = 1 << 20


def overfitting_probability(returns_matrix: Floats, parts: int = 16) -> float:
    """The chance that the agent that is best in one half of time is below the middle in the other.

    By combinatorially symmetric cross-validation: time is cut into parts, and every half of the
    parts is once what agents are picked by, by Sharpe ratio, and the rest what they are judged
    by. 0.5 is what picking among agents without skill gives, or less where some are worse.

    Args:
        returns_matrix: steps by agents.
        parts: an even number; steps that do not fill them are left out at the beginning.
    """
    steps, agents = _checked(returns_matrix, parts)
    used = returns_matrix[steps % parts :].reshape(parts, -1, agents)
    sums, squares = used.sum(axis=1), np.square(used).sum(axis=1)
    below = 0.0
    half = used.shape[1] * parts // 2
    for chosen in _halves(parts, max(1, AT_ONCE // agents)):
        picked = _sharpes(chosen @ sums / half, chosen @ squares / half).argmax(axis=1)
        rest = 1.0 - chosen
        judged = _sharpes(rest @ sums / half, rest @ squares / half)
        own = judged[np.arange(len(picked)), picked][:, None]
        # Among equals the rank is the middle one, as it is where the half is even.
        rank = (judged < own).sum(axis=1) + 0.5 * ((judged == own).sum(axis=1) + 1)
        below += np.sum(rank < (agents + 1) / 2) + 0.5 * np.sum(rank == (agents + 1) / 2)
    return float(below / math.comb(parts, parts // 2))


def _checked(matrix: Floats, parts: int) -> tuple[int, int]:
    if parts < 2 or parts % 2:
        raise ValueError(f"parts must be an even number of at least 2, was {parts}")
    if matrix.ndim != 2 or matrix.shape[1] < 2 or len(matrix) < 2 * parts:
        raise ValueError(
            f"returns_matrix needs at least {2 * parts} steps of at least 2 agents, "
            f"was {' by '.join(map(str, matrix.shape))}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError("returns_matrix must hold finite returns: leave out what was not traded")
    return len(matrix), matrix.shape[1]


def _halves(parts: int, at_once: int) -> Iterator[Floats]:
    """Every choice of half the parts, as rows of 0 and 1, some at a time."""
    every = combinations(range(parts), parts // 2)
    while some := list(islice(every, at_once)):
        rows = np.zeros((len(some), parts))
        np.put_along_axis(rows, np.array(some), 1.0, axis=1)
        yield rows


def _sharpes(means: Floats, mean_squares: Floats) -> Floats:
    """Ratios up to a factor that all share; 0 where nothing moves."""
    deviation = np.sqrt(np.maximum(mean_squares - np.square(means), 0.0))
    return np.divide(means, deviation, out=np.zeros_like(means), where=deviation > 0)
