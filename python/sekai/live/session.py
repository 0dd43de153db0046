"""Live session: processing of one row, from the feed to the orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import Bar
from sekai.live.account import BrokerAccount
from sekai.live.clock import Clock, ClockGuard, ClockReading, age_seconds
from sekai.live.commands import SessionCommand
from sekai.live.episode import LiveEpisode, ObservedRow
from sekai.live.events import BarEvent, NoticeKind, bar_time
from sekai.live.execution import ExecutionClient
from sekai.live.instruments import Instrument, is_flat, round_orders
from sekai.live.journal.session import (
    SessionJournal,
    account_fields,
    event_fields,
    observed_fields,
)
from sekai.live.ledger import LedgerCheck, adoption_fields
from sekai.live.orders import BrokerOrder, ExecutionReport, order_fields
from sekai.live.recovery import RecordedRow
from sekai.live.references import ValidatedPrices
from sekai.live.risk import Refusal, RiskView
from sekai.live.runtime import PolicyWorker, Runtime
from sekai.live.session_risk import SessionRisk, silence_seconds
from sekai.live.snapshot import StatefulPart
from sekai.live.state_machine import SessionStateMachine
from sekai.live.status import SessionMonitor

__all__ = ["NoticeRateLimiter", "Session"]

ALERTED_NOTICES = (
    *("disconnected", "gap", "stale", "garbage", "clock_jump", "overflow", "outlier", "late"),
)
"""Kinds of feed notices that raise an alert."""

EMPTY_ANSWERS = 3
"""Number of times that an empty first account is asked for again."""

EMPTY_SECONDS = 0.3
ANCIENT_SECONDS = 1e6
"""Age of a row that is unknown."""

NOTICE_WINDOW_SECONDS = 60.0
NOTICES_PER_WINDOW = 20


class NoticeRateLimiter:
    """Rate limit on journaled feed notices of each kind; `FeedHealth` counts all of them.

    Args:
        clock: clock.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._windows: dict[str, tuple[float, int]] = {}

    def take(self, kind: str) -> int:
        """Number of notices of a kind that may be written, this one included; 0 for none."""
        now = self._clock.monotonic_ns() / 1e9
        begin, count = self._windows.get(kind, (now, 0))
        if now - begin >= NOTICE_WINDOW_SECONDS:
            begin, count = now, 0
        self._windows[kind] = begin, count + 1
        return max(NOTICES_PER_WINDOW - count, 0)


