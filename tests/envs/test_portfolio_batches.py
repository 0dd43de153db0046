"""Portfolios in batches, alone, on threads and restored from a state are the same to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.data import simulate_regimes
from sekai.envs import Portfolio
from sekai.error import StateError
from sekai.market import Execution
from tests.envs.native_tasks import plain, plan
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import World, env_of, market_of

DATA = simulate_regimes(assets=4, rows=160)
SETTINGS: dict[str, Any] = {"data": DATA, "lookback": 5, "episode_rows": 11}


def vec_of(num_envs: int, mode: Any = "native", **options: Any) -> Any:
    return sekai.make_vec("Portfolio-v0", num_envs, mode, **{**SETTINGS, **options})


def bits(result: Any) -> Any:
    """All that a result says, to the bit."""
    shown = {name: array.tobytes() for name, array in sorted(result.observation.items())}
    infos = {name: float(value).hex() for name, value in result.info.items()}
    return shown, infos, getattr(result, "reward", 0.0), getattr(result, "done", False)


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_a_batch_equals_its_single_envs(autoreset: str) -> None:
    one, other = (vec_of(4, mode, autoreset=autoreset) for mode in ("native", "sync"))
    assert same_record(one, other)


def same_record(one: Any, other: Any, steps: int = 30, seed: Any = 3) -> bool:
    """Return True if two vector envs give equal steps, resets and infos."""
    first, second = one.reset(seed=seed), other.reset(seed=seed)
    found = [flat(first) == flat(second)]
    for actions in plan(one, steps):
        first, second = one.step(actions), other.step(actions)
        found.append(flat(first) == flat(second))
        if one.autoreset == "disabled" and first.dones.any():
            first, second = one.reset(ids=first.dones), other.reset(ids=second.dones)
            found.append(flat(first) == flat(second))
    return all(found)


def flat(result: Any) -> Any:
    """A result of a vector env as bytes."""
    shown = {name: part.tobytes() for name, part in sorted(result.observations.items())}
    infos = [plain(info) for info in result.infos]
    numbers = [
        getattr(result, name).tobytes()
        for name in ("rewards", "terminated", "truncated")
        if hasattr(result, name)
    ]
    return shown, numbers, infos


def test_two_threads_do_what_one_does() -> None:
    one, two = (vec_of(600, num_threads=count) for count in (1, 2))

    assert same_record(one, two, steps=15)


def test_different_seeds_give_different_episodes() -> None:
    vec = vec_of(16, observation="index")
    rows = vec.reset(seed=0).observations["index"][:, 0]

    assert len(set(rows.tolist())) > 8
    assert not np.array_equal(rows, vec.reset(seed=100).observations["index"][:, 0])


@given(world=worlds(), stop=st.integers(0, 12))
@examples(60)
def test_a_state_saved_in_the_middle_goes_on_to_the_bit(world: World, stop: int) -> None:
    batch, other = world.batch(), world.batch()
    batch.reset_one(0)
    for action in world.actions[:stop]:
        if batch.step_one(action).done:
            batch.reset_one(1)
    other.load_state_dict(batch.state_dict())

    for action in world.actions[stop:]:
        one, again = batch.step_one(action), other.step_one(action)
        assert bits(one) == bits(again)
        if one.done:
            assert bits(batch.reset_one()) == bits(other.reset_one())


def test_the_env_itself_is_saved_and_restored() -> None:
    env, other = (sekai.make("Portfolio-v0", **SETTINGS) for _ in range(2))
    env.reset(seed=5)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(25)]
    for action in actions:
        other.load_state_dict(env.state_dict())
        one, again = env.step(action), other.step(action)
        assert bits(one) == bits(again)
        if one.done:
            env.reset()


def begun(env: Portfolio, steps: int = 3) -> Portfolio:
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.append(np.full(3, 0.2), 0.4))
    return env


def small(**given: Any) -> Portfolio:
    close = 10 * np.exp(np.random.default_rng(0).normal(0, 0.02, (12, 3)).cumsum(axis=0))
    changed = given.pop("changed", None)
    if changed is not None:
        close[changed] *= 1.01
    return env_of(market_of(close, volume=np.full((12, 3), 1e6)), **given)


def test_a_state_is_refused_where_the_past_was_another() -> None:
    state = begun(small()).state_dict()
    other = begun(small(changed=2), 1)
    before = other.batch.state_dict()

    with pytest.raises(StateError):
        other.load_state_dict(state)

    assert other.batch.state_dict() == before


def test_a_state_goes_on_where_only_the_future_is_another() -> None:
    env, other = begun(small()), small(changed=8)
    other.load_state_dict(env.state_dict())

    action = np.append(np.full(3, 0.3), 0.1)
    assert bits(env.step(action)) == bits(other.step(action))


@pytest.mark.parametrize(
    "given",
    [
        {"costs": sekai.market.Costs()},
        {"initial_cash": 5.0},
        {"execution": Execution(delay=1)},
        {"execution": Execution(unfilled="carry")},
        {"reward": "profit"},
        {"account": sekai.market.MarginAccount()},
        {"episode_rows": 4},
    ],
)
def test_a_state_is_refused_where_settings_are_others(given: dict[str, Any]) -> None:
    state = begun(small()).state_dict()
    other = begun(small(**given), 1)
    before = other.batch.state_dict()

    with pytest.raises(StateError):
        other.load_state_dict(state)

    assert other.batch.state_dict() == before


REFUSED: dict[str, Any] = {
    "not a number": np.array([np.nan, 0.0, 0.0, 1.0]),
    "infinite": np.array([np.inf, 0.0, 0.0, 1.0]),
    "too short": np.array([0.5, 0.5, 0.0]),
    "too long": np.full(5, 0.2),
    "words": np.array(["a", "b", "c", "d"]),
    "complex numbers": np.full(4, 0.25 + 0.1j),
    "a matrix": np.full((4, 4), 0.25),
    "nothing": None,
    "a number": 0.5,
}


@pytest.mark.parametrize("found", sorted(REFUSED))
def test_a_refused_action_moves_nothing(found: str) -> None:
    env = begun(small())
    before = env.state_dict()

    with pytest.raises((ValueError, TypeError)):
        env.step(REFUSED[found])

    assert env.state_dict() == before


@pytest.mark.parametrize("choice", [-1.0, 3.0, 0.5, np.nan])
def test_a_refused_tilt_moves_nothing(choice: float) -> None:
    env = small(action="tilts")
    env.reset(seed=0)
    before = env.state_dict()

    with pytest.raises((ValueError, TypeError)):
        env.step(np.array([1.0, choice, 1.0]))

    assert env.state_dict() == before


def test_a_batch_with_one_refused_action_moves_no_env() -> None:
    vec = vec_of(3)
    vec.reset(seed=0)
    actions = np.array(plan(vec, 1)[0])
    actions[1, 0] = np.nan
    before = vec.batch.state_dict()

    with pytest.raises(ValueError, match="finite weights"):
        vec.step(actions)

    assert vec.batch.state_dict() == before
