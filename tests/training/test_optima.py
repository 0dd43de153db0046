"""Agents find what is known to be best: Kelly's bet and Merton's weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sekai.training import A2C, DDPG, PPO, SAC, Agent
from tests.training.optima.batch import NumpyBatch, vector
from tests.training.optima.judging import kelly_share, merton_share
from tests.training.optima.kelly import Kelly, best_share, growth
from tests.training.optima.merton import Merton, best_weight, certain_growth

ENOUGH = 0.95
"""The share of the best growth that the median seed reaches."""

SEEDS = range(5)
AVERSION = 1.5

TASKS: dict[str, tuple[Callable[[int], NumpyBatch], Callable[[Agent], float]]] = {
    "kelly": (Kelly, kelly_share),
    "merton, log": (Merton, lambda agent: merton_share(agent, 1.0)),
    "merton, power": (
        lambda count: Merton(count, AVERSION, simplex=True),
        lambda agent: merton_share(agent, AVERSION),
    ),
}

# A bet changes nothing about the bets after it: looking far ahead would only add noise.
BOTH: dict[str, Any] = {
    "policy": {"hidden": (32, 32)}, "learning_rate_schedule": "linear", "discount": 0.9,
}  # fmt: skip
OFF: dict[str, Any] = {
    **BOTH, "learning_rate": 3e-3, "actor_rate": 0.2, "warm_up": 6_400, "batch_size": 512,
}  # fmt: skip
# Tried widely, bets beyond the bounds are cut to them, and being at a bound looks less risky than
# it is: numbers that are tried less widely are not drawn there.
ON: dict[str, Any] = {
    **BOTH, "trace": 0.5, "policy": {"hidden": (32, 32), "initial_spread": 0.25},
}  # fmt: skip
RECIPES: dict[type[Agent], tuple[int, int, dict[str, Any]]] = {
    PPO: (64, 120_000, {**ON, "learning_rate": 5e-3, "rollout_steps": 32}),
    A2C: (32, 150_000, {**ON, "learning_rate": 5e-3}),
    DDPG: (64, 50_000, OFF),
    SAC: (64, 45_000, OFF),
}


def _share(kind: type[Agent], task: str, seed: int) -> float:
    """The share of the best growth that an agent reaches."""
    num_envs, steps, recipe = RECIPES[kind]
    make, judge = TASKS[task]
    return judge(kind(vector(make(num_envs)), seed=seed, **recipe).fit(steps))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "task"),
    [(PPO, "kelly"), (A2C, "merton, power"), (DDPG, "merton, log"), (SAC, "kelly")],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_one_seed_comes_near_the_optimum(kind: type[Agent], task: str) -> None:
    assert _share(kind, task, seed=0) > 0.9


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", RECIPES, ids=lambda kind: kind.__name__)
def test_most_seeds_reach_the_optimum(
    kind: type[Agent], task: str, record_property: Callable[[str, object], None]
) -> None:
    shares = [_share(kind, task, seed) for seed in SEEDS]

    record_property("shares", shares)
    assert np.median(shares) >= ENOUGH, shares


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

    grown = np.array([bets.step(np.full((count, 1), 0.3, np.float32)).rewards.copy()
                      for _ in range(steps)])  # fmt: skip
    useful = np.array([held.step(np.tile([0.7, 0.3], (count, 1))).rewards.copy()
                       for _ in range(steps)])  # fmt: skip

    error = 4.0 / np.sqrt(count * steps)
    wanted = growth(np.array(0.6), np.array(0.3))
    assert abs(grown.mean() - wanted) < error * grown.std()
    power = 1.0 - AVERSION
    certain = np.expm1(power * certain_growth(np.array(0.3), AVERSION)) / power
    assert abs(useful.mean() - certain) < error * useful.std()
