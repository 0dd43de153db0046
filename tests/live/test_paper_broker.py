"""A paper broker fills in the next row, allocates fills and reports once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import numpy as np
import pytest

from sekai.data import Bar
from sekai.error import BrokerError
from sekai.live.orders import BrokerOrder, ExecutionReport
from sekai.live.paper.account import PaperAccount, PaperFill
from sekai.live.paper.broker import PaperBroker
from sekai.live.paper.faults import PaperFaults
from sekai.market import Execution
from tests.live.plain_account import PlainAccount
from tests.live.worlds import bars, market, order, ticks

T = TypeVar("T")
DATA = market(rows=40)
ROWS = bars(DATA, 30)


def broker_of(plain: PlainAccount, **faults: Any) -> PaperBroker:
    return PaperBroker(cast(PaperAccount, plain), faults=PaperFaults(**faults), clock=ticks())


def play(scene: Callable[[PaperBroker], Awaitable[T]], broker: PaperBroker) -> T:
    async def run() -> T:
        await broker.connect()
        return await scene(broker)

    return asyncio.run(run())


def words(reports: list[ExecutionReport]) -> list[tuple[str, str, float]]:
    return [(report.order_id, report.kind, report.units) for report in reports]


def test_an_order_is_acknowledged_and_filled_in_the_next_row() -> None:
    plain = PlainAccount()

    async def scene(broker: PaperBroker) -> None:
        await broker.see(ROWS[0])
        await broker.submit(order("one", units=10.0))
        assert words(await broker.reports()) == [("one", "acknowledged", 0.0)]
        assert (await broker.account()).units["A"] == 0.0

        await broker.see(ROWS[1])

        (fill,) = await broker.reports()
        price = float(np.asarray(ROWS[1].values)[0, 0])
        assert (fill.kind, fill.units, fill.price) == ("filled", 10.0, price)
        assert fill.cost == pytest.approx(10.0 * price * 0.001)
        account = await broker.account()
        assert account.units["A"] == 10.0
        assert account.cash == 1_000_000.0 - fill.units * fill.price - fill.cost
        assert account.costs == {"proportional": fill.cost}
        assert await broker.reports() == []

    play(scene, broker_of(plain))


def test_the_same_id_is_the_same_order() -> None:
    async def scene(broker: PaperBroker) -> None:
        for _ in range(3):
            await broker.submit(order("one"))
        await broker.see(ROWS[0])
        await broker.submit(order("one"))
        await broker.see(ROWS[1])
        with pytest.raises(ValueError, match="order id 'one' is taken by another order"):
            await broker.submit(order("one", units=11.0))

        assert words(await broker.reports()) == [
            ("one", "acknowledged", 0.0), ("one", "filled", 10.0),
        ]  # fmt: skip
        assert (await broker.account()).units["A"] == 10.0

    play(scene, broker_of(PlainAccount()))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (order("bad", asset="unknown"), "unknown asset 'unknown'"),
        (order("bad", units=math.nan), "units must be finite and not 0, got nan"),
        (order("bad", units=math.inf), "units must be finite and not 0, got inf"),
        (order("bad", units=0.0), "units must be finite and not 0, got 0.0"),
    ],
)
def test_what_is_no_order_is_rejected_once(bad: BrokerOrder, reason: str) -> None:
    plain = PlainAccount()

    async def scene(broker: PaperBroker) -> None:
        for _ in range(2):
            await broker.submit(bad)
        await broker.see(ROWS[0])
        (report,) = await broker.reports()

        assert (report.kind, report.reason) == ("rejected", reason)
        assert not (await broker.known(["bad"]))["bad"].is_open

    play(scene, broker_of(plain))
    assert plain.calls == [{}]


def test_orders_in_one_asset_are_traded_together_and_shared_out_first_come_first_served() -> None:
    plain = PlainAccount(depth=12.0)

    async def scene(broker: PaperBroker) -> None:
        for name, units in (("one", 5.0), ("two", 10.0), ("three", 1.0)):
            await broker.submit(order(name, units=units))
        await broker.reports()
        await broker.see(ROWS[0])

        assert words(await broker.reports()) == [
            ("one", "filled", 5.0), ("two", "filled", 7.0),
            ("two", "expired", 0.0), ("three", "expired", 0.0),
        ]  # fmt: skip

    play(scene, broker_of(plain))
    assert plain.calls == [{"A": 16.0}]


def test_a_carried_rest_stands_until_it_is_filled() -> None:
    plain = PlainAccount("carry", depth=4.0)

    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one", units=10.0))
        await broker.reports()
        open_units, fills = [], []
        for row in ROWS[:4]:
            await broker.see(row)
            fills += words(await broker.reports())
            open_units.append((await broker.account()).open_units)

        assert fills == [("one", "filled", units) for units in (4.0, 4.0, 2.0)]
        assert open_units == [{"A": 6.0}, {"A": 2.0}, {}, {}]
        state = (await broker.known(["one"]))["one"]
        assert (state.filled, state.is_open, len(state.reports)) == (10.0, False, 4)

    play(scene, broker_of(plain))
    # What stands is left to the account, which knows it to the bit.
    assert plain.calls == [{"A": 10.0}, {}, {}, {}]


def test_a_carried_rest_is_replaced_by_a_later_order() -> None:
    plain = PlainAccount("carry", depth=4.0)

    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one", units=10.0))
        await broker.see(ROWS[0])
        await broker.submit(order("two", units=-3.0))
        await broker.reports()
        await broker.see(ROWS[1])
        reports = await broker.reports()

        assert words(reports) == [("one", "cancelled", 0.0), ("two", "filled", -3.0)]
        assert reports[0].reason == "replaced by two"
        assert (await broker.account()).units["A"] == 1.0

    play(scene, broker_of(plain))


def test_cancelling_takes_back_what_waits_and_what_stands_and_nothing_else() -> None:
    plain = PlainAccount("carry", depth=4.0)

    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one", units=3.0))
        await broker.submit(order("two", units=5.0))
        await broker.see(ROWS[0])
        await broker.submit(order("waits", asset="B"))
        await broker.reports()
        for name in ("one", "waits", "waits", "unknown"):
            await broker.cancel(name)
        assert words(await broker.reports()) == [("waits", "cancelled", 0.0)]
        await broker.cancel("two")
        await broker.see(ROWS[1])

        assert words(await broker.reports()) == [("two", "cancelled", 0.0)]
        assert (await broker.account()).units == {"A": 4.0, "B": 0.0, "C": 0.0}

    play(scene, broker_of(plain))
    assert plain.calls == [{"A": 8.0}, {"A": 0.0}]


def test_cancelling_one_of_two_that_stand_leaves_the_other() -> None:
    plain = PlainAccount("carry", depth=4.0)

    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one", units=6.0))
        await broker.submit(order("two", units=5.0))
        await broker.see(ROWS[0])
        await broker.cancel("one")
        await broker.reports()
        await broker.see(ROWS[1])

        assert words(await broker.reports()) == [("two", "filled", 4.0)]
        assert (await broker.account()).open_units == {"A": 1.0}

    play(scene, broker_of(plain))


def test_a_row_that_was_seen_is_no_news() -> None:
    plain = PlainAccount()

    async def scene(broker: PaperBroker) -> None:
        await broker.see(ROWS[1])
        await broker.submit(order("one"))
        await broker.see(ROWS[1])
        await broker.see(ROWS[0])
        assert (await broker.account()).units["A"] == 0.0

        await broker.see(ROWS[2])
        assert (await broker.account()).units["A"] == 10.0

    play(scene, broker_of(plain))
    assert len(plain.calls) == 2


def test_a_row_that_is_refused_changes_nothing() -> None:
    plain = PlainAccount()
    bad = Bar(ROWS[0].time, np.full((3, 5), np.nan))

    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one"))
        with pytest.raises(ValueError, match="finite opens"):
            await broker.see(bad)
        await broker.see(ROWS[0])

        assert words(await broker.reports()) == [
            ("one", "acknowledged", 0.0), ("one", "filled", 10.0),
        ]  # fmt: skip

    play(scene, broker_of(plain))


def test_what_nobody_ordered_is_told_as_such() -> None:
    plain = PlainAccount()
    plain.own_trade = ("A", -7.0)

    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one", units=-3.0))
        await broker.reports()
        await broker.see(ROWS[0])
        own, unordered = await broker.reports()

        assert (own.order_id, own.units, own.asset) == ("one", -3.0, "")
        assert (unordered.units, unordered.asset) == (-7.0, "A")
        assert unordered.order_id not in ("one", "")
        assert unordered.reason == "margin call"
        assert unordered.order_id in await broker.known([unordered.order_id])

    play(scene, broker_of(plain))


def test_what_becomes_cash_with_its_asset_is_no_fill_of_an_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, gone = PlainAccount(), PaperFill("A", -3.0, 100.0, 0.3, is_delisting=True)
    monkeypatch.setattr(plain, "advance", lambda bar, orders: [gone])

    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one", units=-3.0))
        await broker.reports()
        await broker.see(ROWS[0])
        fill, end = await broker.reports()

        assert (end.order_id, end.kind) == ("one", "expired")
        assert (fill.units, fill.cost, fill.asset) == (-3.0, 0.3, "A")
        assert fill.reason == "asset delisted"
        assert fill.order_id != "one"

    play(scene, broker_of(plain))


def test_known_leaves_out_what_it_never_had() -> None:
    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one"))

        known = await broker.known(["one", "two"])

        assert list(known) == ["one"]
        assert known["one"].is_open
        assert known["one"].order == order("one")

    play(scene, broker_of(PlainAccount()))


def test_orders_wait_as_many_rows_as_the_delay_says() -> None:
    plain = PlainAccount()
    broker = PaperBroker(cast(PaperAccount, plain), delay=2)

    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one"))
        held = []
        for row in ROWS[:4]:
            await broker.see(row)
            held.append((await broker.account()).units["A"])

        assert held == [0.0, 0.0, 10.0, 10.0]

    play(scene, broker)


def test_an_account_that_delays_itself_is_refused() -> None:
    account = PaperAccount(DATA.rows(0, 30), execution=Execution(delay=1))

    with pytest.raises(ValueError, match="must have a delay of 0, got 1"):
        PaperBroker(account)


def test_a_lost_acknowledgement_means_that_the_order_is_taken() -> None:
    async def scene(broker: PaperBroker) -> None:
        with pytest.raises(BrokerError, match="acknowledgement of order one lost"):
            await broker.submit(order("one"))
        await broker.submit(order("one"))
        await broker.submit(order("two"))
        await broker.see(ROWS[0])

        assert (await broker.account()).units["A"] == 20.0

    play(scene, broker_of(PlainAccount(), lose_acknowledgement=[0]))


def test_a_broken_connection_raises_until_connect() -> None:
    async def scene(broker: PaperBroker) -> None:
        await broker.account()
        with pytest.raises(BrokerError, match="connection to the paper broker lost"):
            await broker.submit(order("one"))
        for call in (broker.account, broker.reports, lambda: broker.known([])):
            with pytest.raises(BrokerError, match="connect\\(\\) first"):
                await call()
        await broker.connect()
        await broker.submit(order("one"))
        await broker.see(ROWS[0])

        assert (await broker.account()).units["A"] == 10.0

    play(scene, broker_of(PlainAccount(), disconnect=[1]))


def test_a_fill_can_come_before_its_acknowledgement() -> None:
    async def scene(broker: PaperBroker) -> None:
        await broker.submit(order("one"))
        assert await broker.reports() == []
        await broker.see(ROWS[0])

        kinds = [report.kind for report in await broker.reports()]
        assert kinds == ["filled", "acknowledged"]

    play(scene, broker_of(PlainAccount(), fill_before_acknowledgement=1.0))


def test_a_partial_fill_leaves_a_rest_that_stands_or_expires() -> None:
    async def scene(broker: PaperBroker) -> list[ExecutionReport]:
        await broker.submit(order("one"))
        reports = []
        for row in ROWS:
            await broker.see(row)
            reports += await broker.reports()
        return reports[1:]

    dropped = play(scene, broker_of(PlainAccount("drop"), partial_fill=[0]))
    carried = play(scene, broker_of(PlainAccount("carry"), partial_fill=[0, 1]))

    assert [report.kind for report in dropped] == ["filled", "expired"]
    assert 0.0 < dropped[0].units < 10.0
    assert [report.kind for report in carried] == ["filled"] * 3
    assert math.fsum(report.units for report in carried) == pytest.approx(10.0, rel=1e-12)


def test_reports_can_come_twice_and_out_of_order() -> None:
    async def scene(broker: PaperBroker) -> list[str]:
        for number in range(6):
            await broker.submit(order(str(number)))
        first = await broker.reports()
        return [report.id for report in first + await broker.reports()]

    plain = play(scene, broker_of(PlainAccount()))
    twice = play(scene, broker_of(PlainAccount(), duplicate_report=[0, 3]))
    mixed = play(scene, broker_of(PlainAccount(), reorder_reports=1.0))

    assert twice == [*plain, plain[0], plain[3]]
    assert mixed != plain
    assert sorted(mixed) == sorted(plain)


def test_orders_can_arrive_late() -> None:
    async def scene(broker: PaperBroker) -> list[float]:
        for number in range(20):
            await broker.submit(order(str(number), units=1.0))
        arrived = []
        for row in ROWS[:4]:
            await broker.see(row)
            arrived.append((await broker.account()).units["A"])
        return arrived

    held = play(scene, broker_of(PlainAccount(), latency_bars=2))

    assert 0.0 < held[0] < held[1] < held[2] == held[3] == 20.0


def test_answers_can_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("sekai.live.paper.broker.asyncio.sleep", sleep)

    async def scene(broker: PaperBroker) -> None:
        for _ in range(20):
            await broker.account()

    play(scene, broker_of(PlainAccount(), latency_seconds=0.5))

    assert len(set(waits)) == 20
    assert 0.0 <= min(waits) < 0.25 < max(waits) <= 0.5
