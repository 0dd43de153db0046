"""The optimal market maker: its closed form, and that the simulator pays what it says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.envs import MarketMaking

RISK_AVERSION = 0.1
ENVS = 4096
Policy = Callable[[Any], Any]


def value_vector(time: float, limit: int, **other: float) -> Any:
    """`v` of the paper by its own series: `exp(-M time)` times the end, squared up from a sliver.

    Independent of the core: a dense matrix, scaling and squaring.
    """
    volatility, rate, decay = 2.0, 140.0, 1.5
    aversion, running = other.get("risk_aversion", RISK_AVERSION), other.get("running_penalty", 0.0)
    held = np.arange(-limit, limit + 1.0)
    share = (1 + aversion / decay) ** -(1 + decay / aversion) if aversion else math.exp(-1)
    beside = np.diag(np.full(2 * limit, rate * share), 1)
    curvature = decay * (aversion * volatility**2 / 2 + running)
    generator = beside + beside.T - np.diag(curvature * held**2)
    halvings = 14
    small = generator * time / 2**halvings
    flow = term = np.eye(len(held))
    for order in range(1, 20):
        term = term @ small / order
        flow = flow + term
    for _ in range(halvings):
        flow = flow @ flow
    return flow @ np.exp(-decay * other.get("liquidation_penalty", 0.0) * np.abs(held))


def test_the_certainty_equivalent_is_the_published_one() -> None:
    env = MarketMaking()
    env.reset(seed=0)

    assert env.certainty_equivalent() == pytest.approx(64.1334891, abs=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"risk_aversion": 0.0},
        {"risk_aversion": 0.5},
        {"running_penalty": 0.7},
        {"liquidation_penalty": 0.4},
        {"risk_aversion": 0.0, "running_penalty": 2.0, "liquidation_penalty": 0.2},
    ],
)
def test_value_and_quotes_are_those_of_the_matrix_exponential(settings: dict[str, Any]) -> None:
    env = MarketMaking(inventory_limit=8, episode_steps=40, **settings)
    aversion = settings.get("risk_aversion", RISK_AVERSION)
    margin = math.log1p(aversion / 1.5) / aversion if aversion else 1 / 1.5
    info = env.reset(seed=2).info
    seen = set()
    for step in range(40):
        logarithms = np.log(value_vector(1.0 - step / 40, 8, **settings)) / 1.5
        place = int(info["inventory"]) + 8
        here = logarithms[place]
        seen.add(place)

        padded = np.concatenate([[-np.inf], logarithms, [-np.inf]])
        wanted = np.array([here - padded[place + 2], here - padded[place]]) + margin
        assert env.certainty_equivalent() == pytest.approx(info["wealth"] + here, abs=1e-9)
        assert env.optimal_action() == pytest.approx(np.clip(wanted, -1.0, 5.0), abs=1e-9)
        info = env.step(np.array([0.4, 0.5])).info
    assert len(seen) > 5


def test_a_wide_limit_and_a_long_horizon_lose_no_digits() -> None:
    narrow = MarketMaking(inventory_limit=20)
    wide = MarketMaking(inventory_limit=200, episode_steps=50)
    long = MarketMaking(horizon=100.0, episode_steps=100)
    for env in (narrow, wide, long):
        env.reset(seed=0)

    assert wide.certainty_equivalent() == pytest.approx(narrow.certainty_equivalent(), abs=1e-6)
    # Far from the end, each unit of time is worth the same: the largest eigenvalue.
    held = np.arange(-20, 21.0)
    beside = np.diag(np.full(40, 140.0 * (1 + 0.1 / 1.5) ** -16.0), 1)
    growth = np.linalg.eigvalsh(beside + beside.T - np.diag(0.3 * held**2))[-1] / 1.5
    steady = long.certainty_equivalent() - 100.0 * growth
    assert abs(steady) < 3.0
    assert np.isfinite(long.optimal_action()).all()


def test_a_batch_tells_the_optimum_of_each_env() -> None:
    vec = sekai.make_vec("MarketMaking-v0", 5)
    vec.reset(seed=1)
    for _ in range(20):
        vec.step(np.tile([0.2, 0.9], (5, 1)))
    single = MarketMaking()
    for index in range(5):
        single.batch.load_state_dict(_one_of(vec, index))
        assert np.array_equal(vec.call("optimal_action")[index], single.optimal_action())
        assert vec.call("certainty_equivalent")[index] == single.certainty_equivalent()


def _one_of(vec: Any, index: int) -> Any:
    """The state of env `index`, by way of the same seed and actions."""
    env = MarketMaking()
    env.reset(seed=sekai.vector.env_seed(1, index))
    for _ in range(20):
        env.step(np.array([0.2, 0.9]))
    return env.batch.state_dict()


def optimal(batch: Any) -> Any:
    return batch.optimal_action()


def constant(batch: Any) -> Any:
    return np.full((ENVS, 2), 0.6716)


def twice_as_wide(batch: Any) -> Any:
    return np.clip(2.0 * batch.optimal_action(), -1.0, 5.0)


def without_skew(batch: Any) -> Any:
    quotes = batch.optimal_action()
    middle = np.clip(quotes, None, 2.0).mean(axis=1, keepdims=True)
    return np.repeat(middle, 2, axis=1)


def outcome(policy: Policy, rounds: int, **settings: Any) -> tuple[float, float]:
    """The certainty equivalent of what a policy earns, and its standard error."""
    vec = sekai.make_vec("MarketMaking-v0", ENVS, "native", autoreset="disabled", **settings)
    batch = vec.batch  # type: ignore[attr-defined]
    rows, rewards, flags = np.empty((ENVS, 4)), np.empty(ENVS), np.empty((2, ENVS), np.bool_)
    totals = np.zeros((rounds, ENVS))
    for number in range(rounds):
        vec.reset(seed=0 if number == 0 else None)
        flags[:] = False
        while not flags.any():
            batch.step(policy(batch), rows, rewards, flags[0], flags[1], None, None)
            totals[number] += rewards
    utility = np.exp(-RISK_AVERSION * (totals - totals.mean()))
    error = utility.std() / utility.mean() / RISK_AVERSION / math.sqrt(totals.size)
    return totals.mean() - math.log(utility.mean()) / RISK_AVERSION, error


def test_the_optimal_maker_earns_its_certainty_equivalent() -> None:
    earned, error = outcome(optimal, rounds=24)

    assert error < 0.04
    assert earned == pytest.approx(64.1335, abs=4 * error)


@pytest.mark.parametrize("policy", [constant, twice_as_wide, without_skew])
def test_other_makers_earn_less(policy: Policy) -> None:
    best, error = outcome(optimal, rounds=3)
    earned, other_error = outcome(policy, rounds=3)

    assert best - earned > 6 * math.hypot(error, other_error)


def test_penalties_are_part_of_the_closed_form() -> None:
    settings: dict[str, Any] = {"running_penalty": 0.5, "liquidation_penalty": 0.3}
    env = MarketMaking(**settings)
    env.reset(seed=0)
    earned, error = outcome(optimal, rounds=8, **settings)

    assert env.certainty_equivalent() < 64.0
    assert earned == pytest.approx(env.certainty_equivalent(), abs=4 * error)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("steps", "rounds"), [(100, 500), (200, 500), (1000, 300)])
def test_the_optimal_maker_earns_it_to_a_cent_however_coarse(steps: int, rounds: int) -> None:
    earned, error = outcome(optimal, rounds, episode_steps=steps)

    # Quotes held for a hundredth of the time are still worth all but a thousandth.
    held_too_long = 10.0 / steps
    assert error < 0.011
    assert -held_too_long - 4 * error < earned - 64.1335 < 4 * error
