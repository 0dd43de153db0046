"""The order tracker counts every report once, in any order."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.clock import Clock
from sekai.live.journal import JournalRecord
from sekai.live.orders import (
    FINAL_STATUSES,
    ORDER_TRANSITIONS,
    BrokerOrder,
    ExecutionReport,
    OrderState,
    OrderStatus,
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
        name: (one.is_sent, one.status, round(one.filled, 9), round(one.value, 6), one.is_done)
        for name, one in tracker.orders.items()
    }
    return {"orders": kept, "fills": tracker.fills}


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
    assert straight["s-1-A"].status == end


def test_an_order_goes_from_intended_to_filled() -> None:
    tracker = tracker_of(order())
    kept = tracker["s-1-A"]
    assert (kept.is_sent, kept.status) == (False, "initialized")

    tracker.send("s-1-A")
    tracker.apply(report(0, "acknowledged"))
    tracker.apply(report(1, "filled", 4.0, price=90.0))

    assert (kept.is_sent, kept.status) == (True, "partially_filled")
    assert kept.remaining == 6.0
    assert tracker.unresolved() == [order()]
    assert tracker.open_units() == {"A": (0.0, 6.0)}

    tracker.apply(report(2, "filled", 6.0, price=110.0))

    assert kept.status == "filled"
    assert kept.remaining == 0.0
    assert kept.price == pytest.approx(102.0)
    assert tracker.unresolved() == []
    assert tracker.open_units() == {}
    assert (kept.filled, kept.cost) == (10.0, 1.0)


def test_a_fill_before_its_acknowledgement_is_fine() -> None:
    tracker = tracker_of(order())

    tracker.apply(report(1, "filled", 10.0))
    tracker.apply(report(0, "acknowledged"))

    assert tracker["s-1-A"].is_sent
    assert tracker["s-1-A"].status == "filled"
    assert not tracker.alerts


@pytest.mark.parametrize("units", [10.5, -1.0])
def test_a_fill_beyond_the_order_is_counted_and_is_an_alert(units: float) -> None:
    tracker = tracker_of(order())

    tracker.apply(report(0, "filled", units))

    assert tracker["s-1-A"].filled == units
    assert len(tracker.alerts) == 1
    assert "of an order of 10.0" in tracker.alerts[0]


def test_a_report_of_an_order_nobody_sent_is_an_alert_and_counts_nothing() -> None:
    tracker = tracker_of()

    assert not tracker.apply(report(0, "filled", 10.0, order_id="who"))

    assert tracker.fills == 0
    assert "of an unknown order" in tracker.alerts[0]


def test_a_fill_of_a_denied_order_is_counted_and_is_an_alert() -> None:
    tracker = tracker_of(order())
    tracker.deny("s-1-A", "a newer row has come")

    tracker.apply(report(0, "filled", 10.0))

    assert tracker["s-1-A"].filled == 10.0
    assert tracker["s-1-A"].status == "filled"
    assert "denied" in tracker.alerts[0]


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
    write("denied", {"id": "s-3-A", "reason": "old"})
    tracker.deny("s-3-A", "old")

    again = OrderTracker()
    for record in written:
        again.replay(record.kind, record.fields)

    assert summary(again) == summary(tracker)
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
    assert tracker.fills == 100
    assert [each.id for each in tracker.unresolved()] == ["still open"]


def test_a_fill_that_no_order_asked_for_counts_once_and_is_an_alert() -> None:
    tracker = tracker_of()
    own = ExecutionReport(
        id="account-3-B:0", order_id="account-3-B", kind="filled", units=-2.0, price=50.0,
        cost=1.0, asset="B", reason="margin call",
    )  # fmt: skip

    assert [tracker.apply(own), tracker.apply(own)] == [True, False]

    assert tracker.fills == 1
    assert len(tracker.alerts) == 1
    assert "margin call" in tracker.alerts[0]


class ManualClock(Clock):
    """Clock that a test moves."""

    now = 0

    def boot_ns(self) -> int:
        return self.now


def test_an_unknown_kind_of_report_ends_nothing_and_is_an_alert() -> None:
    tracker = tracker_of(order())
    odd: Any = "restated"

    tracker.apply(report(0, odd))

    assert tracker.open_orders() == [order()]
    assert "unusable report of kind 'restated'" in tracker.alerts[0]
    tracker.apply(report(1, "filled", 10.0))
    assert tracker["s-1-A"].status == "filled"


@pytest.mark.parametrize("units", [float("nan"), float("inf")])
def test_a_fill_without_numbers_is_not_booked(units: float) -> None:
    tracker = tracker_of(order())

    tracker.apply(report(0, "filled", units))

    assert (tracker["s-1-A"].filled, tracker["s-1-A"].status) == (0.0, "unknown")


@pytest.mark.parametrize("status", ["pending_new", "accepted", "pending_cancel", "unknown"])
def test_an_order_is_overdue_after_the_deadline_of_its_status(status: OrderStatus) -> None:
    clock = ManualClock()
    tracker = OrderTracker(clock=clock)
    tracker.intend(order())
    tracker.send("s-1-A")
    if status == "accepted":
        tracker.apply(report(0, "acknowledged"))
    elif status == "pending_cancel":
        tracker.cancel("s-1-A")
    elif status == "unknown":
        tracker.mark_unknown("s-1-A", "no answer")
    assert tracker["s-1-A"].status == status

    clock.now = 4_000_000_000
    assert tracker.overdue({status: 5.0}) == []
    clock.now = 6_000_000_000
    (late,) = tracker.overdue({status: 5.0})
    tracker.note_query(late)

    assert tracker.overdue({status: 5.0}) == []


def test_an_order_that_the_broker_closed_without_a_report_ends_with_an_alert() -> None:
    tracker = tracker_of(order())
    tracker.send("s-1-A")

    tracker.resolve(OrderState(order=order(), filled=4.0, is_open=False))

    assert tracker["s-1-A"].status == "cancelled"
    assert "closed at the broker with 4.0 filled" in tracker.alerts[0]
    assert tracker.open_orders() == []


def test_final_statuses_lead_to_fills_at_most() -> None:
    for status, following in ORDER_TRANSITIONS.items():
        assert (status in FINAL_STATUSES) == (following <= {"filled"})


@given(st.lists(st.tuples(st.sampled_from("sacuf"), st.floats(0.5, 6.0)), max_size=20))
def test_only_listed_transitions_happen(steps: list[tuple[str, float]]) -> None:
    tracker, before = tracker_of(order()), "initialized"
    for number, (step, units) in enumerate(steps):
        if step == "s":
            tracker.send("s-1-A")
        elif step == "a":
            tracker.apply(report(number, "acknowledged"))
        elif step == "c":
            tracker.cancel("s-1-A")
        elif step == "u":
            tracker.mark_unknown("s-1-A", "no answer")
        else:
            tracker.apply(report(number, "filled", units))
        after = tracker["s-1-A"].status
        assert after == before or after in ORDER_TRANSITIONS[before]  # type: ignore[index]
        before = after


def test_a_saved_tracker_continues() -> None:
    tracker = tracker_of(order(), order("s-2-A"), order("s-3-A"))
    tracker.send("s-1-A")
    tracker.apply(report(1, "filled", 4.0))
    tracker.apply(report(0, "cancelled", order_id="s-2-A"))
    tracker.deny("s-3-A", "old")
    again = OrderTracker()

    again.load_state_dict(tracker.state_dict())

    assert summary(again) == summary(tracker)
    assert again.unresolved() == tracker.unresolved()
    assert not again.apply(report(1, "filled", 4.0))
    assert again.apply(report(2, "filled", 6.0))
    assert again["s-1-A"].status == "filled"
