"""A client that trades a plan, and asks again by the same ids until it is answered."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

from sekai.data import Bar, MarketData
from sekai.live.broker import BrokerAccount
from sekai.live.order_keeper import OrderKeeper
from sekai.live.orders import Order
from sekai.live.paper_account import PaperAccount
from sekai.live.paper_broker import PaperBroker
from sekai.live.paper_faults import PaperFaults
from sekai.live.reconciliation import settle
from sekai.live.retrying import retrying
from sekai.market import Costs, Execution, MarginAccount
from tests.live.worlds import ASSETS, market, ticks

T = TypeVar("T")
Plan = Sequence[Sequence[tuple[str, float]]]

HISTORY = 25
WORLDS = [market(rows=HISTORY + 8, seed=seed) for seed in range(3)]

units = st.floats(-60.0, 60.0).filter(lambda found: abs(found) > 0.01)
plans = st.lists(
    st.lists(st.tuples(st.sampled_from(ASSETS), units), max_size=4), min_size=1, max_size=6
)
schedules = st.floats(0.0, 0.4) | st.lists(st.integers(0, 30), max_size=6)
executions = st.builds(
    Execution,
    unfilled=st.sampled_from(["drop", "carry"]),
    participation=st.sampled_from([None, 0.0001]),
    fill=st.sampled_from(["next_open", "next_close"]),
)


@dataclass
class Session:
    """What a client and its broker came to."""

    keeper: OrderKeeper
    account: BrokerAccount
    start: BrokerAccount
    written: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def write(self, kind: str, /, **fields: Any) -> None:
        self.written.append((kind, fields))


def account_of(data: MarketData, execution: Execution) -> PaperAccount:
    return PaperAccount(
        data.rows(0, HISTORY),
        execution=execution,
        costs=Costs(fixed=0.5, proportional=0.001),
        account=MarginAccount(leverage=3.0, maintenance=0.05),
        initial_cash=50_000.0,
    )


def rows_of(data: MarketData) -> list[Bar]:
    return list(Bar.each(data, HISTORY))


async def asked(call: Callable[[], Awaitable[T]], broker: PaperBroker) -> T:
    return await retrying(call, 300, connect=broker.connect, first_wait=0.0)


async def trade(
    data: MarketData,
    execution: Execution,
    plan: Plan,
    faults: PaperFaults,
    *,
    ledger: Path | None = None,
    restarts: Sequence[int] = (),
    without: Sequence[str] = (),
) -> Session:
    """Trade a plan row by row; the broker is rebuilt from its ledger before some of the rows."""

    def begin() -> PaperBroker:
        return PaperBroker(account_of(data, execution), ledger, faults, clock=ticks())

    broker = begin()
    start = await asked(broker.account, broker)
    session = Session(OrderKeeper(), start, start)
    session.keeper.rebase(start)
    for number, row in enumerate(rows_of(data)):
        if number in restarts:
            await broker.close()
            broker = begin()
        for place, (asset, wanted) in enumerate(plan[number] if number < len(plan) else ()):
            order = Order(
                id=f"s-{number}-{place}", asset=asset, units=wanted, reference_price=100.0
            )
            if order.id not in without:
                await _send(order, session.keeper, broker)
        await asked(partial(broker.see, row), broker)
        for report in await asked(broker.reports, broker):
            session.keeper.take(report)
    await settle(
        session.keeper, broker, session.write, lambda order: True, attempts=300,
        rng=random.Random(0),
    )  # fmt: skip
    session.account = await asked(broker.account, broker)
    await broker.close()
    return session


async def _send(order: Order, keeper: OrderKeeper, broker: PaperBroker) -> None:
    keeper.intend(order)
    await asked(partial(broker.submit, order), broker)
    keeper.send(order.id)
