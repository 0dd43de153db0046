"""Ways to work an order that need no learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from sekai.compose import (
    TWAP,
    VWAP,
    AllAtOnce,
    AlmgrenChrissPolicy,
    OracleVWAP,
    Order,
    OrderDir,
    SimulatedMinutes,
    SingleAssetOrderExecutionSimple,
)
from sekai.compose.orders.baselines import almgren_chriss_amounts
from sekai.data.intraday import DayTicks
from sekai.error import DataError
from sekai.market.almgren_chriss import almgren_chriss_schedule
from tests.compose.orders.days import day, order, panel, work, worlds
from tests.spaces.strategies import law

MARKET = {"volatility": 0.1, "temporary_impact": 1e-3, "risk_aversion": 1e-4}


@law
@given(world=worlds())
def test_every_baseline_fills_the_order(world: Any) -> None:
    ticks, given_order, length, _ = world
    profile = np.linspace(1, 2, len(ticks))
    for policy in (TWAP(), VWAP(profile), OracleVWAP(), AllAtOnce(), AlmgrenChrissPolicy(**MARKET)):
        worked = work(SingleAssetOrderExecutionSimple(given_order, ticks, length), policy)

        assert worked.position == 0.0
        assert worked.metrics is not None
        assert worked.metrics.ffr == pytest.approx(1.0)


def test_a_flat_profile_is_twap() -> None:
    fills = [
        work(SingleAssetOrderExecutionSimple(order("10:15", "14:45"), day()), policy).fills
        for policy in (VWAP(np.ones(240)), TWAP())
    ]

    assert fills[0]["filled"] == pytest.approx(fills[1]["filled"])


def test_the_oracle_trades_in_step_with_the_volume() -> None:
    ticks = day()
    worked = work(SingleAssetOrderExecutionSimple(order(), ticks), OracleVWAP())

    volume = ticks.column("$volume").reshape(8, 30).sum(axis=1)
    assert worked.history_steps["amount"] == pytest.approx(1000 * volume / volume.sum())


def test_expected_volume_comes_from_earlier_days_alone() -> None:
    data = panel()
    later = Order("AAA", 1000, OrderDir.BUY, "2020-01-04 09:30", "2020-01-04 15:00")
    values = data.values.copy()
    values[480:, :, 1] *= np.linspace(1, 9, 240)[:, None]
    other = data.replace(values=values)

    amounts = [
        work(SingleAssetOrderExecutionSimple(later, one), VWAP(data=one)).history_steps["amount"]
        for one in (data, other)
    ]

    assert np.array_equal(amounts[0], amounts[1])
    expected = data.field("volume")[:480, 0].reshape(2, 8, 30).sum(axis=(0, 2))
    assert amounts[0] == pytest.approx(1000 * expected / expected.sum())


def test_the_first_day_of_all_is_traded_evenly() -> None:
    worked = work(SingleAssetOrderExecutionSimple(order(), panel()), VWAP(data=panel()))

    assert worked.history_steps["amount"] == pytest.approx([125.0] * 8)


def test_the_usual_volume_is_learnt_from_days_with_a_shape() -> None:
    world = SimulatedMinutes()
    given_order = Order("SIM", 1000, OrderDir.SELL, "2020-02-04 09:30", "2020-02-04 13:30")

    worked = work(SingleAssetOrderExecutionSimple(given_order, world), VWAP(data=world, days=20))

    amounts = worked.history_steps["amount"]
    assert amounts[0] > 1.3 * amounts[3]
    assert amounts[-1] > 1.3 * amounts[4]


def test_the_schedule_of_almgren_and_chriss_is_the_closed_form() -> None:
    simulator = SingleAssetOrderExecutionSimple(order(), day())
    by_tick = almgren_chriss_schedule(1000, 240, horizon=240.0, **MARKET)

    worked = work(simulator, AlmgrenChrissPolicy(**MARKET))

    expected = by_tick.reshape(8, 30).sum(axis=1)
    assert worked.history_steps["amount"] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_schedule_for_uneven_steps_sums_ticks() -> None:
    state = SingleAssetOrderExecutionSimple(order("10:15", "14:45"), day()).get_state()

    amounts = almgren_chriss_amounts(state, **{**MARKET, "risk_aversion": 0.0})

    assert amounts == pytest.approx(1000 * np.array([15, 30, 30, 30, 30, 30, 15]) / 180)


def test_profiles_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="either a profile or"):
        VWAP()
    with pytest.raises(ValueError, match="profile must be"):
        VWAP([1.0, -1.0])
    state = SingleAssetOrderExecutionSimple(order(), day()).get_state()
    with pytest.raises(DataError, match="must have 240 ticks"):
        VWAP(np.ones(10))(state)


def test_a_day_without_volume_is_traded_evenly() -> None:
    ticks = day(volume=np.zeros(240))
    assert isinstance(ticks, DayTicks)

    worked = work(SingleAssetOrderExecutionSimple(order(), ticks), OracleVWAP())

    assert worked.history_steps["amount"] == pytest.approx([125.0] * 8)
