"""Orders over several days: what is left at the end of a day goes on in the next session."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.compose import (
    TWAP,
    VWAP,
    AllAtOnce,
    FullHistoryStateInterpreter,
    Order,
    OrderDir,
    OrderExecution,
    PPOReward,
    ShortfallReward,
    SingleAssetOrderExecution,
    SingleAssetOrderExecutionSimple,
    run_orders,
)
from sekai.compose.orders.baselines import AlmgrenChrissPolicy
from sekai.compose.orders.features import TickFeatures
from sekai.data.market_data import MarketData
from sekai.error import DataError
from tests.compose.orders.days import day, panel, work

TICKS = 240
MINUTES = panel(3)


def over_days(
    start: str = "2020-01-02 14:00", end: str = "2020-01-04 10:00", amount: float = 900.0
) -> Order:
    return Order("AAA", amount, OrderDir.BUY, start, end)


def simulator(order: Order, data: Any, **settings: Any) -> SingleAssetOrderExecutionSimple:
    return SingleAssetOrderExecutionSimple(order, data, **settings)


def test_an_order_goes_on_in_the_sessions_after_its_first_day() -> None:
    data = panel(3)
    done = work(simulator(over_days(), data), TWAP())

    days = done.fills["time"].astype("datetime64[D]")
    sessions, ticks = np.unique(days, return_counts=True)
    assert sessions.astype(str).tolist() == ["2020-01-02", "2020-01-03", "2020-01-04"]
    assert ticks.tolist() == [60, 240, 30]
    assert done.fills["filled"] == pytest.approx(900.0 / 330)
    assert done.position == 0.0
    assert done.metrics is not None
    assert done.metrics.pa == pytest.approx(0.0, abs=1e-9)


def test_no_step_spans_two_days() -> None:
    order = over_days("2020-01-02 14:40", "2020-01-03 09:50")
    done = work(simulator(order, panel(3)), TWAP())

    begins = [str(row["datetime"])[:16] for row in done.history_steps]
    assert begins == ["2020-01-02T14:40", "2020-01-03T09:30"]
    assert done.get_state().num_steps == 2


def test_a_volume_cap_leaves_the_rest_to_the_next_day() -> None:
    order = over_days("2020-01-02 14:30", "2020-01-03 15:00", amount=20_000.0)
    data = panel(3)

    done = work(simulator(order, data, vol_threshold=0.3), AllAtOnce())

    filled = done.fills["filled"]
    first_day = done.fills["time"].astype("datetime64[D]") == np.datetime64("2020-01-02")
    assert 0 < filled[first_day].sum() < filled.sum()
    times = data.calendar.local
    volume = data.values[np.isin(times, done.fills["time"]), 0, 1]
    assert np.all(filled <= 0.3 * volume + 1e-9)


def test_days_without_ticks_are_skipped() -> None:
    whole = panel(4)
    dates = whole.calendar.dates
    kept = dates != np.datetime64("2020-01-03")
    data = MarketData(whole.times[kept], whole.assets, whole.fields, whole.values[kept])

    done = work(simulator(over_days(), data), TWAP())

    days = np.unique(done.fills["time"].astype("datetime64[D]")).astype(str)
    assert days.tolist() == ["2020-01-02", "2020-01-04"]


def test_a_window_that_ends_at_midnight_is_of_one_day() -> None:
    order = over_days("2020-01-02 14:00", "2020-01-03")
    alone = over_days("2020-01-02 14:00", "2020-01-02 15:00")
    data = panel(3)

    assert np.array_equal(
        work(simulator(order, data), TWAP()).fills, work(simulator(alone, data), TWAP()).fills
    )


def test_orders_that_a_simulator_cannot_execute_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="split it into one order for each day"):
        SingleAssetOrderExecution(over_days(), {"time_per_step": "30min"}, {}, data=None)
    with pytest.raises(DataError, match="pass data with all of its days"):
        simulator(over_days(), day())
    with pytest.raises(DataError, match="no ticks from 2021-01-01 to 2021-01-02"):
        simulator(over_days("2021-01-01 10:00", "2021-01-02 11:00"), panel(2))


@settings(max_examples=12, deadline=None)
@given(
    first=st.integers(0, 2 * TICKS - 1),
    ticks=st.integers(1, TICKS),
    per_step=st.integers(8, 70),
    buys=st.booleans(),
)
def test_all_baselines_fill_an_order_and_fills_add_up(
    first: int, ticks: int, per_step: int, buys: bool
) -> None:
    data = MINUTES
    times: Any = data.calendar.local
    order = Order("BBB", 500.0, int(buys), times[first], times[first + ticks])
    schedule = AlmgrenChrissPolicy(volatility=0.1, temporary_impact=1e-4, risk_aversion=1e-4)

    report = run_orders(
        [order] * 3, data, Switching([TWAP(), VWAP(data=data), schedule]), progress=False,
        ticks_per_step=per_step,
    )  # fmt: skip

    assert report.metrics["ffr"] == pytest.approx(1.0)
    assert np.bincount(report.fills["order"], report.fills["filled"]) == pytest.approx(500.0)
    twap = report.fills[report.fills["order"] == 0]
    assert np.array_equal(twap["time"], times[first : first + ticks])
    assert twap["filled"] == pytest.approx(500.0 / ticks)


class Switching:
    """The next of some policies for each order."""

    def __init__(self, policies: list[Any]) -> None:
        self.policies, self.orders = policies, -1

    def __call__(self, state: Any) -> float:
        self.orders += state.cur_step == 0
        return float(self.policies[self.orders](state))


def test_the_observation_shows_the_day_of_the_next_step() -> None:
    data = panel(3)
    interpreter = FullHistoryStateInterpreter(12, TICKS, 2, TickFeatures(data))
    own = simulator(over_days("2020-01-02 14:30", "2020-01-03 10:30"), data)

    known = []
    while not own.done():
        shown = interpreter(own.get_state())
        known.append(int(shown["cur_tick"]))
        own.step(TWAP()(own.get_state()))

    assert known == [210, 0, 30]
    second = TickFeatures(data).features("AAA", np.datetime64("2020-01-03"))
    assert np.array_equal(shown["data_processed"][:30], second.today[:30])
    assert not shown["data_processed"][30:].any()
    assert np.array_equal(shown["data_processed_prev"], second.yesterday)


def test_an_env_executes_orders_over_several_days() -> None:
    env = OrderExecution(data=panel(4), orders=[over_days()], order_steps=11)
    env.reset(seed=0)
    steps = 0
    while True:
        result = env.step(1)
        steps += 1
        if result.terminated:
            break

    assert steps <= 11
    assert result.info["log"]["ffr"][1] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="at most 6 steps"):
        OrderExecution(data=panel(4), orders=[over_days()]).reset(seed=0)


def test_the_price_of_a_good_order_is_compared_with_the_mean_of_all_days() -> None:
    whole = panel(3)
    values = whole.values.copy()
    dates = whole.calendar.dates
    values[:, 0, 0] = np.where(dates == np.datetime64("2020-01-02"), 10.0, 20.0)
    data = MarketData(whole.times, whole.assets, whole.fields, values)
    order = over_days("2020-01-02 09:30", "2020-01-03 15:00")

    early, late = (simulator(order, data) for _ in range(2))
    early.step(early.position)
    work(late, lambda state: state.position if state.cur_step >= 8 else 0.0)

    assert PPOReward(16, end_time_index=TICKS - 1).reward(early.get_state()) == 1.0
    assert PPOReward(16, end_time_index=TICKS - 1).reward(late.get_state()) == -1.0
    assert ShortfallReward().reward(late.get_state()) == pytest.approx(-1e4)


def test_an_order_in_its_second_session_is_pickled_and_goes_on() -> None:
    own = simulator(over_days(), panel(3))
    for _ in range(4):
        own.step(TWAP()(own.get_state()))

    again = pickle.loads(pickle.dumps(own))

    assert np.array_equal(work(again, TWAP()).fills, work(own, TWAP()).fills)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 60, 128, 129, 200, 300])
def test_rewards_have_the_bits_of_sums_over_arrays(count: int) -> None:
    ticks = day(count, seed=count)
    whole = Order("AAA", 1e4, OrderDir.SELL, ticks.times[0], "2020-01-03")
    own = simulator(whole, ticks, ticks_per_step=count, vol_threshold=0.2)
    own.step(own.position)
    matcher = own.get_state().history.matcher
    _, filled, value, cost, price, _ = matcher.fills()

    assert own.twap_price == price.mean()
    assert matcher.concentration(0, count) == float(np.square(filled / 1e4).sum())
    gained = -(sum(filled.tolist()) * price[0] - sum(value.tolist())) - cost.sum()
    assert matcher.shortfall(0, count) == gained / (1e4 * price[0]) * 1e4
