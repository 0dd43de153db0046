from dataclasses import replace

import numpy as np
import pytest

from sekai.data import simulate_gbm
from sekai.evaluation import Episode, PolicyOutcome, evaluate
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.scorer import (
    Scorer,
    count_dates,
    is_overlapping,
    padded_to,
    returns_by_date,
)
from sekai.evaluation.tasks import task_of
from sekai.market import Costs


def episode(first: int, equity: list[float]) -> Episode:
    days = np.datetime64("2020-01-01", "ns") + np.arange(first, first + len(equity)).astype(
        "timedelta64[D]"
    )
    return Episode(
        seed=first, rewards=np.zeros(len(equity) - 1), equity=np.array(equity), times=days
    )


def test_a_day_that_two_episodes_played_is_one_day() -> None:
    one, other = episode(0, [100.0, 110.0, 121.0]), episode(1, [100.0, 120.0, 60.0])

    assert count_dates([one, other]) == (6, 4)
    assert is_overlapping([one, other])
    np.testing.assert_allclose(returns_by_date([one, other]), [0.1, 0.15, -0.5])


def test_episodes_of_other_times_are_several() -> None:
    one, other = episode(0, [100.0, 110.0, 121.0]), episode(3, [100.0, 120.0, 60.0])

    assert not is_overlapping([one, other])
    np.testing.assert_allclose(returns_by_date([other, one]), [0.1, 0.1, 0.2, -0.5])


def test_one_episode_is_no_overlap_and_none_without_dates_is_either() -> None:
    one = episode(0, [100.0, 110.0])

    assert not is_overlapping([one])
    assert not is_overlapping([replace(one, times=None), replace(one, times=None)])


@pytest.mark.parametrize("last", [50.0, 0.0, -5.0])
def test_an_account_that_ended_stays_what_it_was(last: float) -> None:
    ended, longer = episode(0, [100.0, last]), episode(0, [100.0, 101.0, 102.0, 103.0])

    (held,) = padded_to([ended], [longer])

    np.testing.assert_allclose(held.returns, [last / 100 - 1, 0.0, 0.0])
    assert held.times is longer.times
    assert padded_to([longer], [ended])[0] is longer


def believed(runs: int) -> int:
    """Count false positives of random weights against equal weights."""
    free = Costs(proportional=0.0, half_spread=0.0, impact=0.0)
    found = 0
    for run in range(runs):
        weights = np.append(np.random.default_rng(run).dirichlet(np.ones(4)), 0.0)
        options = {
            "data": simulate_gbm(assets=4, rows=400, seed=run, drift=0.0, correlation=0.0),
            "lookback": 1,
            "features": ["log_return"],
            "costs": free,
        }
        judged = evaluate(
            lambda seen, weights=weights: weights,
            "Portfolio-v0", env_options=options, seeds=16, baselines=["equal_weight"],
            sensitivity=False, name="drawn",
        )  # fmt: skip
        found += judged.comparisons[0].p_value < 0.05
    return found


@pytest.mark.timeout(180)
def test_many_looks_at_one_market_of_noise_find_nothing() -> None:
    # Taken for sixteen markets, nine of ten would be believed.
    assert believed(8) <= 3


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_noise_is_believed_as_often_as_is_said() -> None:
    runs = 400
    assert believed(runs) <= runs * 0.05 + 3 * np.sqrt(runs * 0.05 * 0.95)


def test_a_lead_is_found_beside_many_baselines_too() -> None:
    # With as many resamples as beside one, no chance times twenty would be small enough.
    days, rng = 400, np.random.default_rng(0)

    def outcome(name: str, drift: float) -> PolicyOutcome:
        growth = np.cumprod(1 + rng.normal(drift, 0.01, days))
        return PolicyOutcome(name=name, metrics={}, by_seed={"sharpe": [0.0]},
                             episodes=[episode(0, [100.0, *(100.0 * growth)])])  # fmt: skip

    measure = Scorer(task_of(as_env_source("Portfolio-v0")), 252.0, 0.95, True)
    agent = outcome("agent", 0.005)
    found = measure.comparisons(agent, [outcome(f"other {place}", 0.0) for place in range(20)])

    assert {one.standing for one in found} == {"ahead"}
