"""Execution client: order submission with exactly-once semantics."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import numpy as np

from sekai.error import BrokerError
from sekai.live.account import BrokerAccount
from sekai.live.backoff import Backoff
from sekai.live.broker import Broker
from sekai.live.config import LiveConfig
from sekai.live.journal.session import SessionJournal
from sekai.live.orders import BrokerOrder, ExecutionReport, OrderTracker, report_fields
from sekai.live.reconciliation import reconcile, settle
from sekai.live.state_machine import SessionStateMachine
from sekai.live.status import SessionMonitor

__all__ = ["ExecutionClient"]

Answer = TypeVar("Answer")

LONGEST_WAIT_SECONDS = 5.0
"""Longest back-off between two attempts to reach a broker."""


class ExecutionClient:
    """Submits orders to a broker, retries with back-off, and tracks execution reports.

    Orders are in the journal before they are submitted. After every reconnect, the state of
    unresolved orders is queried before anything else.
    """

    def __init__(
        self,
        broker: Broker,
        journal: SessionJournal,
        tracker: OrderTracker,
        monitor: SessionMonitor,
        state: SessionStateMachine,
        config: LiveConfig,
    ) -> None:
        self.broker, self.journal, self.tracker = broker, journal, tracker
        self._monitor, self._state, self._config = monitor, state, config
        longest = max(LONGEST_WAIT_SECONDS, config.retry_seconds)
        self._backoff = Backoff(first=config.retry_seconds, longest=longest)
        self._rng = np.random.default_rng()
        self._current: frozenset[str] = frozenset()
        self._valid_until = 0.0
        self._is_closing = False
        self.is_stopping = False
        """True when the session ends: an unresponsive broker is then given up after `attempts`."""

        self.is_killed: Callable[[], bool] = lambda: False
        """Kill switch, checked before an order is submitted: only closing orders pass."""

        self._sent_at: dict[str, int] = {}
        self._is_lost = True
        self._is_reconciled = False

    def set_current(
        self, orders: Sequence[BrokerOrder], *, age: float = 0.0, is_closing: bool = False
    ) -> None:
        """Set the orders of the last decision: only these may be submitted from now on.

        Args:
            orders: decided orders.
            age: seconds since the row of the decision.
            is_closing: True if they close positions, which a kill switch does not forbid.
        """
        self._current = frozenset(order.id for order in orders)
        self._is_closing = is_closing
        seconds = self._config.limits.max_staleness_seconds
        self._valid_until = time.monotonic() + (math.inf if seconds is None else seconds - age)

    async def call(self, request: Callable[[], Awaitable[Answer]]) -> Answer:
        """Answer of the broker; retried with back-off, after a reconnect, until it answers.

        Raises:
            BrokerError: the broker does not answer and the session is stopping.
        """
        failures = 0
        while True:
            try:
                if self._is_lost:
                    await self._reconnect()
                answer = await request()
                break
            except BrokerError as error:
                self._is_lost = True
                failures += 1
                self._note_failure(failures, error)
            await asyncio.sleep(self._backoff.seconds(failures, self._rng))
        if failures >= self._config.attempts:
            self._state.fire("broker_reconnected", by="execution")
        return answer

    def _note_failure(self, failures: int, error: BrokerError) -> None:
        # The outage may be long: buffered records must not wait for its end.
        self.journal.write_held()
        if self.is_stopping and failures >= self._config.attempts:
            raise BrokerError(
                f"no answer from the broker in {failures} attempts: {error}"
            ) from error
        if failures == self._config.attempts:
            reason = f"no answer from the broker: {error}"
            self._state.fire("broker_lost", by="execution", reason=reason)
            self._monitor.alert(reason)

    async def connect(self) -> None:
        """Connect, and settle unresolved orders."""
        # Positions recovered from the journal are compared with those of the broker.
        self._is_reconciled = bool(self.tracker.units)
        await self.call(_no_request)

    async def account(self) -> BrokerAccount:
        """Account of the broker after all pending reports, reconciled with the tracked fills."""
        await self.take_reports()
        account = await self.call(self.broker.account)
        for difference in reconcile(self.tracker, account):
            if self._is_reconciled and difference.name != "cash":
                self._monitor.alert(f"position not explained by own orders: {difference}")
        self._is_reconciled = True
        self.tracker.rebase(account)
        self.tracker.confirm()
        return account

    async def take_reports(self) -> None:
        """Journal and apply execution reports since the last call."""
        for report in await self.call(self.broker.reports):
            self._apply(report)

    async def send(self, orders: Sequence[BrokerOrder]) -> None:
        """Submit orders that are in the journal already."""
        for order in orders:
            await self.call(lambda order=order: self._submit(order))  # type: ignore[misc]

    async def cancel(self, order_ids: Sequence[str]) -> None:
        """Cancel orders, each journaled first."""
        for order_id in order_ids:
            self.journal.append("cancel", id=order_id)
            self.tracker.cancel(order_id)
            await self.call(lambda order_id=order_id: self.broker.cancel(order_id))  # type: ignore[misc]
        await self.take_reports()

    async def cancel_all(self) -> None:
        """Cancel all open orders, and submit none of the last decision any more."""
        self.set_current([])
        await self.cancel([order.id for order in self.tracker.open_orders()])

    async def _submit(self, order: BrokerOrder) -> None:
        if self.tracker[order.id].is_done:
            # Abandoned, or found at the broker, during an outage.
            return
        if order.id not in self._sent_at and self._is_stale(order):
            reason = "kill switch" if self.is_killed() else "not submitted in time"
            self.journal.append("abandoned", id=order.id, reason=reason)
            self.tracker.abandon(order.id, reason)
            return
        self._sent_at.setdefault(order.id, time.perf_counter_ns())
        await self.broker.submit(order)
        if not self.tracker[order.id].is_sent:
            self.journal.append("sent", id=order.id)
            self.tracker.send(order.id)

    async def _reconnect(self) -> None:
        await self.broker.connect()
        settled = await settle(self.tracker, self.broker, self.journal.append, self._is_stale)
        self._is_lost = False
        for report in settled.missed:
            self._publish(report)
        for order in settled.abandoned:
            self._sent_at.pop(order.id, None)
        for order in settled.send_again:
            await self._submit(order)

    def _is_stale(self, order: BrokerOrder) -> bool:
        """Return True if an order that was not submitted in time must not be submitted at all."""
        if self.is_killed() and not self._is_closing:
            return True
        return order.id not in self._current or time.monotonic() > self._valid_until

    def _apply(self, report: ExecutionReport) -> None:
        tracked = self.tracker.orders.get(report.order_id)
        if tracked is not None and report.id in tracked.report_ids:
            return
        self.journal.append_of("report", report_fields, report)
        if self.tracker.apply(report):
            self._publish(report)

    def _publish(self, report: ExecutionReport) -> None:
        """Update counts, latencies and alerts with a new report."""
        if report.kind == "filled":
            sent = self._sent_at.get(report.order_id)
            if sent is not None:
                self._monitor.latency["order_to_fill"].add(report.arrival - sent)
        if report.kind == "rejected":
            self._monitor.alert(f"order {report.order_id} rejected: {report.reason}")
        tracked = self.tracker.orders.get(report.order_id)
        if tracked is None or tracked.is_done:
            self._sent_at.pop(report.order_id, None)
        while self.tracker.alerts:
            self._monitor.alert(self.tracker.alerts.popleft())


async def _no_request() -> None:
    """Request nothing beyond the connection."""
