"""The env `OrderExecution-v0`."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import sekai
from sekai.compose import (
    ComposedOrderExecution,
    Order,
    OrderCosts,
    OrderDir,
    OrderExecution,
    OrderExecutionConfig,
    OrderRenderer,
    SimulatedMinutes,
    TwapRelativeActionInterpreter,
)
from sekai.data.market_data import MarketData
from sekai.data.tick_store import TickStore
from sekai.error import DataError, ResetRequired
from sekai.utils.checker import check_causal, check_env
from tests.compose.orders.days import MINUTE, order, panel, times

SETTINGS: list[dict[str, Any]] = [
    {},
    {"state": "current_step", "action": "twap_relative", "reward": "pa_penalty", "penalty": 10.0},
    {"state": "dummy", "reward": "ppo", "vol_threshold": 0.01},
    {"reward": None, "deal_price_type": "bid_or_ask", "direction": "sell"},
    {"data": panel(), "ticks_per_step": 20, "costs": OrderCosts(open_cost=0.001)},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_nothing_is_wrong_with_the_env(settings: dict[str, Any]) -> None:
    assert check_env(sekai.make("OrderExecution-v0", **settings), 30) == []


@pytest.mark.parametrize("seed", [0, 10])
def test_the_future_changes_nothing(seed: int) -> None:
    def known(env: Any, result: Any) -> Any:
        state = env.unwrapped.simulator.get_state()
        rows = np.flatnonzero(data.times < state.cur_time)
        return int(rows[-1]) if len(rows) else -1

    data = panel(3, seed)
    found = check_causal(
        lambda changed: sekai.make("OrderExecution-v0", data=changed, days=["2020-01-03"]),
        data,
        n_steps=6,
        time_of=known,
        seed=seed,
    )

    assert found == []


def test_a_reward_that_knows_the_future_is_found_out() -> None:
    data = panel(3)
    found = check_causal(
        lambda changed: sekai.make(
            "OrderExecution-v0", data=changed, days=["2020-01-03"], reward="pa_penalty"
        ),
        data,
        n_steps=6,
        time_of=lambda env, result: int(
            np.flatnonzero(data.times < env.unwrapped.simulator.cur_time)[-1]
        ),
    )

    assert any("reward" in line for line in found)


def test_the_same_seed_draws_the_same_orders() -> None:
    env: Any = OrderExecution()
    drawn = []
    for _ in range(2):
        env.reset(seed=7)
        orders = [env.simulator.order]
        for _ in range(5):
            env.reset()
            orders.append(env.simulator.order)
        drawn.append(orders)

    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 6


def test_given_orders_are_those_that_are_worked() -> None:
    given = [order("09:30", "10:30"), order("13:00", "14:00", direction=0)]
    env: Any = OrderExecution(data=panel(), orders=given, order_steps=2)

    seen = set()
    for seed in range(20):
        env.reset(seed=seed)
        seen.add(env.simulator.order)

    assert seen == set(given)


def test_the_whole_order_is_told_when_it_is_done() -> None:
    env = OrderExecution(action="twap_relative", state="current_step")
    env.reset(seed=0)
    while True:
        result = env.step(np.float32(1.0))
        if result.terminated:
            break

    log = {name: value for name, (_, value) in result.info["log"].items()}
    assert log["ffr"] == pytest.approx(1.0)
    assert log["pa"] == pytest.approx(0.0, abs=1e-6)
    assert log["position"] == 0.0
    assert log["steps_per_episode"] == 6


def test_vectors_in_processes_give_what_those_in_one_give() -> None:
    seen: list[Any] = []
    modes: tuple[Literal["sync", "proc"], ...] = ("sync", "proc")
    for mode in modes:
        with sekai.make_vec("OrderExecution-v0", 2, mode=mode) as vector:
            first = vector.reset(seed=3)
            seen.append((first.observations, vector.step(np.array([1, 2])).rewards))

    for name in seen[0][0]:
        assert np.array_equal(seen[0][0][name], seen[1][0][name]), name
    assert seen[0][1].tolist() == seen[1][1].tolist()
    assert seen[0][1].all()


def test_the_state_of_an_env_holds_a_day_and_not_all_data() -> None:
    data = panel(30)
    env = OrderExecution(data=data)
    env.reset(seed=0)
    env.step(1)
    state = env.state_dict()

    assert len(pickle.dumps(state)) < data.values.nbytes / 4
    twin = OrderExecution(data=data)
    twin.load_state_dict(state)
    assert twin.step(2).reward == env.step(2).reward


def test_stores_of_ticks_are_read(tmp_path: Path) -> None:
    TickStore.build(panel(), tmp_path / "store")
    env: Any = OrderExecution(data=tmp_path / "store", assets=["BBB"], days=["2020-01-03"])

    env.reset(seed=0)

    assert env.simulator.order.stock_id == "BBB"


def round_the_clock(days: int = 3, seed: int = 0) -> MarketData:
    """Minutes of whole days, of which some are missing and more have no price."""
    rng = np.random.default_rng(seed)
    stamps = np.datetime64("2020-01-02T00:00", "ns") + np.arange(1440 * days) * MINUTE
    stamps = stamps[np.sort(rng.choice(len(stamps), int(0.9 * len(stamps)), replace=False))]
    close = 1.1 * np.exp(np.cumsum(rng.normal(0, 1e-4, (len(stamps), 2)), axis=0))
    close[rng.random(close.shape) < 0.2] = np.nan
    values = np.stack([close, np.where(np.isnan(close), np.nan, 50.0)], axis=2)
    return MarketData(stamps, ["EUR_USD", "AUD_USD"], ["close", "volume"], values)


def shown_ticks(env: Any) -> int:
    return int(env.observation_space["data_processed"].shape[0])


def test_the_ticks_of_a_day_are_those_of_the_data(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")

    minutes = round_the_clock()
    TickStore.build(panel(ticks=150), tmp_path / "store")
    store: dict[str, Any] = {
        "data": tmp_path / "store", "assets": ["AAA"], "days": ["2020-01-03"], "order_steps": 3,
    }  # fmt: skip
    frame = pd.DataFrame({"close": 1.0, "volume": 1.0}, index=times(100))

    assert shown_ticks(OrderExecution()) == 240
    assert shown_ticks(OrderExecution(simulated=SimulatedMinutes(ticks=390))) == 390
    assert shown_ticks(OrderExecution(data=panel(ticks=200))) == 200
    assert len(np.unique(minutes.times.astype("datetime64[D]"), return_counts=True)[1]) == 3
    assert shown_ticks(OrderExecution(data=minutes)) == 1440 - missing_of_all_days(minutes)
    assert shown_ticks(OrderExecution(data=frame, order_steps=3)) == 100
    assert shown_ticks(OrderExecution(**store)) == 150
    assert shown_ticks(OrderExecution(**store, day_ticks=300)) == 300
    for kind in (OrderExecution, ComposedOrderExecution):
        with pytest.raises(DataError, match=r"raise .*day_ticks|day_ticks=100; raise it"):
            kind(data=panel(), days=["2020-01-03"], day_ticks=100).reset(seed=0)


def missing_of_all_days(data: MarketData) -> int:
    """Minutes of the day that no day has."""
    clock = (data.times - data.times.astype("datetime64[D]")) // MINUTE
    return 1440 - len(set(clock.tolist()))


@pytest.mark.parametrize("reward", ["shortfall", "ppo"])
def test_days_of_24_hours_with_missing_minutes_need_no_settings(reward: str) -> None:
    env = sekai.make("OrderExecution-v0", data=round_the_clock(), reward=reward)

    assert check_env(env, 30) == []
    for seed in range(10):
        result: Any = env.reset(seed=seed)
        while not getattr(result, "terminated", False):
            result = env.step(1)
        assert result.info["log"]["ffr"][1] == pytest.approx(1.0, abs=0.2)


def test_parts_of_the_data_show_days_of_the_same_shape(tmp_path: Path) -> None:
    minutes = round_the_clock(4)
    early, late = minutes.split(0.2, 0.8)
    assert shown_ticks(OrderExecution(data=early)) != shown_ticks(OrderExecution(data=late))

    shared = OrderExecution.shared_options(minutes, {})

    shown = {shown_ticks(OrderExecution(data=part, **shared)) for part in (early, late)}
    assert shown == {shown_ticks(OrderExecution(data=minutes))}
    assert OrderExecution.shared_options(minutes, {"day_ticks": 7}) == {}


def test_days_that_are_too_short_are_refused_with_what_to_do() -> None:
    for kind in (OrderExecution, ComposedOrderExecution):
        with pytest.raises(DataError, match="fewer steps by order_steps="):
            kind(data=panel(ticks=60)).reset(seed=0)


def test_the_optimal_schedule_is_for_what_is_left() -> None:
    env = OrderExecution()
    with pytest.raises(ResetRequired, match="before reset"):
        env.optimal_schedule()
    env.reset(seed=1)

    amounts = env.optimal_schedule(risk_aversion=1e-4)

    assert env.simulator is not None
    assert amounts.sum() == pytest.approx(env.simulator.get_state().position)
    assert np.all(np.diff(amounts) < 0)
    assert env.optimal_schedule(risk_aversion=0.0) == pytest.approx([amounts.mean()] * 6)
    env.step(1)
    assert len(env.optimal_schedule()) == 5


def test_the_optimal_schedule_of_real_data_needs_its_market() -> None:
    env = OrderExecution(data=panel())
    env.reset(seed=0)

    with pytest.raises(ValueError, match="pass both"):
        env.optimal_schedule()
    assert len(env.optimal_schedule(volatility=0.1, temporary_impact=0.01)) == 6


def test_more_risk_aversion_lowers_risk_in_the_market_it_is_meant_for() -> None:
    env = OrderExecution(simulated=SimulatedMinutes(tick_volatility=0.002), direction="sell")
    spread = []
    for aversion in (0.0, 1e-3):
        gained = []
        for seed in range(60):
            env.reset(seed=seed)
            amounts = env.optimal_schedule(risk_aversion=aversion)
            simulator: Any = env.simulator
            for amount in amounts:
                if not simulator.done():
                    simulator.step(min(amount, simulator.position))
            gained.append(simulator.metrics.trade_price / simulator.fills["price"][0])
        spread.append(np.std(gained))

    assert spread[1] < 0.8 * spread[0]


def test_pictures_show_prices_fills_and_what_is_left() -> None:
    env = sekai.make("OrderExecution-v0")
    with OrderRenderer(320, 240) as renderer:
        with pytest.raises(ResetRequired, match="no order to draw"):
            renderer.render(env)
        env.reset(seed=0)
        before = renderer.render(env)
        env.step(1)
        after = renderer.render(env)

    assert before.shape == after.shape == (240, 320, 3)
    assert not np.array_equal(before, after)
    assert np.array_equal(env.unwrapped.render(width=320, height=240), after)  # type: ignore[attr-defined]


def test_an_interpreter_of_ones_own_can_be_given() -> None:
    env = OrderExecution(action=TwapRelativeActionInterpreter(), state="current_step")

    assert env.action_space.contains(np.float32(2.5))


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"state": "everything"}, "state must be one of"),
        ({"reward": "luck"}, "reward must be one of"),
        ({"amount": (0.0, 1.0)}, "amount must be"),
        ({"direction": "hold"}, "direction must be"),
        ({"order_steps": 0}, "order_steps must be at least 1"),
        ({"orders": []}, "orders must have at least one"),
    ],
)
def test_configs_that_mean_nothing_are_refused(settings: dict[str, Any], found: str) -> None:
    with pytest.raises(ValueError, match=found):
        OrderExecutionConfig(**settings)


def test_a_config_and_its_fields_are_not_taken_together() -> None:
    with pytest.raises(TypeError, match="got both"):
        OrderExecution(OrderExecutionConfig(), order_steps=3)


def test_orders_drawn_are_within_their_bounds() -> None:
    env = OrderExecution(amount=(10.0, 20.0), direction="buy", order_steps=2)
    for seed in range(30):
        env.reset(seed=seed)
        assert env.simulator is not None
        drawn: Order = env.simulator.order
        assert 10.0 <= drawn.amount <= 20.0
        assert drawn.direction is OrderDir.BUY
        assert env.simulator.get_state().num_steps == 2
