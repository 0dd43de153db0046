"""Orders and the moments they are given by."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from sekai.compose import (
    DirectionError,
    Order,
    OrderDir,
    OrderExecution,
    SimulatedMinutes,
)
from tests.compose.orders.days import order

START = np.datetime64("2020-01-02T09:30:00", "ns")


@pytest.mark.parametrize(
    "moment",
    [
        "2020-01-02 09:30",
        "2020-01-02T09:30:00",
        datetime.datetime(2020, 1, 2, 9, 30),
        np.datetime64("2020-01-02T09:30"),
        pd.Timestamp("2020-01-02 09:30"),
    ],
)
def test_moments_can_be_given_in_many_ways(moment: Any) -> None:
    given = Order("AAA", 1, 1, moment, "2020-01-02 15:00")

    assert given.start_time == START
    assert given.start_time.dtype == "datetime64[ns]"


@pytest.mark.parametrize(
    "moment",
    [
        pd.Timestamp("2020-01-02", tz="UTC"),
        "2020-01-02T09:30:00+01:00",
        "2020-01-02 09:30-0500",
        "2020-01-02T09:30+01",
        "2020-01-02T09:30:00.5Z",
    ],
)
def test_a_moment_with_a_zone_is_refused_with_what_to_do(moment: Any) -> None:
    with pytest.raises(ValueError, match="without a time zone, got 2020-01-02.*and drop it"):
        Order("A", 1, OrderDir.BUY, moment, "2020-01-02 15:00")
    with pytest.raises(ValueError, match="without a time zone"):
        SimulatedMinutes().day("A", moment)
    with pytest.raises(ValueError, match="without a time zone"):
        OrderExecution(days=[moment])


@pytest.mark.parametrize("moment", [12, None, "tomorrow", np.datetime64("NaT")])
def test_what_is_no_moment_is_refused(moment: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="time must"):
        Order("A", 1, OrderDir.BUY, moment, START)


def test_directions_are_those_of_qlib() -> None:
    assert (OrderDir.SELL, OrderDir.BUY) == (0, 1)
    assert order(direction=0).sign == -1
    assert Order("A", 1, "buy", START, START).direction is OrderDir.BUY


@pytest.mark.parametrize("direction", [2, -1, "hold", None])
def test_another_direction_is_refused(direction: Any) -> None:
    with pytest.raises(NotImplementedError, match="SELL"):
        Order("A", 1, direction, START, START)
    assert issubclass(DirectionError, ValueError)


@pytest.mark.parametrize("amount", [-1, np.nan, np.inf])
def test_an_amount_is_finite_and_not_negative(amount: float) -> None:
    with pytest.raises(ValueError, match="amount must be finite"):
        order(amount=amount)


def test_an_order_ends_after_it_starts() -> None:
    with pytest.raises(ValueError, match="before it starts"):
        order("10:00", "09:59")


def test_the_key_of_a_day_is_asset_day_and_direction() -> None:
    one, other = order("09:30", "10:00"), order("11:00", "11:10")

    assert one.key_by_day == other.key_by_day == ("AAA", np.datetime64("2020-01-02"), OrderDir.BUY)
    assert one.key != other.key


def test_orders_compare_by_value_and_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(order())) == order()
    assert hash(order()) == hash(order())
