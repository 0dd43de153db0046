"""The native batch of `OrderExecution-v0` does what the composed env does, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.compose import (
    Order,
    OrderCosts,
    OrderDir,
    OrderExecution,
    ShortfallReward,
    SimulatedMinutes,
    TwapRelativeActionInterpreter,
)
from sekai.core.result import equal_values
from sekai.data.market_data import MarketData
from sekai.error import DataError, InvalidActionError, StateError
from sekai.vector.native import NativeVecEnv
from tests.compose.orders.days import order, panel
from tests.compose.orders.test_order_execution import round_the_clock

COSTS = OrderCosts(open_cost=0.0005, close_cost=0.0015, min_cost=1.0, impact_cost=0.1)
DAYS = panel(4)
LONG = Order("AAA", 5_000.0, OrderDir.SELL, "2020-01-02 14:10", "2020-01-04 10:00")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "twap": {
        "state": "current_step", "action": "twap_relative", "reward": "pa_penalty",
        "penalty": 10.0, "costs": COSTS,
    },
    "ppo": {"reward": "ppo", "vol_threshold": 0.01, "simulated": SimulatedMinutes(ticks=390)},
    "dummy": {"state": "dummy", "reward": None, "direction": "sell", "order_steps": 3},
    "sides": {"deal_price_type": "bid_or_ask", "action_values": (0.0, 0.1, 1.0), "costs": COSTS},
    "panel": {"data": DAYS, "ticks_per_step": 20, "penalty": 5.0, "columns": ("$close",)},
    "missing": {"data": round_the_clock(), "reward": "pa_penalty", "vol_threshold": 0.2},
    "given": {"data": DAYS, "orders": [order("09:50", "11:00"), order("13:00", "15:00")]},
    "days": {"data": DAYS, "orders": [LONG, order()], "order_steps": 12, "vol_threshold": 0.1},
}  # fmt: skip


def actions(space: Any, rng: np.random.Generator, envs: int) -> Any:
    if space.shape == () and hasattr(space, "n"):
        return rng.integers(0, space.n, envs)
    return rng.uniform(0.0, 2.0, envs).astype(np.float32)


def played(vec: Any, steps: int, seed: int) -> list[Any]:
    """Results of a reset and of some steps, as plain values."""
    rng = np.random.default_rng(seed)
    first = vec.reset(seed=seed)
    shown: list[Any] = [(first.observations, list(first.infos))]
    for _ in range(steps):
        result = vec.step(actions(vec.action_space, rng, vec.num_envs))
        flags = result.terminated.tolist(), result.truncated.tolist()
        shown.append((result.observations, result.rewards.tobytes(), *flags, list(result.infos)))
    return shown


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_the_native_batch_is_the_composed_env(name: str, autoreset: Any) -> None:
    options = {"num_envs": 3, "autoreset": autoreset, **SETTINGS[name]}
    with (
        sekai.make_vec("OrderExecution-v0", **options) as native,
        sekai.make_vec("OrderExecution-v0", mode="sync", **options) as composed,
    ):
        assert isinstance(native, NativeVecEnv)
        assert native.observation_space == composed.observation_space
        assert native.action_space == composed.action_space
        pairs = zip(played(native, 25, 11), played(composed, 25, 11), strict=True)
        for step, (own, other) in enumerate(pairs):
            for mine, theirs in zip(own, other, strict=True):
                assert equal_values(mine, theirs), (step, mine, theirs)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    per_step=st.integers(1, 60),
    steps=st.integers(1, 4),
    threshold=st.sampled_from([None, 0.001, 0.05]),
    reward=st.sampled_from(["shortfall", "pa_penalty", "ppo"]),
)
def test_any_seed_gives_the_episode_of_the_composed_env(
    seed: int, per_step: int, steps: int, threshold: float | None, reward: str
) -> None:
    options: dict[str, Any] = {
        "ticks_per_step": per_step, "order_steps": steps, "vol_threshold": threshold,
        "reward": reward, "costs": COSTS, "data": DAYS,
    }  # fmt: skip
    native = sekai.make_vec("OrderExecution-v0", 1, **options)
    env = OrderExecution(**options)
    own: Any = native.reset(seed=[seed])
    other: Any = env.reset(seed=seed)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        assert equal_values({k: v[0] for k, v in own.observations.items()}, other.observation)
        action = int(rng.integers(7))
        own, other = native.step(np.array([action])), env.step(action)
        assert own.rewards[0] == other.reward
        assert own.terminated[0] == other.terminated
        if other.terminated:
            assert equal_values(own.infos[0]["final_info"], other.info)
            assert equal_values(own.infos[0]["final_observation"], other.observation)
            break


def test_threads_change_nothing() -> None:
    shown = []
    for threads in (1, 2):
        with sekai.make_vec("OrderExecution-v0", 64, num_threads=threads) as vec:
            shown.append(played(vec, 15, 5))
    assert equal_values(*shown)


@pytest.mark.parametrize("name", ["default", "dummy", "days"])
def test_a_saved_state_goes_on_bit_for_bit(name: str) -> None:
    first = sekai.make_vec("OrderExecution-v0", 4, **SETTINGS[name])
    played(first, 8, 3)
    state = first.state_dict()

    again = sekai.make_vec("OrderExecution-v0", 4, **SETTINGS[name])
    again.reset(seed=99)
    again.load_state_dict(state)

    rng = np.random.default_rng(1)
    for _ in range(12):
        chosen = actions(first.action_space, rng, 4)
        own, other = first.step(chosen), again.step(chosen)
        assert equal_values(own.observations, other.observations)
        assert own.rewards.tobytes() == other.rewards.tobytes()


def test_a_state_of_other_data_or_settings_is_refused() -> None:
    vec = sekai.make_vec("OrderExecution-v0", 2, data=DAYS)
    vec.reset(seed=0)
    vec.step(np.array([1, 1]))
    state = vec.state_dict()

    for options in ({"data": panel(4, seed=1)}, {"data": DAYS, "ticks_per_step": 20}):
        other = sekai.make_vec("OrderExecution-v0", 2, **options)
        other.reset(seed=0)
        with pytest.raises(StateError):
            other.load_state_dict(state)


def test_a_cloned_env_does_the_same() -> None:
    vec: Any = sekai.make_vec("OrderExecution-v0", 2)
    vec.reset(seed=[1, 2])
    vec.step(np.array([1, 3]))
    vec.clone(0, 1)
    for action in (2, 6, 1, 0):
        result = vec.step(np.array([action, action]))
        assert result.rewards[0] == result.rewards[1]


def test_own_parts_are_composed() -> None:
    for own in ({"reward": ShortfallReward()}, {"action": TwapRelativeActionInterpreter()}):
        with sekai.make_vec("OrderExecution-v0", 1, **own) as vec:
            assert not isinstance(vec, NativeVecEnv)
            vec.reset(seed=0)


@pytest.mark.parametrize("action", [-1, 7])
def test_invalid_actions_change_nothing(action: int) -> None:
    vec = sekai.make_vec("OrderExecution-v0", 1)
    twin = sekai.make_vec("OrderExecution-v0", 1)
    for each in (vec, twin):
        each.reset(seed=4)

    with pytest.raises(InvalidActionError):
        vec.step(np.array([action]))

    assert vec.step(np.array([2])).rewards == twin.step(np.array([2])).rewards


def test_a_multiple_of_twap_is_a_number() -> None:
    vec = sekai.make_vec("OrderExecution-v0", 1, action="twap_relative")
    vec.reset(seed=0)
    for wrong in (np.nan, -0.5):
        with pytest.raises(InvalidActionError):
            vec.step(np.array([wrong], np.float32))


def test_errors_are_those_of_the_composed_env() -> None:
    with pytest.raises(DataError, match="fewer steps by order_steps="):
        sekai.make_vec("OrderExecution-v0", 1, data=panel(ticks=60))
    with pytest.raises(ValueError, match="at most 6 steps"):
        sekai.make_vec("OrderExecution-v0", 1, data=DAYS, orders=[LONG])
    with pytest.raises(ValueError, match="day_ticks"):
        sekai.make_vec("OrderExecution-v0", 1, data=DAYS, day_ticks=100)


def test_a_day_without_prices_is_not_drawn() -> None:
    values = DAYS.values.copy()
    bare = DAYS.calendar.dates == np.datetime64("2020-01-03")
    values[bare, 0, 0] = np.nan
    data = MarketData(DAYS.times, DAYS.assets, DAYS.fields, values)
    options: dict[str, Any] = {"data": data, "assets": ["AAA"], "days": DAYS.calendar.sessions}

    env = OrderExecution(**options)
    for seed in range(20):
        env.reset(seed=seed)
        assert env.status is not None
        assert env.status.initial_state.date != np.datetime64("2020-01-03")
    with sekai.make_vec("OrderExecution-v0", 8, **options) as vec:
        played(vec, 12, 0)
