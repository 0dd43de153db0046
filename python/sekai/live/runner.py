"""Live runner: trades a policy on a feed through a broker, and recovers after a crash."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from logging import ERROR, WARNING
from pathlib import Path
from typing import Any

from sekai.core.env import Env
from sekai.data.signature import BarLengthGuard, require_same_data
from sekai.error import BrokerError, JournalError
from sekai.live.account import BrokerAccount
from sekai.live.broker import Broker, call_with_timeout
from sekai.live.clock import ClockReading, age_seconds
from sekai.live.commands import take_commands
from sekai.live.config import LiveConfig
from sekai.live.episode import LiveEpisode, is_recurrent, policy_function
from sekai.live.events import BarEvent, FeedEvent, FeedNotice, bar_time
from sekai.live.execution import ExecutionClient
from sekai.live.feed import Feed
from sekai.live.feeds.timed_feed import end_task
from sekai.live.journal.session import SessionJournal
from sekai.live.manual_gc import ManualGC, automatic_gc_disabled
from sekai.live.orders import OrderTracker
from sekai.live.recovery import RecoveredSession, recover
from sekai.live.runtime import Runtime
from sekai.live.session import Session
from sekai.live.session_log import SessionLog
from sekai.live.session_risk import SessionRisk, fill_seconds
from sekai.live.status import SessionMonitor, SessionStatus
from sekai.live.supervision import Supervision
from sekai.live.watchdog import closing_orders_of

__all__ = ["LiveRunner"]

HEARTBEAT_SECONDS = 0.04
"""Interval of the heartbeat that the watchdog supervises."""

COMMAND_SECONDS = 0.5
"""Interval at which commands of operators are looked for."""

WAIT_SECONDS = 1.0
"""Time that a row waits for the watchdog to obey a kill switch, or to close positions."""


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
        runtime: clock and threads; those of this machine if not given.
        supervision: one of this session that was started before; created if not given.
    """

    def __init__(
        self,
        policy: Any,
        env: Env[Any, Any],
        feed: Feed,
        broker: Broker,
        folder: Path | str,
        config: LiveConfig | None = None,
        *,
        runtime: Runtime | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        if not isinstance(feed, Feed):
            raise TypeError(
                f"feed must be a sekai.live.Feed, got {feed!r}; a BarFeed with next_bar() alone "
                f"has neither events nor close(): subclass Feed, or put its rows into a QueueFeed"
            )
        own = Supervision(broker, folder, config, runtime=runtime)
        self._supervision = own if supervision is None else supervision.require_same(own)
        self.config, self.folder, self.switch = own.config, own.folder, self._supervision.switch
        self.feed, self.broker = feed, broker
        require_same_data(policy, env)
        self._bars = BarLengthGuard(policy)
        self._decide = policy_function(policy)
        self.episode = LiveEpisode(env, self.config.seed, is_recurrent(policy))
        self._runtime, self._state = self._supervision.runtime, self._supervision.state
        self._clock, self._link = self._runtime.clock, self._supervision.link
        # Held while a row, a command or the end is processed.
        self._turn = asyncio.Lock()
        self._looping: asyncio.Task[None] | None = None
        self._is_waiting = False
        self._was_run = False
        self._is_stopping = self._is_killed = False
        self._shown_kill = ("", "")
        self._failure: Exception | None = None
        self._reported_losses: set[str] = set()
        self._next_commands = 0

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
                self._state.advance("failed", reason)
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
        link = self._link
        return self.monitor.status(
            self.feed.health,
            kill=(link.kill_requested, link.kill_obeyed, link.kill_detail),
        )

    async def _set_traded(self, asset: str, is_traded: bool) -> None:
        async with self._turn:
            if self.episode.row == 0:
                raise ValueError("assets can change after the first row, got none yet")
            self.episode.set_traded(asset, is_traded)
            self.journal.append("universe", asset=asset, is_traded=is_traded)
            self.log.event("asset_added" if is_traded else "asset_removed", asset=asset)

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        tracker, name = OrderTracker(clock=self._clock), self.folder.path.name
        assets, decimals = self.episode.assets, self.episode.price_decimals()
        state, clock = self._state, self._clock
        self.monitor = SessionMonitor(name, assets, tracker, state, decimals, clock=clock)
        async with contextlib.AsyncExitStack() as parts:
            parts.push_async_callback(self._close, self.broker.close)
            parts.push_async_callback(self._close, self.feed.close)
            parts.enter_context(automatic_gc_disabled())
            # Before the journal is read: a session that recovers obeys the kill switch.
            await parts.enter_async_context(self._supervised())
            self._account, self._writer = self._supervision.account, self._supervision.writer
            namespace = self._account.namespace(
                is_new=not self.folder.journal.exists(), named=self.broker.account_id is not None
            )
            self.journal = parts.enter_context(
                contextlib.closing(SessionJournal(self.folder, self.config.sync, self.broker))
            )
            self.log = parts.enter_context(SessionLog(self.folder.log))
            execution = ExecutionClient(
                self.broker,
                self.journal,
                tracker,
                self.monitor,
                self._state,
                self.config,
                link=self._link,
                clock=self._clock,
                fill_seconds=fill_seconds(self.episode, self.config),
                rng=self._runtime.rng,
            )
            execution.is_stopping = self._is_stopping
            worker = self._runtime.policy_worker(self._decide, self.config.policy_timeout)
            parts.callback(worker.close)
            self.session = Session(
                namespace,
                self.episode,
                worker,
                execution,
                self.journal,
                self.monitor,
                self._state,
                SessionRisk.of(self.episode, self.config, self._account, self.feed, self._clock),
                self._runtime,
                is_replay=self.feed.is_replay,
            )
            self._gc = ManualGC(self._publish_status, self._clock)
            tasks = [asyncio.ensure_future(self._heartbeat())]
            if not self.session.is_replay:
                tasks.append(asyncio.ensure_future(self._poll_account()))
            try:
                yield
            finally:
                for task in tasks:
                    await end_task(task)
                self._publish_status()

    @contextlib.asynccontextmanager
    async def _supervised(self) -> AsyncIterator[None]:
        """Run the watchdog on its own thread and control connection."""
        with contextlib.closing(self._supervision):
            if not self._supervision.is_started:
                self._supervision.start()
            self._acted = self._supervision.attach(asyncio.get_running_loop())
            try:
                yield
            finally:
                await self._supervision.stop()
                self._take_alerts()

    async def _close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close a connection; one that hangs does not keep the session from ending."""
        try:
            await call_with_timeout(close, self.config.call_timeout)
        except BrokerError as error:
            self.monitor.alert(f"not closed: {error}")

    def _save_account(self) -> None:
        """Save what belongs to the account rather than to the session."""
        session = self.session
        times = [] if session.is_replay else session.risk.gate.order_times()
        try:
            self._account.save(
                session.risk.references.state_dict(), times, self._clock, fsync=False
            )
        except OSError as error:
            self.monitor.alert(f"state of the account cannot be written: {error}")

    def _recover(self) -> RecoveredSession:
        """Journal the start of a session, or recover the state of an interrupted one."""
        tracker, data = self.session.execution.tracker, self.episode.portfolio.data
        self.session.row_time = int(data.calendar.nanoseconds[-1])
        recovered = recover(
            self.journal,
            self.episode,
            tracker,
            self.session.parts(),
            self.session.note_recorded,
            self.session.note_record,
        )
        # Now, and not at the first snapshot: orders may be open by then.
        self.episode.check_state()
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
        if self.journal.torn:
            recovered.warnings.append(
                f"incomplete last record of the journal cut off: {len(self.journal.torn)} bytes"
            )
        for warning in recovered.warnings:
            self.monitor.alert(warning)
        self.log.event("begun" if recovered.is_new else "recovered", rows=self.episode.row)
        if recovered.last_row is not None:
            self.session.row_time = bar_time(recovered.last_row.bar)
            self.session.receive_time = recovered.last_row.written
        for order in closing_orders_of(self.folder)[tracker.closing :]:
            # A watchdog submitted it before the last process ended.
            self._link.closing.append(order)
        if not self.session.is_replay:
            for time in self._account.order_times(self._clock):
                self.session.risk.gate.count(time)
        return recovered

    def _publish_status(self) -> None:
        """Write the status; alert once if the status or the log cannot be written."""
        losses: dict[str, Any] = {
            "status": self._writer.failures and self._writer.last_error,
            "log": "see stderr" if self.log.lost else None,
            "trade log": self.journal.trades.problem,
        }
        for name, error in losses.items():
            if error and name not in self._reported_losses:
                self._reported_losses.add(name)
                self.monitor.alert(f"the {name} cannot be written: {error}")
                self.log.event(f"{name.replace(' ', '_')}_lost", WARNING, error=error)
        status = self._link.status = self.status()
        self._writer.offer(status)

    async def _resume(self, recovered: RecoveredSession) -> None:
        """Settle orders with the broker, finish the last row, and process missed rows."""
        missed = await self._missed(recovered)
        execution, last = self.session.execution, recovered.last_row
        age: float | None = 0.0
        if last is not None:
            age = age_seconds(last.reading, ClockReading.now(self._clock))
        execution.set_current([] if missed else recovered.pending, age=age)
        self._note_kill()
        await self.session.connect()
        self._state.advance("running")
        account = await self._show_account()
        if recovered.is_new:
            self.session.note_first_account(account)
        self.session.check_losses()
        # Before the first row: a reset or an adoption may be about it.
        await self._obey_commands()
        if recovered.unfinished is not None:
            await self.session.finish_row(recovered.unfinished, bool(missed))
        for event in missed:
            await self._process_row(event)

    async def _missed(self, recovered: RecoveredSession) -> list[BarEvent]:
        """Rows that arrived while the session was down; they are late and not traded on."""
        if recovered.is_new:
            return []
        last = recovered.last_row
        since = self.session.row_time if last is None else last.exchange_time
        try:
            seconds = self.config.feed_timeout
            events = await call_with_timeout(lambda: self.feed.since(since), seconds)
        except BrokerError as error:
            self.monitor.alert(f"missed rows are unknown, the feed did not answer: {error}")
            return []
        rows = [event for event in events if isinstance(event, BarEvent)]
        return [replace(row, is_late=True) for row in rows if bar_time(row.bar) > since]

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
                await self._follow_kill_switch()
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
        try:
            self.journal.save_snapshot(self.session.parts(), self.episode.row)
        except JournalError as error:
            # The one before remains; a journal that failed refuses the next record.
            self.monitor.alert(f"no snapshot saved, a restart takes longer: {error}")
            self.log.event("snapshot_failed", WARNING, error=error)
        self._save_account()

    def _process_notice(self, notice: FeedNotice) -> None:
        text = self.session.note(notice.kind, notice.detail)
        if text is not None:
            self.log.event(f"feed_{notice.kind}", detail=text)

    async def _heartbeat(self) -> None:
        """Beat for the watchdog, and do what does not depend on rows."""
        try:
            while True:
                self._link.beat = self._clock.monotonic_ns()
                await self._clock.sleep(HEARTBEAT_SECONDS)
                self._take_alerts()
                self._note_kill()
                self.session.check_clock_and_feed()
                if not self._turn.locked():
                    async with self._turn:
                        await self._idle()
                self._gc.when_idle()
        except Exception as error:
            # Without a heartbeat there is no trading.
            self._failure = error
            self.stop()

    async def _poll_account(self) -> None:
        """Ask for the account while no row does so, in a task of its own: the call may hang."""
        try:
            while True:
                await self._clock.sleep(COMMAND_SECONDS)
                async with self._turn:
                    is_old = self.session.account_age() >= self.config.account_poll_seconds
                    if is_old and self._state.lifecycle == "running":
                        await self._show_account()
        except BrokerError:
            # The session ends, and its own last calls say whether the broker answers.
            return
        except Exception as error:
            self._failure = error
            self.stop()

    async def _show_account(self) -> BrokerAccount:
        """Update the account between rows, and show it."""
        account = await self.session.update_account()
        self.monitor.note_account(self.episode.observed.info, account, self.episode)
        return account

    async def _idle(self) -> None:
        """Follow the kill switch, commands and order deadlines between rows."""
        self._note_kill()
        now = self._clock.monotonic_ns()
        if now < self._next_commands or self._state.lifecycle != "running":
            return
        self._next_commands = now + round(COMMAND_SECONDS * 1e9)
        await self._obey_commands()
        await self.session.execution.check_deadlines()

    async def _obey_commands(self) -> None:
        """Journal the commands of operators that wait, and carry them out."""
        for command in take_commands(self.folder, self.monitor.alert):
            self.journal.append("command", **command.to_fields())
            self.log.event("command", WARNING, **command.to_fields())
            self.monitor.alert(f"command {command.name} by {command.by}: {command.reason}")
            await self.session.obey(command)

    def _take_alerts(self) -> None:
        """Add the alerts of the watchdog to those of the session."""
        while self._link.alerts:
            self.monitor.alert(self._link.alerts.popleft()[1])

    async def _follow_kill_switch(self) -> None:
        """Wait until the watchdog has obeyed a kill switch, before a row is processed."""
        if not self.switch.is_pulled() and not self._link.kill_requested:
            self._note_kill()
            return
        link, is_pulled = self._link, self.switch.is_pulled
        await self._wait_until(lambda: not is_pulled() or bool(link.kill_obeyed), WAIT_SECONDS)
        self._note_kill()

    async def _wait_until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait for something that the watchdog does, for a bounded time."""
        deadline = self._clock.monotonic_ns() + round(seconds * 1e9)
        while not is_so():
            left = (deadline - self._clock.monotonic_ns()) / 1e9
            if left <= 0.0:
                return
            self._acted.clear()
            if not is_so():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._acted.wait(), min(left, 0.1))

    def _note_kill(self) -> None:
        """Journal that the kill switch was pulled or released, and show it at once."""
        link = self._link
        if (kill := (link.kill_requested, link.kill_obeyed)) != self._shown_kill:
            self._shown_kill = kill
            self._publish_status()
        is_killed = bool(link.kill_requested)
        if is_killed == self._is_killed:
            return
        self._is_killed = is_killed
        reason = self.switch.reason()
        if is_killed:
            self.journal.append("kill", reason=reason)
            self.log.event("killed", WARNING, reason=reason)
        else:
            self.journal.append("released")
            self.log.event("released", WARNING)

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
            self._state.advance("stopped", self.monitor.refusal_text())

    async def _flatten_positions(self) -> None:
        """Close all positions through the watchdog, in a bounded number of rows and seconds."""
        session, link = self.session, self._link
        session.is_flattening = True
        await session.update_account()
        if session.is_flat():
            return
        link.is_flat, link.wants_flat = False, "the session ends"
        deadline = self._clock.monotonic_ns() + round(self.config.flatten_seconds * 1e9)
        rows = 0
        while not session.is_flat() and rows < self.config.flatten_bars:
            left = (deadline - self._clock.monotonic_ns()) / 1e9
            if left <= 0.0:
                break
            # Until closing orders are submitted, or there is nothing to close.
            seconds = min(left, WAIT_SECONDS)
            await self._wait_until(lambda: link.is_flat or link.is_closing, seconds)
            event = await self._next_within(left)
            if isinstance(event, BarEvent):
                rows += 1
                await session.process_row(event)
            elif event is None and not self._feed_is_open:
                # No more rows: a venue may fill without them, a simulated broker never does.
                await session.update_account()
                break
        link.wants_flat = ""
        if not session.is_flat():
            self.monitor.alert("positions remain: not all could be closed before the session ended")

    async def _next_within(self, seconds: float) -> FeedEvent | None:
        """Next event of the feed within a time; None if there is none."""
        self._feed_is_open = True
        try:
            return await asyncio.wait_for(self.feed.__anext__(), seconds)
        except asyncio.TimeoutError:
            return None
        except StopAsyncIteration:
            self._feed_is_open = False
            return None

    async def _fail(self, reason: str) -> None:
        """Abort the session: cancel all open orders if the broker can be reached."""
        if not self._state.is_terminal:
            self._state.advance("failed", reason)
        self.monitor.alert(f"session aborted; open orders may remain at the broker: {reason}")
        if hasattr(self, "log"):
            self.log.event("failed", ERROR, reason=reason)
        if hasattr(self, "session"):
            for order in self.session.execution.tracker.open_orders():
                await self._try_to_cancel(order.id)

    async def _try_to_cancel(self, order_id: str) -> None:
        try:
            await call_with_timeout(lambda: self.broker.cancel(order_id), self.config.call_timeout)
        except Exception as error:
            # The error that aborted the session is the one to raise.
            self.log.event("not_cancelled", ERROR, id=order_id, error=error)
            self.monitor.alert(f"order {order_id} may remain at the broker: {error}")
