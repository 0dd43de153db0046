"""Pure noise is seldom believed, however many agents it is picked from."""

from __future__ import annotations

import pytest

from tests.evaluation.statistics.noise import (
    KINDS,
    bootstrap_verdicts,
    picked_verdicts,
    seeds_verdicts,
)


@pytest.mark.parametrize("kind", ["independent", "fat_tailed"])
def test_seeds_without_a_difference_show_one_in_one_case_of_twenty(kind: str) -> None:
    # Three standard errors of 4,000 runs are 1 %.
    assert 0.02 <= seeds_verdicts(kind, runs=4000) <= 0.06


def test_seeds_show_a_difference_that_is_there() -> None:
    assert seeds_verdicts("independent", runs=400, edge=1.5) > 0.9


def test_returns_without_a_difference_seldom_show_one() -> None:
    # Three standard errors of 100 runs are 6.5 %.
    assert bootstrap_verdicts("persistent", runs=100, resamples=99) <= 0.115


def test_returns_show_a_difference_that_is_there() -> None:
    assert bootstrap_verdicts("independent", runs=40, edge=0.3, resamples=99) > 0.9


@pytest.mark.parametrize("kind", ["independent", "fat_tailed"])
@pytest.mark.parametrize("trials", [2, 50])
def test_the_best_of_agents_without_skill_is_not_believed(kind: str, trials: int) -> None:
    deflated, _ = picked_verdicts(kind, runs=400, trials=trials)

    assert deflated <= 0.05


def test_the_best_of_agents_without_skill_is_believed_where_trials_are_not_counted() -> None:
    _, naive = picked_verdicts("independent", runs=100)

    assert naive > 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_one_agent_without_skill_is_seldom_believed(kind: str) -> None:
    deflated, _ = picked_verdicts(kind, runs=1000, trials=1)

    # Three standard errors of 1,000 runs are 2 %.
    assert deflated <= 0.07


def test_an_agent_with_skill_is_believed_among_many_without() -> None:
    deflated, _ = picked_verdicts("independent", runs=100, edge=0.4)

    assert deflated > 0.9


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_returns_without_a_difference_seldom_show_one_over_many_runs(kind: str) -> None:
    # Three standard errors of 600 runs are 2.7 %.
    assert bootstrap_verdicts(kind, runs=600) <= 0.077


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_of_200_agents_without_skill_is_not_believed(kind: str) -> None:
    deflated, _ = picked_verdicts(kind, runs=400, trials=200)

    assert deflated <= 0.05
