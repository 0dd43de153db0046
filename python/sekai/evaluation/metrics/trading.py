"""Trading metrics: turnover, exposure and cost; all metrics of an episode by name."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Episode
from sekai.evaluation.metrics import returns as of_returns
from sekai.evaluation.metrics import risk

__all__ = ["HIGHER_IS_BETTER", "cost", "exposure", "metrics_of", "net_exposure", "turnover"]

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
"""Direction of each metric; drawdowns and values at risk are negative."""


def metrics_of(
    episode: Episode, periods: float, benchmark: Episode | Floats | None = None
) -> dict[str, float]:
    """All metrics of an episode by name; NaN where undefined.

    An episode without an account has no return metrics. Steps after ruin (equity of 0 or less)
    are not counted.

    Args:
        episode: the episode.
        periods: annualization factor, NaN where steps have no dates: see `periods_per_year`.
        benchmark: episode of another policy over the same steps, or its returns.
    """
    metrics = {"episode_return": float(np.sum(episode.rewards))}
    if len(episode.equity):
        returns = _returns(episode)
        metrics |= _return_metrics(returns, periods)
        if benchmark is not None:
            metrics |= _benchmark_metrics(returns, _benchmark_returns(benchmark, episode), periods)
    for metric in (turnover, exposure, net_exposure, cost):
        value = float(metric(episode))
        if len(episode.equity) or not math.isnan(value):
            metrics[metric.__name__] = value
    return metrics | episode.outcome


def turnover(episode: Episode) -> float:
    """Mean turnover per step: traded value over equity; NaN if not reported."""
    values = episode.turnover
    return float(np.mean(values)) if values is not None and len(values) else math.nan


def exposure(episode: Episode) -> float:
    """Mean gross exposure over equity."""
    held = _asset_weights(episode)
    return float(np.mean(np.abs(held).sum(axis=1))) if len(held) else math.nan


def net_exposure(episode: Episode) -> float:
    """Mean net exposure over equity."""
    held = _asset_weights(episode)
    return float(np.mean(held.sum(axis=1))) if len(held) else math.nan


def cost(episode: Episode) -> float:
    """Sum of all costs over initial equity."""
    if not episode.costs or not len(episode.equity) or not episode.equity[0] > 0:
        return math.nan
    return episode.total_cost / float(episode.equity[0])


def _asset_weights(episode: Episode) -> Floats:
    return np.zeros((0, 0)) if episode.weights is None else episode.weights[:, :-1]


def _return_metrics(returns: Floats, periods: float) -> dict[str, float]:
    return {
        "total_return": of_returns.total_return(returns),
        "annual_return": of_returns.annual_return(returns, periods),
        "volatility": of_returns.volatility(returns, periods),
        "sharpe": risk.sharpe(returns, periods),
        "sortino": risk.sortino(returns, periods),
        "calmar": risk.calmar(returns, periods),
        "omega": risk.omega(returns),
        "max_drawdown": risk.max_drawdown(returns),
        "longest_drawdown": risk.longest_drawdown(returns),
        "value_at_risk": risk.value_at_risk(returns),
        "conditional_value_at_risk": risk.conditional_value_at_risk(returns),
        "tail_ratio": risk.tail_ratio(returns),
        "skewness": risk.skewness(returns),
        "kurtosis": risk.kurtosis(returns),
        "hit_rate": of_returns.hit_rate(returns),
    }


def _benchmark_metrics(returns: Floats, benchmark: Floats, periods: float) -> dict[str, float]:
    benchmark = benchmark[: len(returns)]
    return {
        "alpha": risk.alpha(returns, benchmark, periods),
        "beta": risk.beta(returns, benchmark),
        "tracking_error": risk.tracking_error(returns, benchmark, periods),
        "information_ratio": risk.information_ratio(returns, benchmark, periods),
    }


def _returns(episode: Episode) -> Floats:
    """Returns up to and including ruin."""
    equity = episode.equity
    ruined = np.flatnonzero(equity <= 0)
    if len(ruined):
        equity = equity[: ruined[0] + 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        returns: Floats = np.diff(equity) / equity[:-1]
    return returns


def _benchmark_returns(benchmark: Episode | Floats, episode: Episode) -> Floats:
    """Benchmark returns over the episode's steps; NaN after the benchmark's own ruin."""
    steps = len(episode.equity) - 1
    if not isinstance(benchmark, Episode):
        series = np.asarray(benchmark, np.float64)
        if len(series) != steps:
            raise ValueError(f"benchmark must have {steps} returns, got {len(series)}")
        return series
    if len(benchmark.equity) != len(episode.equity):
        raise ValueError(
            f"benchmark must have {len(episode.equity)} values of equity, got "
            f"{len(benchmark.equity)}"
        )
    returns = _returns(benchmark)
    return np.append(returns, np.full(steps - len(returns), math.nan))
