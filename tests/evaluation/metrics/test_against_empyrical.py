"""The same numbers as empyrical, which is written by others."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from sekai.evaluation import metrics

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import empyrical  # type: ignore[import-untyped]

Floats = NDArray[np.float64]
PERIODS = [1.0, 12.0, 252.0, 8760.0]

returns_of_steps = st.integers(2, 150).flatmap(
    lambda steps: arrays(np.float64, (2, steps), elements=st.floats(-0.25, 0.5, width=32))
)
PAIRS: dict[str, tuple[Callable[..., float], Callable[..., float]]] = {
    "annual_return": (metrics.annual_return, empyrical.annual_return),
    "volatility": (metrics.volatility, empyrical.annual_volatility),
    "sharpe": (metrics.sharpe, empyrical.sharpe_ratio),
    "sortino": (metrics.sortino, empyrical.sortino_ratio),
    "calmar": (metrics.calmar, empyrical.calmar_ratio),
}
PLAIN: dict[str, tuple[Callable[..., float], Callable[..., float]]] = {
    "total_return": (metrics.total_return, empyrical.cum_returns_final),
    "omega": (metrics.omega, empyrical.omega_ratio),
    "max_drawdown": (metrics.max_drawdown, empyrical.max_drawdown),
    "value_at_risk": (metrics.value_at_risk, empyrical.value_at_risk),
    "conditional_value_at_risk": (
        metrics.conditional_value_at_risk,
        empyrical.conditional_value_at_risk,
    ),
    "tail_ratio": (metrics.tail_ratio, empyrical.tail_ratio),
}


def moves(returns: Floats) -> bool:
    """Return True if returns vary by more than rounding."""
    return bool(np.std(returns) > 1e-6 and np.min(returns) < -1e-6 and np.max(returns) > 1e-6)


def agrees(ours: float, theirs: float) -> None:
    assert ours == pytest.approx(float(theirs), rel=1e-9, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("name", PAIRS)
@settings(deadline=None)
@given(table=returns_of_steps, periods=st.sampled_from(PERIODS))
def test_metrics_of_a_year_agree(name: str, table: Floats, periods: float) -> None:
    assume(moves(table[0]))
    ours, theirs = PAIRS[name]
    with np.errstate(all="ignore"):
        wanted = theirs(table[0], annualization=periods)
    assume(abs(wanted) < 1e12)

    agrees(ours(table[0], periods), wanted)


@pytest.mark.parametrize("name", PLAIN)
@settings(deadline=None)
@given(table=returns_of_steps)
def test_metrics_of_steps_agree(name: str, table: Floats) -> None:
    assume(moves(table[0]))
    ours, theirs = PLAIN[name]
    with np.errstate(all="ignore"):
        wanted = theirs(table[0])
    assume(not np.isinf(wanted))

    agrees(ours(table[0]), wanted)


@settings(deadline=None)
@given(table=returns_of_steps, periods=st.sampled_from([1.0, 12.0, 252.0]))
def test_metrics_beside_a_benchmark_agree(table: Floats, periods: float) -> None:
    returns, benchmark = table
    assume(moves(returns) and moves(benchmark) and moves(returns - benchmark))
    alpha, beta = empyrical.alpha_beta_aligned(returns, benchmark, annualization=periods)
    assume(abs(alpha) < 1e9)
    active = empyrical.excess_sharpe(returns, benchmark) * np.sqrt(periods)
    error = empyrical.annual_volatility(returns - benchmark, annualization=periods)

    agrees(metrics.alpha(returns, benchmark, periods), alpha)
    agrees(metrics.beta(returns, benchmark), beta)
    agrees(metrics.information_ratio(returns, benchmark, periods), active)
    agrees(metrics.tracking_error(returns, benchmark, periods), error)
