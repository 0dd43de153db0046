"""All metrics of an episode, by name."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sekai.evaluation import Episode
from sekai.evaluation.metrics import HIGHER_IS_BETTER, metrics_of, sharpe, total_return
from tests.evaluation.samples import sample_episode

NAMES = {
    "total_return", "annual_return", "volatility", "sharpe", "sortino", "calmar", "omega",
    "max_drawdown", "longest_drawdown", "value_at_risk", "conditional_value_at_risk", "hit_rate",
    "turnover", "exposure", "net_exposure", "cost", "episode_return", "tail_ratio", "skewness",
    "kurtosis",
}  # fmt: skip
BESIDE = {"alpha", "beta", "tracking_error", "information_ratio"}


def test_an_account_has_every_metric_and_what_its_task_counts() -> None:
    found = metrics_of(sample_episode(0), 252.0)

    assert set(found) == NAMES | {"final_equity"}
    assert all(math.isfinite(value) for value in found.values())
    assert found["final_equity"] == 1.1e6


def test_metrics_are_those_of_the_returns() -> None:
    episode = sample_episode(3)
    found = metrics_of(episode, 252.0)

    assert found["sharpe"] == sharpe(episode.returns, 252.0)
    assert found["total_return"] == pytest.approx(episode.equity[-1] / episode.equity[0] - 1)
    assert found["episode_return"] == pytest.approx(episode.rewards.sum())


def test_trading_is_told_in_shares_of_equity() -> None:
    weights = np.array([[0.5, -0.3, 0.8], [1.0, -0.5, 0.5]])
    episode = Episode(
        seed=0,
        rewards=np.zeros(2),
        equity=np.array([200.0, 210.0, 190.0]),
        weights=weights,
        turnover=np.array([0.1, 0.3]),
        costs={"commission": np.array([1.0, 2.0]), "spread": np.array([0.0, 1.0])},
    )
    found = metrics_of(episode, 252.0)

    assert found["exposure"] == pytest.approx(1.15)
    assert found["net_exposure"] == pytest.approx(0.35)
    assert found["turnover"] == pytest.approx(0.2)
    assert found["cost"] == pytest.approx(0.02)


def test_what_an_account_does_not_tell_is_undefined() -> None:
    episode = Episode(seed=0, rewards=np.zeros(2), equity=np.array([1.0, 2.0, 1.5]))
    found = metrics_of(episode, 252.0)

    assert all(math.isnan(found[name]) for name in ("turnover", "exposure", "cost"))


def test_an_episode_without_an_account_has_its_rewards_and_its_task() -> None:
    episode = Episode(
        seed=0, rewards=np.array([1.0, 2.0]), equity=np.zeros(0), outcome={"shortfall": 4.0}
    )

    assert metrics_of(episode, math.nan) == {"episode_return": 3.0, "shortfall": 4.0}


def test_what_comes_after_ruin_is_not_counted() -> None:
    ruined = Episode(seed=0, rewards=np.zeros(4), equity=np.array([100.0, 90.0, 0.0, 0.0, 50.0]))
    found = metrics_of(ruined, 252.0)

    assert found["total_return"] == found["annual_return"] == found["max_drawdown"] == -1.0
    assert math.isfinite(found["sharpe"])


def test_every_metric_says_whether_more_is_better() -> None:
    assert set(HIGHER_IS_BETTER) == NAMES | BESIDE


@pytest.mark.parametrize("name", sorted({"sharpe", "max_drawdown", "value_at_risk", "volatility"}))
def test_the_better_of_two_accounts_is_better_by_each_metric(name: str) -> None:
    calm = np.random.default_rng(0).normal(0.002, 0.01, 300)
    wild = 3 * calm - 0.006
    steady, rough = (
        metrics_of(Episode(seed=0, rewards=one, equity=np.append(1.0, np.cumprod(1 + one))), 252.0)[
            name
        ]
        for one in (calm, wild)
    )

    assert (steady > rough) == HIGHER_IS_BETTER[name]


def test_a_benchmark_may_be_an_episode_or_its_returns() -> None:
    agent, other = sample_episode(0), sample_episode(1)
    by_episode = metrics_of(agent, 252.0, other)

    assert set(by_episode) == NAMES | BESIDE | {"final_equity"}
    assert by_episode == metrics_of(agent, 252.0, other.returns)
    assert total_return(other.returns) != by_episode["total_return"]


def test_a_benchmark_that_is_ruined_leaves_nothing_to_compare_with() -> None:
    agent, other = sample_episode(0), sample_episode(1)
    ruined = dataclasses.replace(other, equity=np.append(other.equity[:400], np.zeros(101)))
    found = metrics_of(agent, 252.0, ruined)

    assert all(math.isnan(found[name]) for name in BESIDE)


def test_a_benchmark_is_cut_where_the_agent_is_ruined() -> None:
    agent, other = sample_episode(0), sample_episode(1)
    ruined = dataclasses.replace(agent, equity=np.append(agent.equity[:400], np.zeros(101)))
    found = metrics_of(ruined, 252.0, other)

    assert all(math.isfinite(found[name]) for name in BESIDE)


@pytest.mark.parametrize("wrong", ["episode", "returns"])
def test_a_benchmark_of_other_steps_is_refused(wrong: str) -> None:
    other = sample_episode(1, days=400)

    with pytest.raises(ValueError, match="benchmark must have 50[01]"):
        metrics_of(sample_episode(0), 252.0, other if wrong == "episode" else other.returns)
