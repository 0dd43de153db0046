"""Simulated venue: the true account and orders, and connections with faults."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sekai.error import BrokerError
from sekai.live import Broker, BrokerAccount, BrokerOrder, ExecutionReport
from sekai.live.instruments import Instrument
from sekai.live.orders import OrderState
from tests.live.simulation.virtual import SECOND, VirtualClock


@dataclass(frozen=True)
class VenueFaults:
    """Faults of a venue, by probability per call or per order unless stated otherwise."""

    hang: float = 0.0
    """A call of the session's connection never returns; it may have had its effect."""

    error: float = 0.0
    lost_reports: float = 0.0
    """A report is never delivered; queries have it."""

    duplicate_reports: float = 0.0
    late_reports: float = 0.0
    unknown_reports: float = 0.0
    """A report of a kind that nobody knows comes along."""

    reject: float = 0.0
    partial: float = 0.0
    """An order is filled in two parts, the second a second later."""

    rest: float = 0.0
    """An order rests unfilled until it is cancelled."""

    swallow: float = 0.0
    """An order is acknowledged to the caller and never arrives."""

    account_lag_seconds: float = 0.0
    """Answers of `account` are as old as this."""

    empty_account: float = 0.0
    lot: float = 0.0
    rounds_orders: bool = False
    """The venue does not say its lots, and rounds what it executes."""

    foreign_asset: bool = False
    dead: tuple[float, float] = (math.inf, math.inf)
    """Times in seconds between which no connection answers."""


@dataclass
class TrueOrder:
    """Order at the venue."""

    order: BrokerOrder
    executed: float
    """Units that the venue executes, after its own rounding."""

    filled: float = 0.0
    is_open: bool = True
    reports: list[ExecutionReport] = field(default_factory=list)


@dataclass(frozen=True)
class TrueFill:
    """Fill with the exposure after it, at true prices."""

    time: int
    order_id: str
    weight: float
    gross: float
    is_increase: bool


class Venue:
    """Account and orders as they truly are."""

    def __init__(
        self,
        clock: VirtualClock,
        assets: tuple[str, ...],
        cash: float,
        faults: VenueFaults,
        seed: int,
    ) -> None:
        self.clock, self.assets, self.faults = clock, assets, faults
        self.cash = cash
        self.units = dict.fromkeys(assets, 0.0)
        self.prices: dict[str, float] = {}
        self.orders: dict[str, TrueOrder] = {}
        self.fills: list[TrueFill] = []
        self.accepted: list[tuple[int, str]] = []
        self.swallowed: dict[str, float] = {}
        """Seconds at which orders were swallowed first."""

        self.reused: list[str] = []
        """Ids under which another order was submitted, which the venue takes for the first one."""

        self.undelivered: list[tuple[int, ExecutionReport]] = []
        self.history: list[tuple[int, float, dict[str, float]]] = []
        self.empty_answers = self.unknown_reports = 0
        self.is_cut_off = False
        """True while the tasks of a dead process end: none of their calls arrives."""

        self._later: list[tuple[int, str, float]] = []
        self._rng = np.random.default_rng(seed)
        self.begin = clock.true_wall
        self._unseen: tuple[int, float] = (0, 0.0)
        self._remember()

    @property
    def seconds(self) -> float:
        """Seconds since the simulation began."""
        return (self.clock.true_wall - self.begin) / SECOND

    def happens(self, probability: float) -> bool:
        return probability > 0.0 and float(self._rng.random()) < probability

    def uniform(self, low: float, high: float) -> float:
        return float(self._rng.uniform(low, high))

    def equity(self) -> float:
        return self.cash + sum(
            units * self.prices[name] for name, units in self.units.items() if units
        )

    def exposure(self) -> tuple[float, float]:
        """Largest weight of a position and gross leverage, at true prices."""
        equity = self.equity()
        until, lost = self._unseen
        equity += lost if self.clock.true_wall < until else 0.0
        values = [abs(units * self.prices[name]) for name, units in self.units.items() if units]
        if not values:
            return 0.0, 0.0
        if equity <= 0.0:
            return math.inf, math.inf
        return max(values) / equity, sum(values) / equity

    def accept(self, order: BrokerOrder) -> None:
        """Execute an order, once for each id."""
        if order.id in self.orders:
            if self.orders[order.id].order != order:
                self.reused.append(order.id)
            return
        self.accepted.append((self.clock.true_wall, order.id))
        executed = order.units
        if self.faults.rounds_orders and self.faults.lot:
            executed = math.trunc(order.units / self.faults.lot) * self.faults.lot
        item = self.orders[order.id] = TrueOrder(order, executed)
        if self.happens(self.faults.reject) or executed == 0.0:
            item.is_open = False
            self._report(item, "rejected", reason="refused by the venue")
            return
        self._report(item, "acknowledged")
        if self.happens(self.faults.rest):
            return
        if self.happens(self.faults.partial):
            share = self.uniform(0.1, 0.9)
            self._fill(item, item.executed * share)
            self._later.append(
                (self.clock.true_wall + SECOND, order.id, item.executed * (1 - share))
            )
            return
        self._fill(item, item.executed)

    def cancel(self, order_id: str) -> None:
        item = self.orders.get(order_id)
        if item is not None and item.is_open:
            item.is_open = False
            self._later = [part for part in self._later if part[1] != order_id]
            self._report(item, "cancelled", reason="as requested")

    def move(self, prices: Mapping[str, float]) -> None:
        """Set true prices, and fill what is due."""
        self.prices = dict(prices)
        due = [part for part in self._later if part[0] <= self.clock.true_wall]
        self._later = [part for part in self._later if part[0] > self.clock.true_wall]
        for _, order_id, units in due:
            if self.orders[order_id].is_open:
                self._fill(self.orders[order_id], units)

    def take_cash(self, share: float) -> None:
        """Let cash vanish; nobody can know it before the account says so, and a row comes."""
        lost = share * self.equity()
        self.cash -= lost
        known = self.faults.account_lag_seconds + 2.0
        self._unseen = self.clock.true_wall + round(known * SECOND), lost
        self._remember()

    def account(self) -> BrokerAccount:
        """Account as the venue reports it, late if so configured."""
        at = self.clock.true_wall - round(self.faults.account_lag_seconds * SECOND)
        cash, units = next(
            ((cash, units) for time, cash, units in reversed(self.history) if time <= at),
            self.history[0][1:],
        )
        held = {name: size for name, size in units.items() if size}
        if self.faults.foreign_asset:
            held["FOREIGN"] = 3.0
        return BrokerAccount(cash=cash, units=held, time=self.clock.true_wall)

    def _fill(self, item: TrueOrder, units: float) -> None:
        name, price = item.order.asset, self.prices[item.order.asset]
        before = abs(self.units[name])
        self.units[name] += units
        if abs(self.units[name]) < 1e-9:
            self.units[name] = 0.0
        self.cash -= units * price
        item.filled += units
        if abs(item.filled - item.executed) < 1e-9:
            item.is_open = False
        self._remember()
        weight, gross = self.exposure()
        self.fills.append(
            TrueFill(
                self.clock.true_wall, item.order.id, weight, gross, abs(self.units[name]) > before
            )
        )
        self._report(item, "filled", units=units, price=price)
        if not item.is_open and abs(item.executed - item.order.units) > 1e-12:
            self._report(item, "cancelled", reason="remainder below a lot")

    def _report(self, item: TrueOrder, kind: Any, **values: Any) -> None:
        report = ExecutionReport(
            id=f"{item.order.id}/{len(item.reports)}",
            order_id=item.order.id,
            kind=kind,
            broker_time=self.clock.true_wall,
            arrival=self.clock.monotonic_ns(),
            **values,
        )
        item.reports.append(report)
        if self.happens(self.faults.lost_reports):
            return
        due = self.clock.true_wall
        if self.happens(self.faults.late_reports):
            due += round(self.uniform(0.0, 3.0) * SECOND)
        self.undelivered.append((due, report))
        if self.happens(self.faults.duplicate_reports):
            self.undelivered.append((due + SECOND, report))
        if self.happens(self.faults.unknown_reports):
            odd = replace(report, id=f"{report.id}?", kind="restated")  # type: ignore[arg-type]
            self.undelivered.append((due, odd))

    def _remember(self) -> None:
        self.history.append((self.clock.true_wall, self.cash, dict(self.units)))


