"""The env `BasketExecution-v0`: several orders at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai.compose import (
    BasketExecution,
    BasketExecutionConfig,
    Order,
    OrderCosts,
    OrderExecution,
    ShortfallReward,
)
from sekai.core.result import equal_values
from sekai.data.market_data import MarketData
from sekai.error import DataError, InvalidActionError, StateError
from sekai.evaluation import evaluate
from sekai.utils.checker import check_causal, check_env
from sekai.vector.native import NativeVecEnv
from tests.compose.orders.days import DATE, panel

DAYS = panel(4)
COSTS = OrderCosts(open_cost=0.0005, close_cost=0.0015, min_cost=1.0)
BASKET = [
    Order("AAA", 3_000.0, "buy", f"{DATE} 10:00", f"{DATE} 14:30"),
    Order("BBB", 800.0, "sell", f"{DATE} 10:00", f"{DATE} 14:30"),
    Order("BBB", 50.0, "buy", f"{DATE} 10:00", f"{DATE} 11:00"),
]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"state": "current_step", "action": "twap_relative", "reward": "pa_penalty"},
        {"data": DAYS, "costs": COSTS, "ticks_per_step": 20, "vol_threshold": 0.1},
        {"data": DAYS, "orders": [BASKET, BASKET[::-1]], "order_steps": 8, "reward": "ppo"},
    ],
)
def test_nothing_is_wrong_with_the_env(settings: dict[str, Any]) -> None:
    assert check_env(sekai.make("BasketExecution-v0", **settings), 30) == []


@pytest.mark.parametrize("action", ["categorical", "twap_relative"])
@pytest.mark.parametrize("reward", ["shortfall", "pa_penalty", "ppo"])
def test_a_basket_is_its_orders(action: str, reward: str) -> None:
    options: dict[str, Any] = {
        "data": DAYS, "costs": COSTS, "order_steps": 8, "vol_threshold": 0.2, "penalty": 3.0,
        "action": action, "reward": reward,
    }  # fmt: skip
    env = BasketExecution(orders=[BASKET], **options)
    singles = [OrderExecution(orders=[order], **options) for order in BASKET]
    shown = env.reset(seed=0).observation
    own: list[Any] = [single.reset(seed=0) for single in singles]
    rng, over = np.random.default_rng(0), [False] * 3

    for _ in range(8):
        for index, result in enumerate(own):
            row = {name: values[index] for name, values in shown.items()}
            assert equal_values(row, {n: np.asarray(v) for n, v in result.observation.items()})
        chosen: Any = rng.integers(0, 7, 3)
        if action == "twap_relative":
            chosen = rng.uniform(0, 2, 3).astype(np.float32)
        step = env.step(chosen)
        total = 0.0
        for index, single in enumerate(singles):
            if over[index]:
                assert step.info["reward"][index] == 0.0
                continue
            one: Any = int(chosen[index]) if action == "categorical" else chosen[index]
            own[index] = single.step(one)
            over[index] = own[index].terminated
            total += own[index].reward
            assert step.info["reward"][index] == own[index].reward
        assert step.reward == pytest.approx(total, rel=1e-12)
        assert step.terminated == all(over)
        shown = step.observation
        if step.terminated:
            break

    assert step.terminated
    log = [{name: value for name, (_, value) in result.info["log"].items()} for result in own]
    assert step.info["price_advantage"] == pytest.approx([own["pa"] for own in log], abs=1e-8)
    assert step.info["filled"].tolist() == [own["deal_amount"] for own in log]


def test_random_orders_share_their_window_and_nothing_else() -> None:
    env = BasketExecution(data=DAYS)
    directions = set()
    for seed in range(20):
        info = env.reset(seed=seed).info
        assert len(set(info["amount"].tolist())) == 2
        directions.add(tuple(info["direction"].tolist()))
        numbers = env.batch.batch.order_infos()[0]  # type: ignore[attr-defined]
        assert np.array_equal(numbers[0, 3:6], numbers[1, 3:6])
    assert len(directions) == 4


def test_the_future_changes_nothing() -> None:
    def known(env: Any, result: Any) -> int:
        numbers = env.unwrapped.batch.batch.order_infos()[0]
        times = env.unwrapped.batch.table.ticks[int(numbers[0, 0])].times
        return int(np.searchsorted(data.times, times[0])) + int(numbers[:, 5].max()) - 1

    data = panel(3)
    found = check_causal(
        lambda changed: sekai.make("BasketExecution-v0", data=changed, days=["2020-01-03"]),
        data,
        n_steps=6,
        time_of=known,
        seed=10,
    )

    assert found == []


def test_batches_are_single_envs_and_threads_change_nothing() -> None:
    singles = [BasketExecution(data=DAYS) for _ in range(3)]
    first = [env.reset(seed=seed) for seed, env in enumerate(singles)]
    rng, seen = np.random.default_rng(0), []
    chosen = [rng.integers(0, 7, (3, 2)) for _ in range(4)]
    for threads in (1, 2):
        with sekai.make_vec("BasketExecution-v0", 3, num_threads=threads, data=DAYS) as vec:
            assert isinstance(vec, NativeVecEnv)
            seen.append([vec.reset(seed=[0, 1, 2]).observations])
            seen[-1] += [vec.step(actions).rewards for actions in chosen]

    assert equal_values(*seen)
    for index, (env, begun) in enumerate(zip(singles, first, strict=True)):
        assert equal_values({k: v[index] for k, v in seen[0][0].items()}, begun.observation)
        assert env.step(chosen[0][index]).reward == seen[0][1][index]


def test_a_saved_state_goes_on_and_another_basket_refuses_it() -> None:
    env = BasketExecution(data=DAYS)
    env.reset(seed=5)
    env.step(np.array([1, 2]))
    state = env.state_dict()
    twin, other = BasketExecution(data=DAYS), BasketExecution(data=DAYS, assets=["AAA"])

    twin.load_state_dict(state)

    for action in (0, 3, 6):
        own, again = env.step(np.array([action, 1])), twin.step(np.array([action, 1]))
        assert own.reward == again.reward
    with pytest.raises(StateError):
        other.load_state_dict(state)


def test_baskets_are_evaluated_beside_twap_and_vwap() -> None:
    found = evaluate(
        "random", "BasketExecution-v0", seeds=8, sensitivity=False,
        env_options={"data": panel(6), "action": "twap_relative", "order_steps": 4},
    )  # fmt: skip

    assert found.task == "basket_execution"
    assert found.headline == "price_advantage"
    assert {"twap", "vwap", "all_at_once"} <= set(found.baselines)
    twap = found.policies["twap"].by_seed
    assert twap["price_advantage"] == pytest.approx([0.0] * 8, abs=1e-6)
    assert twap["fulfilled"] == pytest.approx([1.0] * 8)
    assert found.policies["vwap"].by_seed["price_advantage"] != twap["price_advantage"]


def test_the_price_advantage_of_a_basket_is_weighted_by_value() -> None:
    options = {"data": DAYS, "orders": [BASKET], "order_steps": 8}
    basket = evaluate("all_at_once", "BasketExecution-v0", seeds=8, sensitivity=False,
                      env_options=options, baselines=["twap"])  # fmt: skip
    parts, weights = [], []
    for order in BASKET:
        single = OrderExecution(data=DAYS, orders=[order], order_steps=8)
        single.reset(seed=0)
        result = single.step(6)
        assert result.terminated
        simulator: Any = single.simulator
        parts.append(simulator.metrics.pa)
        weights.append(order.amount * simulator.twap_price)

    wanted = np.average(parts, weights=weights)
    assert basket.agent.by_seed["price_advantage"] == pytest.approx([wanted] * 8)


def test_settings_that_baskets_cannot_have_are_refused() -> None:
    with pytest.raises(TypeError, match="reward of a basket must be the name of a built-in"):
        BasketExecutionConfig(reward=ShortfallReward())
    with pytest.raises(ValueError, match="got 'dummy'"):
        BasketExecutionConfig(state="dummy")
    with pytest.raises(ValueError, match="the same number of orders"):
        BasketExecutionConfig(orders=[BASKET, BASKET[:1]])
    with pytest.raises(ValueError, match="at most 6 steps"):
        BasketExecution(data=DAYS, orders=[BASKET], ticks_per_step=10)


def test_assets_with_other_ticks_make_no_basket() -> None:
    pd = pytest.importorskip("pandas")

    times = pd.date_range("2020-01-02 09:30", periods=240, freq="1min")
    frames = [
        pd.DataFrame({"datetime": own, "symbol": name, "close": 10.0, "volume": 5.0})
        for name, own in (("A", times), ("B", times + pd.Timedelta(minutes=5)))
    ]

    with pytest.raises(DataError, match="at the same times for all of"):
        BasketExecution(data=pd.concat(frames))
    begin, end = times[10], times[100]
    given = [[Order(name, 5.0, "buy", begin, end) for name in ("A", "B")]]
    with pytest.raises(DataError, match="those of B differ from those of A"):
        BasketExecution(data=pd.concat(frames), orders=given, ticks_per_step=30)


def test_orders_of_a_basket_start_together() -> None:
    later = Order("BBB", 50.0, "buy", f"{DATE} 13:10", f"{DATE} 14:00")

    with pytest.raises(DataError, match="must have the same ticks and start"):
        BasketExecution(data=DAYS, orders=[[BASKET[0], later]])


def test_invalid_actions_change_nothing() -> None:
    env, twin = BasketExecution(data=DAYS), BasketExecution(data=DAYS)
    for each in (env, twin):
        each.reset(seed=2)

    for wrong in (np.array([1, 7]), np.array([-1, 0]), np.array([1]), np.array([0.5, 1.0])):
        with pytest.raises(InvalidActionError):
            env.step(wrong)

    assert env.step(np.array([1, 2])).reward == twin.step(np.array([1, 2])).reward


def test_the_panel_of_a_basket_may_have_missing_prices() -> None:
    values = DAYS.values.copy()
    values[::7, 0, 0] = np.nan
    data = MarketData(DAYS.times, DAYS.assets, DAYS.fields, values)
    env = BasketExecution(data=data)
    env.reset(seed=0)
    while not (result := env.step(np.array([1, 1]))).terminated:
        assert np.isfinite(result.reward)
