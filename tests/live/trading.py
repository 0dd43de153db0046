"""Test client that submits planned orders, and retries by id until the broker answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from sekai.data import Bar, MarketData
from sekai.error import BrokerError
from sekai.live.account import BrokerAccount
from sekai.live.backoff import Backoff
from sekai.live.broker import Broker
from sekai.live.ledger import Ledger
from sekai.live.orders import BrokerOrder, ExecutionReport, OrderTracker
from sekai.live.paper.account import PaperAccount
from sekai.live.paper.broker import PaperBroker
from sekai.live.paper.faults import PaperFaults
from sekai.live.reconciliation import settle
from sekai.market import Costs, Execution, MarginAccount
from tests.live.worlds import ASSETS, market, ticks

T = TypeVar("T")
Plan = Sequence[Sequence[tuple[str, float]]]

HISTORY = 25
LONG_AFTER = 10**15
"""Time after which an account lags behind no fill."""

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
    """Tracker, account and journal of a test client."""

    tracker: OrderTracker
    ledger: Ledger
    account: BrokerAccount
    start: BrokerAccount
    written: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def write(self, kind: str, /, **fields: Any) -> None:
        self.written.append((kind, fields))

    def apply(self, report: ExecutionReport) -> None:
        """Count a report in the tracker and the ledger."""
        self.tracker.apply(report)
        self.ledger.apply(report, 0)


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


async def retry(
    call: Callable[[], Awaitable[T]], broker: Broker, *, attempts: int, backoff: Backoff
) -> T:
    """Call until the broker answers, after a reconnect each time."""
    rng, failures = np.random.default_rng(0), 0
    while True:
        try:
            if failures:
                await broker.connect()
            return await call()
        except BrokerError:
            failures += 1
            if failures == attempts:
                raise
        await asyncio.sleep(backoff.seconds(failures, rng))


async def asked(call: Callable[[], Awaitable[T]], broker: PaperBroker) -> T:
    return await retry(call, broker, attempts=300, backoff=Backoff(first=0.0))


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
    session = Session(OrderTracker(), ledger_at(start), start, start)
    for number, row in enumerate(rows_of(data)):
        if number in restarts:
            await broker.close()
            broker = begin()
        for place, (asset, wanted) in enumerate(plan[number] if number < len(plan) else ()):
            order = BrokerOrder(
                id=f"s-{number}-{place}", asset=asset, units=wanted, reference_price=100.0
            )
            if order.id not in without:
                await _send(order, session, broker)
        await asked(partial(broker.see, row), broker)
        for report in await asked(broker.reports, broker):
            session.apply(report)
    request = partial(settle, session.tracker, broker, session.write, lambda order: True)
    for report in (await asked(request, broker)).missed:
        session.ledger.apply(report, 0)
    session.account = await asked(broker.account, broker)
    await broker.close()
    return session


def ledger_at(account: BrokerAccount) -> Ledger:
    """Ledger that begins with an account, and absorbs nothing."""
    ledger = Ledger(max_cash_discrepancy=0.0)
    ledger.adopt(account, 0)
    return ledger


def is_explained(ledger: Ledger, account: BrokerAccount) -> bool:
    """Return True if the fills of a ledger explain an account to 1e-9."""
    return ledger.compare(account, LONG_AFTER).status == "agreed"


async def _send(order: BrokerOrder, session: Session, broker: PaperBroker) -> None:
    session.tracker.intend(order)
    session.ledger.expect(order)
    await asked(partial(broker.submit, order), broker)
    session.tracker.send(order.id)
