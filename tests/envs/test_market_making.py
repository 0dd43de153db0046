"""The market that a market maker meets: fills, prices, money, limits and ends."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.envs import MarketMaking, MarketMakingConfig
from sekai.error import InvalidActionError, StateError
from sekai.vector import NativeVecEnv

FAR = 5.0
distances = st.floats(-1.0, 5.0)


def many(num_envs: int, **settings: Any) -> NativeVecEnv:
    vec = sekai.make_vec("MarketMaking-v0", num_envs, "native", autoreset="disabled", **settings)
    assert isinstance(vec, NativeVecEnv)
    return vec


def quoted(num_envs: int, bid: float, ask: float) -> Any:
    return np.tile([bid, ask], (num_envs, 1))


def fills_in_one_step(bid: float, ask: float, **settings: Any) -> dict[str, Any]:
    vec = many(40_000, horizon=1.0, episode_steps=20, **settings)
    vec.reset(seed=1)
    vec.step(quoted(40_000, bid, ask))
    return dict(vec.batch.infos())


@given(plan=st.lists(st.tuples(distances, distances), min_size=1, max_size=60), seed=st.integers(0))
@settings(max_examples=60, deadline=None)
def test_the_reward_is_the_change_of_marked_wealth_to_the_last_bit(
    plan: list[tuple[float, float]], seed: int
) -> None:
    env = MarketMaking(horizon=0.5, episode_steps=60, inventory_limit=3)
    wealth = env.reset(seed=seed % 2**64).info["wealth"]
    for quotes in plan:
        result = env.step(np.array(quotes))
        info = result.info
        assert result.reward == info["wealth"] - wealth
        assert info["wealth"] == info["cash"] + info["inventory"] * info["mid"]
        assert abs(info["inventory"]) <= 3
        wealth = info["wealth"]


def test_a_fill_pays_the_distance_that_was_quoted() -> None:
    # Without volatility all wealth comes from distances.
    env = MarketMaking(volatility=0.0, horizon=0.2)
    env.reset(seed=0)
    result = env.step(np.array([0.3, 0.7]))
    while not result.done:
        result = env.step(np.array([0.3, 0.7]))
        assert result.observation[2] == result.observation[3] == 0.0
    bought = (result.info["fills"] + result.info["inventory"]) / 2
    sold = (result.info["fills"] - result.info["inventory"]) / 2

    assert bought > 5
    assert sold > 2
    assert result.info["wealth"] == pytest.approx(0.3 * bought + 0.7 * sold, abs=1e-9)


@pytest.mark.parametrize("distance", [-0.5, 0.0, 0.7, 2.0])
def test_fills_are_as_many_as_a_poisson_process_has(distance: float) -> None:
    infos = fills_in_one_step(distance, FAR, inventory_limit=1000)
    mean = 140.0 * np.exp(-1.5 * distance) / 20
    beside = 140.0 * np.exp(-1.5 * FAR) / 20
    fills = infos["fills"]

    error = np.sqrt((mean + beside) / len(fills))
    assert fills.mean() == pytest.approx(mean + beside, abs=4 * error)
    # The variance of a Poisson count is its mean; one fill a step at most would have less.
    assert fills.var() == pytest.approx(mean + beside, rel=0.06)
    assert infos["inventory"].mean() == pytest.approx(mean - beside, abs=4 * error)


def test_fills_within_a_step_stop_at_the_limit_and_go_on_after_the_other_side() -> None:
    infos = fills_in_one_step(0.0, 0.0, inventory_limit=2)

    assert set(np.unique(infos["inventory"])) == {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert (infos["fills"] > 4).mean() > 0.5
    # Five states that each side leaves at the same rate are equally likely in the end.
    shares = [(infos["inventory"] == held).mean() for held in range(-2, 3)]
    assert shares == pytest.approx([0.2] * 5, abs=0.02)


def test_the_mid_price_is_a_brownian_motion_whatever_is_quoted() -> None:
    paths = []
    for quotes in ([0.1, 0.1], [2.0, -0.5]):
        vec = many(20_000, episode_steps=4)
        vec.reset(seed=0)
        mids = []
        for _ in range(4):
            vec.step(quoted(20_000, *quotes))
            mids.append(vec.batch.infos()["mid"].copy())
        paths.append(np.array(mids))

    moves = np.diff(paths[0], axis=0, prepend=100.0)
    assert moves.std(axis=1) == pytest.approx([1.0] * 4, rel=0.03)
    assert np.abs(moves.mean(axis=1)).max() < 4 / np.sqrt(20_000)
    assert np.abs(np.corrcoef(moves)[np.triu_indices(4, 1)]).max() < 0.03
    # The same path for all policies, so that they can be compared on it.
    assert paths[0] == pytest.approx(paths[1], abs=1e-9)


def test_the_fills_of_one_side_do_not_depend_on_the_other() -> None:
    def bought(ask: float) -> Any:
        vec = many(2000, inventory_limit=1000, episode_steps=50)
        vec.reset(seed=3)
        for _ in range(50):
            vec.step(quoted(2000, 0.5, ask))
        infos = vec.batch.infos()
        return (infos["fills"] + infos["inventory"]) / 2

    assert np.array_equal(bought(0.2), bought(FAR))


def test_prices_at_fills_are_between_their_neighbours_as_a_bridge_is() -> None:
    # What is bought within a step is marked at its end: the move after the fill is earned.
    vec = many(200_000, episode_steps=1, horizon=1.0, inventory_limit=1, fill_rate=2.0)
    vec.reset(seed=0)
    vec.step(quoted(200_000, 0.0, 5.0))
    infos = vec.batch.infos()
    once = (infos["fills"] == 1) & (infos["inventory"] == 1)
    price, end = -infos["cash"][once] - 100.0, infos["mid"][once] - 100.0

    # A fill at time t pays mid(t), whose variance is 4 t and which is uncorrelated with what
    # comes later; t is exponential of rate 2, cut off at 1.
    mean_time = 0.5 - np.exp(-2.0) / (1.0 - np.exp(-2.0))
    assert price.var() == pytest.approx(4.0 * mean_time, rel=0.03)
    assert (end - price).var() == pytest.approx(4.0 * (1.0 - mean_time), rel=0.03)
    assert abs(np.corrcoef(price, end - price)[0, 1]) < 0.02


def test_the_observation_says_what_it_is_documented_to_say() -> None:
    env = MarketMaking(episode_steps=50, horizon=2.0)
    mid = env.reset(seed=3).info["mid"]
    for step in range(1, 51):
        result = env.step(np.array([0.2, 0.4]))
        now = result.info["mid"]
        time, held, last, whole = result.observation
        assert time == (50 - step) / 50
        assert held == result.info["inventory"] / 20
        assert last == pytest.approx((now - mid) / (2.0 * np.sqrt(0.04)), abs=1e-9)
        assert whole == pytest.approx((now - 100.0) / (2.0 * np.sqrt(2.0)), abs=1e-9)
        assert result.observation in env.observation_space
        mid = now
    assert result.truncated
    assert not result.terminated


def test_ruin_terminates_and_the_end_of_time_truncates() -> None:
    vec = many(500, ruin_wealth=-1.0, episode_steps=30)
    vec.reset(seed=0)
    ruined = 0
    alive = np.ones(500, np.bool_)
    for step in range(1, 31):
        result = vec.step(quoted(500, 0.0, 2.0))
        wealth = vec.batch.infos()["wealth"]
        assert np.array_equal(result.terminated, wealth <= -1.0)
        assert np.array_equal(result.truncated, ~result.terminated & alive & (step == 30))
        ruined += int(result.terminated.sum())
        if result.dones.any() and step < 30:
            vec.reset(ids=result.dones)
            alive &= ~result.dones
    assert ruined > 50


def test_penalties_are_taken_from_the_reward_and_not_from_wealth() -> None:
    plain = MarketMaking(episode_steps=20, horizon=0.1)
    charged = MarketMaking(episode_steps=20, horizon=0.1, liquidation_penalty=0.25)
    running = MarketMaking(episode_steps=20, horizon=0.1, running_penalty=3.0)
    totals = []
    for env in (plain, charged, running):
        env.reset(seed=5)
        results = [env.step(np.array([0.1, 1.0])) for _ in range(20)]
        totals.append(sum(result.reward for result in results))
    held = abs(results[-1].info["inventory"])

    assert held > 2
    assert totals[0] - totals[1] == pytest.approx(0.25 * held)
    # At most what was held at any time, over the whole time.
    assert 0 < totals[0] - totals[2] < 3.0 * 0.1 * (held + 2) ** 2


def test_what_is_held_for_a_step_costs_its_running_penalty_exactly() -> None:
    env = MarketMaking(
        volatility=0.0,
        fill_rate=4e5,
        episode_steps=500,
        inventory_limit=1,
        min_distance=0.0,
        max_distance=30.0,
        running_penalty=2.0,
    )
    env.reset(seed=0)
    bought = env.step(np.array([0.0, 30.0]))
    held = env.step(np.array([30.0, 30.0]))

    assert (bought.info["inventory"], held.info["inventory"]) == (1.0, 1.0)
    assert held.reward == pytest.approx(-2.0 / 500, abs=1e-15)
    assert -2.0 / 500 < bought.reward < -1.99 / 500


@pytest.mark.parametrize(
    "action", [[np.nan, 0.5], [0.5, np.inf], [-1.5, 0.5], [0.5, 5.0001], [0.5], 0.5, "far", None]
)
def test_an_action_that_does_not_fit_is_refused_and_nothing_moves(action: Any) -> None:
    env = MarketMaking()
    env.reset(seed=0)
    before = env.state_dict()
    given = np.array(action) if isinstance(action, list) else action

    with pytest.raises(InvalidActionError, match=r"distances from -1 to 5|2 numbers"):
        env.step(given)
    assert env.batch.state_dict() == before["parts"]["batch"]


def test_the_env_whose_action_does_not_fit_is_named_and_nobody_moves() -> None:
    vec = many(5)
    vec.reset(seed=0)
    before = vec.batch.state_dict()
    actions = quoted(5, 0.5, 0.5)
    actions[3, 1] = np.nan

    with pytest.raises(InvalidActionError, match=r"env 3: expected distances .* got \[0.5, NaN\]"):
        vec.step(actions)
    assert vec.batch.state_dict() == before


@pytest.mark.parametrize("action", [[0.5, 0.25], (0.5, 0.25), np.array([0.5, 0.25], np.float32)])
def test_actions_may_come_in_any_form_that_holds_two_numbers(action: Any) -> None:
    env, other = MarketMaking(), MarketMaking()
    env.reset(seed=0)
    other.reset(seed=0)

    assert env.step(action) == other.step(np.array([0.5, 0.25]))


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("volatility", -1.0, "at least 0"),
        ("volatility", np.nan, "at least 0"),
        ("horizon", 0.0, "above 0"),
        ("episode_steps", 0, "from 1"),
        ("episode_steps", -1, "from 1 to 1000000, got -1"),
        ("inventory_limit", 2**40, "from 1"),
        ("fill_rate", -1.0, "at least 0"),
        ("fill_rate", 1e9, "1000 fills"),
        ("fill_decay", 0.0, "above 0"),
        ("inventory_limit", 0, "from 1"),
        ("min_distance", -np.inf, "finite"),
        ("max_distance", -2.0, "above min_distance"),
        ("risk_aversion", -0.1, "at least 0"),
        ("running_penalty", -0.1, "at least 0"),
        ("liquidation_penalty", np.inf, "at least 0"),
        ("ruin_wealth", 0.0, "below initial_cash"),
        ("initial_mid", np.inf, "finite"),
        ("initial_cash", np.nan, "finite"),
    ],
)
def test_a_config_that_makes_no_sense_never_gets_in(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        MarketMakingConfig(**{name: value})


def test_a_config_and_its_fields_mean_the_same() -> None:
    config = MarketMakingConfig(episode_steps=7)

    assert MarketMaking(config).config == MarketMaking(episode_steps=7).config
    assert sekai.make("MarketMaking-v0", config=config).unwrapped.config == config  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="got both"):
        MarketMaking(config, volatility=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.volatility = 3.0  # type: ignore[misc]


def test_a_state_is_loaded_only_under_the_settings_it_was_saved_under() -> None:
    env, other = MarketMaking(), MarketMaking(volatility=3.0)
    env.reset(seed=0)
    other.reset(seed=0)
    before = other.state_dict()["parts"]["batch"]

    with pytest.raises(StateError):
        other.load_state_dict(env.state_dict())
    with pytest.raises(StateError, match="with these settings, got"):
        other.batch.load_state_dict(env.batch.state_dict())
    assert other.batch.state_dict() == before


def test_a_closed_form_that_takes_too_long_is_refused() -> None:
    env = MarketMaking(volatility=1e30)
    env.reset(seed=0)

    with pytest.raises(ValueError, match="operations for the closed form must be at most 1e10"):
        env.optimal_action()