@dataclass(slots=True)
class Session:
    """Running session: decides on rows and executes the orders."""

    namespace: str
    """Prefix of order ids, which no other session of the account has."""

    episode: LiveEpisode
    worker: PolicyWorker
    execution: ExecutionClient
    journal: SessionJournal
    monitor: SessionMonitor
    state: SessionStateMachine
    risk: SessionRisk
    runtime: Runtime
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

    account_time: int = 0
    """Time of the last answer to a query of the account, by the clock that runs in suspends."""

    row_time: int = 0
    """Timestamp of the last row in nanoseconds since 1970."""

    instruments: Mapping[str, Instrument] = field(default_factory=dict)
    """Lots, ticks and minimum sizes of the venue."""

    _clock_guard: ClockGuard = field(init=False)
    _waiting_since: int = 0
    _silence: float = field(init=False)
    """Seconds without a row after which the feed counts as silent."""

    _validated: ValidatedPrices = field(init=False)
    _foreign: Mapping[str, float] = field(default_factory=dict)
    _mismatch: str = ""

    def __post_init__(self) -> None:
        self._clock_guard = ClockGuard(self.runtime.clock)
        self._silence = silence_seconds(self.episode, self.is_replay)
        self._validated = ValidatedPrices(self.risk.prices.prices(), {})
        self.execution.on_fill = self._note_fill
        self.execution.on_order = self.risk.ledger.expect

    async def process_row(self, event: BarEvent) -> bool:
        """Journal a row, update the account from the broker, and decide.

        Returns:
            True if the row was new: after a restart a feed may repeat known rows.
        """
        if self.episode.observed.is_over:
            return False
        verdict = self.risk.guard.check(event)
        if verdict.is_alert and verdict.kind is not None:
            self.note(verdict.kind, verdict.reason)
        if verdict.event is None:
            return False
        event = verdict.event
        row_time = bar_time(event.bar)
        if row_time <= self.row_time or not self._accepts(event.bar):
            self.risk.guard.retract()
            return False
        self._note_arrival(event.arrival)
        self.journal.hold()
        try:
            reading = ClockReading.now(self.runtime.clock)
            self.journal.append_of("bar", event_fields, event, reading)
            self.row_time = row_time
            await self._settle_row(event.bar, None, event.is_late)
        finally:
            self.journal.write_held()
        return True

    async def finish_row(self, row: RecordedRow, is_late: bool) -> None:
        """Continue with a recovered row that was journaled and not decided on."""
        clock = self.runtime.clock
        self._note_arrival(clock.monotonic_ns())
        # Staleness counts from the original arrival; an unknown age is too old.
        self.receive_time = row.written
        age = age_seconds(row.reading, ClockReading.now(clock))
        self.arrival -= round(1e9 * (ANCIENT_SECONDS if age is None else age))
        if row.digest is not None:
            await self.update_account()
            await self._decide_on(self.episode.observed, is_late or row.is_late)
            return
        await self._settle_row(row.bar, row.account, is_late or row.is_late)

    def parts(self) -> dict[str, StatefulPart]:
        """Parts whose states are in snapshots."""
        risk = self.risk
        return {
            "episode": self.episode,
            "tracker": self.execution.tracker,
            "ledger": risk.ledger,
            "guard": risk.guard,
            "prices": risk.prices,
            "references": risk.references,
            "gate": risk.gate,
            "monitor": self.monitor,
        }

    def note_recorded(self, row: RecordedRow) -> None:
        """Continue prices, equity and the order rate of a replay with a row of before a restart."""
        row_time = bar_time(row.bar)
        assert row.account is not None, "only observed rows are noted"
        self.risk.guard.follow(row.bar, row.exchange_time)
        self.note_prices(row_time, self.episode.closes(row.bar), row.account)
        self.monitor.note_equity(str(np.datetime64(row_time, "ns")), row.equity)
        if self.is_replay:
            self.risk.gate.count(row_time, len(row.orders))

    def note_record(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Continue counts, ledger and references with a record of before a restart."""
        self.monitor.replay(kind, fields)
        self.risk.ledger.replay(kind, fields, self.runtime.clock.boot_ns())
        if kind == "reset":
            self.risk.references.replay(fields)

    async def update_account(self) -> BrokerAccount:
        """Take reports and the account from the broker, and reconcile it with the own ledger."""
        answer = await self.execution.account()
        if not self.risk.ledger.is_adopted:
            await self._adopt(await self._first_account(answer))
            answer = self.risk.ledger.reported
        check = self._compare(answer)
        if not check.is_tolerated or check.status == "unusable":
            # An answer may be wrong once: ask again before acting on it.
            answer = await self.execution.call(self.execution.broker.account, "account")
            check = self._compare(answer)
        self._note_check(check)
        account = self.account = self.risk.ledger.account()
        self.account_time = self.runtime.clock.boot_ns()
        self._show_positions()
        return account

    def account_age(self) -> float:
        """Seconds since the broker last answered a query of the account."""
        return (self.runtime.clock.boot_ns() - self.account_time) / 1e9

    async def _first_account(self, answer: BrokerAccount) -> BrokerAccount:
        """First account of a session; an empty answer is asked for again."""
        for _ in range(EMPTY_ANSWERS):
            if answer.cash == answer.cash and (answer.cash or any(answer.units.values())):
                break
            await self.runtime.clock.sleep(EMPTY_SECONDS)
            answer = await self.execution.call(self.execution.broker.account, "account")
        return answer

    async def _adopt(self, account: BrokerAccount) -> None:
        """Take positions and cash from the broker, and journal it."""
        self.risk.ledger.adopt(account, self.runtime.clock.boot_ns())
        self.journal.append("ledger", **adoption_fields(account))

    def _compare(self, answer: BrokerAccount) -> LedgerCheck:
        now = self.runtime.clock.boot_ns()
        check = self.risk.ledger.compare(answer, now, self._validated.prices)
        if check.absorbed:
            self.journal.append("ledger", **check.fields())
        return check

    def _note_check(self, check: LedgerCheck) -> None:
        """Restrict trading while the broker's account is not explained by the ledger."""
        if check.status == "agreed":
            self.execution.tracker.confirm()
        if check.foreign_changes or (check.foreign and not self._foreign):
            self.monitor.alert(f"positions of others in the account: {dict(check.foreign)}")
        self._foreign = check.foreign
        if check.is_tolerated:
            if self.state.clear_cause("account_mismatch", "session"):
                self.journal.append("ledger", **check.fields())
                self.monitor.alert("the broker's account agrees with the ledger again")
            return
        reason = f"account {check.status}: {check.reason}"
        is_new = self.state.raise_cause("account_mismatch", "session", reason)
        if is_new or check.status != self._mismatch:
            self._mismatch = check.status
            self.journal.append("ledger", **check.fields())
            self.monitor.alert(
                f"account not explained by own orders, only reductions are sent: {check.reason}; "
                f"to accept it: sekai session adopt {self.monitor.session}"
            )

    def _note_fill(self, asset: str, report: ExecutionReport) -> None:
        self.risk.ledger.apply(report, self.runtime.clock.boot_ns())

    async def connect(self) -> None:
        """Connect to the broker, settle unresolved orders, and read the rules of the venue."""
        await self.execution.connect()
        broker = self.execution.broker
        self.instruments = await self.execution.call(broker.instruments, "instruments")
        self._waiting_since = self.runtime.clock.boot_ns()

    async def obey(self, command: SessionCommand) -> None:
        """Carry out a command of an operator, which is journaled already."""
        try:
            if command.name == "adopt_account":
                await self._adopt(await self._first_account(await self.execution.account()))
                self._note_check(self._compare(self.risk.ledger.reported))
                return
            references = self.risk.references
            is_peak = command.name == "reset_peak"
            reset = references.reset_peak if is_peak else references.reset_day
            self.journal.append("reset", **reset(command.reason))
            self.check_losses()
        except ValueError as error:
            self.monitor.alert(f"command {command.name} refused: {error}")

    def check_clock_and_feed(self) -> None:
        """Raise an alert when the machine was suspended, its clock stepped, or rows stay away."""
        for problem in self._clock_guard.check():
            self.monitor.alert(f"clock: {problem}")
            self.journal.append("notice", notice="clock_jump", detail=problem)
        now = self.runtime.clock.boot_ns()
        silent = (now - self._waiting_since) / 1e9 if self._waiting_since else 0.0
        if silent > self._silence:
            # Once for each silence: the next row begins another.
            self._waiting_since = 0
            self.note("stale", f"no row for {silent:.0f} s, with rows of a live feed expected")

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

    def note_prices(
        self, row_time: int, closes: NDArray[np.float64], account: BrokerAccount
    ) -> None:
        """Validate the prices of a row, and update the equity that loss limits refer to.

        Args:
            row_time: timestamp of the row.
            closes: closing prices in the order of the assets; NaN without a quote.
            account: account after the row.
        """
        pairs = zip(self.episode.assets, closes.tolist(), strict=False)
        self._validated = self.risk.prices.note(dict(pairs))
        own = {asset: account.units.get(asset, 0.0) for asset in self.episode.assets}
        equity = replace(account, units=own).equity(self._validated.prices)
        if self.risk.references.note(row_time, equity):
            self.risk.ledger.begin_day()

    def check_losses(self) -> None:
        """Close all positions after a breach of a loss limit, if the limits say so."""
        breach, link = self.risk.references.must_flatten(), self.execution.link
        if breach is None:
            if self.state.clear_cause("loss_limit", "session"):
                link.wants_flat = ""
                self._record_loss("loss limits are kept again, trading goes on")
            return
        if self.state.raise_cause("loss_limit", "session", f"{breach.limit}: {breach.reason}"):
            # Orders of the last decision that the broker has not received are not sent again.
            self.execution.set_current([])
            link.is_flat, link.wants_flat = False, breach.limit
            self._record_loss(f"{breach.limit} is exceeded, closing all positions: {breach.reason}")

    def _record_loss(self, text: str) -> None:
        self.journal.append("notice", notice="loss_limit", detail=text)
        self.monitor.alert(text)

    def note_first_account(self, account: BrokerAccount) -> None:
        """Alert if the account differs from the env's initial one; the broker's is used."""
        cash = float(self.episode.observed.info["cash"])
        held = {asset: units for asset, units in account.units.items() if units}
        if held or account.cash != cash:
            self.monitor.alert(
                f"account has cash {account.cash:.2f} and positions {held}, the env starts with "
                f"cash {cash:.2f}; the account is used from the first row on"
            )

    def is_flat(self) -> bool:
        """Return True if no position is held, up to dust that the venue cannot trade."""
        if self.account is None:
            return False
        prices = self._by_asset(self.episode.prices)
        return is_flat(self.account.units, self.instruments, prices)

    def _accepts(self, bar: Bar) -> bool:
        try:
            self.episode.take(bar)
        except (ValueError, TypeError) as error:
            self.note("garbage", f"malformed row rejected: {error}")
            return False
        return True

    async def _settle_row(self, bar: Bar, recorded: BrokerAccount | None, is_late: bool) -> None:
        begin = self.runtime.clock.monotonic_ns()
        await self.execution.call(lambda: self.execution.broker.see(bar), "see")
        account = await self.update_account()
        taken = self.runtime.clock.monotonic_ns() - begin
        if recorded is None:
            self.journal.append_of("account", account_fields, account, self.episode.assets)
        observed = self.episode.advance(bar, account if recorded is None else recorded)
        self.journal.append_of("observed", observed_fields, observed)
        closes = self.episode.closes(bar)
        self.note_prices(self.row_time, closes, account if recorded is None else recorded)
        self.check_losses()
        for asset, problem in self._validated.suspects.items():
            self.note("outlier", f"{asset} is not traded: {problem}")
        await self._decide_on(observed, is_late)
        self.monitor.latency["row_to_account"].add(taken)
        self.monitor.note_row(str(bar.time), dict(observed.info), account, self.episode)

    async def _decide_on(self, observed: ObservedRow, is_late: bool) -> None:
        if observed.is_over:
            reason = "episode over: no equity left, or no asset left to trade"
            self.state.raise_cause("episode_over", "session", reason)
        elif self.is_flattening or is_late or self.execution.link.submissions_closed:
            return
        elif self.state.trading_state != "halted":
            await self._follow_policy(observed)

    async def _follow_policy(self, observed: ObservedRow) -> None:
        self.execution.link.activity = "policy"
        state = self.episode.policy_state
        try:
            if self.episode.is_recurrent:
                action, state = await self.worker.decide((observed.observation, state))
            else:
                action = await self.worker.decide(observed.observation)
        except TimeoutError as error:
            self.monitor.alert(f"positions are held: {error}")
            self._record_decision(observed.row, None, None, (), (), ())
            return
        finally:
            self.execution.link.activity = ""
        decided = self.runtime.clock.monotonic_ns()
        self.monitor.latency["feed_to_decision"].add(decided - self.arrival)
        units = self.episode.orders(action)
        orders, residuals = round_orders(self._orders(observed.row, units), self.instruments)
        self.monitor.residuals = {
            residual.order.asset: f"{residual.units:g} units: {residual.text}"
            for residual in residuals
        }
        is_reducing = self.state.trading_state == "reducing"
        allowed, refusals = self.risk.gate.check(orders, self._risk_view(), reducing=is_reducing)
        replaced = self._replaced(observed.row, units)
        self._record_decision(observed.row, action, state, allowed, replaced, refusals)
        self.monitor.note_decision([refusal.limit for refusal in refusals])
        self.episode.action, self.episode.policy_state = action, state
        for refusal in refusals:
            order, text = refusal.order, f"refused: {refusal.reason}"
            if self.notices.take(f"refused by {refusal.limit}"):
                self.monitor.alert(f"order {order.units:+g} {order.asset} {text}")
        await self._execute(allowed, replaced, decided)

    def _record_decision(
        self,
        row: int,
        action: Any,
        policy_state: Any,
        allowed: Sequence[BrokerOrder],
        replaced: Sequence[str],
        refusals: Sequence[Refusal],
    ) -> None:
        """Journal a decision as one record, so that it is never there in part."""
        self.journal.write_held()
        carried = {} if policy_state is None else {"policy_state": policy_state}
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
            **carried,
        )

    async def _execute(
        self, orders: Sequence[BrokerOrder], replaced: Sequence[str], decided: int
    ) -> None:
        clock, execution = self.runtime.clock, self.execution
        for order in orders:
            execution.tracker.intend(order, clock.wall_ns())
            self.risk.ledger.expect(order)
        execution.set_current(orders)
        if replaced:
            await execution.cancel(replaced)
        if not orders:
            return
        # An fsync may take milliseconds: the feed is read meanwhile.
        await self.runtime.run_blocking(self.journal.make_durable)
        await execution.send(orders)
        self.monitor.latency["decision_to_order"].add(clock.monotonic_ns() - decided)

    def _note_arrival(self, arrival: int) -> None:
        # An event of a recording has the receive time of the recording.
        self.arrival = arrival
        clock = self.runtime.clock
        self.receive_time = clock.wall_ns() - self._clock_guard.age_ns(arrival)
        self._waiting_since = clock.boot_ns()

    def _show_positions(self) -> None:
        """Show the watchdog what it would have to close."""
        link = self.execution.link
        link.units, link.prices = dict(self.risk.ledger.units), self._validated.prices

    def _orders(self, row: int, units: Any) -> list[BrokerOrder]:
        return [
            BrokerOrder(
                id=f"{self.namespace}-{row}-{asset}",
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
        """Row of the decision; -1 for an order of the watchdog."""
        row = order.id.removeprefix(f"{self.namespace}-").partition("-")[0]
        return int(row) if row.isdecimal() else -1

    def _risk_view(self) -> RiskView:
        clock, tracker = self.runtime.clock, self.execution.tracker
        now, ledger = clock.boot_ns(), self.risk.ledger.expected()
        reported = self.risk.ledger.reported
        return RiskView(
            account=ledger,
            other_accounts=() if reported.units == ledger.units else (reported,),
            assets=frozenset(self.episode.assets),
            prices=self._validated.prices,
            suspects=self._validated.suspects,
            instruments=self.instruments,
            bar_time=self.row_time,
            receive_time=self.receive_time,
            day_equity=self.risk.references.day_equity,
            peak_equity=self.risk.references.peak_equity,
            open_units=tracker.open_units(),
            open_orders=len(tracker.open_orders()),
            now=now,
            arrival=now - self._clock_guard.age_ns(self.arrival),
            order_time=self.row_time if self.is_replay else None,
        )

    def _by_asset(self, prices: NDArray[np.float64]) -> dict[str, float]:
        pairs = zip(self.episode.assets, prices.tolist(), strict=True)
        return {asset: price for asset, price in pairs if price == price}
