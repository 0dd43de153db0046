"""Deflated Sharpe ratio against published figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.evaluation.metrics import kurtosis, sharpe, skewness
from sekai.evaluation.statistics import (
    deflated_sharpe,
    deflated_sharpe_of,
    effective_observations,
    effective_trials,
    expected_best_sharpe,
    minimum_track_record,
    probabilistic_sharpe,
)

RETURNS = np.random.default_rng(0).normal(0.001, 0.01, 500)


def test_the_worked_example_of_the_deflated_ratio_comes_out() -> None:
    ratio, variance = 2.5 / math.sqrt(250), 0.5 / 250

    assert expected_best_sharpe(100, variance) == pytest.approx(0.1132, abs=5e-5)
    assert deflated_sharpe(ratio, 1250, 100, variance, -3.0, 10.0) == pytest.approx(
        0.9004, abs=5e-5
    )
    # The paper goes on: with 46 trials it would just have been believed.
    assert deflated_sharpe(ratio, 1250, 46, variance, -3.0, 10.0) == pytest.approx(0.95, abs=2e-3)


def test_the_worked_example_of_the_probabilistic_ratio_comes_out() -> None:
    assert probabilistic_sharpe(0.458, 24) == pytest.approx(0.982, abs=1e-3)
    assert probabilistic_sharpe(0.458, 24, -2.448, 10.164) == pytest.approx(0.913, abs=1e-3)


@pytest.mark.parametrize(("periods", "years"), [(252, 2.73), (52, 2.83), (12, 3.24)])
def test_the_published_track_records_come_out(periods: int, years: float) -> None:
    root = math.sqrt(periods)
    found = minimum_track_record(2.0 / root, against=1.0 / root)

    assert found / periods == pytest.approx(years, abs=0.005)


@settings(deadline=None)
@given(st.floats(0.01, 0.5), st.floats(-1.0, 1.0), st.floats(3.0, 12.0))
def test_after_the_least_track_record_the_ratio_is_told_from_none(
    ratio: float, skew: float, kurt: float
) -> None:
    needed = minimum_track_record(ratio, skew, kurt)

    assert probabilistic_sharpe(ratio, math.ceil(needed) + 1, skew, kurt) >= 0.95
    assert needed < 3 or probabilistic_sharpe(ratio, math.floor(needed) - 1, skew, kurt) < 0.95


def test_no_track_record_makes_a_loser_a_winner() -> None:
    assert minimum_track_record(0.0) == minimum_track_record(-1.0) == math.inf
    assert math.isnan(minimum_track_record(math.nan))


@pytest.mark.parametrize("trials", [5, 20, 100, 1000])
def test_the_expected_best_is_that_of_many_draws(trials: int) -> None:
    drawn = np.random.default_rng(0).normal(size=(4000, trials)).max(axis=1).mean()

    assert expected_best_sharpe(trials, 1.0) == pytest.approx(drawn, rel=0.05)


def test_one_trial_has_nothing_to_be_picked_from() -> None:
    assert expected_best_sharpe(1, 1.0) == 0.0
    assert deflated_sharpe_of(RETURNS, 1).deflated == deflated_sharpe_of(RETURNS, 1).probabilistic


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 500))
def test_more_trials_leave_less(few: int, many: int) -> None:
    few, many = sorted((few, many))

    assert deflated_sharpe_of(RETURNS, many).deflated <= deflated_sharpe_of(RETURNS, few).deflated


def test_honesty_counts_as_its_parts_do() -> None:
    trials = [0.02, -0.01, 0.05, 0.1]
    found = deflated_sharpe_of(RETURNS, trials)
    ratio, skew, kurt = sharpe(RETURNS, 1.0), skewness(RETURNS), kurtosis(RETURNS)

    worth = effective_observations(RETURNS)

    assert (found.trials, found.observations, found.sharpe) == (4, 500, ratio)
    assert found.expected_best == expected_best_sharpe(4, float(np.var(trials, ddof=1)))
    assert found.deflated == deflated_sharpe(
        ratio, worth, 4, float(np.var(trials, ddof=1)), skew, kurt
    )
    assert found.probabilistic == probabilistic_sharpe(ratio, worth, skew, kurt)
    assert found.minimum_track_record * worth == pytest.approx(
        500 * minimum_track_record(ratio, skew, kurt)
    )


def test_trials_of_which_only_the_number_is_known_vary_as_luck_does() -> None:
    luck = 1 / (effective_observations(RETURNS) - 1)

    assert deflated_sharpe_of(RETURNS, 20).expected_best == expected_best_sharpe(20, luck)
    assert deflated_sharpe_of(RETURNS, [0.1, math.nan]).expected_best == expected_best_sharpe(
        2, luck
    )


def test_a_trial_without_a_ratio_counts_as_a_trial() -> None:
    known = [0.02, -0.01, 0.05]
    with_failure = deflated_sharpe_of(RETURNS, [*known, math.nan])

    assert with_failure.trials == 4
    assert with_failure.expected_best > deflated_sharpe_of(RETURNS, known).expected_best


def test_an_account_that_never_moved_has_no_honesty() -> None:
    found = deflated_sharpe_of(np.zeros(100), 3)

    assert all(
        math.isnan(one)
        for one in (found.sharpe, found.probabilistic, found.deflated, found.minimum_track_record)
    )
    assert math.isnan(deflated_sharpe_of(np.zeros(0), 3).deflated)


@pytest.mark.parametrize("trials", [0, -1, []])
def test_no_trial_at_all_is_refused(trials: int | list[float]) -> None:
    with pytest.raises(ValueError, match="the agent's own"):
        deflated_sharpe_of(RETURNS, trials)


def test_a_variance_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="got 3 and nan"):
        expected_best_sharpe(3, math.nan)


def test_returns_that_follow_each_other_count_for_fewer() -> None:
    twice = np.repeat(RETURNS, 2)

    assert deflated_sharpe_of(twice, 1).observations == 1000
    assert deflated_sharpe_of(twice, 1).probabilistic == pytest.approx(
        deflated_sharpe_of(RETURNS, 1).probabilistic, abs=0.02
    )


def test_trials_that_hardly_differ_count_for_little_more_than_one() -> None:
    rng = np.random.default_rng(0)
    common, own = rng.normal(size=(2000, 1)), rng.normal(size=(2000, 40))

    assert effective_trials(own) == pytest.approx(40, rel=0.02)
    assert effective_trials(common + 0.1 * own) == pytest.approx(1.4, abs=0.1)
    assert effective_trials(np.repeat(common, 5, axis=1)) == pytest.approx(1.0)
    assert effective_trials(common) == 1.0
