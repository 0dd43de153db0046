"""Live runner: trades a policy on a feed through a broker, and recovers after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from logging import ERROR, WARNING
from pathlib import Path
from typing import Any

import numpy as np

from sekai.core.env import Env
from sekai.data.signature import BarLengthGuard, require_same_data
from sekai.error import JournalError
from sekai.live.account import BrokerAccount
from sekai.live.broker import Broker
from sekai.live.config import LiveConfig, SessionFolder
from sekai.live.episode import LiveEpisode, policy_function
from sekai.live.events import BarEvent, FeedEvent, FeedNotice, bar_time
from sekai.live.execution import ExecutionClient
from sekai.live.feed import Feed
from sekai.live.feeds.timed_feed import end_task
from sekai.live.journal.session import SessionJournal
from sekai.live.kill_switch import POLL_SECONDS, KillSwitch
from sekai.live.manual_gc import ManualGC, automatic_gc_disabled
from sekai.live.orders import OrderTracker
from sekai.live.recovery import (
    RecordedRow,
    RecoveredSession,
    check_serializable,
    recover,
    write_snapshot,
)
from sekai.live.risk import RiskGate
from sekai.live.session import Session
from sekai.live.session_log import SessionLog
from sekai.live.state_machine import SessionStateMachine
from sekai.live.status import SessionMonitor, SessionStatus, StatusWriter

__all__ = ["LiveRunner"]

HEARTBEAT_SECONDS = 0.8 * POLL_SECONDS
"""Interval of kill switch checks, short enough that a row never has to check the file itself."""


class LiveRunner:
    """Runs a policy on every row of a feed, and submits its orders to a broker.

    Every input, decision and order is in the journal of the session before it is acted on. A
    runner on the folder of an interrupted session continues it: the same orders, each submitted
    exactly once.

    While a session runs, automatic garbage collection is off in the whole process: the session
    collects between rows. The previous setting is restored when the last session has ended.

    Args:
        policy: object with `predict`, or a function of the observation. Policies of
            `sekai.training` require the bars, features and assets that they were trained on; see
            `load_policy(path, allow=...)`.
        env: `Portfolio-v0` with `stream=True` and `execution=Execution(sizing="decision")`.
        feed: source of the rows.
        broker: executes the orders.
        folder: session folder; created if missing.
        config: risk limits and other settings.
    """

    def __init__(
        self,
        policy: Any,
        env: Env[Any, Any],
        feed: Feed,
        broker: Broker,
        folder: Path | str,
        config: LiveConfig | None = None,
    ) -> None:
        if not isinstance(feed, Feed):
            raise TypeError(
                f"feed must be a sekai.live.Feed, got {feed!r}; a BarFeed with next_bar() alone "
                f"has neither events nor close(): subclass Feed, or put its rows into a QueueFeed"
            )
        self.config = LiveConfig() if config is None else config
        # The session is named after the folder, and `.` has no name.
        self.folder = SessionFolder(Path(os.path.abspath(folder)))
        self.feed, self.broker = feed, broker
        require_same_data(policy, env)
        self._bars = BarLengthGuard(policy)
        self._decide = policy_function(policy)
        self.episode = LiveEpisode(env, self.config.seed)
        self.switch = KillSwitch(self.folder.kill)
        self._state = SessionStateMachine()
        # Held while a row, a kill or the end is processed.
        self._turn = asyncio.Lock()
        self._looping: asyncio.Task[None] | None = None
        self._is_waiting = False
        self._was_run = False
        self._is_stopping = False
        self._is_killed = False
        self._failure: Exception | None = None
        self._reported_losses: set[str] = set()

    def stop(self) -> None:
        """End the session after the current row; positions are treated as `on_stop` says."""
        self._is_stopping = True
        if hasattr(self, "session"):
            # An unresponsive broker must not keep a session from ending.
            self.session.execution.is_stopping = True
        if self._looping is not None and self._is_waiting:
            self._looping.cancel()

    async def run(self, bars: int | None = None) -> SessionStatus:
        """Trade until the feed ends, `stop` is called, or `bars` rows have been traded on.

        Raises:
            JournalError: the journal cannot be written, so trading stops; or the folder belongs
                to another session, or is in use.
        """
        if self._was_run:
            raise RuntimeError("a runner runs once; create another on the same folder to continue")
        self._was_run = True
        async with self._opened():
            try:
                async with self._turn:
                    await self._resume(self._recover())
                await self._loop_until_stopped(bars)
                if self._failure is not None:
                    raise self._failure
                await self._shutdown()
            except JournalError as error:
                await self._fail(f"journal cannot be written: {error}")
                raise
            except Exception as error:
                await self._fail(f"{type(error).__name__}: {error}")
                raise
            except BaseException:
                # Cancelled: nothing may be awaited any more.
                reason = "interrupted; open orders may remain at the broker until it is resumed"
                self._state.fire("fail", by="runner", reason=reason)
                self.log.event("interrupted", WARNING)
                raise
        return self.status()

    async def remove_asset(self, name: str) -> None:
        """Close an asset's position from the next row on, and do not buy it; kept on restarts."""
        await self._set_traded(name, False)

    async def add_asset(self, name: str) -> None:
        """Trade an asset again that was removed."""
        await self._set_traded(name, True)

    def status(self) -> SessionStatus:
        """Current status."""
        return self.monitor.status(self.feed.health)

    async def _set_traded(self, asset: str, is_traded: bool) -> None:
        async with self._turn:
            if self.episode.row == 0:
                raise ValueError("assets can change after the first row, got none yet")
            self.episode.set_traded(asset, is_traded)
            self.journal.append("universe", asset=asset, is_traded=is_traded)
            self.log.event("asset_added" if is_traded else "asset_removed", asset=asset)

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        self.folder.path.mkdir(parents=True, exist_ok=True)
        tracker, name = OrderTracker(), self.folder.path.name
        decimals = self.episode.price_decimals()
        self.monitor = SessionMonitor(name, self.episode.assets, tracker, self._state, decimals)
        async with contextlib.AsyncExitStack() as parts:
            parts.push_async_callback(self.broker.close)
            parts.push_async_callback(self.feed.close)
            parts.enter_context(automatic_gc_disabled())
            self.journal = parts.enter_context(
                contextlib.closing(SessionJournal(self.folder, self.config.sync, self.broker))
            )
            self.log = parts.enter_context(SessionLog(self.folder.log))
            self._writer = parts.enter_context(StatusWriter(self.folder.status))
            execution = ExecutionClient(
                self.broker, self.journal, tracker, self.monitor, self._state, self.config
            )
            execution.is_killed = self.switch.is_pulled
            execution.is_stopping = self._is_stopping
            self.session = Session(
                name,
                self.episode,
                self._decide,
                execution,
                self.journal,
                self.monitor,
                self._state,
                RiskGate(self.config.limits),
                is_replay=self.feed.is_replay,
            )
            self._gc = ManualGC(self._publish_status)
            heartbeat = asyncio.ensure_future(self._heartbeat())
            try:
                yield
            finally:
                await end_task(heartbeat)
                self._publish_status()

    def _recover(self) -> RecoveredSession:
        """Journal the start of a session, or recover the state of an interrupted one."""
        tracker, data = self.session.execution.tracker, self.episode.portfolio.data
        self.session.row_time = int(data.calendar.nanoseconds[-1])
        recovered = recover(
            self.journal.records(),
            self.journal.count,
            self.folder,
            self.episode,
            tracker,
            self._note_recorded,
            self.monitor.replay,
        )
        # Now, and not at the first snapshot: orders may be open by then.
        check_serializable(self.episode.env.state_dict())
        if recovered.is_new:
            self.journal.append(
                "begun",
                assets=list(self.episode.assets),
                rows=len(data),
                digest=data.digest,
                config=self.config.to_dict(),
                observed=self.episode.observed.digest,
            )
        else:
            self.journal.append("recovered", rows=self.episode.row)
        for warning in recovered.warnings:
            self.monitor.alert(warning)
        self.log.event("begun" if recovered.is_new else "recovered", rows=self.episode.row)
        if recovered.last_row is not None:
            self.session.row_time = bar_time(recovered.last_row.bar)
            self.session.receive_time = recovered.last_row.written
        if not self.session.is_replay:
            for tracked in tracker.orders.values():
                self.session.gate.count(tracked.decided)
        return recovered

    def _note_recorded(self, row: RecordedRow) -> None:
        """Continue equity, and the order rate of a replay, with a row of before a restart."""
        row_time = bar_time(row.bar)
        self.session.note_equity(row_time, row.equity)
        self.monitor.note_equity(str(np.datetime64(row_time, "ns")), row.equity)
        if self.session.is_replay:
            self.session.gate.count(row_time, len(row.orders))

    def _publish_status(self) -> None:
        """Write the status; alert once if the status or the log cannot be written."""
        losses = {"status": self._writer.failures, "log": self.log.lost}
        for name, count in losses.items():
            if count and name not in self._reported_losses:
                self._reported_losses.add(name)
                error = self._writer.last_error if name == "status" else "see stderr"
                self.monitor.alert(f"the {name} cannot be written: {error}")
                self.log.event(f"{name}_lost", WARNING, error=error)
        self._writer.offer(self.status())

    async def _resume(self, recovered: RecoveredSession) -> None:
        """Settle orders with the broker, finish the last row, and process missed rows."""
        missed = await self._missed(recovered)
        execution, last = self.session.execution, recovered.last_row
        age = 0.0 if last is None else (time.time_ns() - last.written) / 1e9
        execution.set_current([] if missed else recovered.pending, age=max(0.0, age))
        self._check_kill_switch()
        await execution.connect()
        self._state.fire("start", by="runner")
        if self._is_killed:
            self._enter_killed()
        account = self.session.account = await execution.account()
        self.monitor.note_account(self.episode.observed.info, account, self.episode)
        if recovered.is_new:
            self._note_first_account(account)
        if recovered.unfinished is not None:
            await self.session.finish_row(recovered.unfinished, bool(missed))
        for event in missed:
            await self._process_row(event)
        if self._is_killed:
            await self._cancel_or_flatten()

    async def _missed(self, recovered: RecoveredSession) -> list[BarEvent]:
        """Rows that arrived while the session was down; they are late and not traded on."""
        if recovered.is_new:
            return []
        last = recovered.last_row
        since = self.session.row_time if last is None else last.exchange_time
        events = await self.feed.since(since)
        rows = [event for event in events if isinstance(event, BarEvent)]
        return [replace(row, is_late=True) for row in rows if bar_time(row.bar) > since]

    def _note_first_account(self, account: BrokerAccount) -> None:
        """Alert if the account differs from the env's initial one; the broker's is used."""
        cash = float(self.episode.observed.info["cash"])
        held = {asset: units for asset, units in account.units.items() if units}
        if held or account.cash != cash:
            self.monitor.alert(
                f"account has cash {account.cash:.2f} and positions {held}, the env starts with "
                f"cash {cash:.2f}; the account is used from the first row on"
            )
            self.log.event("adopted", cash=account.cash, units=held)

    async def _loop_until_stopped(self, bars: int | None) -> None:
        """Run the loop in a task that `stop` can cancel without cancelling `run`."""
        looping = self._looping = asyncio.ensure_future(self._loop(bars))
        try:
            await asyncio.wait({looping})
        except asyncio.CancelledError:
            await end_task(looping)
            raise
        if not looping.cancelled():
            looping.result()

    async def _loop(self, bars: int | None) -> None:
        while not self._is_stopping and (bars is None or bars > 0):
            ready = self.feed.take_ready()
            event = await self._next() if ready is None else ready
            if event is None:
                return
            async with self._turn:
                if self.switch.is_pulled() and not self._is_killed:
                    await self._apply_kill_switch()
                if isinstance(event, BarEvent):
                    is_new = await self._process_row(event)
                    # Rows that were missed and fetched afterwards are not traded on.
                    bars = None if bars is None else bars - (is_new and not event.is_late)
                elif isinstance(event, FeedNotice):
                    self._process_notice(event)
            if ready is not None:
                # Give way to the feed's reader and the kill switch.
                await asyncio.sleep(0)

    async def _next(self) -> FeedEvent | None:
        """Wait for the next event; None at the end of the feed."""
        self._is_waiting = True
        try:
            event = await self.feed.__anext__()
        except StopAsyncIteration:
            return None
        finally:
            self._is_waiting = False
        if self._is_stopping:
            # A cancellation that arrived too late to end the wait must not interrupt a row.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        return event

    async def _process_row(self, event: BarEvent) -> bool:
        self._bars.check(bar_time(event.bar) - self.session.row_time)
        is_new = await self.session.process_row(event)
        if is_new:
            if self.episode.row % self.config.snapshot_every == 0:
                self._save_snapshot()
            self._gc.after_row()
        return is_new

    def _save_snapshot(self) -> None:
        write_snapshot(self.folder.snapshot, self.episode.state_dict(), self.journal.count)
        self.journal.append("snapshot", row=self.episode.row)

    def _process_notice(self, notice: FeedNotice) -> None:
        text = self.session.note(notice.kind, notice.detail)
        if text is not None:
            self.log.event(f"feed_{notice.kind}", detail=text)

    async def _heartbeat(self) -> None:
        """Check the kill switch and publish the status, whatever the feed does."""
        try:
            while True:
                await asyncio.sleep(HEARTBEAT_SECONDS)
                if self.switch.look() != self._is_killed:
                    async with self._turn:
                        # The loop may have applied it meanwhile.
                        if self.switch.is_pulled() != self._is_killed:
                            await self._apply_kill_switch()
                self._gc.when_idle()
        except Exception as error:
            # Without a kill switch there is no trading.
            self._failure = error
            self.stop()

    def _check_kill_switch(self) -> None:
        if self.switch.is_pulled() and not self._is_killed:
            self._is_killed = True
            self.journal.append("kill", reason=self.switch.reason())
            self.log.event("killed", WARNING, reason=self.switch.reason())

    def _enter_killed(self) -> None:
        self._state.fire("kill", by="runner", reason=f"kill switch: {self.switch.reason()}")

    async def _apply_kill_switch(self) -> None:
        """Stop trading if the kill switch was pulled, resume if it was released."""
        if self._is_killed:
            self._is_killed = self.session.is_flattening = False
            self.journal.append("released")
            self.log.event("released", WARNING)
            if self._state.state == "killed":
                self._state.fire("release", by="runner")
            return
        self._check_kill_switch()
        self._enter_killed()
        await self._cancel_or_flatten()

    async def _cancel_or_flatten(self) -> None:
        """Cancel all open orders, and close positions if `on_kill` says so."""
        await self.session.execution.cancel_all()
        if self.config.on_kill == "flatten":
            await self.session.flatten(self.episode.row)

    async def _shutdown(self) -> None:
        """Cancel open orders, close positions if `on_stop` says so, and save everything."""
        async with self._turn:
            execution = self.session.execution
            execution.is_stopping = True
            await execution.cancel_all()
            if self.config.on_stop == "flatten" and not self._is_killed:
                await self._flatten_positions()
            self._save_snapshot()
            self.journal.append("stopped", rows=self.episode.row)
            self.journal.make_durable()
            self.log.event("stopped", rows=self.episode.row)
            if self._state.state == "trading":
                self._state.fire("stop", by="runner", reason=self.monitor.refusal_text())

    async def _flatten_positions(self) -> None:
        """Close all positions, within `flatten_bars` more rows of the feed."""
        session = self.session
        session.is_flattening = True
        session.account = await session.execution.account()
        if session.is_flat():
            return
        await session.flatten(self.episode.row)
        for _ in range(self.config.flatten_bars):
            try:
                event = await self.feed.__anext__()
            except StopAsyncIteration:
                break
            if isinstance(event, BarEvent):
                await session.process_row(event)
            if session.is_flat():
                return
        self.monitor.alert("positions remain: not all could be closed before the session ended")

    async def _fail(self, reason: str) -> None:
        """Abort the session: cancel all open orders if the broker can be reached."""
        self._state.fire("fail", by="runner", reason=reason)
        self.monitor.alert(f"session aborted; open orders may remain at the broker: {reason}")
        self.log.event("failed", ERROR, reason=reason)
        for order in self.session.execution.tracker.open_orders():
            await self._try_to_cancel(order.id)

    async def _try_to_cancel(self, order_id: str) -> None:
        try:
            await self.broker.cancel(order_id)
        except Exception as error:
            # The error that aborted the session is the one to raise.
            self.log.event("not_cancelled", ERROR, id=order_id, error=error)
            self.monitor.alert(f"order {order_id} may remain at the broker: {error}")
