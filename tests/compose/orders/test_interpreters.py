"""State and action interpreters of order execution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import (
    CategoricalActionInterpreter,
    CurrentStepStateInterpreter,
    DayFeatures,
    DummyStateInterpreter,
    FullHistoryStateInterpreter,
    Order,
    OrderDir,
    SingleAssetOrderExecutionSimple,
    SpaceValidationError,
    StateInterpreter,
    StoredFeatures,
    TickFeatures,
    TwapRelativeActionInterpreter,
)
from sekai.data.intraday import DayTicks
from sekai.data.tick_store import TickStore
from sekai.error import DataError
from tests.compose.orders.days import day, order, panel, shares_of_rest, work, worlds
from tests.spaces.strategies import law


def states(simulator: Any, policy: Any) -> list[Any]:
    seen = [simulator.get_state()]
    while not simulator.done():
        simulator.step(policy(seen[-1]))
        seen.append(simulator.get_state())
    return seen


@law
@given(world=worlds())
def test_all_states_of_an_order_belong_to_the_space(world: Any) -> None:
    ticks, given_order, length, shares = world
    simulator = SingleAssetOrderExecutionSimple(given_order, ticks, length)
    steps = simulator.get_state().num_steps
    shown: list[StateInterpreter[Any, Any]] = [
        CurrentStepStateInterpreter(steps),
        FullHistoryStateInterpreter(steps, len(ticks), 2, TickFeatures(ticks)),
        DummyStateInterpreter(),
    ]

    for state in states(simulator, shares_of_rest(shares)):
        for interpreter in shown:
            interpreter(state)


def test_the_last_state_counts_all_steps() -> None:
    interpreter = CurrentStepStateInterpreter(8)
    seen = states(SingleAssetOrderExecutionSimple(order(), day()), shares_of_rest([0.1]))

    last = interpreter(seen[-1])

    assert (last["cur_step"], last["num_step"], last["position"]) == (8, 8, 0.0)
    assert last["acquiring"] == 1
    assert last["target"] == 1000.0


def test_an_order_of_more_steps_is_refused_with_what_to_do() -> None:
    state = SingleAssetOrderExecutionSimple(order(), day()).get_state()
    with pytest.raises(ValueError, match="raise max_step"):
        CurrentStepStateInterpreter(7)(state)


@law
@given(steps=st.integers(0, 8), seed=st.integers(1, 1000))
def test_the_future_is_never_shown(steps: int, seed: int) -> None:
    now = min(30 * steps, 240)
    ticks, other = day(), day(seed=seed)
    mixed = DayTicks(
        "AAA",
        ticks.times,
        {
            name: np.concatenate([values[:now], other.column(name)[now:]])
            for name, values in ticks.columns.items()
        },
    )
    shown = []
    for which in (ticks, mixed):
        simulator = SingleAssetOrderExecutionSimple(order(), which)
        interpreter = FullHistoryStateInterpreter(8, 240, 2, TickFeatures(which))
        for _ in range(steps):
            simulator.step(simulator.position / (8 - simulator.cur_step))
        shown.append(interpreter(simulator.get_state()))

    for name in shown[0]:
        assert np.array_equal(shown[0][name], shown[1][name]), name
    assert not shown[0]["data_processed"][now:].any()


def test_the_history_has_today_yesterday_and_what_was_left() -> None:
    data = panel()
    today = Order("AAA", 100, OrderDir.SELL, "2020-01-03 09:30", "2020-01-03 15:00")
    provider = TickFeatures(data, ["$close"], relative=False)
    simulator = SingleAssetOrderExecutionSimple(today, data)
    simulator.step(20.0)
    simulator.step(30.0)

    shown = FullHistoryStateInterpreter(8, 240, 1, provider)(simulator.get_state())

    closes = data.field("close")[:, 0]
    assert shown["data_processed"][:60, 0] == pytest.approx(closes[240:300], rel=1e-6)
    assert shown["data_processed_prev"][:, 0] == pytest.approx(closes[:240], rel=1e-6)
    assert shown["cur_tick"] == 60
    assert shown["acquiring"] == 0
    assert shown["position_history"] == pytest.approx([100, 80, 50, 0, 0, 0, 0, 0])


def test_stored_features_are_those_of_the_store(tmp_path: Path) -> None:
    data = panel()
    store = TickStore.build(data, tmp_path / "store", feature_columns=["$close"])
    provider = StoredFeatures(store, ["$close"], ["$close_1"])
    simulator = SingleAssetOrderExecutionSimple(
        Order("AAA", 100, OrderDir.SELL, "2020-01-03 09:30", "2020-01-03 15:00"), store
    )
    simulator.step(10.0)

    shown = FullHistoryStateInterpreter(8, 240, 1, provider)(simulator.get_state())

    closes = data.field("close")[:, 0]
    assert shown["data_processed"][:30, 0] == pytest.approx(closes[240:270], rel=1e-6)
    assert not shown["data_processed"][30:].any()
    assert shown["data_processed_prev"][:, 0] == pytest.approx(closes[:240], rel=1e-6)


def test_what_is_shown_is_a_copy() -> None:
    provider = TickFeatures(day())
    interpreter = FullHistoryStateInterpreter(8, 240, 2, provider)
    simulator = SingleAssetOrderExecutionSimple(order(), day())
    simulator.step(10.0)
    first = interpreter(simulator.get_state())
    kept = first["data_processed"].copy()

    first["data_processed"][:] = 7.0

    assert np.array_equal(interpreter(simulator.get_state())["data_processed"], kept)


def test_features_of_another_shape_are_refused() -> None:
    state = SingleAssetOrderExecutionSimple(order(), day()).get_state()
    with pytest.raises(DataError, match="at most 100 ticks by 2"):
        FullHistoryStateInterpreter(8, 100, 2, _Features(np.zeros((240, 2))))(state)
    with pytest.raises(SpaceValidationError, match="data_processed"):
        FullHistoryStateInterpreter(8, 240, 1, _Features(np.full((240, 1), np.nan)))(state)


class _Features:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def features(self, stock_id: str, date: np.datetime64) -> DayFeatures:
        return DayFeatures(day().times, self.rows, self.rows)


def test_categories_are_shares_of_the_order() -> None:
    interpreter = CategoricalActionInterpreter(4, max_step=8)
    simulator = SingleAssetOrderExecutionSimple(order(), day())

    amounts = [interpreter(simulator.get_state(), action) for action in range(5)]

    assert amounts == [0.0, 250.0, 500.0, 750.0, 1000.0]
    simulator.step(900.0)
    assert interpreter(simulator.get_state(), 2) == pytest.approx(100.0)
    with pytest.raises(SpaceValidationError):
        interpreter(simulator.get_state(), 5)


def test_the_last_step_of_categories_trades_what_is_left() -> None:
    interpreter = CategoricalActionInterpreter([0.0, 0.5], max_step=2)
    simulator = SingleAssetOrderExecutionSimple(order("09:30", "10:30"), day())
    simulator.step(0.0)

    assert interpreter(simulator.get_state(), 0) == 1000.0


@law
@given(world=worlds())
def test_one_times_twap_has_no_advantage_wherever_an_order_starts(world: Any) -> None:
    ticks, given_order, length, _ = world
    simulator = SingleAssetOrderExecutionSimple(given_order, ticks, length)
    interpreter = TwapRelativeActionInterpreter()

    work(simulator, lambda state: interpreter(state, np.float32(1.0)))

    assert simulator.metrics is not None
    assert simulator.metrics.pa == pytest.approx(0.0, abs=1e-7)
    assert simulator.cur_step == simulator.get_state().num_steps


def test_more_than_twap_is_at_most_what_is_left() -> None:
    interpreter = TwapRelativeActionInterpreter()
    state = SingleAssetOrderExecutionSimple(order("10:15", "14:45"), day()).get_state()

    assert interpreter(state, 1.0) == pytest.approx(1000 * 15 / 180)
    assert interpreter(state, 2.0) == pytest.approx(2000 * 15 / 180)
    assert interpreter(state, 1e9) == 1000.0
    with pytest.raises(SpaceValidationError):
        interpreter(state, -0.5)


@pytest.mark.parametrize("values", [0, [], [np.nan], [-0.5]])
def test_categories_that_are_no_shares_are_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="values must be"):
        CategoricalActionInterpreter(values)
