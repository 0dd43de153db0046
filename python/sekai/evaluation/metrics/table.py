"""All metrics of an episode, by name."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.episode import Episode
from sekai.evaluation.metrics import benchmark as beside
from sekai.evaluation.metrics import drawdown, performance, ratios, tails, trading

__all__ = ["HIGHER_IS_BETTER", "metrics_of"]

Floats = NDArray[np.float64]

HIGHER_IS_BETTER: dict[str, bool] = {
    "episode_return": True,
    "total_return": True,
    "annual_return": True,
    "volatility": False,
    "sharpe": True,
    "sortino": True,
    "calmar": True,
    "omega": True,
    "max_drawdown": True,
    "longest_drawdown": False,
    "value_at_risk": True,
    "conditional_value_at_risk": True,
    "tail_ratio": True,
    "skewness": True,
    "kurtosis": False,
    "hit_rate": True,
    "turnover": False,
    "exposure": False,
    "net_exposure": False,
    "cost": False,
    "alpha": True,
    "beta": False,
    "tracking_error": False,
    "information_ratio": True,
}
"""Of each metric, whether more of it is better; falls and values at risk are below 0."""


def metrics_of(
    episode: Episode, periods: float, benchmark: Episode | Floats | None = None
) -> dict[str, float]:
    """Every metric that the episode tells enough for; NaN where one is undefined.

    An episode without an account has no metrics of returns. What comes after ruin, which is
    equity of 0 or less, is not counted.

    Args:
        episode: what a policy did.
        periods: steps in a year, NaN where steps are not of time: see `periods_per_year`.
        benchmark: another policy's episode over the same steps, or its returns.
    """
    found = {"episode_return": float(np.sum(episode.rewards))}
    if len(episode.equity):
        returns = _returns(episode)
        found |= _of_returns(returns, periods)
        if benchmark is not None:
            found |= _of_benchmark(returns, _benchmark_returns(benchmark, episode), periods)
    for name in ("turnover", "exposure", "net_exposure", "cost"):
        value = float(getattr(trading, name)(episode))
        if len(episode.equity) or not math.isnan(value):
            found[name] = value
    return found | episode.outcome


def _of_returns(returns: Floats, periods: float) -> dict[str, float]:
    return {
        "total_return": performance.total_return(returns),
        "annual_return": performance.annual_return(returns, periods),
        "volatility": performance.volatility(returns, periods),
        "sharpe": ratios.sharpe(returns, periods),
        "sortino": ratios.sortino(returns, periods),
        "calmar": ratios.calmar(returns, periods),
        "omega": ratios.omega(returns),
        "max_drawdown": drawdown.max_drawdown(returns),
        "longest_drawdown": drawdown.longest_drawdown(returns),
        "value_at_risk": tails.value_at_risk(returns),
        "conditional_value_at_risk": tails.conditional_value_at_risk(returns),
        "tail_ratio": tails.tail_ratio(returns),
        "skewness": tails.skewness(returns),
        "kurtosis": tails.kurtosis(returns),
        "hit_rate": performance.hit_rate(returns),
    }


def _of_benchmark(returns: Floats, benchmark: Floats, periods: float) -> dict[str, float]:
    benchmark = benchmark[: len(returns)]
    return {
        "alpha": beside.alpha(returns, benchmark, periods),
        "beta": beside.beta(returns, benchmark),
        "tracking_error": beside.tracking_error(returns, benchmark, periods),
        "information_ratio": beside.information_ratio(returns, benchmark, periods),
    }


def _returns(episode: Episode) -> Floats:
    """Returns up to ruin, which is the last of them."""
    equity = episode.equity
    ruined = np.flatnonzero(equity <= 0)
    if len(ruined):
        equity = equity[: ruined[0] + 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.diff(equity) / equity[:-1]
    return found


def _benchmark_returns(benchmark: Episode | Floats, episode: Episode) -> Floats:
    """Returns of the same steps; NaN after a ruin of the benchmark's own."""
    steps = len(episode.equity) - 1
    if not isinstance(benchmark, Episode):
        found = np.asarray(benchmark, np.float64)
        if len(found) != steps:
            raise ValueError(f"benchmark needs a return of {steps} steps, was of {len(found)}")
        return found
    if len(benchmark.equity) != len(episode.equity):
        raise ValueError(
            f"benchmark needs {len(episode.equity)} values of equity, as the episode has, was "
            f"{len(benchmark.equity)}"
        )
    returns = _returns(benchmark)
    return np.append(returns, np.full(steps - len(returns), math.nan))
