"""Under any faults, every order is executed once and all money is accounted for."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.live.account import BrokerAccount
from sekai.live.paper.faults import FaultSchedule, PaperFaults
from sekai.market import Execution
from tests.live.trading import (
    WORLDS,
    Plan,
    Session,
    executions,
    is_explained,
    plans,
    schedules,
    trade,
)


@pytest.fixture(autouse=True, scope="module")
def no_waits() -> Iterator[None]:
    """Skip back-off waits, which are tested elsewhere."""

    async def at_once(seconds: float) -> None:
        return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.live.trading.asyncio.sleep", at_once)
        yield


def holdings(account: BrokerAccount) -> tuple[float, dict[str, float], dict[str, float]]:
    return account.cash, dict(account.units), dict(account.costs)


def assert_accounted(session: Session) -> None:
    """Assert that tracked fills equal the account, and that no order is overfilled."""
    assert is_explained(session.ledger, session.account)
    assert session.tracker.open_orders() == [] or session.account.open_units
    for kept in session.tracker.orders.values():
        assert -1e-12 <= kept.filled / kept.order.units <= 1 + 1e-12
    assert all("of an unknown order" in alert for alert in session.tracker.alerts)


@settings(max_examples=30, deadline=None)
@given(
    world=st.sampled_from(WORLDS),
    execution=executions,
    plan=plans,
    lost=schedules,
    early=schedules,
    breaks=schedules,
    twice=schedules,
    mixed=schedules,
    restarts=st.lists(st.integers(1, 7), max_size=3),
    seed=st.integers(0, 100),
)
def test_with_retries_by_id_the_account_is_that_of_a_run_without_faults(
    world: MarketData,
    execution: Execution,
    plan: Plan,
    lost: FaultSchedule,
    early: FaultSchedule,
    breaks: FaultSchedule,
    twice: FaultSchedule,
    mixed: FaultSchedule,
    restarts: list[int],
    seed: int,
) -> None:
    faults = PaperFaults(
        seed=seed,
        lose_acknowledgement=lost,
        fill_before_acknowledgement=early,
        disconnect=breaks,
        duplicate_report=twice,
        reorder_reports=mixed,
    )

    clean = asyncio.run(trade(world, execution, plan, PaperFaults()))
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "paper.jsonl"
        faulty = asyncio.run(
            trade(world, execution, plan, faults, ledger=ledger, restarts=restarts)
        )

    assert holdings(faulty.account) == holdings(clean.account)
    assert_accounted(clean)
    assert_accounted(faulty)
    assert {name: kept.status for name, kept in clean.tracker.orders.items()} == {
        name: kept.status for name, kept in faulty.tracker.orders.items()
    }


@settings(max_examples=20, deadline=None)
@given(
    world=st.sampled_from(WORLDS),
    execution=executions,
    plan=plans,
    reject=schedules,
    breaks=schedules,
    seed=st.integers(0, 100),
)
def test_orders_that_are_rejected_change_nothing(
    world: MarketData,
    execution: Execution,
    plan: Plan,
    reject: FaultSchedule,
    breaks: FaultSchedule,
    seed: int,
) -> None:
    faults = PaperFaults(seed=seed, reject=reject, disconnect=breaks)

    faulty = asyncio.run(trade(world, execution, plan, faults))
    rejected = [name for name, kept in faulty.tracker.orders.items() if kept.status == "rejected"]
    clean = asyncio.run(trade(world, execution, plan, PaperFaults(), without=rejected))

    assert holdings(faulty.account) == holdings(clean.account)
    assert_accounted(faulty)


@settings(max_examples=30, deadline=None)
@given(
    world=st.sampled_from(WORLDS),
    execution=executions,
    plan=plans,
    partial=schedules,
    late=st.integers(0, 2),
    breaks=schedules,
    twice=schedules,
    restarts=st.lists(st.integers(1, 7), max_size=2),
    seed=st.integers(0, 100),
)
def test_partial_and_late_fills_lose_no_money(
    world: MarketData,
    execution: Execution,
    plan: Plan,
    partial: FaultSchedule,
    late: int,
    breaks: FaultSchedule,
    twice: FaultSchedule,
    restarts: list[int],
    seed: int,
) -> None:
    faults = PaperFaults(
        seed=seed,
        partial_fill=partial,
        latency_bars=late,
        disconnect=breaks,
        duplicate_report=twice,
        reorder_reports=0.3,
        lose_acknowledgement=0.3,
    )

    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "paper.jsonl"
        session = asyncio.run(
            trade(world, execution, plan, faults, ledger=ledger, restarts=restarts)
        )

    assert_accounted(session)
