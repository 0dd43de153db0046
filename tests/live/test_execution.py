"""The execution client: retries with back-off, reconnects first, and halts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sekai.error import BrokerError
from sekai.live.backoff import Backoff
from sekai.live.clock import Clock
from sekai.live.config import LiveConfig, SessionFolder
from sekai.live.execution import ExecutionClient
from sekai.live.feed import FeedHealth
from sekai.live.journal.session import SessionJournal
from sekai.live.orders import BrokerOrder, ExecutionReport, OrderState, OrderTracker
from sekai.live.state_machine import SessionStateMachine
from sekai.live.status import SessionMonitor
from tests.live.sessions import world


class Flaky:
    """Request that fails a number of times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise BrokerError("no answer")
        return "answer"


class WaitingClock(Clock):
    """Clock that notes waits, and the state during them."""

    def __init__(self, state: SessionStateMachine) -> None:
        self.waits: list[float] = []
        self.states: list[str] = []
        self._state = state

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.states.append(self._state.state)


@pytest.fixture
def clock(state: SessionStateMachine) -> WaitingClock:
    return WaitingClock(state)


@pytest.fixture
def waits(clock: WaitingClock) -> list[float]:
    return clock.waits


@pytest.fixture
def state() -> SessionStateMachine:
    return SessionStateMachine()


@pytest.fixture
def client(
    tmp_path: Path, state: SessionStateMachine, clock: WaitingClock
) -> Iterator[ExecutionClient]:
    broker = world().broker()
    journal = SessionJournal(SessionFolder(tmp_path), "never", broker)
    tracker = OrderTracker()
    monitor = SessionMonitor("s", (), tracker, state)
    config = LiveConfig(attempts=3, retry_seconds=1.0)
    yield ExecutionClient(broker, journal, tracker, monitor, state, config, clock=clock)
    journal.close()


def test_a_call_is_retried_until_the_broker_answers(
    client: ExecutionClient, waits: list[float]
) -> None:
    request = Flaky(2)

    assert asyncio.run(client.call(request)) == "answer"

    assert request.calls == 3
    assert len(waits) == 2


def test_waits_double_up_to_the_longest_with_jitter(
    client: ExecutionClient, waits: list[float], state: SessionStateMachine
) -> None:
    asyncio.run(client.call(Flaky(6)))

    for wait, limit in zip(waits, (1.0, 2.0, 4.0, 5.0, 5.0, 5.0), strict=True):
        assert limit / 2 <= wait <= limit
    assert state.state == "starting"


def test_a_broker_is_reconnected_before_every_retry(
    client: ExecutionClient, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    connects: list[int] = []

    async def connect() -> None:
        connects.append(1)

    monkeypatch.setattr(client.broker, "connect", connect)
    asyncio.run(client.call(Flaky(2)))
    asyncio.run(client.call(Flaky(0)))

    assert len(connects) == 3


def test_trading_halts_while_the_broker_does_not_answer(
    client: ExecutionClient, state: SessionStateMachine, clock: WaitingClock
) -> None:
    state.advance("running")
    asyncio.run(client.call(Flaky(4)))

    assert clock.states == ["trading", "trading", "halted", "halted"]
    assert state.state == "trading"


def test_a_session_that_stops_gives_the_broker_up(
    client: ExecutionClient, waits: list[float]
) -> None:
    client.is_stopping = True

    with pytest.raises(BrokerError, match="no answer from the broker in 3 attempts"):
        asyncio.run(client.call(Flaky(9)))


def test_a_call_that_never_returns_is_given_up_and_repeated(
    client: ExecutionClient, waits: list[float]
) -> None:
    calls: list[int] = []

    async def hang() -> str:
        calls.append(1)
        if len(calls) < 3:
            await asyncio.Event().wait()
        return "answer"

    client._config = LiveConfig(call_timeout=0.02)

    assert asyncio.run(client.call(hang)) == "answer"
    assert (len(calls), len(waits)) == (3, 2)


def test_other_errors_are_not_retried(client: ExecutionClient) -> None:
    async def request() -> Any:
        raise ValueError("invalid")

    with pytest.raises(ValueError, match="invalid"):
        asyncio.run(client.call(request))


def test_invalid_back_off_is_refused() -> None:
    for settings in ({"first": -1.0}, {"factor": 0.5}, {"longest": float("inf")}):
        with pytest.raises(ValueError, match="0 <= first <= longest"):
            Backoff(**settings)


def order_of(units: float) -> BrokerOrder:
    return BrokerOrder(id="s-1-A", asset="A", units=units, reference_price=100.0)


def report_of(number: int, kind: Any, units: float = 0.0) -> ExecutionReport:
    return ExecutionReport(
        id=f"s-1-A/{number}", order_id="s-1-A", kind=kind, units=units, price=100.0
    )


def test_an_end_that_overtakes_a_fill_is_queried_before_its_units_are_free(
    client: ExecutionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, fill, end = order_of(10.0), report_of(1, "filled", 4.0), report_of(2, "cancelled")
    deliveries, asked, fills = iter([[end], [fill], []]), list[list[str]](), list[float]()

    async def reports() -> list[ExecutionReport]:
        return next(deliveries)

    async def known(order_ids: Any) -> dict[str, OrderState]:
        asked.append(list(order_ids))
        return {order.id: OrderState(order=order, filled=4.0, is_open=False, reports=(fill, end))}

    client.on_fill = lambda asset, report: fills.append(report.units)
    client.tracker.intend(order)
    client.tracker.send(order.id)
    client._is_lost = False
    monkeypatch.setattr(client.broker, "reports", reports)
    monkeypatch.setattr(client.broker, "known", known)

    for _ in range(3):
        asyncio.run(client.take_reports())
        assert (fills, client.tracker[order.id].filled) == ([4.0], 4.0)

    assert asked == [["s-1-A"]]


def test_an_acknowledged_order_that_the_broker_lost_raises_an_alert(
    client: ExecutionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.tracker.intend(order_of(10.0))
    client.tracker.send("s-1-A")

    asyncio.run(client.connect())

    assert client.tracker["s-1-A"].status == "denied"
    alerts = client._monitor.status(FeedHealth()).alerts
    assert any(
        "order s-1-A is unknown to the broker, which had acknowledged it" in a for a in alerts
    )
