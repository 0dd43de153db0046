"""The order tracker counts every report once, in any order."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.account import BrokerAccount
from sekai.live.journal import JournalRecord
from sekai.live.orders import (
    BrokerOrder,
    ExecutionReport,
    OrderTracker,
    ReportKind,
    order_fields,
    report_fields,
)


def order(name: str = "s-1-A", units: float = 10.0) -> BrokerOrder:
    return BrokerOrder(id=name, asset="A", units=units, reference_price=100.0)


def report(
    number: int, kind: ReportKind, units: float = 0.0, order_id: str = "s-1-A", price: float = 100.0
) -> ExecutionReport:
    return ExecutionReport(
        id=f"{order_id}:{number}", order_id=order_id, kind=kind, units=units, price=price,
        cost=0.5 if units else 0.0, reason="why" if kind not in ("filled", "acknowledged") else "",
    )  # fmt: skip


def tracker_of(*orders: BrokerOrder) -> OrderTracker:
    tracker = OrderTracker()
    for each in orders:
        tracker.intend(each)
    return tracker


def summary(tracker: OrderTracker) -> dict[str, Any]:
    kept = {
        name: (one.is_sent, one.is_acknowledged, round(one.filled, 9), one.is_done)
        for name, one in tracker.orders.items()
    }
    units = {asset: round(held, 9) for asset, held in tracker.units.items()}
    return {"orders": kept, "cash": round(tracker.cash, 6), "units": units}


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
    straight, shuffled = tracker_of(order(units=20.0)), tracker_of(order(units=20.0))

    for each in said:
        straight.apply(each)
    mixed = said * repeats
    random.Random(seed).shuffle(mixed)
    news = [shuffled.apply(each) for each in mixed]

    assert sum(news) == len(said)
    assert summary(straight) == summary(shuffled)
    assert not straight.alerts
    assert not shuffled.alerts
    assert straight["s-1-A"].outcome == end


def test_an_order_goes_from_intended_to_filled() -> None:
    tracker = tracker_of(order())
    kept = tracker["s-1-A"]
    assert (kept.is_sent, kept.is_acknowledged, kept.is_done) == (False, False, False)

    tracker.send("s-1-A")
    tracker.apply(report(0, "acknowledged"))
    tracker.apply(report(1, "filled", 4.0, price=90.0))

    assert (kept.is_sent, kept.is_acknowledged, kept.is_done) == (True, True, False)
    assert kept.remaining == 6.0
    assert tracker.unresolved() == [order()]
    assert tracker.open_units() == {"A": (0.0, 6.0)}

    tracker.apply(report(2, "filled", 6.0, price=110.0))

    assert kept.outcome == "filled"
    assert kept.remaining == 0.0
    assert kept.price == pytest.approx(102.0)
    assert tracker.unresolved() == []
    assert tracker.open_units() == {}
    assert tracker.units == {"A": 10.0}
    assert tracker.cash == -(4 * 90.0 + 6 * 110.0 + 1.0)


def test_a_fill_before_its_acknowledgement_is_fine() -> None:
    tracker = tracker_of(order())

    tracker.apply(report(1, "filled", 10.0))
    tracker.apply(report(0, "acknowledged"))

    assert tracker["s-1-A"].is_sent
    assert tracker["s-1-A"].is_acknowledged
    assert tracker["s-1-A"].outcome == "filled"
    assert not tracker.alerts


@pytest.mark.parametrize("units", [10.5, -1.0])
def test_a_fill_beyond_the_order_is_counted_and_is_an_alert(units: float) -> None:
    tracker = tracker_of(order())

    tracker.apply(report(0, "filled", units))

    assert tracker.units == {"A": units}
    assert len(tracker.alerts) == 1
    assert "of an order of 10.0" in tracker.alerts[0]


def test_a_report_of_an_order_nobody_sent_is_an_alert_and_counts_nothing() -> None:
    tracker = tracker_of()

    assert not tracker.apply(report(0, "filled", 10.0, order_id="who"))

    assert tracker.units == {}
    assert tracker.cash == 0.0
    assert "of an unknown order" in tracker.alerts[0]


def test_a_fill_of_an_abandoned_order_is_counted_and_is_an_alert() -> None:
    tracker = tracker_of(order())
    tracker.abandon("s-1-A", "a newer row has come")

    tracker.apply(report(0, "filled", 10.0))

    assert tracker.units == {"A": 10.0}
    assert tracker["s-1-A"].outcome == "abandoned"
    assert "abandoned" in tracker.alerts[0]


def test_two_orders_under_one_id_are_refused() -> None:
    tracker = tracker_of(order())
    tracker.intend(order())

    with pytest.raises(ValueError, match="order id 's-1-A' is taken"):
        tracker.intend(order(units=11.0))

    assert tracker["s-1-A"].order == order()


def test_it_is_rebuilt_from_what_was_written() -> None:
    written: list[JournalRecord] = []

    def write(kind: Any, fields: dict[str, Any]) -> None:
        written.append(JournalRecord(number=len(written), time=0, kind=kind, fields=fields))

    tracker = OrderTracker()
    for name in ("s-1-A", "s-2-A", "s-3-A"):
        write("order", order_fields(order(name)))
        tracker.intend(order(name))
    for each in (report(0, "acknowledged"), report(1, "filled", 4.0)):
        write("report", report_fields(each))
        tracker.apply(each)
    write("bar", {"time": 0})
    write("sent", {"id": "s-2-A"})
    tracker.send("s-2-A")
    write("cancel", {"id": "s-2-A"})
    tracker.cancel("s-2-A")
    write("abandoned", {"id": "s-3-A", "reason": "old"})
    tracker.abandon("s-3-A", "old")

    again = OrderTracker()
    for record in written:
        again.replay(record.kind, record.fields)

    assert again.orders == tracker.orders
    assert (again.units, again.cash) == (tracker.units, tracker.cash)
    assert [each.id for each in again.unresolved()] == ["s-1-A", "s-2-A"]


def test_orders_that_ended_long_ago_are_folded_into_sums() -> None:
    tracker = OrderTracker(keep=3)
    tracker.intend(order("still open"))

    for number in range(100):
        name = f"s-{number}-A"
        tracker.intend(order(name, units=2.0))
        tracker.apply(report(0, "filled", 2.0, order_id=name))

    assert len(tracker.orders) == 4
    assert tracker.dropped == 97
    assert tracker.units == {"A": 200.0}
    assert tracker.fills == 100
    assert [each.id for each in tracker.unresolved()] == ["still open"]


def test_rebasing_believes_the_broker() -> None:
    tracker = tracker_of(order())
    tracker.apply(report(0, "filled", 10.0))

    tracker.rebase(BrokerAccount(cash=7.0, units={"B": 1.0}, costs={"borrow": 2.0, "fixed": 9.0}))

    assert (tracker.cash, tracker.units, tracker.holding_costs) == (7.0, {"B": 1.0}, 2.0)


def test_a_fill_that_no_order_asked_for_counts_once_and_is_an_alert() -> None:
    tracker = tracker_of()
    own = ExecutionReport(
        id="account-3-B:0", order_id="account-3-B", kind="filled", units=-2.0, price=50.0,
        cost=1.0, asset="B", reason="margin call",
    )  # fmt: skip

    assert [tracker.apply(own), tracker.apply(own)] == [True, False]

    assert tracker.units == {"B": -2.0}
    assert tracker.cash == 99.0
    assert len(tracker.alerts) == 1
    assert "margin call" in tracker.alerts[0]
