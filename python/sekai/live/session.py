"""A live session: what a row leads to, from the feed to the orders."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import Bar
from sekai.envs.account_report import AccountReport
from sekai.live.bar_records import bar_time
from sekai.live.broker import BrokerAccount
from sekai.live.desk import Desk
from sekai.live.events import BarEvent, NoticeKind
from sekai.live.flattening import flattening_orders
from sekai.live.live_episode import Decider, LiveEpisode, Observed
from sekai.live.monitoring import SessionMonitor
from sekai.live.notice_budget import NoticeBudget
from sekai.live.order_records import order_fields
from sekai.live.orders import Order
from sekai.live.recovery import KeptRow
from sekai.live.risk_gate import Refusal, RiskGate
from sekai.live.risk_view import RiskView
from sekai.live.session_journal import SessionJournal
from sekai.live.session_records import observed_fields, row_fields, told_fields

__all__ = ["Session"]

WORRYING = ("disconnected", "gap", "stale", "garbage", "clock_jump", "overflow")
"""Notices of a feed that a person should see."""

DAY = 86_400_000_000_000
"""In nanoseconds."""


@dataclass(slots=True)
class Session:
    """All parts of a session that is under way."""

    name: str
    episode: LiveEpisode
    decide: Decider
    desk: Desk
    journal: SessionJournal
    monitor: SessionMonitor
    gate: RiskGate
    notices: NoticeBudget = field(default_factory=NoticeBudget)
    is_flattening: bool = False
    """Whether everything is being sold, and the policy is not asked."""

    pause: str = ""
    """Why nothing is decided, if nothing is."""

    account: BrokerAccount | None = None
    arrival: int = 0
    """When the last row came, by the clock that never jumps."""

    receive_time: int = 0
    """The same by the clock on the wall, in nanoseconds since 1970."""

    row_time: int = 0
    """What the last row is stamped with, in nanoseconds since 1970."""

    day_equity: float = 0.0
    """At the end of the last row of the day before, in UTC."""

    peak_equity: float = 0.0
    _day: int = -1
    _last_equity: float = 0.0

    async def take_row(self, event: BarEvent) -> bool:
        """Write down a row, learn what it did to the account, and decide on it.

        Returns:
            Whether the row was news: after a restart a feed may begin with what is known.
        """
        row_time = bar_time(event.bar)
        if row_time <= self.row_time or self.episode.observed.is_over:
            return False
        if not self._takes(event.bar):
            return False
        self._note_arrival(event.arrival)
        self.journal.hold()
        try:
            self.journal.append_of("bar", row_fields, event)
            self.row_time = row_time
            await self._settle_row(event.bar, None, event.is_late)
        finally:
            self.journal.write_held()
        return True

    async def finish_row(self, row: KeptRow, is_late: bool) -> None:
        """Go on with a row that was written down and not decided on."""
        self._note_arrival(time.perf_counter_ns())
        # Limits count from when it came: what it says may be of yesterday by now.
        self.receive_time = row.written
        if row.digest is not None:
            self.account = await self.desk.account()
            await self._decide_on(self.episode.observed, is_late or row.is_late)
            return
        await self._settle_row(row.bar, row.account, is_late or row.is_late)

    def _takes(self, bar: Bar) -> bool:
        """Whether the env can take a row; one that it cannot is told of and passed over."""
        try:
            self.episode.take(bar)
        except (ValueError, TypeError) as error:
            self.note("garbage", f"a row that is none: {error}")
            return False
        return True

    def note(self, kind: NoticeKind, detail: str) -> str | None:
        """Write a notice down, and alert of one that a person should see.

        Returns:
            What was written; None if there was enough of the kind lately.
        """
        room = self.notices.take(kind)
        if not room:
            return None
        told = detail if room > 1 else f"{detail}; others soon are only counted"
        self.journal.append("notice", notice=kind, detail=told)
        if kind in WORRYING:
            self.monitor.alert(f"feed: {kind}, {told}")
        return told

    async def _settle_row(self, bar: Bar, told: AccountReport | None, is_late: bool) -> None:
        begin = time.perf_counter_ns()
        await self.desk.ask(lambda: self.desk.broker.see(bar))
        self.account = await self.desk.account()
        taken = time.perf_counter_ns() - begin
        if told is None:
            told = _told(self.account, self.episode.assets)
            self.journal.append_of("account", told_fields, told)
        observed = self.episode.advance(bar, told)
        self.journal.append_of("observed", observed_fields, observed)
        self.note_equity(self.row_time, float(observed.info["equity"]))
        await self._decide_on(observed, is_late)
        self.monitor.latency["row_to_account"].add(taken)
        self.monitor.note_row(str(bar.time), dict(observed.info), self.account, self.episode.prices)

    async def _decide_on(self, observed: Observed, is_late: bool) -> None:
        if observed.is_over:
            self.pause = "nothing is left to trade with, or nothing more to trade"
            self.monitor.become("halted", self.pause)
        elif self.is_flattening:
            await self.flatten(observed.row)
        elif not is_late and not self.pause:
            await self._follow(observed)

    async def _follow(self, observed: Observed) -> None:
        """Do what the policy says."""
        action = self.decide(observed.observation)
        decided = time.perf_counter_ns()
        self.monitor.latency["feed_to_decision"].add(decided - self.arrival)
        self.monitor.counts["decisions"] += 1
        units = self.episode.orders(action)
        wanted = self._orders(observed.row, units)
        allowed, refusals = self.gate.check(wanted, self._view())
        replaced = self._replaced(observed.row, units)
        self._write_down(observed.row, action, allowed, replaced, refusals)
        self.episode.action = action
        for one in refusals:
            self.monitor.counts["orders_refused"] += 1
            self.monitor.alert(f"{one.order.asset}: {one.order.units:+g} refused, {one.reason}")
        await self._carry_out(allowed, replaced, decided)

    def _write_down(
        self,
        row: int,
        action: Any,
        allowed: Sequence[Order],
        replaced: Sequence[str],
        refusals: Sequence[Refusal],
    ) -> None:
        """All of a decision in one record: it is there as a whole, or not at all."""
        self.journal.write_held()
        refused = [{**order_fields(one.order), "reason": one.reason} for one in refusals]
        self.journal.append(
            "decision", row=row, action=None if action is None else np.asarray(action),
            orders=[order_fields(order) for order in allowed], cancels=list(replaced),
            refusals=refused,
        )  # fmt: skip

    async def _carry_out(
        self, orders: Sequence[Order], replaced: Sequence[str], decided: int
    ) -> None:
        for order in orders:
            self.desk.keeper.intend(order, time.time_ns())
        self.desk.standing(orders, is_closing=self.is_flattening)
        if replaced:
            await self.desk.cancel(replaced)
        if not orders:
            return
        # A disk may take milliseconds: whoever reads the feed goes on meanwhile.
        await asyncio.to_thread(self.journal.make_durable)
        await self.desk.send(orders)
        self.monitor.latency["decision_to_order"].add(time.perf_counter_ns() - decided)

    async def flatten(self, row: int) -> None:
        """Order that everything is sold, and what is owed bought back."""
        self.is_flattening = True
        self.journal.write_held()
        # First, so that what was ordered before is not counted twice.
        self.desk.standing([])
        await self.desk.cancel([order.id for order in self.desk.keeper.open_orders()])
        self.account = await self.desk.account()
        wanted = flattening_orders(self._closing(row), self._view(), self.gate.limits)
        allowed, refusals = self.gate.check(wanted, self._view(), flattening=True)
        for one in refusals:
            self.monitor.alert(f"{one.order.asset} cannot be closed: {one.reason}")
        self._write_down(row, None, allowed, (), refusals)
        await self._carry_out(allowed, (), time.perf_counter_ns())

    def _closing(self, row: int) -> str:
        """What ids of orders begin with that close positions; another each time in a row."""
        for number in itertools.count(1):
            prefix = f"{self.name}-{row}-close" + (str(number) if number > 1 else "")
            if not any(one.startswith(f"{prefix}-") for one in self.desk.keeper.orders):
                return prefix
        raise AssertionError("there is always another number")

    def _note_arrival(self, arrival: int) -> None:
        # What an event says of when it was received may be of a recording.
        self.arrival = arrival
        self.receive_time = time.time_ns() - (time.perf_counter_ns() - arrival)

    def is_flat(self) -> bool:
        """Whether nothing is held."""
        return self.account is not None and not any(self.account.units.values())

    def _orders(self, row: int, units: Any) -> list[Order]:
        priced = zip(self.episode.assets, units, self.episode.prices, strict=True)
        return [
            Order(
                id=f"{self.name}-{row}-{asset}", asset=asset, units=float(wanted),
                reference_price=float(price),
            )
            for asset, wanted, price in priced
            if np.isfinite(wanted) and wanted != 0 and np.isfinite(price)
        ]  # fmt: skip

    def _replaced(self, row: int, units: Any) -> list[str]:
        """Orders that were due and still stand in assets about which something was decided."""
        decided = {
            asset for asset, one in zip(self.episode.assets, units, strict=True) if one == one
        }
        due = row - self.episode.portfolio.config.execution.delay
        return [
            one.id
            for one in self.desk.keeper.open_orders()
            if one.asset in decided and self._row_of(one) < due
        ]

    def _row_of(self, order: Order) -> int:
        """The row on which an order was decided."""
        return int(order.id.removeprefix(f"{self.name}-").partition("-")[0])

    def _view(self) -> RiskView:
        assert self.account is not None, "whoever decides has seen the account"
        return RiskView(
            account=self.account,
            prices=self._by_asset(self.episode.prices),
            previous_prices=self._by_asset(self.episode.previous_prices),
            bar_time=self.row_time,
            receive_time=self.receive_time,
            day_equity=self.day_equity,
            peak_equity=self.peak_equity,
            open_units=self.desk.keeper.open_units(),
            open_orders=len(self.desk.keeper.open_orders()),
        )

    def _by_asset(self, prices: NDArray[np.float64]) -> dict[str, float]:
        pairs = zip(self.episode.assets, prices.tolist(), strict=True)
        return {asset: price for asset, price in pairs if price == price}

    def note_equity(self, row_time: int, equity: float) -> None:
        """Keep what losses are counted from; rows before a restart count as well."""
        if row_time // DAY != self._day:
            self._day, self.day_equity = row_time // DAY, self._last_equity or equity
        self.peak_equity = max(self.peak_equity, equity)
        self._last_equity = equity


def _told(account: BrokerAccount, assets: Sequence[str]) -> AccountReport:
    carried = account.open_units if account.carried_units is None else account.carried_units
    return AccountReport(
        cash=account.cash,
        units=np.array([account.units.get(asset, 0.0) for asset in assets]),
        open_units=np.array([carried.get(asset, 0.0) for asset in assets]),
        costs=account.row_costs,
        traded=account.row_traded,
    )
