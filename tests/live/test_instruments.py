"""Orders are rounded to lots and ticks exactly, towards 0, and what is not sent is explained."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sekai.live.instruments import Instrument, is_flat, round_orders
from sekai.live.orders import BrokerOrder

STEPS = [1.0, 0.1, 0.01, 0.001, 1e-8, 0.25, 0.3, 7.0, 100.0, 0.05]


def order(units: float, price: float = 100.0) -> BrokerOrder:
    return BrokerOrder(id="o", asset="A", units=units, reference_price=price)


def exact(number: float) -> Fraction:
    return Fraction(Decimal(repr(number)))


@given(units=st.floats(-1e9, 1e9), lot=st.sampled_from(STEPS))
@example(units=0.30000000000000004, lot=0.1)
@example(units=-0.29999999999999999, lot=0.1)
@example(units=2.675, lot=0.01)
@example(units=1e-300, lot=1e-8)
def test_units_are_whole_lots_towards_zero(units: float, lot: float) -> None:
    rounded = Instrument(asset="A", lot=lot).round_units(units)

    lots = Decimal(repr(rounded)) / Decimal(repr(lot))
    assert lots == lots.to_integral_value() or rounded == float(
        lots.to_integral_value() * Decimal(repr(lot))
    )
    slack = abs(exact(units)) / 10**12
    assert abs(exact(rounded)) <= abs(exact(units)) + slack
    assert abs(exact(units)) - abs(exact(rounded)) < exact(lot) + slack
    assert rounded == 0.0 or math.copysign(1.0, rounded) == math.copysign(1.0, units)
    assert math.copysign(1.0, rounded) == 1.0 or rounded < 0.0


@given(count=st.integers(-(10**6), 10**6), lot=st.sampled_from(STEPS))
def test_whole_lots_stay_as_they_are_and_leave_no_residue(count: int, lot: float) -> None:
    instrument = Instrument(asset="A", lot=lot)
    units = float(count * Decimal(repr(lot)))

    assert instrument.round_units(units) == units
    assert instrument.round_units(count * lot) == units


@given(parts=st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_a_position_summed_in_floats_is_closed_without_a_residue(parts: list[int]) -> None:
    held = 0.0
    for part in parts:
        held += part * 0.1
    instrument = Instrument(asset="A", lot=0.1)

    orders, residuals = round_orders([order(-held)], {"A": instrument})

    assert [one.units for one in orders] == [-float(Decimal(sum(parts)) * Decimal("0.1"))]
    assert residuals == []
    assert instrument.is_dust(held + orders[0].units, 100.0)


@given(units=st.floats(1e-3, 1e6), lot=st.sampled_from(STEPS))
def test_sent_and_left_add_up_to_the_order(units: float, lot: float) -> None:
    orders, residuals = round_orders([order(units)], {"A": Instrument(asset="A", lot=lot)})

    sent = sum(exact(one.units) for one in orders)
    left = sum(exact(one.units) for one in residuals)
    assert abs(sent + left - exact(units)) <= exact(units) / 10**12


@given(price=st.floats(1e-3, 1e6), tick=st.sampled_from(STEPS))
def test_prices_are_the_nearest_tick_and_at_least_one(price: float, tick: float) -> None:
    rounded = Instrument(asset="A", tick=tick).round_price(price)

    assert rounded > 0.0
    assume(price > tick)
    assert abs(exact(rounded) - exact(price)) <= exact(tick) / 2 + exact(price) / 10**15
    half = (Decimal(repr(price)) / Decimal(repr(tick))).to_integral_value(ROUND_DOWN)
    assert rounded in {float(half * Decimal(repr(tick))), float((half + 1) * Decimal(repr(tick)))}


@pytest.mark.parametrize(
    ("rules", "units", "price", "sent", "reason", "left"),
    [
        ({"lot": 1.0}, 0.9, 100.0, [], "lot", 0.9),
        ({"lot": 1.0}, -2.75, 100.0, [-2.0], "lot", -0.75),
        ({"min_units": 5.0}, 4.0, 100.0, [], "min_units", 4.0),
        ({"min_notional": 10.0, "lot": 0.01}, 0.09, 100.0, [], "min_notional", 0.09),
        ({"max_units": 5.0, "lot": 2.0}, 9.0, 100.0, [4.0], "max_units", 5.0),
        ({"max_units": 5.0}, -9.0, 100.0, [-5.0], "max_units", -4.0),
        ({"price_low": 90.0, "price_high": 99.0}, 1.0, 100.0, [], "price_band", 1.0),
        ({"price_low": 101.0}, -1.0, 100.0, [], "price_band", -1.0),
    ],
)
def test_each_rule_explains_what_was_not_sent(
    rules: dict[str, float], units: float, price: float, sent: list[float], reason: str, left: float
) -> None:
    orders, residuals = round_orders([order(units, price)], {"A": Instrument(asset="A", **rules)})

    assert [one.units for one in orders] == sent
    assert [(one.reason, one.units) for one in residuals] == [(reason, left)]
    assert residuals[0].text


def test_reference_prices_are_rounded_and_ids_kept() -> None:
    orders, residuals = round_orders([order(1.0, 100.013)], {"A": Instrument(asset="A", tick=0.05)})

    assert [(one.id, one.reference_price) for one in orders] == [("o", 100.0)]
    assert residuals == []


@pytest.mark.parametrize("units", [math.nan, math.inf, -math.inf])
def test_invalid_orders_are_left_to_the_gate(units: float) -> None:
    (left,), residuals = round_orders([order(units)], {"A": Instrument(asset="A", lot=1.0)})

    assert repr(left.units) == repr(units)
    assert residuals == []


def test_orders_without_an_instrument_are_left_as_they_are() -> None:
    assert round_orders([order(0.123)], {}) == ([order(0.123)], [])


def test_a_position_that_no_order_could_close_is_dust() -> None:
    instruments = {"A": Instrument(asset="A", lot=0.1, min_notional=5.0)}

    assert is_flat({"A": 0.09, "B": 0.0}, instruments, {"A": 100.0})
    assert is_flat({"A": -0.2}, instruments, {"A": 20.0})
    assert not is_flat({"A": -0.2}, instruments, {"A": 26.0})
    assert not is_flat({"A": 0.2}, instruments, {})
    assert not is_flat({"B": 1e-9}, instruments, {"B": 1.0})


@pytest.mark.parametrize(
    "rules",
    [
        {"lot": 0.0},
        {"lot": -1.0},
        {"tick": math.nan},
        {"min_units": -1.0},
        {"max_units": math.inf},
        {"price_low": 2.0, "price_high": 1.0},
        {"max_units": 1.0, "min_units": 2.0},
        {"lot": True},
    ],
)
def test_impossible_rules_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Instrument(asset="A", **rules)
