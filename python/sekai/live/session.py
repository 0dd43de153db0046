"""Live session: processing of one row, from the feed to the orders."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import Bar
from sekai.live.account import BrokerAccount
from sekai.live.episode import LiveEpisode, ObservedRow, PolicyFunction
from sekai.live.events import BarEvent, NoticeKind, bar_time
from sekai.live.execution import ExecutionClient
from sekai.live.journal.session import (
    SessionJournal,
    account_fields,
    event_fields,
    observed_fields,
)
from sekai.live.orders import BrokerOrder, order_fields
from sekai.live.recovery import RecordedRow
from sekai.live.risk import Refusal, RiskGate, RiskLimits, RiskView
from sekai.live.state_machine import SessionStateMachine
from sekai.live.status import SessionMonitor

__all__ = ["NoticeRateLimiter", "Session", "flattening_orders"]

ALERTED_NOTICES = ("disconnected", "gap", "stale", "garbage", "clock_jump", "overflow")
"""Kinds of feed notices that raise an alert."""

DAY_NANOSECONDS = 86_400_000_000_000
NOTICE_WINDOW_SECONDS = 60.0
NOTICES_PER_WINDOW = 20


class NoticeRateLimiter:
    """Rate limit on journaled feed notices of each kind; `FeedHealth` counts all of them.

    Args:
        clock: clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[str, tuple[float, int]] = {}

    def take(self, kind: str) -> int:
        """Number of notices of a kind that may be written, this one included; 0 for none."""
        now = self._clock()
        begin, count = self._windows.get(kind, (now, 0))
        if now - begin >= NOTICE_WINDOW_SECONDS:
            begin, count = now, 0
        self._windows[kind] = begin, count + 1
        return max(NOTICES_PER_WINDOW - count, 0)


