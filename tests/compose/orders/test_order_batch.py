"""`OrderExecution-v0`, single and in batches, does what the composed env does, bit for bit."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.compose import (
    ComposedOrderExecution,
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
from sekai.error import ClosedError, DataError, InvalidActionError, StateError
from sekai.storage.codec import from_text, to_text
from sekai.utils.checker import check_env
from sekai.vector.native import NativeVecEnv
from sekai.vector.sync import SyncVecEnv
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
        SyncVecEnv(
            [functools.partial(ComposedOrderExecution, **SETTINGS[name])] * 3, autoreset=autoreset
        ) as composed,
    ):
        assert isinstance(native, NativeVecEnv)
        assert native.observation_space == composed.observation_space
        assert native.action_space == composed.action_space
        pairs = zip(played(native, 25, 11), played(composed, 25, 11), strict=True)
        for step, (own, other) in enumerate(pairs):
            for mine, theirs in zip(own, other, strict=True):
                assert equal_values(mine, theirs), (step, mine, theirs)


def types(value: Any) -> Any:
    """Types and dtypes of a nested value."""
    if isinstance(value, dict):
        return {key: types(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(types, value))
    return type(value), getattr(value, "dtype", None), getattr(value, "shape", None)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_single_env_is_the_composed_env(name: str) -> None:
    env, composed = OrderExecution(**SETTINGS[name]), ComposedOrderExecution(**SETTINGS[name])
    assert env.observation_space == composed.observation_space
    assert env.action_space == composed.action_space
    rng = np.random.default_rng(5)

    for seed in (3, None, None, 2**64 - 1, None):
        own: Any = env.reset(seed=seed)
        other: Any = composed.reset(seed=seed)
        while True:
            assert equal_values(own.observation, other.observation)
            assert types(own.observation) == types(other.observation)
            assert env.observation_space.contains(own.observation)
            assert equal_values(own.info, other.info), (own.info, other.info)
            assert types(own.info) == types(other.info)
            assert_same_order(env.simulator, composed.simulator)
            if getattr(own, "terminated", False):
                break
            action = actions(env.action_space, rng, 1)[0]
            own, other = env.step(action), composed.step(action)
            assert np.float64(own.reward).tobytes() == np.float64(other.reward).tobytes()
            flags = (own.terminated, own.truncated), (other.terminated, other.truncated)
            assert flags[0] == flags[1]


def assert_same_order(own: Any, other: Any) -> None:
    assert own.order == other.order
    assert own.metrics == other.metrics
    assert own.cur_time == other.cur_time
    for name in ("fills", "history_steps", "history_exec"):
        assert getattr(own, name).tobytes() == getattr(other, name).tobytes(), name


def test_the_simulator_of_a_native_env_is_a_copy() -> None:
    env: Any = OrderExecution()
    twin: Any = OrderExecution()
    assert env.simulator is None
    for each in (env, twin):
        each.reset(seed=1)
        each.step(1)

    copy: Any = env.simulator
    copy.step(copy.position)

    assert env.step(2).reward == twin.step(2).reward


@pytest.mark.parametrize("name", SETTINGS)
def test_the_state_of_a_single_env_survives_a_file(name: str) -> None:
    env = sekai.make("OrderExecution-v0", **SETTINGS[name])
    space: Any = env.action_space
    env.reset(seed=8)
    env.step(actions(space, np.random.default_rng(0), 1)[0] * 0)
    text = to_text(env.state_dict(), "state")

    again = sekai.make("OrderExecution-v0", **SETTINGS[name])
    again.load_state_dict(from_text(text))

    rng, is_over = np.random.default_rng(2), False
    for _ in range(15):
        if is_over:
            assert equal_values(env.reset(), again.reset())
        action = actions(space, rng, 1)[0]
        own, other = env.step(action), again.step(action)
        assert equal_values(own, other)
        is_over = own.terminated


def test_single_envs_of_one_config_share_their_ticks() -> None:
    env, twin, other = (OrderExecution(data=DAYS, columns=("$close",)) for _ in range(3))
    apart = OrderExecution(data=DAYS)

    batches: list[Any] = [each.batch for each in (env, twin, other, apart)]
    assert batches[0].table is batches[1].table is batches[2].table
    assert batches[0].table is not batches[3].table


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
    env = ComposedOrderExecution(**options)
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


@pytest.mark.parametrize(
    "own", [{"reward": ShortfallReward()}, {"action": TwapRelativeActionInterpreter()}]
)
def test_own_parts_are_composed(own: dict[str, Any]) -> None:
    with sekai.make_vec("OrderExecution-v0", 1, **own) as vec:
        assert not isinstance(vec, NativeVecEnv)
        vec.reset(seed=0)

    env, composed = sekai.make("OrderExecution-v0", **own), ComposedOrderExecution(**own)
    assert check_env(sekai.make("OrderExecution-v0", **own), 20) == []
    assert equal_values(env.reset(seed=4), composed.reset(seed=4))
    action = actions(env.action_space, np.random.default_rng(0), 1)[0]
    assert equal_values(env.step(action), composed.step(action))
    inner: Any = env.unwrapped
    assert inner.simulator.cur_step == 1
    state = env.state_dict()
    rewards = env.step(action).reward
    env.load_state_dict(state)
    assert env.step(action).reward == rewards
    with pytest.raises(InvalidActionError):
        env.step(-1)
    env.close()
    with pytest.raises(ClosedError):
        env.step(action)


@pytest.mark.parametrize("state", ["full_history", "dummy"])
def test_options_of_a_reset_are_refused(state: str) -> None:
    for each in (sekai.make, sekai.make_vec):
        env: Any = each("OrderExecution-v0", state=state)
        with pytest.raises(ValueError, match="takes no options"):
            env.reset(seed=1, options={"order": 3})


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

    env: Any = OrderExecution(**options)
    for seed in range(20):
        env.reset(seed=seed)
        assert env.simulator.order.date != np.datetime64("2020-01-03")
    with sekai.make_vec("OrderExecution-v0", 8, **options) as vec:
        played(vec, 12, 0)
