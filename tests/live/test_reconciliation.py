"""Reconciliation after a crash: unresolved orders are settled and journaled."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sekai.data import simulate_gbm
from sekai.error import BrokerError
from sekai.live.orders import BrokerOrder, OrderTracker, report_fields
from sekai.live.paper.account import PaperAccount
from sekai.live.paper.broker import PaperBroker
from sekai.live.paper.faults import PaperFaults
from sekai.live.reconciliation import Settlement, settle
from sekai.market import MarginAccount
from tests.live.plain_account import PlainAccount
from tests.live.trading import is_explained, ledger_at
from tests.live.worlds import bars, market, order

ROWS = bars(market(rows=40), 30)


def new_broker(**faults: Any) -> PaperBroker:
    return PaperBroker(cast(PaperAccount, PlainAccount()), faults=PaperFaults(**faults))


class Written(list[tuple[str, dict[str, Any]]]):
    """Journal in memory."""

    def write(self, kind: str, /, **fields: Any) -> None:
        self.append((kind, fields))


def is_never_stale(order: BrokerOrder) -> bool:
    return False


def test_what_was_missed_is_written_before_it_is_counted() -> None:
    async def scene() -> None:
        broker, tracker, written = new_broker(), OrderTracker(), Written()
        ledger = ledger_at(await broker.account())
        tracker.intend(order("one"))
        await broker.submit(order("one"))
        await broker.see(ROWS[0])

        heard: list[int] = []

        def write(kind: str, /, **fields: Any) -> None:
            heard.append(len(tracker["one"].report_ids))
            written.write(kind, **fields)

        settlement = await settle(tracker, broker, write, is_never_stale)

        assert heard == [0, 0, 1]
        (state,) = (await broker.known(["one"])).values()
        assert [report.kind for report in settlement.missed] == ["acknowledged", "filled"]
        assert written == [
            ("sent", {"id": "one"}),
            *(("report", report_fields(report)) for report in state.reports),
        ]
        assert tracker["one"].status == "filled"
        ledger.expect(order("one"))
        for report in settlement.missed:
            ledger.apply(report, 0)
        assert is_explained(ledger, await broker.account())
        assert await settle(tracker, broker, written.write, is_never_stale) == Settlement()

    asyncio.run(scene())


def test_what_never_arrived_is_sent_again_or_denied() -> None:
    async def scene() -> None:
        broker, tracker, written = new_broker(), OrderTracker(), Written()
        for name in ("old", "new", "there"):
            tracker.intend(order(name))
        await broker.submit(order("there"))

        settlement = await settle(tracker, broker, written.write, lambda one: one.id == "old")

        assert settlement.send_again == (order("new"),)
        assert settlement.denied == (order("old"),)
        assert written[0] == (
            "denied", {"id": "old", "reason": "not received by the broker before a newer row"},
        )  # fmt: skip
        assert tracker["old"].status == "denied"
        assert not tracker["new"].is_done

    asyncio.run(scene())


def test_a_fill_that_was_lost_before_the_end_of_its_order_is_found() -> None:
    async def scene() -> None:
        broker = PaperBroker(cast(PaperAccount, PlainAccount(depth=4.0)))
        tracker = OrderTracker()
        tracker.intend(order("one"))
        await broker.submit(order("one"))
        await broker.see(ROWS[0])
        *_, end = await broker.reports()
        tracker.apply(end)
        assert tracker["one"].status == "expired"
        assert tracker.open_orders() == []
        settlement = await settle(tracker, broker, Written().write, is_never_stale)

        assert [report.kind for report in settlement.missed] == ["acknowledged", "filled"]
        assert tracker["one"].filled == 4.0
        assert tracker.unresolved() == []

    asyncio.run(scene())


def test_what_the_account_confirms_is_not_asked_again() -> None:
    async def scene() -> None:
        broker, tracker = PaperBroker(cast(PaperAccount, PlainAccount(depth=4.0))), OrderTracker()
        tracker.intend(order("one"))
        await broker.submit(order("one"))
        await broker.see(ROWS[0])
        for report in await broker.reports():
            tracker.apply(report)
        assert tracker.unresolved() == [order("one")]

        tracker.confirm()

        assert tracker.unresolved() == []

    asyncio.run(scene())


def test_an_order_that_the_broker_forgot_is_not_sent_again() -> None:
    async def scene() -> None:
        broker, tracker, written = new_broker(), OrderTracker(), Written()
        tracker.intend(order("one"))
        await broker.submit(order("one"))
        for report in await broker.reports():
            tracker.apply(report)

        settlement = await settle(tracker, new_broker(), written.write, is_never_stale)

        assert settlement.send_again == ()
        assert settlement.denied == (order("one"),)
        assert "order one is unknown to the broker" in tracker.alerts[0]

    asyncio.run(scene())


def test_a_broker_that_never_answers_changes_nothing() -> None:
    async def scene() -> None:
        broker, tracker, written = new_broker(disconnect=1.0), OrderTracker(), Written()
        tracker.intend(order("one"))

        with pytest.raises(BrokerError):
            await settle(tracker, broker, written.write, is_never_stale)

        assert written == []
        assert not tracker["one"].is_done

    asyncio.run(scene())


def test_a_margin_call_is_told_and_accounted_for() -> None:
    data = simulate_gbm(assets=["A", "B", "C"], rows=80, seed=1, drift=-3.0, volatility=0.5)

    async def scene() -> None:
        rules = MarginAccount(leverage=3.0, maintenance=0.3)
        broker = PaperBroker(PaperAccount(data.rows(0, 30), account=rules))
        tracker, reasons = OrderTracker(), set()
        ledger = ledger_at(await broker.account())
        ledger.expect(order("one", units=2500.0))
        tracker.intend(order("one", units=2500.0))
        await broker.submit(order("one", units=2500.0))
        for bar in bars(data, 30):
            await broker.see(bar)
            for report in await broker.reports():
                tracker.apply(report)
                ledger.apply(report, 0)
                reasons.add(report.reason)

        assert "margin call" in reasons
        assert "margin call" in tracker.alerts[0]
        assert is_explained(ledger, await broker.account())

    asyncio.run(scene())


def test_an_id_that_another_order_has_at_the_broker_is_an_alert() -> None:
    async def scene() -> None:
        broker, tracker, written = new_broker(), OrderTracker(), Written()
        await broker.submit(order("one", units=3.0))
        tracker.intend(order("one"))

        settlement = await settle(tracker, broker, written.write, is_never_stale)

        assert settlement.send_again == ()
        assert tracker["one"].status == "denied"
        assert "the broker has another order under this id" in tracker.alerts[0]

    asyncio.run(scene())
