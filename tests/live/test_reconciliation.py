"""What nobody knows after a crash is asked, written down, and then agreed on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from sekai.data import simulate_gbm
from sekai.error import BrokerError
from sekai.live.broker import BrokerAccount
from sekai.live.order_keeper import OrderKeeper
from sekai.live.order_records import report_fields
from sekai.live.orders import Order
from sekai.live.paper_account import PaperAccount
from sekai.live.paper_broker import PaperBroker
from sekai.live.paper_faults import PaperFaults
from sekai.live.reconciliation import Difference, Settlement, reconcile, settle
from sekai.market import MarginAccount
from tests.live.plain_account import PlainAccount
from tests.live.worlds import bars, market, order

ROWS = bars(market(rows=40), 30)
ACCOUNT = BrokerAccount(cash=1000.0, units={"A": 5.0}, costs={"borrow": 3.0, "fixed": 8.0})


def keeper_at(account: BrokerAccount) -> OrderKeeper:
    keeper = OrderKeeper()
    keeper.rebase(account)
    return keeper


def new_broker(**faults: Any) -> PaperBroker:
    return PaperBroker(cast(PaperAccount, PlainAccount()), faults=PaperFaults(**faults))


class Written(list[tuple[str, dict[str, Any]]]):
    """A journal that only remembers."""

    def write(self, kind: str, /, **fields: Any) -> None:
        self.append((kind, fields))


def is_never_stale(order: Order) -> bool:
    return False


def test_where_both_agree_there_is_no_difference() -> None:
    assert reconcile(keeper_at(ACCOUNT), ACCOUNT) == []
    assert reconcile(keeper_at(ACCOUNT), replace(ACCOUNT, units={"A": 5.0, "B": 0.0})) == []


def test_every_disagreement_is_named() -> None:
    found = replace(ACCOUNT, cash=999.0, units={"A": 4.0, "B": 1.0})

    differences = reconcile(keeper_at(ACCOUNT), found)

    assert differences == [
        Difference("A", 5.0, 4.0), Difference("B", 0.0, 1.0), Difference("cash", 1000.0, 999.0),
    ]  # fmt: skip
    assert str(differences[0]) == "A: 5.0 expected, the broker has 4.0"


def test_what_was_paid_for_holding_is_no_disagreement() -> None:
    later = replace(ACCOUNT, cash=997.5, costs={"borrow": 4.0, "financing": 1.5, "fixed": 8.0})

    assert reconcile(keeper_at(ACCOUNT), later) == []
    assert reconcile(keeper_at(ACCOUNT), replace(later, cash=998.0)) != []


def test_the_tolerance_is_a_share() -> None:
    off = replace(ACCOUNT, cash=1000.0 + 1e-4)

    assert reconcile(keeper_at(ACCOUNT), off, 1e-9) != []
    assert reconcile(keeper_at(ACCOUNT), off, 1e-6) == []


def test_a_number_that_is_none_is_a_disagreement() -> None:
    assert reconcile(keeper_at(ACCOUNT), replace(ACCOUNT, cash=float("nan"))) != []


def test_what_was_missed_is_written_before_it_is_counted() -> None:
    async def scene() -> None:
        broker, keeper, written = new_broker(), keeper_at(await new_broker().account()), Written()
        keeper.intend(order("one"))
        await broker.submit(order("one"))
        await broker.see(ROWS[0])

        heard: list[int] = []

        def write(kind: str, /, **fields: Any) -> None:
            heard.append(len(keeper["one"].report_ids))
            written.write(kind, **fields)

        settlement = await settle(keeper, broker, write, is_never_stale)

        assert heard == [0, 0, 1]
        (state,) = (await broker.known(["one"])).values()
        assert [report.kind for report in settlement.missed] == ["acknowledged", "filled"]
        assert written == [
            ("sent", {"id": "one"}),
            *(("report", report_fields(report)) for report in state.reports),
        ]
        assert keeper["one"].end == "filled"
        assert reconcile(keeper, await broker.account()) == []
        assert await settle(keeper, broker, written.write, is_never_stale) == Settlement()

    asyncio.run(scene())


def test_what_never_arrived_is_sent_again_or_abandoned() -> None:
    async def scene() -> None:
        broker, keeper, written = new_broker(), OrderKeeper(), Written()
        for name in ("old", "new", "there"):
            keeper.intend(order(name))
        await broker.submit(order("there"))

        settlement = await settle(keeper, broker, written.write, lambda one: one.id == "old")

        assert settlement.send_again == (order("new"),)
        assert settlement.abandoned == (order("old"),)
        assert written[0] == (
            "abandoned", {"id": "old", "reason": "it never arrived, and a newer row has come"},
        )  # fmt: skip
        assert keeper["old"].end == "abandoned"
        assert not keeper["new"].is_done

    asyncio.run(scene())


def test_a_fill_that_was_lost_before_the_end_of_its_order_is_found() -> None:
    async def scene() -> None:
        broker = PaperBroker(cast(PaperAccount, PlainAccount(depth=4.0)))
        keeper = keeper_at(await broker.account())
        keeper.intend(order("one"))
        await broker.submit(order("one"))
        await broker.see(ROWS[0])
        *_, end = await broker.reports()
        keeper.take(end)
        assert keeper["one"].end == "expired"
        assert keeper.open_orders() == []
        assert reconcile(keeper, await broker.account()) != []

        settlement = await settle(keeper, broker, Written().write, is_never_stale)

        assert [report.kind for report in settlement.missed] == ["acknowledged", "filled"]
        assert reconcile(keeper, await broker.account()) == []
        assert keeper.unresolved() == []

    asyncio.run(scene())


def test_what_the_account_confirms_is_not_asked_again() -> None:
    async def scene() -> None:
        broker, keeper = PaperBroker(cast(PaperAccount, PlainAccount(depth=4.0))), OrderKeeper()
        keeper.rebase(await broker.account())
        keeper.intend(order("one"))
        await broker.submit(order("one"))
        await broker.see(ROWS[0])
        for report in await broker.reports():
            keeper.take(report)
        assert keeper.unresolved() == [order("one")]

        keeper.confirm()

        assert keeper.unresolved() == []

    asyncio.run(scene())


def test_an_order_that_the_broker_forgot_is_not_sent_again() -> None:
    async def scene() -> None:
        broker, keeper, written = new_broker(), OrderKeeper(), Written()
        keeper.intend(order("one"))
        await broker.submit(order("one"))
        for report in await broker.reports():
            keeper.take(report)

        settlement = await settle(keeper, new_broker(), written.write, is_never_stale)

        assert settlement.send_again == ()
        assert settlement.abandoned == (order("one"),)
        assert "no memory of one" in keeper.alerts[0]

    asyncio.run(scene())


def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    async def scene() -> None:
        broker, keeper = new_broker(disconnect=[0, 1]), OrderKeeper()
        keeper.intend(order("one"))

        settlement = await settle(keeper, broker, Written().write, is_never_stale)

        assert settlement.send_again == (order("one"),)

    asyncio.run(scene())


def test_a_broker_that_never_answers_changes_nothing() -> None:
    async def scene() -> None:
        broker, keeper, written = new_broker(disconnect=1.0), OrderKeeper(), Written()
        keeper.intend(order("one"))

        with pytest.raises(BrokerError):
            await settle(keeper, broker, written.write, is_never_stale, attempts=2)

        assert written == []
        assert not keeper["one"].is_done

    asyncio.run(scene())


def test_a_margin_call_is_told_and_accounted_for() -> None:
    data = simulate_gbm(assets=["A", "B", "C"], rows=80, seed=1, drift=-3.0, volatility=0.5)

    async def scene() -> None:
        rules = MarginAccount(leverage=3.0, maintenance=0.3)
        broker = PaperBroker(PaperAccount(data.rows(0, 30), account=rules))
        keeper, reasons = keeper_at(await broker.account()), set()
        keeper.intend(order("one", units=2500.0))
        await broker.submit(order("one", units=2500.0))
        for bar in bars(data, 30):
            await broker.see(bar)
            for report in await broker.reports():
                keeper.take(report)
                reasons.add(report.reason)

        assert "margin was called" in reasons
        assert "margin was called" in keeper.alerts[0]
        assert reconcile(keeper, await broker.account()) == []

    asyncio.run(scene())
