"""The terms of the reward once more: slowly, from the whole history, in plain Python."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

MEMORY = 0.01


def recent(values: Sequence[float], memory: float) -> float:
    """An exponential average that begins at zero."""
    count = len(values)
    parts = [memory * (1 - memory) ** (count - 1 - k) * value for k, value in enumerate(values)]
    return math.fsum(parts)


def spread_of(values: Sequence[float], memory: float) -> float:
    """The variance under the same weights; what they leave of 1 is that of a zero before all."""
    count, first = len(values), recent(values, memory)
    parts = [
        memory * (1 - memory) ** (count - 1 - k) * (value - first) ** 2
        for k, value in enumerate(values)
    ]
    return math.fsum([*parts, (1 - memory) ** count * first**2])


def equity_change(equity: Sequence[float], memory: float) -> list[float]:
    return [after - before for before, after in pairwise(equity)]


def log_growth(equity: Sequence[float], memory: float) -> list[float]:
    return [math.log(after / before) for before, after in pairwise(equity)]


def volatility_penalty(equity: Sequence[float], memory: float) -> list[float]:
    changes = equity_change(equity, memory)
    return [-math.sqrt(spread_of(changes[:end], memory)) for end in range(1, len(equity))]


def drawdown_penalty(equity: Sequence[float], memory: float) -> list[float]:
    peaks = accumulate(equity, max)
    depths = [peak - worth for peak, worth in zip(peaks, equity, strict=True)]
    return [before - after for before, after in pairwise(depths)]


def differential_sharpe(equity: Sequence[float], memory: float) -> list[float]:
    """Moody and Saffell: the derivative of the recent Sharpe ratio by its memory."""
    changes = equity_change(equity, memory)
    found = []
    for now, change in enumerate(changes):
        first = recent(changes[:now], memory)
        second = recent([before**2 for before in changes[:now]], memory)
        spread = spread_of(changes[:now], memory)
        step, square_step = change - first, change**2 - second
        top = second * step - 0.5 * first * square_step
        found.append(top / spread**1.5 if spread > 1e-12 * second else 0.0)
    return found


def terminal_sharpe(equity: Sequence[float], memory: float) -> list[float]:
    """Of an episode that has ended with the last change."""
    changes = equity_change(equity, memory)
    deviation = statistics.stdev(changes) if len(changes) > 1 else 0.0
    last = statistics.fmean(changes) / deviation if deviation > 0 else 0.0
    return [0.0] * (len(changes) - 1) + [last]


TERMS: dict[str, Callable[[Sequence[float], float], list[float]]] = {
    "equity_change": equity_change,
    "log_growth": log_growth,
    "volatility_penalty": volatility_penalty,
    "drawdown_penalty": drawdown_penalty,
    "differential_sharpe": differential_sharpe,
    "terminal_sharpe": terminal_sharpe,
}
"""Those that follow from equity alone: all but the cost of transactions."""
