"""Intervals and tests over seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.evaluation.statistics import paired, seed_interval


@settings(deadline=None)
@given(st.integers(2, 40), st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.integers(0, 2**32))
def test_the_interval_is_that_of_student(seeds: int, level: float, seed: int) -> None:
    values = np.random.default_rng(seed).normal(3.0, 2.0, seeds)
    wanted = scipy.stats.t.interval(level, seeds - 1, values.mean(), scipy.stats.sem(values))

    found = seed_interval(list(values), level)

    assert (found.low, found.high) == pytest.approx(wanted)
    assert found.value == pytest.approx(values.mean())
    assert (found.level, found.method) == (level, "seeds")


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(0, 2**32))
def test_the_chance_is_that_of_a_paired_test(seeds: int, seed: int) -> None:
    agent, baseline = np.random.default_rng(seed).normal(0.0, 1.0, (2, seeds))
    wanted = scipy.stats.ttest_rel(agent, baseline)

    difference, chance, wins = paired(list(agent), list(baseline))

    assert chance == pytest.approx(wanted.pvalue)
    assert difference.value == pytest.approx(agent.mean() - baseline.mean())
    assert wins == np.mean(agent > baseline)
    assert (chance < 0.05) == (difference.low > 0 or difference.high < 0)


def test_the_agent_is_ahead_by_being_lower_where_less_is_better() -> None:
    difference, _, wins = paired([1.0, 2.0, 2.5], [2.0, 2.5, 2.5], higher_is_better=False)

    assert difference.value == pytest.approx(0.5)
    assert wins == pytest.approx(2 / 3)


def test_what_all_seeds_share_is_removed_by_pairs() -> None:
    luck = np.random.default_rng(0).normal(0.0, 100.0, 16)
    edge = np.random.default_rng(1).normal(1.0, 0.5, 16)

    _, chance, wins = paired(list(luck + edge), list(luck))

    assert chance < 1e-5
    assert wins > 0.9


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0, 2.0], [0.1 + 0.2, 0.3]])
def test_seeds_that_say_nothing_of_the_spread_leave_bounds_unknown(values: list[float]) -> None:
    found = seed_interval(values)

    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_an_undefined_value_makes_the_whole_undefined() -> None:
    difference, chance, wins = paired([1.0, math.nan, 2.0], [0.5, 0.5, 0.7])

    assert all(
        math.isnan(one) for one in (difference.value, difference.low, difference.high, chance, wins)
    )


def test_copies_of_one_back_test_are_no_evidence() -> None:
    difference, chance, wins = paired([0.3] * 16, [0.1] * 16)

    assert difference.value == pytest.approx(0.2)
    assert math.isnan(difference.low)
    assert math.isnan(chance)
    assert wins == 1.0


def test_an_agent_that_is_its_baseline_is_not_ahead() -> None:
    difference, chance, wins = paired([0.3, 0.2], [0.3, 0.2])

    assert (difference.value, chance, wins) == (0.0, 1.0, 0.0)


def test_values_of_other_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="got 2 and 3 values"):
        paired([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="at least 1 seed"):
        paired([], [])


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, math.nan])
def test_what_is_no_level_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        seed_interval([1.0, 2.0], level)
