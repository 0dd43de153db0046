"""Execution client: order submission with exactly-once semantics, timeouts and order deadlines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from sekai.error import BrokerError
from sekai.live.account import BrokerAccount
from sekai.live.backoff import Backoff
from sekai.live.broker import Broker, call_with_timeout
from sekai.live.clock import Clock
from sekai.live.config import LiveConfig
from sekai.live.journal.session import SessionJournal
from sekai.live.orders import (
    BrokerOrder,
    ExecutionReport,
    OrderState,
    OrderStatus,
    OrderTracker,
    TrackedOrder,
    order_fields,
    report_fields,
)
from sekai.live.reconciliation import apply_state, settle
from sekai.live.state_machine import SessionStateMachine
from sekai.live.status import SessionMonitor
from sekai.live.watchdog import SessionLink

__all__ = ["ExecutionClient"]

Answer = TypeVar("Answer")

LONGEST_WAIT_SECONDS = 5.0
"""Longest back-off between two attempts to reach a broker."""

ALERTED_FAILURES = 2
"""Failures of a call in a row that raise an alert; an order may be denied before trading halts."""

UNSUBMITTED_SECONDS = 60.0
"""Deadline of an order that was journaled and not submitted, because something interrupted it."""


class ExecutionClient:
    """Submits orders to a broker, retries with back-off, and tracks execution reports.

    Orders are in the journal before they are submitted. After every reconnect, the state of
    unresolved orders is queried before anything else. Every call has a timeout, and every open
    order a deadline in each of its states: an overdue order is queried, then an alert.

    Args:
        broker: connection to the broker.
        journal: journal of the session.
        tracker: orders of the session.
        monitor: takes alerts, counts and latencies.
        state: state machine of the session.
        config: timeouts and attempts.
        link: values shared with the watchdog.
        clock: clock.
        fill_seconds: deadline for the fill of an accepted order.
        rng: random numbers of the back-off.
    """

    def __init__(
        self,
        broker: Broker,
        journal: SessionJournal,
        tracker: OrderTracker,
        monitor: SessionMonitor,
        state: SessionStateMachine,
        config: LiveConfig,
        *,
        link: SessionLink | None = None,
        clock: Clock | None = None,
        fill_seconds: float = float("inf"),
        rng: np.random.Generator | None = None,
    ) -> None:
        self.broker, self.journal, self.tracker = broker, journal, tracker
        self._monitor, self._state, self._config = monitor, state, config
        self.link, self._clock = link or SessionLink(), clock or Clock()
        longest = max(LONGEST_WAIT_SECONDS, config.retry_seconds)
        self._backoff = Backoff(first=config.retry_seconds, longest=longest)
        self._rng = rng or np.random.default_rng()
        self._deadlines: Mapping[OrderStatus, float] = {
            "initialized": UNSUBMITTED_SECONDS,
            "pending_new": config.order_timeout,
            "pending_cancel": config.order_timeout,
            "unknown": config.order_timeout,
            "accepted": fill_seconds,
            "partially_filled": fill_seconds,
        }
        self._current: frozenset[str] = frozenset()
        self._valid_until = 0.0
        self.is_stopping = False
        """True when the session ends: an unresponsive broker is then given up after `attempts`."""

        self.on_fill: Callable[[str, ExecutionReport], None] = lambda asset, report: None
        """Called with the asset and the report of every new fill."""

        self.on_order: Callable[[BrokerOrder], None] = lambda order: None
        """Called with every order of the watchdog."""

        self._sent_at: dict[str, int] = {}
        self._is_lost = True

    def set_current(self, orders: Sequence[BrokerOrder], *, age: float | None = 0.0) -> None:
        """Set the orders of the last decision: only these may be submitted from now on.

        Args:
            orders: decided orders.
            age: seconds since the row of the decision; None if unknown, which is too old.
        """
        self._current = frozenset(order.id for order in orders)
        seconds = self._config.limits.max_staleness_seconds
        if age is None:
            self._valid_until = -float("inf")
        elif seconds is None:
            self._valid_until = float("inf")
        else:
            self._valid_until = self._now() + seconds - age

    async def call(self, request: Callable[[], Awaitable[Answer]], name: str = "call") -> Answer:
        """Answer of the broker; retried with back-off, after a reconnect, until it answers.

        Args:
            request: the call.
            name: name of the call, for alerts about a broker that hangs.

        Raises:
            BrokerError: the broker does not answer and the session is stopping.
        """
        failures = 0
        self.link.activity = f"broker: {name}"
        try:
            while True:
                try:
                    if self._is_lost:
                        await self._reconnect()
                    answer = await self._timed(request)
                    break
                except BrokerError as error:
                    self._is_lost = True
                    failures += 1
                    self._note_failure(failures, name, error)
                await self._clock.sleep(self._backoff.seconds(failures, self._rng))
        finally:
            self.link.activity = ""
        if failures:
            self._state.clear_cause("broker_lost", "execution")
        return answer

    def _note_failure(self, failures: int, name: str, error: BrokerError) -> None:
        # The outage may be long: buffered records must not wait for its end.
        self.journal.write_held()
        if self.is_stopping and failures >= self._config.attempts:
            raise BrokerError(
                f"no answer from the broker in {failures} attempts: {error}"
            ) from error
        if failures == ALERTED_FAILURES < self._config.attempts:
            self._monitor.alert(f"the broker does not answer ({name}), asking again: {error}")
        if failures == self._config.attempts:
            reason = f"no answer from the broker ({name}): {error}"
            self._state.raise_cause("broker_lost", "execution", reason)
            self._monitor.alert(reason)

    async def connect(self) -> None:
        """Connect, and settle unresolved orders."""
        self._take_closing_orders()
        await self.call(_no_request, "connect")

    async def account(self) -> BrokerAccount:
        """Account of the broker after all pending reports."""
        await self.take_reports()
        return await self.call(self.broker.account, "account")

    async def take_reports(self) -> None:
        """Journal and apply execution reports since the last call."""
        self._take_closing_orders()
        for report in await self.call(self.broker.reports, "reports"):
            self._apply(report)
        await self._confirm_ended()

    async def _confirm_ended(self) -> None:
        """Query orders that ended unfilled: the report of an end may overtake that of a fill.

        A lagging account does not show that fill either, so that neither may be trusted alone.
        """
        ids = self.tracker.unconfirmed()
        if not ids:
            return
        states = await self.call(lambda: self.broker.known(ids), "known")
        for state in states.values():
            for report in apply_state(self.tracker, state, self.journal.append):
                self._publish(report)
        self.tracker.confirm()
        self._pass_alerts()

    async def send(self, orders: Sequence[BrokerOrder]) -> None:
        """Submit orders that are in the journal already."""
        for order in orders:
            await self.call(lambda order=order: self._submit(order), "submit")  # type: ignore[misc]

    async def cancel(self, order_ids: Sequence[str]) -> None:
        """Cancel orders, each journaled first."""
        for order_id in order_ids:
            self.journal.append("cancel", id=order_id)
            self.tracker.cancel(order_id)
            await self.call(lambda order_id=order_id: self.broker.cancel(order_id), "cancel")  # type: ignore[misc]
        await self.take_reports()

    async def cancel_all(self) -> None:
        """Cancel all open orders, and submit none of the last decision any more."""
        self.set_current([])
        await self.cancel([order.id for order in self.tracker.open_orders()])

    async def check_deadlines(self) -> None:
        """Query overdue orders, and raise an alert for those that stay overdue."""
        overdue = self.tracker.overdue(self._deadlines)
        if not overdue:
            self._note_unknown()
            return
        ids = [tracked.order.id for tracked in overdue]
        try:
            if self._is_lost:
                await self._reconnect()
            states = await self._timed(lambda: self.broker.known(ids))
        except BrokerError as error:
            self._is_lost = True
            for tracked in overdue:
                self.tracker.note_query(tracked)
                if self.tracker.mark_unknown(tracked.order.id, f"no answer: {error}"):
                    self._alert_overdue(tracked, f"the broker does not answer: {error}")
        else:
            for tracked in overdue:
                await self._settle_overdue(tracked, states.get(tracked.order.id))
        self._note_unknown()

    async def _settle_overdue(self, tracked: TrackedOrder, state: OrderState | None) -> None:
        order, status = tracked.order, tracked.status
        if tracked.is_done:
            return
        if state is None:
            if status == "pending_new" and not tracked.report_ids and not self._is_stale(order):
                self.tracker.note_query(tracked)
                await self._timed(lambda: self._submit(order))
                return
            reason = "not acknowledged in time, and unknown to the broker"
            self._deny(order, reason)
            self._monitor.alert(f"order {order.id} ({order.units:+g} {order.asset}): {reason}")
            return
        for report in apply_state(self.tracker, state, self.journal.append):
            self._publish(report)
        if tracked.is_done or tracked.status != status:
            return
        self.tracker.note_query(tracked)
        if status == "pending_cancel":
            await self._timed(lambda: self.broker.cancel(order.id))
        if tracked.queries == 1 or status in ("pending_cancel", "pending_new"):
            self._alert_overdue(tracked, "the broker reports it as open")

    def _alert_overdue(self, tracked: TrackedOrder, detail: str) -> None:
        order = tracked.order
        self._monitor.alert(
            f"order {order.id} ({order.units:+g} {order.asset}) is overdue: {tracked.status}, "
            f"{tracked.filled:g} filled; {detail}"
        )

    def _note_unknown(self) -> None:
        """Restrict trading to reductions while the state of an order is unknown."""
        unknown = [
            order.id
            for order in self.tracker.open_orders()
            if self.tracker[order.id].status == "unknown"
        ]
        if unknown:
            reason = f"the state of {len(unknown)} orders is unknown, such as {unknown[0]}"
            self._state.raise_cause("order_unknown", "execution", reason)
        else:
            self._state.clear_cause("order_unknown", "execution")

    def _take_closing_orders(self) -> None:
        """Track orders that the watchdog has submitted."""
        while self.link.closing:
            order = self.link.closing.popleft()
            self.journal.append("order", **order_fields(order))
            self.tracker.intend_closing(order, self._clock.wall_ns())
            self.on_order(order)

    async def _submit(self, order: BrokerOrder) -> None:
        tracked = self.tracker[order.id]
        if tracked.is_done:
            # Denied, or found at the broker, during an outage.
            return
        is_stale = order.id not in self._sent_at and self._is_stale(order)
        if is_stale or self.link.submissions_closed:
            closed = self.link.submissions_closed
            if tracked.status == "initialized":
                self._deny(order, "kill switch" if closed else "not submitted in time")
            return
        self._sent_at.setdefault(order.id, self._clock.monotonic_ns())
        self.tracker.submit(order.id)
        self.link.submitting = order.id
        await self.broker.submit(order)
        self.link.submitting = ""
        if not tracked.is_sent:
            self.journal.append("sent", id=order.id)
            self.tracker.send(order.id)

    def _deny(self, order: BrokerOrder, reason: str) -> None:
        self.journal.append("denied", id=order.id, reason=reason)
        self.tracker.deny(order.id, reason)
        self._sent_at.pop(order.id, None)

    async def _reconnect(self) -> None:
        await self._timed(self.broker.connect)
        settled = await self._timed(
            lambda: settle(self.tracker, self.broker, self.journal.append, self._is_stale)
        )
        self._is_lost = False
        self.link.submitting = ""
        for report in settled.missed:
            self._publish(report)
        for order in settled.denied:
            self._sent_at.pop(order.id, None)
        self._pass_alerts()
        for order in settled.send_again:
            await self._timed(lambda order=order: self._submit(order))  # type: ignore[misc]

    async def _timed(self, request: Callable[[], Awaitable[Answer]]) -> Answer:
        return await call_with_timeout(request, self._config.call_timeout)

    def _is_stale(self, order: BrokerOrder) -> bool:
        """Return True if an order that was not submitted in time must not be submitted at all."""
        if self.link.submissions_closed:
            return True
        return order.id not in self._current or self._now() > self._valid_until

    def _now(self) -> float:
        """Seconds by a clock that runs while the machine is suspended."""
        return self._clock.boot_ns() / 1e9

    def _apply(self, report: ExecutionReport) -> None:
        tracked = self.tracker.orders.get(report.order_id)
        if tracked is not None and report.id in tracked.report_ids:
            return
        self.journal.append_of("report", report_fields, report)
        if self.tracker.apply(report):
            self._publish(report)
        self._pass_alerts()

    def _publish(self, report: ExecutionReport) -> None:
        """Pass on a fill, and update latencies and alerts with a new report."""
        tracked = self.tracker.orders.get(report.order_id)
        if report.kind == "filled":
            self.on_fill(report.asset if tracked is None else tracked.order.asset, report)
            sent = self._sent_at.get(report.order_id)
            if sent is not None:
                self._monitor.latency["order_to_fill"].add(report.arrival - sent)
        if report.kind == "rejected":
            self._monitor.alert(f"order {report.order_id} rejected: {report.reason}")
        if tracked is None or tracked.is_done:
            self._sent_at.pop(report.order_id, None)
        self._pass_alerts()

    def _pass_alerts(self) -> None:
        while self.tracker.alerts:
            self._monitor.alert(self.tracker.alerts.popleft())


async def _no_request() -> None:
    """Request nothing beyond the connection."""