class VenueConnection(Broker):
    """Connection to a venue; that of the session has faults, the control connection has none."""

    account_id = "simulated"

    def __init__(self, venue: Venue, *, has_faults: bool = True) -> None:
        self.venue, self._has_faults = venue, has_faults

    def control(self) -> Broker:
        return VenueConnection(self.venue, has_faults=False)

    async def connect(self) -> None:
        await self._begin()

    async def submit(self, order: BrokerOrder) -> None:
        hangs = await self._begin()
        if self._has_faults and self.venue.happens(self.venue.faults.swallow):
            self.venue.swallowed.setdefault(order.id, self.venue.seconds)
        else:
            self.venue.accept(order)
        await self._end(hangs)

    async def cancel(self, order_id: str) -> None:
        hangs = await self._begin()
        self.venue.cancel(order_id)
        await self._end(hangs)

    async def account(self) -> BrokerAccount:
        await self._end(await self._begin())
        if self._has_faults and self.venue.happens(self.venue.faults.empty_account):
            self.venue.empty_answers += 1
            return BrokerAccount(cash=0.0, units={})
        return self.venue.account()

    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        await self._end(await self._begin())
        return {
            name: OrderState(
                order=item.order,
                filled=item.filled,
                is_open=item.is_open,
                reports=tuple(item.reports),
            )
            for name in order_ids
            if (item := self.venue.orders.get(name)) is not None
        }

    async def open_orders(self) -> list[BrokerOrder]:
        await self._end(await self._begin())
        return [item.order for item in self.venue.orders.values() if item.is_open]

    async def instruments(self) -> Mapping[str, Instrument]:
        faults = self.venue.faults
        if not faults.lot or faults.rounds_orders:
            return {}
        return {name: Instrument(asset=name, lot=faults.lot) for name in self.venue.assets}

    async def reports(self) -> list[ExecutionReport]:
        await self._end(await self._begin())
        venue, now = self.venue, self.venue.clock.true_wall
        due = [report for time, report in venue.undelivered if time <= now]
        venue.unknown_reports += sum(report.id.endswith("?") for report in due)
        venue.undelivered = [part for part in venue.undelivered if part[0] > now]
        return due

    async def _begin(self) -> bool:
        """Inject faults before a call; return True if it hangs after its effect."""
        if self.venue.is_cut_off:
            raise BrokerError("the process is dead")
        begin, end = self.venue.faults.dead
        if begin <= self.venue.seconds < end:
            await asyncio.Event().wait()
        if not self._has_faults:
            return False
        if self.venue.happens(self.venue.faults.error):
            raise BrokerError("connection reset")
        if self.venue.happens(self.venue.faults.hang):
            if self.venue.happens(0.5):
                return True
            await asyncio.Event().wait()
        return False

    async def _end(self, hangs: bool) -> None:
        if hangs:
            await asyncio.Event().wait()
