"""Hands orders to a broker, each exactly once, and keeps what it says about them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sekai.error import BrokerError
from sekai.live.broker import Broker, BrokerAccount
from sekai.live.live_config import LiveConfig
from sekai.live.monitoring import SessionMonitor
from sekai.live.order_keeper import OrderKeeper
from sekai.live.order_records import report_fields
from sekai.live.orders import Order, OrderReport
from sekai.live.reconciliation import reconcile, settle
from sekai.live.session_journal import SessionJournal
from sekai.live.status import State

__all__ = ["Desk"]

Answer = TypeVar("Answer")

LONGEST_WAIT_SECONDS = 5.0
"""Between two attempts to reach a broker."""


class Desk:
    """Between a session and its broker.

    Whatever is sent stands in the journal before. A broker that does not answer is asked again,
    and after every reconnect what it knows of orders that are not done is asked first.
    """

    def __init__(
        self,
        broker: Broker,
        journal: SessionJournal,
        keeper: OrderKeeper,
        monitor: SessionMonitor,
        config: LiveConfig,
    ) -> None:
        """Take over a broker that is not connected yet."""
        self.broker, self.journal, self.keeper = broker, journal, keeper
        self._monitor, self._config = monitor, config
        self._current: frozenset[str] = frozenset()
        self._good_until = 0.0
        self._is_closing = False
        self.is_ending = False
        """Whether the session ends: a broker that does not answer is not waited for any more."""
        self.is_killed: Callable[[], bool] = lambda: False
        """Asked before an order leaves: if so, only those that close positions do."""
        self._sent_at: dict[str, int] = {}
        self._is_lost = True
        self._before_halt: tuple[State, str] = ("starting", "")
        self._is_reconciled = False

    @property
    def is_lost(self) -> bool:
        """Whether the broker has to be connected, and asked what it knows, before anything else."""
        return self._is_lost

    def standing(
        self, orders: Sequence[Order], *, age: float = 0.0, is_closing: bool = False
    ) -> None:
        """Say which orders are those of the last decision: only they may be sent from now on.

        Args:
            orders: what was decided.
            age: seconds since the row on which that was.
            is_closing: whether they close positions, which a kill switch does not forbid.
        """
        self._current = frozenset(order.id for order in orders)
        self._is_closing = is_closing
        seconds = self._config.limits.max_staleness_seconds
        self._good_until = time.monotonic() + (math.inf if seconds is None else seconds - age)

    async def ask(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """What a broker answers; it is asked again while it does not, and nothing else is done.

        Raises:
            BrokerError: it does not answer, and the session ends.
        """
        wait, failures = self._config.retry_seconds, 0
        while True:
            try:
                if self._is_lost:
                    await self._reconnect()
                answer = await call()
                break
            except BrokerError as error:
                self._is_lost = True
                failures += 1
                self._note_failure(failures, error)
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        if failures >= self._config.attempts:
            self._monitor.become(*self._before_halt)
        return answer

    def _note_failure(self, failures: int, error: BrokerError) -> None:
        # It may take long: what is known is not kept in mind alone.
        self.journal.write_held()
        if self.is_ending and failures >= self._config.attempts:
            raise BrokerError(f"the broker did not answer {failures} times: {error}") from error
        if failures == self._config.attempts:
            reason = f"the broker does not answer: {error}"
            self._before_halt = (self._monitor.state, self._monitor.reason)
            self._monitor.become("halted", reason)
            self._monitor.alert(reason)

    async def connect(self) -> None:
        """Connect, and settle what became of orders that are not done."""
        # What a session that broke off held is compared with what is held now.
        self._is_reconciled = bool(self.keeper.units)
        await self.ask(self._nothing)

    async def account(self) -> BrokerAccount:
        """What the account has, with everything that was said about orders before."""
        await self.take_reports()
        account = await self.ask(self.broker.account)
        # What orders came to is compared with what is held: the broker's word holds.
        for difference in reconcile(self.keeper, account):
            if self._is_reconciled and difference.what != "cash":
                self._monitor.alert(f"not by our orders: {difference}")
        self._is_reconciled = True
        self.keeper.rebase(account)
        self.keeper.confirm()
        return account

    async def take_reports(self) -> None:
        """Journal and keep what the broker has said since it was last asked."""
        for report in await self.ask(self.broker.reports):
            self._take(report)

    async def send(self, orders: Sequence[Order]) -> None:
        """Hand over orders that stand in the journal already."""
        for order in orders:
            await self.ask(lambda order=order: self._submit(order))  # type: ignore[misc]

    async def cancel(self, order_ids: Sequence[str]) -> None:
        """Ask that no more of these orders is filled."""
        for order_id in order_ids:
            self.journal.append("cancel", id=order_id)
            self.keeper.cancel(order_id)
            await self.ask(lambda order_id=order_id: self.broker.cancel(order_id))  # type: ignore[misc]
        await self.take_reports()

    async def _submit(self, order: Order) -> None:
        if self.keeper[order.id].is_done:
            # Given up, or found to be there, while the broker was out of reach.
            return
        if order.id not in self._sent_at and self._is_stale(order):
            reason = "the kill switch was pulled" if self.is_killed() else "it was not sent in time"
            self.journal.append("abandoned", id=order.id, reason=reason)
            self.keeper.abandon(order.id, reason)
            return
        self._sent_at.setdefault(order.id, time.perf_counter_ns())
        await self.broker.submit(order)
        if not self.keeper[order.id].is_sent:
            self.journal.append("sent", id=order.id)
            self.keeper.send(order.id)
            self._monitor.counts["orders_sent"] += 1

    async def _reconnect(self) -> None:
        await self.broker.connect()
        settled = await settle(
            self.keeper, self.broker, self.journal.append, self._is_stale, attempts=1
        )
        self._is_lost = False
        for report in settled.missed:
            self._tell(report)
        for order in settled.abandoned:
            self._sent_at.pop(order.id, None)
        for order in settled.send_again:
            await self._submit(order)

    def _is_stale(self, order: Order) -> bool:
        """Its price is of yesterday: what was not sent in time is not sent at all."""
        if self.is_killed() and not self._is_closing:
            return True
        return order.id not in self._current or time.monotonic() > self._good_until

    def _take(self, report: OrderReport) -> None:
        kept = self.keeper.orders.get(report.order_id)
        if kept is not None and report.id in kept.report_ids:
            return
        self.journal.append_of("report", report_fields, report)
        if self.keeper.take(report):
            self._tell(report)

    def _tell(self, report: OrderReport) -> None:
        """Let those who watch know of a report that was new."""
        if report.kind == "filled":
            self._monitor.fills += 1
            sent = self._sent_at.get(report.order_id)
            if sent is not None:
                self._monitor.latency["order_to_fill"].add(report.arrival - sent)
        if report.kind == "rejected":
            self._monitor.alert(f"order {report.order_id} was rejected: {report.reason}")
        kept = self.keeper.orders.get(report.order_id)
        if kept is None or kept.is_done:
            self._sent_at.pop(report.order_id, None)
        while self.keeper.alerts:
            self._monitor.alert(self.keeper.alerts.popleft())

    async def _nothing(self) -> None:
        """Nothing more than what being connected needs."""
