"""Risk metrics: Sharpe, Sortino, Calmar and Omega ratios, drawdown, VaR, CVaR, alpha and beta."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.metrics.returns import annual_return, sample_std

__all__ = [
    "DrawdownPeriod",
    "alpha",
    "beta",
    "calmar",
    "conditional_value_at_risk",
    "drawdowns",
    "information_ratio",
    "kurtosis",
    "longest_drawdown",
    "max_drawdown",
    "omega",
    "sharpe",
    "skewness",
    "sortino",
    "tail_ratio",
    "tracking_error",
    "value_at_risk",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawdownPeriod:
    """Drawdown from a peak until the peak is reached again."""

    depth: float
    """Largest loss from the peak, as a negative share of it."""

    start: int
    """Index of the peak."""

    trough: int
    """Index of the lowest value."""

    recovery: int | None
    """First index at or above the peak; None if not recovered."""

    length: int
    """Steps from the peak to the recovery, or to the last value if not recovered."""


def sharpe(returns: Floats, periods: float) -> float:
    """Annualized Sharpe ratio, without a risk-free rate."""
    deviation = sample_std(returns)
    if not deviation > 0:
        return math.nan
    return _mean(returns) / deviation * math.sqrt(periods)


def sortino(returns: Floats, periods: float) -> float:
    """Annualized Sortino ratio: mean return over downside deviation."""
    if len(returns) < 2:
        return math.nan
    below = np.minimum(returns, 0.0)
    downside = math.sqrt(float(np.dot(below, below)) / len(below))
    return _mean(returns) / downside * math.sqrt(periods) if downside > 0 else math.nan


def calmar(returns: Floats, periods: float) -> float:
    """Calmar ratio: annual return over maximum drawdown."""
    deepest = max_drawdown(returns)
    ratio = annual_return(returns, periods) / -deepest if deepest < 0 else math.nan
    return ratio if math.isfinite(ratio) else math.nan


def omega(returns: Floats) -> float:
    """Omega ratio: sum of gains over sum of losses."""
    if len(returns) < 2:
        return math.nan
    losses = -float(np.add.reduce(np.minimum(returns, 0.0)))
    return float(np.add.reduce(np.maximum(returns, 0.0))) / losses if losses > 0 else math.nan


def drawdowns(equity: Floats) -> list[DrawdownPeriod]:
    """All drawdown periods of an equity curve, in order of time."""
    peaks = np.maximum.accumulate(equity)
    under = np.concatenate(([False], equity < peaks, [False]))
    edges = np.flatnonzero(np.diff(under.astype(np.int8)))
    return [
        _drawdown(equity, int(begin), int(end))
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def max_drawdown(returns: Floats) -> float:
    """Maximum drawdown as a share of the peak: 0 or less, NaN without returns."""
    if not len(returns):
        return math.nan
    equity = _equity(returns)
    return float(np.min(equity / np.maximum.accumulate(equity)) - 1.0)


def longest_drawdown(returns: Floats) -> float:
    """Steps of the longest drawdown; 0 without one, NaN without returns."""
    if not len(returns) or np.isnan(returns).any():
        return math.nan
    return float(max((period.length for period in drawdowns(_equity(returns))), default=0))


def value_at_risk(returns: Floats, share: float = 0.05) -> float:
    """Value at risk (VaR): the `share` quantile of returns, negative for a loss."""
    return float(np.quantile(returns, share)) if len(returns) else math.nan


def conditional_value_at_risk(returns: Floats, share: float = 0.05) -> float:
    """Conditional value at risk (CVaR): mean of the worst `share` of returns."""
    if not len(returns) or np.isnan(returns).any():
        return math.nan
    edge = int((len(returns) - 1) * share)
    return float(np.mean(np.partition(returns, edge)[: edge + 1]))


def tail_ratio(returns: Floats, share: float = 0.05) -> float:
    """Tail ratio: absolute upper quantile over absolute lower quantile of returns."""
    worst = abs(value_at_risk(returns, share))
    return abs(value_at_risk(returns, 1.0 - share)) / worst if worst > 0 else math.nan


def skewness(returns: Floats) -> float:
    """Skewness of returns: 0 for a normal distribution, negative for a longer left tail."""
    return _standardized_moment(returns, 3)


def kurtosis(returns: Floats) -> float:
    """Kurtosis of returns: 3 for a normal distribution, more for fat tails."""
    return _standardized_moment(returns, 4)


def beta(returns: Floats, benchmark: Floats) -> float:
    """Beta against a benchmark; NaN if the benchmark is constant."""
    _check_lengths(returns, benchmark)
    if not sample_std(benchmark) > 0:
        return math.nan
    centred = benchmark - np.mean(benchmark)
    return float(np.mean(centred * returns) / np.mean(np.square(centred)))


def alpha(returns: Floats, benchmark: Floats, periods: float) -> float:
    """Annualized alpha: the return that beta does not explain."""
    rest = np.mean(returns - beta(returns, benchmark) * benchmark) if len(returns) else math.nan
    return annual_return(np.array([rest]), periods)


def tracking_error(returns: Floats, benchmark: Floats, periods: float) -> float:
    """Annualized tracking error: standard deviation of excess returns over a benchmark."""
    _check_lengths(returns, benchmark)
    return sample_std(returns - benchmark) * math.sqrt(periods)


def information_ratio(returns: Floats, benchmark: Floats, periods: float) -> float:
    """Annualized information ratio: mean excess return over tracking error."""
    _check_lengths(returns, benchmark)
    return sharpe(returns - benchmark, periods)


def _mean(returns: Floats) -> float:
    return float(np.add.reduce(returns)) / len(returns)


def _standardized_moment(returns: Floats, order: int) -> float:
    if not sample_std(returns) > 0:
        return math.nan
    centred = returns - np.mean(returns)
    return float(np.mean(centred**order) / np.mean(centred**2) ** (order / 2))


def _drawdown(equity: Floats, begin: int, end: int) -> DrawdownPeriod:
    """Drawdown whose values below the peak are those from `begin` to before `end`."""
    start, recovered = begin - 1, end < len(equity)
    trough = begin + int(np.argmin(equity[begin:end]))
    return DrawdownPeriod(
        depth=float(equity[trough] / equity[start] - 1.0),
        start=start,
        trough=trough,
        recovery=end if recovered else None,
        length=(end if recovered else end - 1) - start,
    )


def _equity(returns: Floats) -> Floats:
    equity: Floats = np.concatenate(([1.0], np.cumprod(1.0 + returns)))
    return equity


def _check_lengths(returns: Floats, benchmark: Floats) -> None:
    if returns.shape != benchmark.shape:
        raise ValueError(
            f"returns and benchmark must have the same length, got {len(returns)} and "
            f"{len(benchmark)}"
        )
