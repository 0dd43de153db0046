"""Venue of the fault benchmark: real time and threads, and connections that break on demand."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sekai.error import BrokerError
from sekai.live import Broker, BrokerAccount, BrokerOrder, ExecutionReport, OrderState

CASH = 100_000.0


@dataclass
class Faults:
    """Faults of a connection, changed while it is used."""

    hangs: set[str] = field(default_factory=set)
    """Calls that do not return until they are taken out of the set; `all` for every call."""

    account: str = ""
    """Answer of `account`: `empty`, `lagging` or `foreign`; empty for the true one."""


class Venue:
    """Account and orders as they are: orders in the first asset fill at once, others rest."""

    def __init__(self, filling: str) -> None:
        self._filling = filling
        self._lock = threading.Lock()
        self.cash, self.units = CASH, dict[str, float]()
        self.orders: dict[str, BrokerOrder] = {}
        self.open: set[str] = set()
        self.accepted: list[float] = []
        self.rejects = False
        self._reports: dict[str, list[ExecutionReport]] = {}
        self._undelivered: list[ExecutionReport] = []

    def accept(self, order: BrokerOrder) -> None:
        """Fill, reject or keep an order, once for each id."""
        with self._lock:
            if order.id in self.orders:
                return
            self.orders[order.id] = order
            self.accepted.append(time.time())
            if self.rejects:
                self._report(order, "rejected", reason="refused by the venue")
            elif order.asset == self._filling:
                price = order.reference_price
                self.cash -= order.units * price
                self.units[order.asset] = self.units.get(order.asset, 0.0) + order.units
                self._report(order, "filled", units=order.units, price=price)
            else:
                self.open.add(order.id)
                self._report(order, "acknowledged")

    def cancel(self, order_id: str) -> None:
        """Cancel an order that is open."""
        with self._lock:
            if order_id in self.open:
                self.open.discard(order_id)
                self._report(self.orders[order_id], "cancelled", reason="as requested")

    def state(self, order_id: str) -> OrderState:
        """State of an order."""
        with self._lock:
            reports = tuple(self._reports[order_id])
            filled = sum(report.units for report in reports if report.kind == "filled")
            is_open = order_id in self.open
            order = self.orders[order_id]
        return OrderState(order=order, filled=filled, is_open=is_open, reports=reports)

    def deliver(self) -> list[ExecutionReport]:
        """Reports since the last call."""
        with self._lock:
            reports, self._undelivered = self._undelivered, []
        return reports

    def _report(self, order: BrokerOrder, kind: Any, **values: Any) -> None:
        reports = self._reports.setdefault(order.id, [])
        report = ExecutionReport(
            id=f"{order.id}/{len(reports)}",
            order_id=order.id,
            kind=kind,
            broker_time=time.time_ns(),
            arrival=time.perf_counter_ns(),
            **values,
        )
        reports.append(report)
        self._undelivered.append(report)


class Connection(Broker):
    """Connection to the venue with faults of its own."""

    def __init__(self, venue: Venue, faults: Faults, control_faults: Faults) -> None:
        self._venue, self._faults, self._control_faults = venue, faults, control_faults
        self._frozen: BrokerAccount | None = None

    def control(self) -> Broker:
        """Connection of the watchdog."""
        return Connection(self._venue, self._control_faults, self._control_faults)

    async def connect(self) -> None:
        """Connect."""
        await self._answer("connect")

    async def submit(self, order: BrokerOrder) -> None:
        """Submit an order."""
        await self._answer("submit")
        self._venue.accept(order)

    async def cancel(self, order_id: str) -> None:
        """Cancel an order."""
        await self._answer("cancel")
        self._venue.cancel(order_id)

    async def account(self) -> BrokerAccount:
        """Account, wrong if so configured."""
        await self._answer("account")
        venue, kind = self._venue, self._faults.account
        if kind == "empty":
            return BrokerAccount(cash=0.0, units={})
        account = BrokerAccount(cash=venue.cash, units=dict(venue.units), time=time.time_ns())
        if kind == "foreign":
            return BrokerAccount(cash=venue.cash, units={**venue.units, "FOREIGN": 3.0})
        if kind == "lagging":
            self._frozen = self._frozen or account
            return self._frozen
        return account

    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        """States of orders."""
        await self._answer("known")
        orders = self._venue.orders
        return {name: self._venue.state(name) for name in order_ids if name in orders}

    async def open_orders(self) -> list[BrokerOrder]:
        """Orders that rest."""
        await self._answer("open_orders")
        return [self._venue.orders[name] for name in sorted(self._venue.open)]

    async def reports(self) -> list[ExecutionReport]:
        """Reports since the last call."""
        await self._answer("reports")
        return self._venue.deliver()

    async def _answer(self, name: str) -> None:
        if "errors" in self._faults.hangs:
            raise BrokerError("connection refused")
        while self._faults.hangs & {name, "all"}:
            await asyncio.sleep(0.005)
