"""The simulator costs what the closed form says, and nobody does better than the optimum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.envs import OptimalExecution, OptimalExecutionConfig, OptimalSchedule
from sekai.market import AlmgrenChriss

PAPER: dict[str, Any] = {"episode_steps": 5, "reward_unit": 1.0}
"""The example of Almgren and Chriss, with rewards in money."""


def played(schedule: Any, episodes: int, seed: int = 0, **settings: Any) -> tuple[Any, Any]:
    """The shortfall of every episode that trades `schedule`, and the sum of its rewards."""
    vec: Any = sekai.make_vec(
        "OptimalExecution-v0", episodes, "native", autoreset="disabled", **settings
    )
    vec.reset(seed=seed)
    rewards = np.zeros(episodes)
    held = schedule.sum()
    for traded in schedule:
        share = min(traded / held, 1.0) if held > 0 else 1.0
        result = vec.step(np.full((episodes, 1), share))
        rewards += result.rewards
        held -= traded
        if result.terminated.all():
            break
    return vec.batch.infos()["shortfall"], rewards


def assert_costs(costs: Any, mean: float, variance: float) -> None:
    """Mean and variance are these, as nearly as so many episodes can tell."""
    error = math.sqrt(variance / costs.size)
    # The fourth central moment of a normal variable is three times its squared variance.
    own_error = variance * math.sqrt(2.0 / (costs.size - 1))
    assert abs(costs.mean() - mean) <= 4 * error + 1e-9 * mean
    assert abs(costs.var(ddof=1) - variance) <= 4 * own_error + 1e-9 * mean**2


@pytest.mark.parametrize("side", ["sell", "buy"])
def test_the_optimal_schedule_costs_its_closed_form(side: str) -> None:
    config = OptimalExecutionConfig(side=side, **PAPER)  # type: ignore[arg-type]
    model = config.model
    vec: Any = sekai.make_vec(
        "OptimalExecution-v0", 200_000, "native", autoreset="disabled", config=config
    )
    policy = OptimalSchedule(config)
    shown = vec.reset(seed=1).observations
    rewards = np.zeros(200_000)
    for _ in range(5):
        result = vec.step(policy(shown))
        shown = result.observations
        rewards += result.rewards
    infos = vec.batch.infos()

    assert result.terminated.all()
    assert_costs(infos["shortfall"], model.expected_cost(), model.variance())
    assert np.allclose(infos["expected_cost"], model.expected_cost(), rtol=1e-9)
    assert np.allclose(infos["variance"], model.variance(), rtol=1e-9)
    # The mean-variance objective is what is earned on average.
    error = math.sqrt(model.variance() / 200_000)
    assert abs(rewards.mean() + model.objective()) < 4 * error
    risk = 1e-6 * model.variance()
    assert np.allclose(-rewards, infos["shortfall"] + risk, rtol=0.0, atol=1e-9 * model.notional)


@given(parts=st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6), seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_any_schedule_costs_its_closed_form(parts: list[float], seed: int) -> None:
    weights = np.array(parts) + 1e-6
    schedule = 1e6 * weights / weights.sum()
    config = OptimalExecutionConfig(episode_steps=6, reward_unit=1.0)
    costs, rewards = played(schedule, 20_000, seed, config=config)
    mean, variance = config.model.expected_cost(schedule), config.model.variance(schedule)

    # Wider than above: so many draws of so many schedules come further from their means.
    error = math.sqrt(variance / costs.size)
    assert abs(costs.mean() - mean) <= 5.5 * error + 1e-9 * mean
    assert abs(costs.var(ddof=1) / max(variance, 1.0) - 1.0) <= 5.5 * math.sqrt(2.0 / 19_999)
    assert rewards.mean() == pytest.approx(-costs.mean() - 1e-6 * variance, rel=1e-9)


def family(model: AlmgrenChriss, count: int) -> Any:
    """Schedules of many kinds: hasty, patient, lumpy, drawn at random."""
    rng = np.random.default_rng(7)
    steps = np.arange(model.steps)
    geometric = [share**steps for share in rng.uniform(0.2, 1.2, count)]
    drawn = rng.dirichlet(np.ones(model.steps), count)
    lumpy = rng.dirichlet(np.full(model.steps, 0.2), count)
    rows = np.concatenate([geometric, drawn, lumpy])
    return model.shares * rows / rows.sum(axis=1, keepdims=True)


def test_no_schedule_of_a_large_family_does_better() -> None:
    model = OptimalExecutionConfig(**PAPER).model
    others = family(model, 2000)

    assert model.objective(others).min() > model.objective()


def test_on_the_same_paths_the_optimum_earns_more_than_others() -> None:
    config = OptimalExecutionConfig(**PAPER)
    model = config.model
    _, best = played(model.trades(), 100_000, config=config)
    for other in (np.full(5, 2e5), model.trades()[::-1], *family(model, 2)):
        _, earned = played(other, 100_000, config=config)
        gained = best - earned
        lost = model.objective(other) - model.objective()

        # Paths are shared, so that little is left to chance.
        error = gained.std() / math.sqrt(gained.size)
        assert abs(gained.mean() - lost) < 4 * error
        assert lost > 6 * error or lost < 1e-3 * model.objective()


def test_without_risk_aversion_the_optimum_trades_evenly() -> None:
    env = OptimalExecution(risk_aversion=0.0)

    assert np.array_equal(env.optimal_schedule(), np.full(25, 40_000.0))
    env.reset(seed=0)
    for _ in range(25):
        assert env.step(env.optimal_action()).info["traded"] == pytest.approx(40_000.0)


@pytest.mark.parametrize("action", ["rest", "order"])
@pytest.mark.parametrize("aversion", [0.0, 1e-25, 1e-6, 1e-2, 1e100])
def test_the_core_and_the_policy_trade_the_optimal_schedule(action: Any, aversion: float) -> None:
    env = OptimalExecution(action=action, risk_aversion=aversion)
    policy = OptimalSchedule(env.config)
    shown = env.reset(seed=0).observation
    traded = []
    for wanted in env.optimal_schedule():
        chosen = env.optimal_action()
        assert chosen.shape == (1,)
        assert chosen in env.action_space
        assert policy(shown) == pytest.approx(chosen, rel=1e-12 if action == "rest" else 1e-6)
        result = env.step(chosen)
        traded.append(result.info["traded"])
        shown = result.observation
        assert traded[-1] == pytest.approx(wanted, abs=1e-3)
        if result.done:
            break
    assert sum(traded) == pytest.approx(1e6)


def test_the_policy_is_optimal_from_wherever_an_episode_stands() -> None:
    env = OptimalExecution()
    policy = OptimalSchedule(env.config)
    env.reset(seed=0)
    for _ in range(5):
        shown = env.step(np.array([0.01])).observation
    left = float(env.batch.infos()["inventory"][0])
    rest = AlmgrenChriss(
        shares=left,
        horizon=4.0,
        steps=20,
        volatility=0.95,
        temporary_impact=2.5e-6,
        permanent_impact=2.5e-7,
        risk_aversion=1e-6,
    )

    for wanted in rest.trades():
        result = env.step(policy(shown))
        shown = result.observation
        assert result.info["traded"] == pytest.approx(wanted, rel=1e-9)


def test_a_policy_answers_one_env_and_many_alike() -> None:
    policy = OptimalSchedule(episode_steps=10)
    vec: Any = sekai.make_vec("OptimalExecution-v0", 4, episode_steps=10)
    shown = vec.reset(seed=0).observations
    for _ in range(3):
        actions = policy(shown)
        assert actions.shape == (4, 1)
        assert np.array_equal(actions, np.array([policy(row) for row in shown]))
        assert vec.call("optimal_action") == pytest.approx(actions)
        shown = vec.step(actions).observations
    # At the end nothing is left, and any share of it will do.
    assert policy(np.zeros(4)).tolist() == [1.0]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("steps", [1, 2, 5, 25, 100])
def test_the_optimal_schedule_costs_its_closed_form_to_three_digits(steps: int) -> None:
    config = OptimalExecutionConfig(episode_steps=steps)
    costs = np.concatenate(
        [played(config.model.trades(), 200_000, seed, config=config)[0] for seed in range(10)]
    )

    assert_costs(costs, config.model.expected_cost(), config.model.variance())
