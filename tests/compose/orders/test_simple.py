"""Simple order simulator, for any source of ticks."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.compose import (
    OrderCosts,
    OrderDir,
    SimulatedMinutes,
    SingleAssetOrderExecutionSimple,
)
from sekai.compose.orders.baselines import TWAP
from sekai.data.tick_store import TickStore
from sekai.error import DataError, InvalidActionError, ResetRequired
from tests.compose.orders.days import DATE, day, order, panel, times, work


def simple(*args: Any, **settings: Any) -> SingleAssetOrderExecutionSimple:
    return SingleAssetOrderExecutionSimple(*args, **settings)


def test_the_end_of_an_order_is_not_part_of_it() -> None:
    state = simple(order("09:30", "10:00"), day()).get_state()

    assert state.ticks_for_order[0] == day().times[0]
    assert state.ticks_for_order[-1] == day().times[29]


def test_the_folder_of_a_store_can_be_given_by_the_name_that_qlib_has_for_it(
    tmp_path: Path,
) -> None:
    TickStore.build(panel(), tmp_path / "ticks")

    by_name = simple(order(), data_dir=tmp_path / "ticks")

    assert by_name.twap_price == simple(order(), tmp_path / "ticks").twap_price
    for wrong in ({}, {"data": day(), "data_dir": tmp_path / "ticks"}):
        with pytest.raises(TypeError, match="one of data and data_dir"):
            simple(order(), **wrong)


def test_steps_never_straddle_lunch_and_the_first_can_be_short() -> None:
    simulator = simple(order("10:15", "14:45"), day())

    begins = []
    while not simulator.done():
        begins.append(str(simulator.cur_time)[11:16])
        simulator.step(0.0)

    assert begins == ["10:15", "10:30", "11:00", "13:00", "13:30", "14:00", "14:30"]
    assert simulator.get_state().num_steps == 7
    assert simulator.cur_time == simulator.order.end_time


def test_the_last_tick_trades_what_is_left() -> None:
    simulator = simple(order("09:30", "10:00", 300.0), day())

    simulator.step(30.0)

    assert simulator.done()
    assert simulator.fills["filled"].tolist() == pytest.approx([1.0] * 29 + [271.0])
    assert simulator.metrics is not None
    assert simulator.metrics.amount == 30.0


def test_a_volume_cap_holds_in_every_tick() -> None:
    ticks = day()
    simulator = work(simple(order(amount=1e5), ticks, vol_threshold=0.1), TWAP())

    assert simulator.fills["filled"].tolist() == pytest.approx(ticks.column("$volume") * 0.1)
    assert simulator.metrics is not None
    assert simulator.metrics.position == pytest.approx(1e5 - simulator.metrics.deal_amount)


def test_buyers_pay_the_ask_and_sellers_get_the_bid() -> None:
    ticks = day()
    for direction, side in ((OrderDir.BUY, "$ask"), (OrderDir.SELL, "$bid")):
        simulator = simple(order(direction=direction), ticks, deal_price_type="bid_or_ask")
        simulator.step(10.0)

        assert simulator.fills["price"].tolist() == ticks.column(side)[:30].tolist()


def test_a_missing_side_is_filled_from_the_other_if_asked_for() -> None:
    ask = np.where(np.arange(240) < 5, 0.0, 100.0)
    ticks = day(ask=ask)
    strict = simple(order(), ticks, deal_price_type="bid_or_ask")
    filled = simple(order(), ticks, deal_price_type="bid_or_ask_fill")

    strict.step(30.0)
    filled.step(30.0)

    assert strict.fills["filled"][:6].tolist() == pytest.approx([0.0] * 5 + [6.0])
    assert filled.fills["price"][:5].tolist() == ticks.column("$bid")[:5].tolist()
    assert filled.fills["filled"].tolist() == pytest.approx([1.0] * 30)


def test_coarser_ticks_make_shorter_steps() -> None:
    simulator = simple(order("09:30", "10:30"), day(), 30, data_granularity=5)

    assert simulator.ticks_per_step == 6
    with pytest.raises(ValueError, match="multiple of data_granularity"):
        simple(order(), day(), 30, data_granularity=7)


def test_names_with_the_zero_of_processed_files_are_understood() -> None:
    ticks = day()
    processed = type(ticks)("AAA", ticks.times, {f"{n}0": v for n, v in ticks.columns.items()})

    assert simple(order(), processed).twap_price == simple(order(), ticks).twap_price


def test_costs_are_paid_for_every_fill() -> None:
    costs = OrderCosts(open_cost=0.001, min_cost=5.0)
    simulator = work(simple(order(amount=2400.0), day(), costs=costs), TWAP())

    assert simulator.cost == pytest.approx(5.0 * 240)
    assert simulator.fills["cost"].tolist() == [5.0] * 240


@pytest.mark.parametrize(
    ("start", "end"), [("08:00", "09:30"), ("15:00", "16:00"), ("11:30", "12")]
)
def test_an_order_outside_the_session_names_the_session(start: str, end: str) -> None:
    with pytest.raises(DataError, match="from 2020-01-02T09:30:00.* to 2020-01-02T14:59:00"):
        simple(order(start, end), day())


def test_days_of_another_asset_or_date_are_refused() -> None:
    other = type(day())("BBB", day().times, day().columns)
    with pytest.raises(DataError, match="no ticks of AAA on 2020-01-02"):
        simple(order(), other)
    with pytest.raises(DataError, match="no column|need a column"):
        simple(order(), type(day())("AAA", times(), {"$open": np.ones(240)}))


def test_what_has_no_ticks_is_refused() -> None:
    with pytest.raises(TypeError, match="data must be DayTicks"):
        simple(order(), 3)
    with pytest.raises(DataError, match="has no price on 2020-01-02"):
        simple(order(), day(close=np.full(240, np.nan)))
    with pytest.raises(ValueError, match="deal_price_type must be one of"):
        simple(order(), day(), deal_price_type="vwap")
    with pytest.raises(ValueError, match="vol_threshold"):
        simple(order(), day(), vol_threshold=-0.1)
    with pytest.raises(ValueError, match="above 0"):
        simple(order(amount=0.0), day())


def test_an_order_in_a_suspended_asset_is_reported_unfilled() -> None:
    close = np.where(np.arange(240) < 60, np.nan, 100.0)

    worked = work(simple(order("09:30", "10:30"), day(close=close)), TWAP())

    assert worked.metrics is not None
    reported = worked.metrics
    assert (reported.position, reported.ffr, reported.pa, reported.market_price) == (
        1000.0,
        0.0,
        0.0,
        0.0,
    )
    assert worked.cur_step == 2


def test_steps_after_the_end_and_what_is_no_number_are_refused() -> None:
    simulator = simple(order(), day())
    with pytest.raises(InvalidActionError, match="amount must be a number"):
        simulator.step("all")  # type: ignore[arg-type]
    simulator.step(1000.0)

    with pytest.raises(ResetRequired, match="complete after 1 steps"):
        simulator.step(0.0)


def test_panels_folders_and_days_give_the_same_fills(tmp_path: Path) -> None:
    data = panel()
    TickStore.build(data, tmp_path / "store")
    ticks = TickStore(tmp_path / "store").day("AAA", np.datetime64(DATE))

    sources: list[Any] = [data, tmp_path / "store", str(tmp_path / "store"), ticks]
    fills = [work(simple(order(), source), TWAP()).fills for source in sources]

    for one in fills[1:]:
        assert one["filled"] == pytest.approx(fills[0]["filled"])
        assert one["price"] == pytest.approx(fills[0]["price"], rel=1e-6)


def test_what_a_panel_says_is_not_tradable_is_not_traded() -> None:
    data = panel()
    tradable = data.tradable.copy()
    tradable[10, 0] = False

    simulator = simple(order(), data.replace(tradable=tradable))
    simulator.step(30.0)

    assert simulator.fills["filled"][9:12].tolist() == pytest.approx([1.0, 0.0, 2.0])


def test_two_orders_on_one_day_have_windows_of_their_own() -> None:
    source = SimulatedMinutes(seed=3)
    one, other = (simple(order(*window), source) for window in (("09:30", "10"), ("11", "11:30")))

    assert one.twap_price != other.twap_price


def test_copies_and_pickles_go_on_alike() -> None:
    simulator = simple(order(), day(), vol_threshold=0.2)
    simulator.step(100.0)
    state = simulator.get_state()

    twins = [copy.deepcopy(simulator), pickle.loads(pickle.dumps(simulator))]
    tables = [work(one, TWAP()).fills for one in (simulator, *twins)]

    assert all(np.array_equal(tables[0], table) for table in tables[1:])
    assert len(state.history_exec) == 30, "a state must not grow with its simulator"
    assert len(state.history_steps) == 1
