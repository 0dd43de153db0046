"""Accounting laws of fills, steps and whole orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import SAOEMetrics, SingleAssetOrderExecutionSimple
from sekai.compose.orders.baselines import TWAP
from tests.compose.orders.days import day, order, shares_of_rest, work, worlds
from tests.spaces.strategies import law


def close(one: Any, other: Any, scale: float = 1.0) -> bool:
    return bool(np.all(np.abs(np.asarray(one) - other) <= 1e-9 * max(1.0, scale)))


@law
@given(world=worlds(), threshold=st.none() | st.floats(0, 0.5))
def test_fills_of_ticks_and_steps_add_up_to_what_is_gone(world: Any, threshold: Any) -> None:
    ticks, given_order, length, shares = world
    simulator = SingleAssetOrderExecutionSimple(given_order, ticks, length, vol_threshold=threshold)

    work(simulator, shares_of_rest(shares))

    gone = given_order.amount - simulator.position
    slack = 1e-6 * max(1.0, given_order.amount)
    assert abs(simulator.fills["filled"].sum() - gone) <= slack
    assert abs(simulator.history_steps["deal_amount"].sum() - gone) <= slack
    assert abs(simulator.history_exec["deal_amount"].sum() - gone) <= slack
    assert abs(simulator.history_steps["ffr"].sum() - gone / given_order.amount) <= 1e-6
    if threshold is None:
        assert simulator.position == 0.0


@law
@given(world=worlds())
def test_the_advantages_of_steps_weighted_by_fills_are_that_of_the_order(world: Any) -> None:
    ticks, given_order, length, shares = world
    simulator = SingleAssetOrderExecutionSimple(given_order, ticks, length)

    work(simulator, shares_of_rest(shares))

    assert simulator.metrics is not None
    for table in (simulator.history_steps, simulator.history_exec):
        weighted = (table["pa"] * table["deal_amount"]).sum() / table["deal_amount"].sum()
        assert abs(weighted - simulator.metrics.pa) <= 1e-7 * max(1.0, abs(simulator.metrics.pa))


@law
@given(world=worlds())
def test_equal_fills_in_all_ticks_have_no_advantage(world: Any) -> None:
    ticks, given_order, length, _ = world
    simulator = SingleAssetOrderExecutionSimple(given_order, ticks, length)

    work(simulator, TWAP())

    assert simulator.metrics is not None
    assert abs(simulator.metrics.pa) <= 1e-7
    assert simulator.cur_step == simulator.get_state().num_steps
    filled = simulator.fills["filled"]
    assert np.allclose(filled, given_order.amount / len(filled), rtol=1e-9)


@law
@given(world=worlds(), threshold=st.floats(0, 0.2))
def test_an_order_that_a_cap_leaves_unfilled_is_reported_too(world: Any, threshold: float) -> None:
    ticks, given_order, length, shares = world
    simulator = SingleAssetOrderExecutionSimple(given_order, ticks, length, vol_threshold=threshold)

    work(simulator, shares_of_rest(shares))

    reported = simulator.metrics
    assert isinstance(reported, SAOEMetrics)
    assert reported.position == simulator.position
    assert reported.deal_amount <= threshold * reported.market_volume * (1 + 1e-9)
    assert all(np.isfinite(value) for name, value in reported.items() if isinstance(value, float))


@law
@given(world=worlds(), refused=st.sampled_from([np.nan, -1.0, np.inf, -np.inf, "over"]))
def test_refused_amounts_change_nothing(world: Any, refused: Any) -> None:
    ticks, given_order, length, _ = world
    simulator = SingleAssetOrderExecutionSimple(given_order, ticks, length)
    simulator.step(given_order.amount / 2)
    if simulator.done():
        return
    before = simulator.position, simulator.cur_time, simulator.cur_step, simulator.fills.tolist()
    amount = simulator.position * 1.01 + 1e-5 if refused == "over" else refused

    with pytest.raises(ValueError, match="amount must be from 0 to"):
        simulator.step(amount)

    after = simulator.position, simulator.cur_time, simulator.cur_step, simulator.fills.tolist()
    assert after == before


@law
@given(world=worlds())
def test_a_buyer_gains_what_a_seller_loses(world: Any) -> None:
    ticks, given_order, length, shares = world
    reported = [
        work(
            SingleAssetOrderExecutionSimple(
                type(given_order)("AAA", given_order.amount, way, *given_order.key[1:3]),
                ticks,
                length,
            ),
            shares_of_rest(shares),
        ).metrics
        for way in (0, 1)
    ]

    assert reported[0] is not None
    assert reported[1] is not None
    assert close(reported[0].pa, -reported[1].pa)
    assert reported[0].trade_price == reported[1].trade_price


def test_metrics_say_what_the_day_was_like() -> None:
    ticks = day(60)
    simulator = SingleAssetOrderExecutionSimple(order("09:40", "10:10", 60.0), ticks, 30)

    simulator.step(10.0)
    first = simulator.history_steps[0]

    closes, volumes = ticks.column("$close")[10:30], ticks.column("$volume")[10:30]
    assert first["datetime"] == ticks.times[10]
    assert first["market_volume"] == pytest.approx(volumes.sum())
    assert first["market_price"] == pytest.approx(closes.mean())
    assert first["trade_price"] == pytest.approx(closes.mean())
    for name in ("amount", "inner_amount", "deal_amount"):
        assert first[name] == pytest.approx(10.0)
    assert first["trade_value"] == pytest.approx(10 * closes.mean())
    assert first["position"] == pytest.approx(50.0)
    twap = ticks.column("$close")[10:40].mean()
    assert simulator.twap_price == pytest.approx(twap)
    assert first["pa"] == pytest.approx((1 - closes.mean() / twap) * 1e4)


def test_a_step_without_a_fill_has_no_price_and_no_advantage() -> None:
    simulator = SingleAssetOrderExecutionSimple(order("09:30", "10:30"), day(), 30)

    simulator.step(0.0)

    assert simulator.history_steps[0]["trade_price"] == 0.0
    assert simulator.history_steps[0]["pa"] == 0.0


def test_tables_are_frames_at_once() -> None:
    import pandas as pd  # type: ignore[import-untyped]

    simulator = SingleAssetOrderExecutionSimple(order(), day())
    simulator.step(100.0)

    frame = pd.DataFrame(simulator.history_exec)

    assert list(frame.columns) == list(SAOEMetrics.__dataclass_fields__)
    assert frame["deal_amount"].sum() == pytest.approx(100.0)


def test_long_names_are_kept_whole() -> None:
    name = "A" * 50
    ticks = day()
    long = type(ticks)(name, ticks.times, ticks.columns)
    simulator = SingleAssetOrderExecutionSimple(
        type(order())(name, 10, order().direction, *order().key[1:3]), long
    )
    simulator.step(10.0)

    assert simulator.history_steps["stock_id"][0] == name
    assert simulator.history_exec["stock_id"][0] == name
