"""The order that an agent works: fills, prices, money, what it is shown and how it ends."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.core import Wrapper
from sekai.envs import OptimalExecution, OptimalExecutionConfig
from sekai.error import InvalidActionError, StateError
from sekai.utils.causality import check_causal
from sekai.vector import NativeVecEnv

VALUE = 50e6
"""Value of the default order at its initial price."""

shares = st.floats(0.0, 1.0)
sides = st.sampled_from(["sell", "buy"])


def many(num_envs: int, **settings: Any) -> NativeVecEnv:
    vec = sekai.make_vec("OptimalExecution-v0", num_envs, "native", **settings)
    assert isinstance(vec, NativeVecEnv)
    return vec


@given(plan=st.lists(shares, min_size=12, max_size=12), seed=st.integers(0, 2**64 - 1), side=sides)
@settings(max_examples=100, deadline=None)
def test_money_and_shares_are_conserved(plan: list[float], seed: int, side: str) -> None:
    env = OptimalExecution(side=side, episode_steps=12, reward_unit=1.0)
    sign = 1.0 if side == "sell" else -1.0
    price = env.reset(seed=seed).info["price"]
    traded = rewards = cash = 0.0
    for share in plan:
        result = env.step(np.array([share]))
        info = result.info
        rewards += result.reward
        traded += info["traded"]
        # A step's fill, as the model prices it, at the price before it.
        paid = price - sign * (0.0625 + 2.5e-6 / (5 / 12) * info["traded"])
        cash += sign * info["traded"] * paid

        assert info["cash"] == pytest.approx(cash, abs=1e-9 * VALUE)
        assert info["inventory"] == pytest.approx(1e6 - traded, abs=1e-3)
        worth = info["cash"] + sign * info["inventory"] * info["price"]
        assert worth + info["shortfall"] == pytest.approx(sign * VALUE, abs=1e-9 * VALUE)
        risk = 1e-6 * info["variance"]
        assert -rewards == pytest.approx(info["shortfall"] + risk, abs=1e-9 * VALUE)
        price = info["price"]
        if result.done:
            break
    assert (info["inventory"], result.terminated, result.truncated) == (0.0, True, False)
    assert info["shortfall"] == pytest.approx(sign * VALUE - info["cash"], abs=1e-9 * VALUE)


@pytest.mark.parametrize("side", ["sell", "buy"])
def test_the_price_is_a_random_walk_that_trades_push_for_good(side: str) -> None:
    sign = 1.0 if side == "sell" else -1.0
    vec = many(40_000, side=side, episode_steps=4, horizon=4.0)
    vec.reset(seed=0)
    before = np.full(40_000, 50.0)
    moves = []
    for _ in range(3):
        vec.step(np.full((40_000, 1), 0.25))
        infos = vec.batch.infos()
        moves.append(infos["price"] - before + sign * 2.5e-7 * infos["traded"])
        before = infos["price"]

    spread = np.array(moves)
    assert spread.std(axis=1) == pytest.approx([0.95] * 3, rel=0.02)
    assert np.abs(spread.mean(axis=1)).max() < 4 * 0.95 / np.sqrt(40_000)
    assert np.abs(np.corrcoef(spread)[np.triu_indices(3, 1)]).max() < 0.025


class Planned(Wrapper[Any, Any, Any, Any]):
    """Trades what a plan says, whatever the agent wants: the plan is the data of a market."""

    def __init__(self, plan: Any) -> None:
        super().__init__(OptimalExecution(episode_steps=20, action="order"))
        self.plan = np.clip(plan, 0.0, 1.0)

    def reset(self, **options: Any) -> Any:
        self.now = 0
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.now += 1
        return super().step(self.plan[self.now])


def test_what_will_be_traded_later_changes_nothing_before() -> None:
    plan = np.random.default_rng(0).uniform(0.0, 0.06, (30, 1))

    assert check_causal(Planned, plan, n_steps=20) == []


def test_all_policies_and_sides_meet_the_same_market() -> None:
    def path(share: float, side: str) -> Any:
        env = OptimalExecution(side=side, permanent_impact=0.0)
        env.reset(seed=5)
        return [env.step(np.array([share])).info["price"] for _ in range(24)]

    assert path(0.1, "sell") == path(0.4, "sell") == path(0.0, "buy")


@pytest.mark.parametrize("side", ["sell", "buy"])
def test_the_observation_says_what_it_is_documented_to_say(side: str) -> None:
    env = OptimalExecution(side=side)
    sign = 1.0 if side == "sell" else -1.0
    assert env.reset(seed=3).observation.tolist() == [1.0, 1.0, 0.0, 0.0]
    for step in range(1, 26):
        result = env.step(np.array([0.1]))
        info = result.info
        move = sign * (info["price"] - 50.0) / (0.95 * np.sqrt(5.0))
        wanted = [(25 - step) / 25, info["inventory"] / 1e6, move, info["shortfall"] / 5e5]

        assert result.observation.dtype == np.float32
        assert result.observation == pytest.approx(np.array(wanted, np.float32), rel=1e-6)
        assert result.observation in env.observation_space
    assert result.terminated
    assert result.observation[:2].tolist() == [0.0, 0.0]


def test_without_volatility_the_price_shows_no_move() -> None:
    env = OptimalExecution(volatility=0.0)
    env.reset(seed=0)
    result = env.step(np.array([0.5]))

    assert result.info["price"] == 50.0 - 2.5e-7 * 5e5
    assert result.observation[2] == 0.0
    assert result.info["variance"] == 0.0
    assert result.info["shortfall"] == result.info["expected_cost"] > 0.0


def test_an_episode_ends_with_the_order_and_not_before() -> None:
    env = OptimalExecution(episode_steps=6)
    env.reset(seed=0)
    assert not env.step(np.array([0.999])).done
    assert env.step(np.array([1.0])).terminated

    env.reset(seed=0)
    results = [env.step(np.array([0.0])) for _ in range(6)]
    assert [result.done for result in results] == [False] * 5 + [True]
    assert [result.info["traded"] for result in results] == [0.0] * 5 + [1e6]
    # Nothing is paid for waiting but its risk and the price.
    assert results[4].info["expected_cost"] == 0.0
    assert results[4].info["cash"] == 0.0


def test_a_share_of_the_order_is_an_amount_and_no_more_than_what_is_left() -> None:
    env = OptimalExecution(action="order")
    env.reset(seed=0)
    traded = [env.step(np.array([share])).info["traded"] for share in (0.25, 0.5, 0.125, 0.5)]

    assert traded == [250_000.0, 500_000.0, 125_000.0, 125_000.0]


def test_rewards_come_in_the_unit_that_was_asked_for() -> None:
    def rewards(**settings: Any) -> Any:
        env = OptimalExecution(**settings)
        env.reset(seed=1)
        return np.array([env.step(np.array([0.2])).reward for _ in range(25)])

    in_money = rewards(reward_unit=1.0)
    assert rewards(reward_unit=1000.0) == pytest.approx(in_money / 1000.0)
    # A hundredth of what the order is worth.
    assert rewards() == pytest.approx(in_money / 5e5)
    assert rewards(risk_aversion=0.0).sum() > rewards().sum()


@pytest.mark.parametrize(
    "action", [[np.nan], [np.inf], [-1e-9], [1.0000001], [0.5, 0.5], 1.5, "all", None]
)
def test_an_action_that_does_not_fit_is_refused_and_nothing_moves(action: Any) -> None:
    env = OptimalExecution()
    env.reset(seed=0)
    before = env.batch.state_dict()
    given = np.array(action) if isinstance(action, list) else action

    with pytest.raises(InvalidActionError, match=r"share of what is left from 0 to 1|1 numbers"):
        env.step(given)
    assert env.batch.state_dict() == before


def test_the_env_whose_action_does_not_fit_is_named_and_nobody_moves() -> None:
    vec = many(5, action="order")
    vec.reset(seed=0)
    before = vec.batch.state_dict()
    actions = np.full((5, 1), 0.5)
    actions[3] = np.nan

    with pytest.raises(InvalidActionError, match="env 3: expected a share of the order .* got NaN"):
        vec.step(actions)
    assert vec.batch.state_dict() == before


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("side", "hold", 'must be "sell" or "buy", got "hold"'),
        ("action", "all", 'must be "rest" or "order", got "all"'),
        ("shares", 0.0, "above 0"),
        ("shares", 1e200, "such that value, costs and risk"),
        ("shares", 1e-320, "such that value, costs and risk"),
        ("initial_price", np.nan, "above 0"),
        ("horizon", -1.0, "above 0"),
        ("episode_steps", 0, "from 1 to 1000000, got 0"),
        ("episode_steps", -1, "from 1 to 1000000, got -1"),
        ("episode_steps", 2**40, "from 1 to 1000000"),
        ("volatility", -1.0, "at least 0"),
        ("temporary_impact", 0.0, "above permanent_impact"),
        ("temporary_impact", np.inf, "above permanent_impact"),
        ("permanent_impact", -1e-9, "at least 0"),
        ("half_spread", np.inf, "at least 0"),
        ("risk_aversion", -1e-9, "at least 0"),
        ("reward_unit", 0.0, "above 0"),
    ],
)
def test_a_config_that_makes_no_sense_never_gets_in(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*{wanted}|{name} {wanted}"):
        OptimalExecutionConfig(**{name: value})


def test_a_config_and_its_fields_mean_the_same() -> None:
    config = OptimalExecutionConfig(episode_steps=7)

    assert OptimalExecution(config).config == OptimalExecution(episode_steps=7).config
    env: Any = sekai.make("OptimalExecution-v0", config=config).unwrapped
    assert env.config == config
    with pytest.raises(TypeError, match="got both"):
        OptimalExecution(config, volatility=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.volatility = 3.0  # type: ignore[misc]


def test_a_state_is_loaded_only_under_the_settings_it_was_saved_under() -> None:
    env, other = OptimalExecution(), OptimalExecution(side="buy")
    env.reset(seed=0)
    other.reset(seed=0)
    before = other.batch.state_dict()

    with pytest.raises(StateError, match="with these settings, got"):
        other.batch.load_state_dict(env.batch.state_dict())
    assert other.batch.state_dict() == before
