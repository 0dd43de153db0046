"""Fill allocation adds up to the last bit."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from sekai.live.paper.orders import allocate_cost, allocate_fill

units = st.floats(0.001, 1e6) | st.floats(-1e6, -0.001)
orders = st.lists(units, min_size=1, max_size=6)


@given(
    asked=st.lists(st.floats(0.001, 1e6), min_size=1, max_size=6),
    part=st.floats(0.0, 1.0),
    side=st.sampled_from([1.0, -1.0]),
)
def test_shares_of_one_side_add_up_to_the_last_place(
    asked: list[float], part: float, side: float
) -> None:
    asked = [side * units for units in asked]
    traded = math.fsum(asked) * part

    shares, excess = allocate_fill(traded, asked)

    assert abs(math.fsum([traded, *(-share for share in shares)])) <= math.ulp(traded) / 2
    assert excess == 0.0


@given(asked=orders, part=st.floats(0.0, 1.0))
def test_shares_add_up_to_what_was_traded_and_none_is_more_than_was_asked(
    asked: list[float], part: float
) -> None:
    traded = math.fsum(asked) * part

    shares, excess = allocate_fill(traded, asked)

    assert abs(math.fsum([*shares, excess]) - traded) <= 1e-15 * max(map(abs, asked))
    assert excess == 0.0
    for share, wanted in zip(shares, asked, strict=True):
        assert share * wanted >= 0.0
        assert abs(share) <= abs(wanted) * (1.0 + 1e-12)


@given(asked=orders)
def test_what_is_traded_in_full_gives_everyone_exactly_what_was_asked(asked: list[float]) -> None:
    traded = math.fsum(asked)

    shares, excess = allocate_fill(traded, asked)

    assert shares == (asked if traded else [0.0] * len(asked))
    assert excess == 0.0


@given(asked=st.lists(st.floats(1.0, 100.0), min_size=2, max_size=6), part=st.floats(0.0, 1.0))
def test_who_came_first_is_served_first(asked: list[float], part: float) -> None:
    shares, _ = allocate_fill(math.fsum(asked) * part, asked)

    short = [place for place in range(len(asked)) if shares[place] < asked[place] * (1 - 1e-12)]
    assert all(share <= 1e-12 for share in shares[short[0] + 1 :]) if short else True


@given(asked=orders, extra=st.floats(0.5, 100.0))
def test_what_nobody_asked_for_is_told_apart(asked: list[float], extra: float) -> None:
    total = math.fsum(asked)
    traded = total + math.copysign(extra, total)

    shares, excess = allocate_fill(traded, asked)

    assert shares == (asked if total else [0.0] * len(asked))
    assert math.isclose(excess, math.copysign(extra, total), abs_tol=1e-9 * abs(traded))


def test_what_is_traded_the_other_way_round_is_nobodys() -> None:
    assert allocate_fill(-3.0, [5.0, 1.0]) == ([0.0, 0.0], -3.0)


def test_orders_on_the_smaller_side_are_filled_by_those_on_the_other() -> None:
    assert allocate_fill(2.0, [10.0, -4.0]) == ([6.0, -4.0], 0.0)


@given(cost=st.just(0.0) | st.floats(1e-9, 1e4), traded=orders)
def test_costs_add_up_and_follow_size(cost: float, traded: list[float]) -> None:
    shares = allocate_cost(cost, traded)

    assert math.isclose(math.fsum(shares), cost, rel_tol=1e-15)
    whole = math.fsum(map(abs, traded))
    for share, each in zip(shares, traded, strict=True):
        assert math.isclose(share, cost * abs(each) / whole, rel_tol=1e-9, abs_tol=1e-12 * cost)
