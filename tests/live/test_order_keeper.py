"""Every report counts once, in whatever order they come."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.broker import BrokerAccount
from sekai.live.journal import Record
from sekai.live.order_keeper import OrderKeeper
from sekai.live.order_records import order_fields, report_fields
from sekai.live.orders import Order, OrderReport, ReportKind


def order(name: str = "s-1-A", units: float = 10.0) -> Order:
    return Order(id=name, asset="A", units=units, reference_price=100.0)


def report(
    number: int, kind: ReportKind, units: float = 0.0, order_id: str = "s-1-A", price: float = 100.0
) -> OrderReport:
    return OrderReport(
        id=f"{order_id}:{number}", order_id=order_id, kind=kind, units=units, price=price,
        cost=0.5 if units else 0.0, reason="why" if kind not in ("filled", "acknowledged") else "",
    )  # fmt: skip


def keeper_of(*orders: Order) -> OrderKeeper:
    keeper = OrderKeeper()
    for each in orders:
        keeper.intend(each)
    return keeper


def summary(keeper: OrderKeeper) -> dict[str, Any]:
    kept = {
        name: (one.is_sent, one.is_acknowledged, round(one.filled, 9), one.is_done)
        for name, one in keeper.orders.items()
    }
    units = {asset: round(held, 9) for asset, held in keeper.units.items()}
    return {"orders": kept, "cash": round(keeper.cash, 6), "units": units}


@given(
    fills=st.lists(st.floats(0.5, 3.0), min_size=1, max_size=5),
    end=st.sampled_from(["cancelled", "expired"]),
    repeats=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_reports_in_any_order_and_repeated_give_the_same(
    fills: list[float], end: ReportKind, repeats: int, seed: int
) -> None:
    said = [report(0, "acknowledged"), *(report(n + 1, "filled", u) for n, u in enumerate(fills))]
    said.append(report(9, end))
    straight, shuffled = keeper_of(order(units=20.0)), keeper_of(order(units=20.0))

    for each in said:
        straight.take(each)
    mixed = said * repeats
    random.Random(seed).shuffle(mixed)
    news = [shuffled.take(each) for each in mixed]

    assert sum(news) == len(said)
    assert summary(straight) == summary(shuffled)
    assert not straight.alerts
    assert not shuffled.alerts
    assert straight["s-1-A"].end == end


def test_an_order_goes_from_intended_to_filled() -> None:
    keeper = keeper_of(order())
    kept = keeper["s-1-A"]
    assert (kept.is_sent, kept.is_acknowledged, kept.is_done) == (False, False, False)

    keeper.send("s-1-A")
    keeper.take(report(0, "acknowledged"))
    keeper.take(report(1, "filled", 4.0, price=90.0))

    assert (kept.is_sent, kept.is_acknowledged, kept.is_done) == (True, True, False)
    assert kept.rest == 6.0
    assert keeper.unresolved() == [order()]
    assert keeper.open_units() == {"A": (0.0, 6.0)}

    keeper.take(report(2, "filled", 6.0, price=110.0))

    assert kept.end == "filled"
    assert kept.rest == 0.0
    assert kept.price == pytest.approx(102.0)
    assert keeper.unresolved() == []
    assert keeper.open_units() == {}
    assert keeper.units == {"A": 10.0}
    assert keeper.cash == -(4 * 90.0 + 6 * 110.0 + 1.0)


def test_a_fill_before_its_acknowledgement_is_fine() -> None:
    keeper = keeper_of(order())

    keeper.take(report(1, "filled", 10.0))
    keeper.take(report(0, "acknowledged"))

    assert keeper["s-1-A"].is_sent
    assert keeper["s-1-A"].is_acknowledged
    assert keeper["s-1-A"].end == "filled"
    assert not keeper.alerts


@pytest.mark.parametrize("units", [10.5, -1.0])
def test_a_fill_beyond_the_order_is_counted_and_is_an_alert(units: float) -> None:
    keeper = keeper_of(order())

    keeper.take(report(0, "filled", units))

    assert keeper.units == {"A": units}
    assert len(keeper.alerts) == 1
    assert "of an order of 10.0" in keeper.alerts[0]


def test_a_report_of_an_order_nobody_sent_is_an_alert_and_counts_nothing() -> None:
    keeper = keeper_of()

    assert not keeper.take(report(0, "filled", 10.0, order_id="who"))

    assert keeper.units == {}
    assert keeper.cash == 0.0
    assert "nobody sent" in keeper.alerts[0]


def test_a_fill_of_an_abandoned_order_is_counted_and_is_an_alert() -> None:
    keeper = keeper_of(order())
    keeper.abandon("s-1-A", "a newer row has come")

    keeper.take(report(0, "filled", 10.0))

    assert keeper.units == {"A": 10.0}
    assert keeper["s-1-A"].end == "abandoned"
    assert "abandoned" in keeper.alerts[0]


def test_two_orders_under_one_id_are_refused() -> None:
    keeper = keeper_of(order())
    keeper.intend(order())

    with pytest.raises(ValueError, match="found two: 's-1-A'"):
        keeper.intend(order(units=11.0))

    assert keeper["s-1-A"].order == order()


def test_it_is_rebuilt_from_what_was_written() -> None:
    written: list[Record] = []

    def write(kind: Any, fields: dict[str, Any]) -> None:
        written.append(Record(number=len(written), time=0, kind=kind, fields=fields))

    keeper = OrderKeeper()
    for name in ("s-1-A", "s-2-A", "s-3-A"):
        write("order", order_fields(order(name)))
        keeper.intend(order(name))
    for each in (report(0, "acknowledged"), report(1, "filled", 4.0)):
        write("report", report_fields(each))
        keeper.take(each)
    write("bar", {"time": 0})
    write("sent", {"id": "s-2-A"})
    keeper.send("s-2-A")
    write("cancel", {"id": "s-2-A"})
    keeper.cancel("s-2-A")
    write("abandoned", {"id": "s-3-A", "reason": "old"})
    keeper.abandon("s-3-A", "old")

    again = OrderKeeper()
    again.read(written)

    assert again.orders == keeper.orders
    assert (again.units, again.cash) == (keeper.units, keeper.cash)
    assert [each.id for each in again.unresolved()] == ["s-1-A", "s-2-A"]


def test_orders_that_ended_long_ago_are_folded_into_sums() -> None:
    keeper = OrderKeeper(keep=3)
    keeper.intend(order("still open"))

    for number in range(100):
        name = f"s-{number}-A"
        keeper.intend(order(name, units=2.0))
        keeper.take(report(0, "filled", 2.0, order_id=name))

    assert len(keeper.orders) == 4
    assert keeper.folded == 97
    assert keeper.units == {"A": 200.0}
    assert keeper.fills == 100
    assert [each.id for each in keeper.unresolved()] == ["still open"]


def test_rebasing_believes_the_broker() -> None:
    keeper = keeper_of(order())
    keeper.take(report(0, "filled", 10.0))

    keeper.rebase(BrokerAccount(cash=7.0, units={"B": 1.0}, costs={"borrow": 2.0, "fixed": 9.0}))

    assert (keeper.cash, keeper.units, keeper.accrued) == (7.0, {"B": 1.0}, 2.0)


def test_a_fill_that_no_order_asked_for_counts_once_and_is_an_alert() -> None:
    keeper = keeper_of()
    own = OrderReport(
        id="account-3-B:0", order_id="account-3-B", kind="filled", units=-2.0, price=50.0,
        cost=1.0, asset="B", reason="margin was called",
    )  # fmt: skip

    assert [keeper.take(own), keeper.take(own)] == [True, False]

    assert keeper.units == {"B": -2.0}
    assert keeper.cash == 99.0
    assert len(keeper.alerts) == 1
    assert "margin was called" in keeper.alerts[0]