@dataclass(slots=True)
class Session:
    """Running session: decides on rows and executes the orders."""

    name: str
    episode: LiveEpisode
    decide: PolicyFunction
    execution: ExecutionClient
    journal: SessionJournal
    monitor: SessionMonitor
    state: SessionStateMachine
    gate: RiskGate
    is_replay: bool = False
    """True if the order rate is measured by the times of the rows."""

    notices: NoticeRateLimiter = field(default_factory=NoticeRateLimiter)
    is_flattening: bool = False
    """True while all positions are being closed; the policy is not asked."""

    account: BrokerAccount | None = None
    arrival: int = 0
    """Arrival of the last row by the monotonic clock, in nanoseconds."""

    receive_time: int = 0
    """Arrival of the last row in nanoseconds since 1970."""

    row_time: int = 0
    """Timestamp of the last row in nanoseconds since 1970."""

    day_equity: float = 0.0
    """Equity at the end of the previous day in UTC."""

    peak_equity: float = 0.0
    _day: int = -1
    _last_equity: float = 0.0

    async def process_row(self, event: BarEvent) -> bool:
        """Journal a row, update the account from the broker, and decide.

        Returns:
            True if the row was new: after a restart a feed may repeat known rows.
        """
        row_time = bar_time(event.bar)
        if row_time <= self.row_time or self.episode.observed.is_over:
            return False
        if not self._accepts(event.bar):
            return False
        self._note_arrival(event.arrival)
        self.journal.hold()
        try:
            self.journal.append_of("bar", event_fields, event)
            self.row_time = row_time
            await self._settle_row(event.bar, None, event.is_late)
        finally:
            self.journal.write_held()
        return True

    async def finish_row(self, row: RecordedRow, is_late: bool) -> None:
        """Continue with a recovered row that was journaled and not decided on."""
        self._note_arrival(time.perf_counter_ns())
        # Staleness counts from the original arrival.
        self.receive_time = row.written
        if row.digest is not None:
            self.account = await self.execution.account()
            await self._decide_on(self.episode.observed, is_late or row.is_late)
            return
        await self._settle_row(row.bar, row.account, is_late or row.is_late)

    def note(self, kind: NoticeKind, detail: str) -> str | None:
        """Journal a feed notice, and raise an alert if its kind needs attention.

        Returns:
            The journaled text; None if the rate limit of the kind is reached.
        """
        room = self.notices.take(kind)
        if not room:
            return None
        text = detail if room > 1 else f"{detail}; further notices of this kind are only counted"
        self.journal.append("notice", notice=kind, detail=text)
        if kind in ALERTED_NOTICES:
            self.monitor.alert(f"feed: {kind}, {text}")
        return text

    def note_equity(self, row_time: int, equity: float) -> None:
        """Update the equity that loss limits refer to; rows before a restart count as well."""
        day = row_time // DAY_NANOSECONDS
        if day != self._day:
            self._day, self.day_equity = day, self._last_equity or equity
        self.peak_equity = max(self.peak_equity, equity)
        self._last_equity = equity

    async def flatten(self, row: int) -> None:
        """Cancel open orders, and submit orders that close all positions."""
        self.is_flattening = True
        self.journal.write_held()
        # First, so that open orders are not counted twice.
        await self.execution.cancel_all()
        self.account = await self.execution.account()
        orders = flattening_orders(self._closing_prefix(row), self._risk_view(), self.gate.limits)
        allowed, refusals = self.gate.check(orders, self._risk_view(), flattening=True)
        for refusal in refusals:
            self.monitor.alert(f"position in {refusal.order.asset} not closed: {refusal.reason}")
        self._record_decision(row, None, allowed, (), refusals)
        await self._execute(allowed, (), time.perf_counter_ns())

    def is_flat(self) -> bool:
        """Return True if no position is held."""
        return self.account is not None and self.account.is_flat

    def _accepts(self, bar: Bar) -> bool:
        try:
            self.episode.take(bar)
        except (ValueError, TypeError) as error:
            self.note("garbage", f"malformed row rejected: {error}")
            return False
        return True

    async def _settle_row(self, bar: Bar, recorded: BrokerAccount | None, is_late: bool) -> None:
        begin = time.perf_counter_ns()
        await self.execution.call(lambda: self.execution.broker.see(bar))
        account = self.account = await self.execution.account()
        taken = time.perf_counter_ns() - begin
        if recorded is None:
            self.journal.append_of("account", account_fields, account, self.episode.assets)
        observed = self.episode.advance(bar, account if recorded is None else recorded)
        self.journal.append_of("observed", observed_fields, observed)
        self.note_equity(self.row_time, float(observed.info["equity"]))
        await self._decide_on(observed, is_late)
        self.monitor.latency["row_to_account"].add(taken)
        self.monitor.note_row(str(bar.time), dict(observed.info), self.account, self.episode)

    async def _decide_on(self, observed: ObservedRow, is_late: bool) -> None:
        if observed.is_over:
            if self.state.allows("episode_over", by="session"):
                reason = "episode over: no equity left, or no asset left to trade"
                self.state.fire("episode_over", by="session", reason=reason)
        elif self.is_flattening:
            await self.flatten(observed.row)
        elif not is_late and self.state.state == "trading":
            await self._follow_policy(observed)

    async def _follow_policy(self, observed: ObservedRow) -> None:
        action = self.decide(observed.observation)
        decided = time.perf_counter_ns()
        self.monitor.latency["feed_to_decision"].add(decided - self.arrival)
        units = self.episode.orders(action)
        orders = self._orders(observed.row, units)
        allowed, refusals = self.gate.check(orders, self._risk_view())
        replaced = self._replaced(observed.row, units)
        self._record_decision(observed.row, action, allowed, replaced, refusals)
        self.monitor.note_decision([refusal.limit for refusal in refusals])
        self.episode.action = action
        for refusal in refusals:
            order = refusal.order
            self.monitor.alert(f"order {order.units:+g} {order.asset} refused: {refusal.reason}")
        await self._execute(allowed, replaced, decided)

    def _record_decision(
        self,
        row: int,
        action: Any,
        allowed: Sequence[BrokerOrder],
        replaced: Sequence[str],
        refusals: Sequence[Refusal],
    ) -> None:
        """Journal a decision as one record, so that it is never there in part."""
        self.journal.write_held()
        self.journal.append(
            "decision",
            row=row,
            action=None if action is None else np.asarray(action),
            orders=[order_fields(order) for order in allowed],
            cancels=list(replaced),
            refusals=[
                {**order_fields(item.order), "limit": item.limit, "reason": item.reason}
                for item in refusals
            ],
        )

    async def _execute(
        self, orders: Sequence[BrokerOrder], replaced: Sequence[str], decided: int
    ) -> None:
        for order in orders:
            self.execution.tracker.intend(order, time.time_ns())
        self.execution.set_current(orders, is_closing=self.is_flattening)
        if replaced:
            await self.execution.cancel(replaced)
        if not orders:
            return
        # An fsync may take milliseconds: the feed is read meanwhile.
        await asyncio.to_thread(self.journal.make_durable)
        await self.execution.send(orders)
        self.monitor.latency["decision_to_order"].add(time.perf_counter_ns() - decided)

    def _closing_prefix(self, row: int) -> str:
        """Unused prefix of the ids of orders that close positions."""
        for number in itertools.count(1):
            prefix = f"{self.name}-{row}-close" + (str(number) if number > 1 else "")
            if not any(name.startswith(f"{prefix}-") for name in self.execution.tracker.orders):
                return prefix
        raise AssertionError("numbers are endless")

    def _note_arrival(self, arrival: int) -> None:
        # An event of a recording has the receive time of the recording.
        self.arrival = arrival
        self.receive_time = time.time_ns() - (time.perf_counter_ns() - arrival)

    def _orders(self, row: int, units: Any) -> list[BrokerOrder]:
        return [
            BrokerOrder(
                id=f"{self.name}-{row}-{asset}",
                asset=asset,
                units=float(size),
                reference_price=float(price),
            )
            for asset, size, price in zip(
                self.episode.assets, units, self.episode.prices, strict=True
            )
            if np.isfinite(size) and size != 0 and np.isfinite(price)
        ]

    def _replaced(self, row: int, units: Any) -> list[str]:
        """Open orders that were due before this row, in assets that the decision is about."""
        decided = {
            asset for asset, size in zip(self.episode.assets, units, strict=True) if size == size
        }
        due = row - self.episode.portfolio.config.execution.delay
        return [
            order.id
            for order in self.execution.tracker.open_orders()
            if order.asset in decided and self._row_of(order) < due
        ]

    def _row_of(self, order: BrokerOrder) -> int:
        return int(order.id.removeprefix(f"{self.name}-").partition("-")[0])

    def _risk_view(self) -> RiskView:
        assert self.account is not None, "the account is queried before a decision"
        return RiskView(
            account=self.account,
            prices=self._by_asset(self.episode.prices),
            previous_prices=self._by_asset(self.episode.previous_prices),
            bar_time=self.row_time,
            receive_time=self.receive_time,
            day_equity=self.day_equity,
            peak_equity=self.peak_equity,
            open_units=self.execution.tracker.open_units(),
            open_orders=len(self.execution.tracker.open_orders()),
            order_time=self.row_time if self.is_replay else None,
        )

    def _by_asset(self, prices: NDArray[np.float64]) -> dict[str, float]:
        pairs = zip(self.episode.assets, prices.tolist(), strict=True)
        return {asset: price for asset, price in pairs if price == price}


