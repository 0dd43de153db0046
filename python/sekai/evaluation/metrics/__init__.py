"""Metrics: pure functions of arrays, of which the undefined are NaN."""

from sekai.evaluation.metrics.annualisation import periods_per_year
from sekai.evaluation.metrics.benchmark import alpha, beta, information_ratio, tracking_error
from sekai.evaluation.metrics.drawdown import (
    Drawdown,
    drawdowns,
    longest_drawdown,
    max_drawdown,
)
from sekai.evaluation.metrics.performance import (
    annual_return,
    hit_rate,
    total_return,
    volatility,
)
from sekai.evaluation.metrics.ratios import calmar, omega, sharpe, sortino
from sekai.evaluation.metrics.table import HIGHER_IS_BETTER, metrics_of
from sekai.evaluation.metrics.tails import (
    conditional_value_at_risk,
    kurtosis,
    skewness,
    tail_ratio,
    value_at_risk,
)
from sekai.evaluation.metrics.trading import cost, exposure, net_exposure, turnover

__all__ = [
    "HIGHER_IS_BETTER",
    "Drawdown",
    "alpha",
    "annual_return",
    "beta",
    "calmar",
    "conditional_value_at_risk",
    "cost",
    "drawdowns",
    "exposure",
    "hit_rate",
    "information_ratio",
    "kurtosis",
    "longest_drawdown",
    "max_drawdown",
    "metrics_of",
    "net_exposure",
    "omega",
    "periods_per_year",
    "sharpe",
    "skewness",
    "sortino",
    "tail_ratio",
    "total_return",
    "tracking_error",
    "turnover",
    "value_at_risk",
    "volatility",
]
