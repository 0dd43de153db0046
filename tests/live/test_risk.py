"""Allowed orders break no limit, whichever are filled and however they are split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.account import BrokerAccount
from sekai.live.orders import BrokerOrder
from sekai.live.risk import RiskGate, RiskLimits, RiskView, closing_orders

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND
OFF = RiskLimits.from_dict(dict.fromkeys(RiskLimits().to_dict(), "off"))


def order(
    units: float = 10.0, asset: str = "A", price: float = 100.0, name: str = "o"
) -> BrokerOrder:
    return BrokerOrder(id=name, asset=asset, units=units, reference_price=price)


def view(
    cash: float = 100_000.0, units: Mapping[str, float] | None = None, **changed: Any
) -> RiskView:
    prices = {"A": 100.0, "B": 50.0, "C": 200.0}
    account = BrokerAccount(cash=cash, units=units or {})
    seen = RiskView(
        account=account, prices=prices, previous_prices=prices, bar_time=NOW, receive_time=NOW,
        now=NOW, day_equity=1.0, peak_equity=1.0,
    )  # fmt: skip
    seen = replace(seen, day_equity=seen.equity(), peak_equity=seen.equity())
    return replace(seen, **changed)


def refused(
    limits: RiskLimits, orders: list[BrokerOrder], seen: RiskView, **how: bool
) -> list[str]:
    allowed, refusals = RiskGate(limits).check(orders, seen, **how)
    assert len(allowed) + len(refusals) == len(orders)
    return [refusal.limit for refusal in refusals]


assets = st.sampled_from(["A", "B", "C"])
holdings = st.dictionaries(assets, st.floats(-500.0, 500.0))
random_orders = st.lists(
    st.builds(order, st.floats(-800.0, 800.0).filter(bool), assets, st.floats(45.0, 220.0)),
    min_size=1, max_size=8,
)  # fmt: skip


@given(
    units=holdings,
    waiting=holdings,
    orders=random_orders,
    position=st.floats(0.05, 1.5),
    leverage=st.floats(0.1, 3.0),
    data=st.data(),
)
def test_whatever_is_filled_of_what_is_allowed_no_limit_is_broken(
    units: dict[str, float], waiting: dict[str, float], orders: list[BrokerOrder], position: float,
    leverage: float, data: st.DataObject,
) -> None:  # fmt: skip
    limits = replace(
        OFF, max_position_weight=position, max_gross_leverage=leverage, max_order_units=900.0
    )
    account = BrokerAccount(cash=60_000.0, units=units, open_units=waiting)
    seen = view(account=account)

    allowed, _ = RiskGate(limits).check(orders, seen)

    filled = [one for one in allowed if data.draw(st.booleans())]
    standing = {asset for asset in waiting if data.draw(st.booleans())}
    cash, held = account.cash, dict(units)
    for asset in standing:
        held[asset] = held.get(asset, 0.0) + waiting[asset]
        cash -= waiting[asset] * seen.prices[asset]
    for one in filled:
        held[one.asset] = held.get(one.asset, 0.0) + one.units
        cash -= one.units * one.reference_price
    values = {asset: abs(held[asset]) * seen.prices[asset] for asset in held}
    before = {
        asset: seen.prices[asset]
        * max(abs(units.get(asset, 0.0)), abs(units.get(asset, 0.0) + waiting.get(asset, 0.0)))
        for asset in {*units, *waiting}
    }
    equity = cash + sum(held[asset] * seen.prices[asset] for asset in held)
    for asset, value in values.items():
        assert value <= max(position * equity, before.get(asset, 0.0)) * (1 + 1e-9) + 1e-9
    gross = sum(values.values())
    assert gross <= max(leverage * equity, sum(before.values())) * (1 + 1e-9) + 1e-9
    for asset in "ABC":
        assert sum(abs(one.units) for one in allowed if one.asset == asset) <= 900.0


@given(
    units=st.floats(1.0, 400.0),
    parts=st.lists(st.floats(0.1, 300.0), min_size=1, max_size=10),
    side=st.sampled_from([1.0, -1.0]),
)
def test_splitting_an_order_gets_no_more_through(
    units: float, parts: list[float], side: float
) -> None:
    limits = RiskLimits(max_order_units=500.0, max_position_weight=0.5, max_gross_leverage=0.6)
    seen = view(cash=100_000.0 - side * units * 100.0, units={"A": side * units})

    allowed, _ = RiskGate(limits).check([order(side * part) for part in parts], seen)

    together = units + sum(abs(one.units) for one in allowed)
    assert not allowed or together * 100.0 <= 0.5 * 100_000.0 * (1 + 1e-9)


@given(
    held=st.floats(-900.0, 900.0).filter(lambda units: abs(units) > 1.0),
    parts=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5),
)
def test_what_closes_a_position_passes_position_leverage_and_loss(
    held: float, parts: list[float]
) -> None:
    limits = RiskLimits(
        max_position_weight=0.01, max_gross_leverage=0.01, max_daily_loss=0.01, max_drawdown=0.01
    )
    seen = view(cash=100_000.0, units={"A": held}, day_equity=1e7, peak_equity=1e7)
    whole = math.fsum(parts)
    orders = [order(-held * part / whole) for part in parts]

    assert refused(limits, orders, seen) == []


@given(held=st.floats(1.0, 400.0), more=st.floats(1.0, 400.0))
def test_what_goes_past_nothing_is_no_reduction(held: float, more: float) -> None:
    limits = RiskLimits(max_daily_loss=0.01)
    seen = view(units={"A": held}, day_equity=1e9)

    assert refused(limits, [order(-held - more)], seen) == ["max_daily_loss"]
    assert refused(limits, [order(-held), order(-more)], seen) == ["max_daily_loss"]


def test_a_sale_counts_what_is_being_sold_already() -> None:
    limits = RiskLimits(max_daily_loss=0.01)
    seen = view(units={"A": 10.0}, open_units={"A": (-4.0, 0.0)}, day_equity=1e9)

    assert refused(limits, [order(-6.0)], seen) == []
    assert refused(limits, [order(-7.0)], seen) == ["max_daily_loss"]


@pytest.mark.parametrize(
    ("limits", "orders", "limit"),
    [
        ({"max_order_units": 9.0}, [order(10.0)], "max_order_units"),
        ({"max_order_units": 19.0}, [order(10.0), order(10.0)], "max_order_units"),
        ({"max_order_units": 19.0}, [order(10.0), order(-10.0)], "max_order_units"),
        ({"max_order_notional": 999.0}, [order(10.0)], "max_order_notional"),
        ({"max_order_notional": 1050.0}, [order(10.0, price=110.0)], "max_order_notional"),
        ({"max_position_weight": 0.5}, [order(501.0)], "max_position_weight"),
        ({"max_position_weight": 0.5}, [order(-501.0)], "max_position_weight"),
        ({"max_gross_leverage": 0.5}, [order(300.0), order(-450.0, "B")], "max_gross_leverage"),
        ({"price_collar": 0.1}, [order(price=111.0)], "price_collar"),
        ({"price_collar": 0.1}, [order(price=89.0)], "price_collar"),
        ({"max_open_orders": 3}, [order() for _ in range(4)], "max_open_orders"),
        ({"max_orders_per_minute": 3}, [order() for _ in range(4)], "max_orders_per_minute"),
        ({}, [order(math.nan)], "order"),
        ({}, [order(0.0)], "order"),
        ({}, [order(price=0.0)], "order"),
        ({}, [order(asset="unknown")], "order"),
    ],
)
def test_each_limit_refuses_what_is_over_it(
    limits: dict[str, Any], orders: list[BrokerOrder], limit: str
) -> None:
    assert refused(replace(OFF, **limits), orders, view()) == [limit]
    assert limit == "order" or refused(OFF, orders, view()) == []


@pytest.mark.parametrize("limit", [name for name in RiskLimits().to_dict() if "max" in name])
def test_what_is_well_within_every_limit_passes(limit: str) -> None:
    assert refused(replace(RiskLimits(), **{limit: None}), [order()], view()) == []
    assert refused(RiskLimits(), [order()], view()) == []


def test_a_price_that_jumped_since_the_row_before_is_not_traded_on() -> None:
    seen = view(previous_prices={"A": 130.0, "B": 50.0})

    assert refused(RiskLimits(), [order(), order(asset="B", price=50.0)], seen) == ["price_collar"]


@pytest.mark.parametrize(
    ("changed", "limit", "words"),
    [
        ({"day_equity": 106_000.0}, "max_daily_loss", "at the start of the day, limit 5.0% loss"),
        ({"peak_equity": 140_000.0}, "max_drawdown", "at the peak, limit 25.0% loss"),
        (
            {"now": NOW + 11 * SECOND},
            "max_staleness_seconds",
            "last row is 11.0 s old, limit 10.0 s",
        ),
        ({"bar_time": NOW - 3 * SECOND}, "max_delay_seconds", "delayed by 3.0 s, limit 2.0 s"),
    ],
)
def test_losses_and_old_rows_refuse_orders(changed: dict[str, Any], limit: str, words: str) -> None:
    limits = RiskLimits(max_delay_seconds=2.0)
    seen = view(**changed)

    _, refusals = RiskGate(limits).check([order()], seen)

    assert refused(limits, [order()], view()) == []
    assert [refusal.limit for refusal in refusals] == [limit]
    assert words in refusals[0].reason
    assert refused(replace(limits, **{limit: None}), [order()], seen) == []


def test_a_position_without_a_price_refuses_purchases() -> None:
    seen = view(units={"unknown": 3.0}, day_equity=1.0, peak_equity=1.0)

    assert refused(RiskLimits(), [order()], seen) == ["max_daily_loss"]


def test_reductions_are_refused_when_old_off_price_or_too_many() -> None:
    held = view(units={"A": 100.0})
    sale = order(-1.0)

    assert refused(RiskLimits(), [sale], replace(held, now=NOW + 60 * SECOND)) == [
        "max_staleness_seconds"
    ]
    assert refused(RiskLimits(), [order(-1.0, price=10.0)], held) == ["price_collar"]
    assert refused(RiskLimits(max_orders_per_minute=1), [sale, sale], held) == [
        "max_orders_per_minute"
    ]


def test_the_rate_counts_any_sixty_seconds() -> None:
    gate = RiskGate(replace(OFF, max_orders_per_minute=2))

    def sent_at(seconds: float) -> int:
        return len(gate.check([order()], view(now=NOW + int(seconds * SECOND)))[0])

    assert [sent_at(0.0), sent_at(30.0), sent_at(59.9)] == [1, 1, 0]
    assert [sent_at(60.0), sent_at(89.0), sent_at(90.0)] == [1, 0, 1]


def test_orders_from_before_a_restart_count_towards_the_rate() -> None:
    gate = RiskGate(replace(OFF, max_orders_per_minute=2))

    gate.count(NOW - 5 * SECOND, 2)

    assert gate.check([order()], view())[0] == []


def test_large_positions_are_closed_in_parts_within_the_order_limits() -> None:
    limits = RiskLimits(max_order_notional=3_000.0)
    positions, prices = {"A": 100.0, "B": -90.0}, {"A": 100.0, "B": 50.0}

    orders = closing_orders("stop", positions, prices, limits, {}, most=50)

    assert len({one.id for one in orders}) == len(orders) == 6
    for asset, held in positions.items():
        closed = sum(one.units for one in orders if one.asset == asset)
        assert closed == pytest.approx(-held, rel=1e-12)
    assert all(abs(one.units) * prices[one.asset] <= 3_000.0 for one in orders)
    assert closing_orders("stop", positions, prices, limits, {}, most=3) == orders[:3]


def test_reducing_does_not_pass_the_collar_and_opens_nothing() -> None:
    seen = view(units={"A": 100.0})

    assert refused(RiskLimits(), [order(-1.0, price=10.0)], seen, reducing=True) == ["price_collar"]
    assert refused(RiskLimits(), [order(1.0), order(-101.0)], seen, reducing=True) == [
        "order", "order",
    ]  # fmt: skip
