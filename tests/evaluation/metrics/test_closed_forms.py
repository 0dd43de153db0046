"""Metrics of returns for which the answer is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.evaluation import metrics

UP_AND_DOWN = np.array([0.02, -0.01] * 50)
GROWS = 100.0 * 1.01 ** np.arange(61)
YEARLY: list[Callable[..., float]] = [
    metrics.annual_return,
    metrics.volatility,
    metrics.sharpe,
    metrics.sortino,
    metrics.calmar,
]
PLAIN: list[Callable[..., float]] = [
    metrics.total_return,
    metrics.omega,
    metrics.max_drawdown,
    metrics.longest_drawdown,
    metrics.value_at_risk,
    metrics.conditional_value_at_risk,
    metrics.tail_ratio,
    metrics.skewness,
    metrics.kurtosis,
    metrics.hit_rate,
]


def test_ratios_of_returns_that_alternate_are_known() -> None:
    deviation = 0.015 * math.sqrt(100 / 99)

    assert metrics.sharpe(UP_AND_DOWN, 4.0) == pytest.approx(2 * 0.005 / deviation)
    assert metrics.volatility(UP_AND_DOWN, 4.0) == pytest.approx(2 * deviation)
    assert metrics.sortino(UP_AND_DOWN, 4.0) == pytest.approx(2 * 0.005 / (0.01 / math.sqrt(2)))
    assert metrics.omega(UP_AND_DOWN) == pytest.approx(2.0)
    assert metrics.hit_rate(UP_AND_DOWN) == 0.5
    assert metrics.max_drawdown(UP_AND_DOWN) == pytest.approx(-0.01)
    assert metrics.total_return(UP_AND_DOWN) == pytest.approx((1.02 * 0.99) ** 50 - 1)
    assert metrics.annual_return(UP_AND_DOWN, 2.0) == pytest.approx(1.02 * 0.99 - 1)
    assert metrics.calmar(UP_AND_DOWN, 2.0) == pytest.approx((1.02 * 0.99 - 1) / 0.01)
    assert metrics.kurtosis(UP_AND_DOWN) == pytest.approx(1.0)
    assert metrics.skewness(UP_AND_DOWN) == pytest.approx(0.0, abs=1e-12)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_moments_are_those_of_scipy(seed: int) -> None:
    returns = np.random.default_rng(seed).standard_t(3, 80)

    assert metrics.skewness(returns) == pytest.approx(scipy.stats.skew(returns))
    assert metrics.kurtosis(returns) == pytest.approx(scipy.stats.kurtosis(returns, fisher=False))


@settings(deadline=None)
@given(st.floats(1.0, 1e5), st.integers(0, 2**32))
def test_sharpe_grows_with_the_root_of_the_periods(periods: float, seed: int) -> None:
    returns = np.random.default_rng(seed).normal(0.001, 0.01, 50)

    assert metrics.sharpe(returns, periods) == pytest.approx(
        metrics.sharpe(returns, 1.0) * math.sqrt(periods)
    )


@settings(deadline=None)
@given(st.floats(0.1, 50.0), st.integers(0, 2**32))
def test_leverage_changes_no_ratio_of_means(scale: float, seed: int) -> None:
    returns = np.random.default_rng(seed).normal(0.0001, 0.001, 50)

    for ratio in (metrics.sharpe, metrics.sortino):
        assert ratio(scale * returns, 252.0) == pytest.approx(ratio(returns, 252.0))


@pytest.mark.parametrize("metric", YEARLY)
def test_a_metric_of_a_year_without_returns_is_undefined(metric: Callable[..., float]) -> None:
    assert math.isnan(metric(np.zeros(0), 252.0))


@pytest.mark.parametrize("metric", YEARLY)
def test_a_metric_of_a_year_is_undefined_where_steps_are_not_of_time(
    metric: Callable[..., float],
) -> None:
    assert math.isnan(metric(UP_AND_DOWN, math.nan))


@pytest.mark.parametrize("metric", PLAIN)
def test_a_metric_without_returns_is_undefined(metric: Callable[..., float]) -> None:
    assert math.isnan(metric(np.zeros(0)))


@pytest.mark.parametrize("metric", PLAIN)
def test_a_metric_of_a_return_that_is_not_known_is_undefined(metric: Callable[..., float]) -> None:
    assert math.isnan(metric(np.array([0.01, math.nan, -0.02, 0.03])))


@pytest.mark.parametrize("metric", [metrics.sharpe, metrics.sortino, metrics.calmar])
def test_ratios_without_risk_are_undefined(metric: Callable[..., float]) -> None:
    grows = np.diff(GROWS) / GROWS[:-1]

    assert np.ptp(grows) > 0, "rounding makes them differ, which must not count as risk"
    assert math.isnan(metric(grows, 252.0))
    assert math.isnan(metric(np.zeros(10), 252.0))


def test_gains_without_a_loss_have_no_omega() -> None:
    assert math.isnan(metrics.omega(np.array([0.01, 0.02])))


def test_steps_in_which_nothing_moved_are_neither_hit_nor_miss() -> None:
    assert metrics.hit_rate(np.array([0.0, 0.01, 0.0, 0.01, -0.01, 0.0, 0.02])) == 0.75
    assert math.isnan(metrics.hit_rate(np.zeros(3)))


def test_an_account_that_lost_everything_lost_all_of_it_in_a_year() -> None:
    assert metrics.annual_return(np.array([0.1, -1.0]), 252.0) == -1.0
    assert metrics.annual_return(np.array([0.1, -1.3]), 252.0) == -1.0


def test_what_no_number_can_hold_is_infinite() -> None:
    assert metrics.annual_return(np.array([1.0]), 1e6) == math.inf
    assert math.isnan(metrics.calmar(np.array([3.0, -0.01]), 1e6))


def test_a_benchmark_times_two_has_a_beta_of_two_and_no_alpha() -> None:
    benchmark = np.random.default_rng(0).normal(0.001, 0.01, 100)

    assert metrics.beta(2 * benchmark, benchmark) == pytest.approx(2.0)
    assert metrics.alpha(2 * benchmark, benchmark, 252.0) == pytest.approx(0.0, abs=1e-12)
    assert metrics.tracking_error(benchmark, benchmark, 252.0) == 0.0
    assert math.isnan(metrics.information_ratio(benchmark, benchmark, 252.0))


def test_a_benchmark_that_stands_still_explains_nothing() -> None:
    assert math.isnan(metrics.beta(UP_AND_DOWN, np.zeros(100)))
    assert math.isnan(metrics.alpha(UP_AND_DOWN, np.zeros(100), 252.0))


def test_a_benchmark_of_other_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="got 100 and 99"):
        metrics.beta(UP_AND_DOWN, UP_AND_DOWN[1:])
