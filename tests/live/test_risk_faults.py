"""Faults of clocks, accounts and open orders neither open the gate nor wedge it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import StateError
from sekai.live.account import BrokerAccount
from sekai.live.instruments import Instrument
from sekai.live.risk import RiskGate, RiskLimits
from tests.live.test_risk import NOW, OFF, SECOND, order, refused, view


def test_a_step_back_of_the_clock_does_not_empty_the_order_rate() -> None:
    gate = RiskGate(replace(OFF, max_orders_per_minute=2))

    sent = [
        len(gate.check([order()], view(now=NOW + step * SECOND))[0]) for step in (0, 1, -61, -60)
    ]

    assert sent == [1, 1, 0, 0]


def test_after_a_step_back_orders_leave_the_order_rate_with_their_age() -> None:
    gate = RiskGate(replace(OFF, max_orders_per_minute=1))
    gate.check([order()], view(now=NOW))
    gate.check([order()], view(now=NOW - 3600 * SECOND))

    allowed, _ = gate.check([order()], view(now=NOW - 3540 * SECOND))

    assert len(allowed) == 1


def test_open_orders_that_never_end_leave_room_for_reductions() -> None:
    limits = replace(OFF, max_open_orders=3)
    seen = view(units={"A": 10.0}, open_orders=3)

    assert refused(limits, [order(-10.0)], seen) == []
    assert refused(limits, [order(10.0)], seen) == ["max_open_orders"]


def test_purchases_leave_room_for_reductions_in_the_order_rate() -> None:
    gate = RiskGate(replace(OFF, max_orders_per_minute=20))
    seen = view(units={"A": 10.0})

    bought, _ = gate.check([order(1.0)] * 30, seen)
    sold, refusals = gate.check([order(-1.0)] * 3, seen)

    assert (len(bought), len(sold)) == (18, 2)
    assert {refusal.limit for refusal in refusals} == {"max_orders_per_minute"}


@given(
    steps=st.lists(st.tuples(st.integers(-200, 200), st.integers(1, 5)), max_size=30),
    rate=st.integers(1, 12),
)
def test_no_clock_step_lets_more_orders_through_than_time_that_passed(
    steps: list[tuple[int, int]], rate: int
) -> None:
    gate = RiskGate(replace(OFF, max_orders_per_minute=rate))
    now, elapsed, sent = NOW, 0, []
    for step, orders in steps:
        now += step * SECOND
        # A step back is no time at all, and orders keep their age.
        elapsed += max(0, step)
        allowed, _ = gate.check([order()] * orders, view(now=now, receive_time=now))
        sent += [elapsed] * len(allowed)

    for time in sent:
        assert sum(time - 60 < other <= time for other in sent) <= rate


def test_the_order_rate_continues_from_its_state() -> None:
    gate, other = (RiskGate(replace(OFF, max_orders_per_minute=2)) for _ in range(2))
    gate.check([order(), order()], view())

    other.load_state_dict(gate.state_dict())

    assert other.check([order()], view())[0] == []
    with pytest.raises(StateError, match="not the state of a risk gate"):
        other.load_state_dict({"times": ["x"], "now": 0})
    assert other.order_times() == [NOW, NOW]


def test_only_reductions_pass_while_reducing_and_within_the_rate() -> None:
    seen = view(units={"A": 10.0})
    limits = replace(OFF, max_orders_per_minute=2)
    orders = [order(1.0), order(-11.0), order(-3.0), order(-3.0), order(-3.0)]

    allowed, refusals = RiskGate(limits).check(orders, seen, reducing=True)

    assert [one.units for one in allowed] == [-3.0, -3.0]
    assert [refusal.limit for refusal in refusals] == ["order", "order", "max_orders_per_minute"]


def test_a_reduction_has_to_be_one_in_every_account() -> None:
    other = BrokerAccount(cash=100_000.0, units={"A": 4.0})
    seen = view(units={"A": 10.0}, other_accounts=(other,))

    assert refused(OFF, [order(-4.0)], seen, reducing=True) == []
    assert refused(OFF, [order(-5.0)], seen, reducing=True) == ["order"]


def test_the_worse_account_counts_for_losses_and_weights() -> None:
    poorer = BrokerAccount(cash=80_000.0, units={})

    assert refused(RiskLimits(), [order()], view()) == []
    assert refused(RiskLimits(), [order()], view(other_accounts=(poorer,))) == ["max_daily_loss"]
    limits = replace(OFF, max_position_weight=0.5)
    assert refused(limits, [order(450.0)], view()) == []
    assert refused(limits, [order(450.0)], view(other_accounts=(poorer,))) == [
        "max_position_weight"
    ]


def test_a_price_that_is_not_validated_or_outside_the_band_is_not_traded_on() -> None:
    band = {"A": Instrument(asset="A", price_low=10.0, price_high=99.0)}

    assert refused(RiskLimits(), [order()], view(suspects={"A"})) == ["price_collar"]
    assert refused(RiskLimits(), [order(asset="B", price=50.0)], view(suspects={"A"})) == []
    assert refused(RiskLimits(), [order()], view(instruments=band)) == ["order"]
    assert refused(RiskLimits(), [order(-5.0)], view(units={"A": 9.0}, instruments=band)) == [
        "order"
    ]


def test_staleness_is_measured_by_the_clock_that_does_not_step() -> None:
    boot = 500 * SECOND

    assert refused(RiskLimits(), [order()], view(now=boot, arrival=boot - 9 * SECOND)) == []
    assert refused(RiskLimits(), [order()], view(now=boot, arrival=boot - 11 * SECOND)) == [
        "max_staleness_seconds"
    ]


def test_a_row_from_the_future_counts_as_stale() -> None:
    seen = view(now=NOW - 30 * SECOND)

    assert refused(RiskLimits(), [order()], seen) == ["max_staleness_seconds"]


def test_a_foreign_asset_without_a_price_does_not_refuse_everything() -> None:
    account = BrokerAccount(cash=100_000.0, units={"A": 10.0, "BNB": 0.5})
    seen = view(account=account, assets=frozenset("ABC"), day_equity=1e5, peak_equity=1e5)

    assert refused(RiskLimits(), [order()], seen) == []


def test_a_foreign_debt_refuses_all_but_reductions_and_says_why() -> None:
    account = BrokerAccount(cash=100_000.0, units={"A": 10.0, "XRP": -5.0})
    seen = view(account=account, assets=frozenset("ABC"), day_equity=1e5, peak_equity=1e5)

    _, (refusal,) = RiskGate().check([order(), order(-10.0)], seen)

    assert refusal.order.units == 10.0
    assert refusal.reason == "equity is unknown: short positions in foreign assets ['XRP']"


def test_an_own_position_without_a_price_is_named() -> None:
    seen = view(units={"D": 3.0}, assets=frozenset("ABCD"), day_equity=1.0, peak_equity=1.0)

    _, (refusal,) = RiskGate().check([order()], seen)

    assert refusal.reason == "equity is unknown: no valid price or position of ['D']"
