"""Intervals from returns themselves."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import NDArray

from sekai.evaluation.metrics import max_drawdown, sharpe
from sekai.evaluation.statistics import bootstrap_interval, paired_bootstrap
from tests.evaluation.statistics.test_block_length import persistent

Floats = NDArray[np.float64]
METHODS: tuple[Literal["studentised", "percentile"], ...] = ("studentised", "percentile")
RETURNS = np.random.default_rng(0).normal(0.001, 0.01, 400)


def mean(returns: Floats) -> float:
    return float(np.mean(returns))


def daily_sharpe(returns: Floats) -> float:
    return sharpe(returns, 1.0)


def test_of_a_mean_it_is_close_to_that_of_student() -> None:
    wanted = scipy.stats.t.interval(0.95, 399, RETURNS.mean(), scipy.stats.sem(RETURNS))
    width = wanted[1] - wanted[0]

    found = bootstrap_interval(RETURNS, mean, block=1)

    assert found.value == mean(RETURNS)
    # From ten parts the standard error itself is only known to about a quarter.
    assert found.high - found.low == pytest.approx(width, rel=0.5)
    assert found.low < found.value < found.high
    assert (found.level, found.method) == (0.95, "bootstrap")


def test_percentiles_of_a_mean_are_those_of_the_normal() -> None:
    reach = 1.96 * scipy.stats.sem(RETURNS)

    found = bootstrap_interval(RETURNS, mean, block=1, method="percentile")

    assert found.low == pytest.approx(found.value - reach, rel=0.1)
    assert found.high == pytest.approx(found.value + reach, rel=0.1)


def test_percentiles_never_cross_an_edge_of_the_statistic() -> None:
    found = bootstrap_interval(RETURNS, max_drawdown, method="percentile")

    assert -1 < found.low < found.high < 0


def test_the_longer_tail_has_the_longer_reach() -> None:
    skewed = np.random.default_rng(0).exponential(1.0, 60)

    found = bootstrap_interval(skewed, mean, block=1)

    assert found.high - found.value > 1.3 * (found.value - found.low)


def test_more_confidence_needs_a_wider_interval() -> None:
    narrow, wide = (bootstrap_interval(RETURNS, mean, level=level) for level in (0.8, 0.99))

    assert wide.low < narrow.low < narrow.high < wide.high


def test_returns_with_a_memory_have_a_wider_interval() -> None:
    returns = persistent(1000, 0.7, 0)
    alone, together = (
        bootstrap_interval(returns, mean, block=block, method="percentile") for block in (1, None)
    )

    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_a_seed_gives_the_same_interval() -> None:
    first, again = (bootstrap_interval(RETURNS, mean, resamples=100, seed=3) for _ in range(2))

    assert first == again
    assert first != bootstrap_interval(RETURNS, mean, resamples=100, seed=4)


def test_several_episodes_say_as_much_as_one_of_their_length() -> None:
    parts = np.split(RETURNS, [50, 150, 170])
    apart, whole = (
        bootstrap_interval(tables, mean, block=1, method="percentile")
        for tables in (parts, RETURNS)
    )

    assert apart.value == whole.value
    assert apart.high - apart.low == pytest.approx(whole.high - whole.low, rel=0.1)


def test_episodes_that_differ_widen_the_interval() -> None:
    rng = np.random.default_rng(5)
    alike = [rng.normal(0.0, 1.0, 50) for _ in range(20)]
    differ = [one + rng.normal(0.0, 1.0) for one in alike]
    narrow, wide = (bootstrap_interval(tables, mean, resamples=400) for tables in (alike, differ))

    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_rows_of_pairs_stay_together() -> None:
    market = np.random.default_rng(1).normal(0.0, 0.02, 300)
    pairs = np.column_stack((market + 0.001, market))

    found = bootstrap_interval(
        pairs, lambda pair: mean(pair[:, 0] - pair[:, 1]), method="percentile"
    )

    assert found.value == pytest.approx(0.001)
    assert not found.high - found.low > 1e-12


def test_pairs_find_an_edge_that_returns_alone_hide() -> None:
    rng = np.random.default_rng(2)
    market = rng.normal(0.0, 0.02, 500)
    agent = market + rng.normal(0.0004, 0.001, 500)

    difference, chance, wins = paired_bootstrap(agent, market, mean)

    assert difference.low > 0
    assert chance < 0.01
    assert wins == 1.0
    assert bootstrap_interval(agent, mean).low < 0


def test_the_chance_is_below_the_level_exactly_where_the_interval_leaves_out_nothing() -> None:
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(30):
        agent, baseline = rng.normal(0.0, 1.0, (2, 100)) + np.array([[0.25], [0.0]])
        difference, chance, _ = paired_bootstrap(agent, baseline, mean, resamples=399)
        # The chance counts the data as one more draw: at the edge the two may differ.
        if abs(chance - 0.05) > 0.006:
            seen.add(chance < 0.05)
            assert (chance < 0.05) == (difference.low > 0 or difference.high < 0)

    assert seen == {True, False}


def test_the_agent_is_ahead_by_being_lower_where_less_is_better() -> None:
    calm, wild = RETURNS, 2 * RETURNS

    difference, _, wins = paired_bootstrap(
        [calm[:200], calm[200:]],
        [wild[:200], wild[200:]],
        lambda returns: float(np.std(returns)),
        higher_is_better=False,
        resamples=200,
    )

    assert difference.low > 0
    assert wins == 1.0


def test_an_agent_that_is_its_baseline_is_not_ahead() -> None:
    difference, chance, wins = paired_bootstrap(RETURNS, RETURNS, daily_sharpe, resamples=50)

    assert (difference.value, chance, wins) == (0.0, 1.0, 0.0)
    assert math.isnan(difference.low)


@pytest.mark.parametrize("returns", [np.zeros(100), np.full(100, 0.01), RETURNS[:19]])
def test_bounds_of_what_is_undefined_or_too_short_are_unknown(returns: Floats) -> None:
    found = bootstrap_interval(returns, daily_sharpe, resamples=50)

    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_bounds_are_unknown_where_many_resamples_are_undefined() -> None:
    seldom = np.zeros(100)
    seldom[50] = 0.01

    for method in METHODS:
        found = bootstrap_interval(seldom, daily_sharpe, resamples=200, block=1, method=method)

        assert math.isfinite(found.value)
        assert math.isnan(found.low)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"level": 95}, "level must be between 0 and 1"),
        ({"resamples": 0}, "resamples must be at least 1, got 0"),
        ({"block": 0.5}, "block must be at least 1, got 0.5"),
        ({"method": "bca"}, "method must be 'studentised' or 'percentile', got 'bca'"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bootstrap_interval(RETURNS, mean, **change)  # type: ignore[arg-type]


def test_tables_without_returns_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 row"):
        bootstrap_interval([], mean)
    with pytest.raises(ValueError, match="at least 1 row"):
        bootstrap_interval([RETURNS, RETURNS[:0]], mean)


def test_a_baseline_of_other_steps_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got lengths \[400\] and \[399\]"):
        paired_bootstrap(RETURNS, RETURNS[1:], mean)
