"""Agents find what is known to be best; and what is said to be best is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sekai.training import A2C, DDPG, PPO, TD3, Agent
from tests.training.optima.batch import vector
from tests.training.optima.growth import AVERSION, KELLY, MERTON_LOG, MERTON_POWER
from tests.training.optima.kelly import Kelly, best_share, growth
from tests.training.optima.markets import EXECUTION, MARKET_MAKING
from tests.training.optima.merton import Merton, best_weight, certain_growth
from tests.training.optima.task import Task

ALL = [
    pytest.param(task, kind, id=f"{task.name}-{kind.__name__}")
    for task in (KELLY, MERTON_LOG, MERTON_POWER, EXECUTION, MARKET_MAKING)
    for kind in task.recipes
]
QUICK = [(KELLY, PPO), (MERTON_LOG, A2C), (MERTON_LOG, DDPG), (KELLY, TD3)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("task", "kind"), QUICK, ids=[kind.__name__ for _, kind in QUICK])
def test_less_than_half_the_time_is_most_of_the_way(task: Task, kind: type[Agent]) -> None:
    """From a share of 0 or below: Merton begins without the asset, Kelly with losing bets."""
    assert task.run(kind, seed=0, time=0.45) > 0.7


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("task", "kind"), ALL)
def test_most_seeds_find_the_optimum(
    task: Task, kind: type[Agent], record_property: Callable[[str, object], None]
) -> None:
    shares = [task.run(kind, seed) for seed in range(task.seeds)]

    record_property("shares", shares)
    assert task.found(shares) >= task.needed(task.seeds), shares


def test_no_bet_grows_faster_than_the_best() -> None:
    bets = np.linspace(0.0, 0.89, 1000)

    for chance in (0.55, 0.6, 0.8):
        best = growth(np.array(chance), best_share(np.array(chance)))
        assert growth(np.full(1000, chance), bets).max() <= best + 1e-12


@pytest.mark.parametrize("aversion", [1.0, 1.5, 6.0])
def test_no_weight_has_more_utility_than_the_best(aversion: float) -> None:
    weights = np.linspace(-2.0, 2.0, 4001)

    best = certain_growth(np.array(best_weight(aversion)), aversion)

    assert certain_growth(weights, aversion).max() <= best + 1e-12


def test_envs_earn_what_the_formulas_say() -> None:
    """Means over many episodes, within four standard errors."""
    count, steps = 4000, 20
    bets = vector(Kelly(count))
    bets.reset(seed=1)
    held = vector(Merton(count, AVERSION, simplex=True))
    held.reset(seed=1)

    grown = np.array(
        [bets.step(np.full((count, 1), 0.3, np.float32)).rewards.copy() for _ in range(steps)]
    )
    useful = np.array(
        [held.step(np.tile([0.7, 0.3], (count, 1))).rewards.copy() for _ in range(steps)]
    )

    error = 4.0 / np.sqrt(count * steps)
    wanted = growth(np.array(0.6), np.array(0.3))
    assert abs(grown.mean() - wanted) < error * grown.std()
    power = 1.0 - AVERSION
    certain = np.expm1(power * certain_growth(np.array(0.3), AVERSION)) / power
    assert abs(useful.mean() - certain) < error * useful.std()