def flattening_orders(prefix: str, view: RiskView, limits: RiskLimits) -> list[BrokerOrder]:
    """Orders that close all positions, each within the order limits; cancel open orders first.

    Assets without a price are left out, since their orders cannot be checked.

    Args:
        prefix: prefix of the order ids; the same prefix gives the same ids.
        view: account and latest prices.
        limits: bounds on the size of an order.
    """
    orders: list[BrokerOrder] = []
    for asset, units in sorted(view.account.units.items()):
        price = view.price(asset)
        if not units or math.isnan(price):
            continue
        parts = _parts(abs(units), price, limits)
        for number in range(parts):
            # Differences of cumulative shares, so that rounding cannot exceed the position.
            part = units * ((number + 1) / parts) - units * (number / parts)
            name = f"{prefix}-{asset}-{number}"
            orders.append(BrokerOrder(id=name, asset=asset, units=-part, reference_price=price))
    return orders


def _parts(units: float, price: float, limits: RiskLimits) -> int:
    caps = [math.inf]
    if limits.max_order_units is not None:
        caps.append(limits.max_order_units)
    if limits.max_order_notional is not None:
        caps.append(limits.max_order_notional / price)
    # Slightly below the cap, so that rounding cannot exceed it.
    return max(1, math.ceil(units / (min(caps) * (1.0 - 1e-9))))
