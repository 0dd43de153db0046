"""Rewards of order execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import (
    OrderCosts,
    OrderDir,
    PAPenaltyReward,
    PPOReward,
    ShortfallReward,
    SingleAssetOrderExecutionSimple,
)
from sekai.compose.orders.baselines import TWAP, AllAtOnce
from tests.compose.orders.days import day, order, shares_of_rest, work, worlds
from tests.spaces.strategies import law


def rewards(simulator: Any, reward: Any, policy: Any) -> list[float]:
    paid = []
    while not simulator.done():
        simulator.step(policy(simulator.get_state()))
        paid.append(reward(simulator.get_state()))
    return paid


@law
@given(world=worlds(), threshold=st.none() | st.floats(0, 0.3))
def test_price_advantages_add_up_to_that_of_what_was_filled(world: Any, threshold: Any) -> None:
    ticks, given_order, length, shares = world
    simulator = SingleAssetOrderExecutionSimple(given_order, ticks, length, vol_threshold=threshold)

    paid = rewards(simulator, PAPenaltyReward(penalty=0.0), shares_of_rest(shares))

    assert np.isfinite(paid).all()
    assert simulator.metrics is not None
    total = simulator.metrics.pa * simulator.metrics.ffr
    assert sum(paid) == pytest.approx(total, rel=1e-7, abs=1e-6)


def test_a_step_without_a_fill_pays_nothing() -> None:
    simulator = SingleAssetOrderExecutionSimple(order(), day(), vol_threshold=0.0)

    assert rewards(simulator, PAPenaltyReward(), TWAP()) == [0.0] * 8


def test_trading_in_lumps_is_penalised() -> None:
    fine, lumpy = (
        sum(
            rewards(
                SingleAssetOrderExecutionSimple(order(), day(close=np.full(240, 10.0))),
                PAPenaltyReward(penalty=100.0, scale=2.0),
                policy,
            )
        )
        for policy in (TWAP(), AllAtOnce())
    )

    assert fine == pytest.approx(-2 * 100 / 240)
    assert lumpy == pytest.approx(-2 * 100 / 30)


@law
@given(world=worlds())
def test_shortfalls_add_up_to_what_the_order_lost_against_its_first_price(world: Any) -> None:
    ticks, given_order, length, shares = world
    costs = OrderCosts(open_cost=0.001, close_cost=0.002)
    simulator = SingleAssetOrderExecutionSimple(given_order, ticks, length, costs=costs)

    paid = rewards(simulator, ShortfallReward(), shares_of_rest(shares))

    first = simulator.fills["price"][0]
    filled, value = simulator.fills["filled"].sum(), simulator.fills["value"].sum()
    gained = given_order.sign * (filled * first - value) - simulator.cost
    assert sum(paid) == pytest.approx(gained / (given_order.amount * first) * 1e4, abs=1e-5)


@pytest.mark.parametrize(
    ("direction", "early", "expected"),
    [
        (OrderDir.SELL, 200.0, 1.0),
        (OrderDir.SELL, 102.0, 0.0),
        (OrderDir.SELL, 50.0, -1.0),
        (OrderDir.BUY, 50.0, 1.0),
        (OrderDir.BUY, 98.0, 0.0),
        (OrderDir.BUY, 200.0, -1.0),
    ],
)
def test_the_end_pays_by_the_ratio_of_prices(
    direction: OrderDir, early: float, expected: float
) -> None:
    close = np.where(np.arange(240) < 30, early, 100.0)
    simulator = SingleAssetOrderExecutionSimple(order(direction=direction), day(close=close))

    assert rewards(simulator, PPOReward(8), AllAtOnce()) == [expected]


def test_nothing_is_paid_before_the_end() -> None:
    simulator = SingleAssetOrderExecutionSimple(order(), day())

    paid = rewards(simulator, PPOReward(8), TWAP())

    assert paid[:6] == [0.0] * 6


def test_an_order_that_was_never_filled_counts_at_the_market() -> None:
    simulator = work(
        SingleAssetOrderExecutionSimple(order(), day(close=np.full(240, 10.0)), vol_threshold=0.0),
        TWAP(),
    )
    assert PPOReward(9)(simulator.get_state()) == 0.0
