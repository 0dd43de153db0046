"""Run a policy on a feed, through an env, with a broker."""

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
from sekai.error import JournalError
from sekai.live.bar_records import bar_time
from sekai.live.broker import Broker, BrokerAccount
from sekai.live.desk import Desk
from sekai.live.events import BarEvent, FeedEvent, FeedNotice
from sekai.live.feed import Feed
from sekai.live.feeds.reading import end_task
from sekai.live.housekeeping import Housekeeping, collecting_by_hand
from sekai.live.kill_switch import BELIEVED_SECONDS, KillSwitch
from sekai.live.live_config import LiveConfig
from sekai.live.live_episode import LiveEpisode, decider_of
from sekai.live.monitoring import SessionMonitor
from sekai.live.order_keeper import OrderKeeper
from sekai.live.recovery import Recovered, recover
from sekai.live.risk_gate import RiskGate
from sekai.live.session import Session
from sekai.live.session_folder import SessionFolder
from sekai.live.session_journal import SessionJournal
from sekai.live.session_log import SessionLog
from sekai.live.snapshot_file import check_state, write_snapshot
from sekai.live.status import SessionStatus
from sekai.live.status_file import StatusWriter
from sekai.live.winding_up import sell_everything, take_back

__all__ = ["LiveRunner"]

HEARTBEAT_SECONDS = 0.8 * BELIEVED_SECONDS
"""It looks at the kill switch before what was seen is too old: rows need not, and decide sooner."""


class LiveRunner:
    """Decides on every row of a feed, and has a broker do it.

    Everything that comes in, is decided and is done stands in the journal of the session before
    it is acted on. A runner that is made on the folder of a session that broke off goes on with
    it: the same orders, each sent once.

    While a session runs, automatic garbage collection is off in the whole process, so that no
    decision waits for it: the session collects between rows. When the last session of the process
    has ended, in whatever way, the collector is as it was before the first.
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
        """Say who decides, on what, and where it is written down.

        Args:
            policy: something with `predict`, or a function of the observation.
            env: `Portfolio-v0`, made with `stream=True` and
                `execution=Execution(sizing="decision")`.
            feed: what brings its rows.
            broker: who trades.
            folder: of the session; made if it is not there.
            config: limits, and what happens when.
        """
        self.config = LiveConfig() if config is None else config
        # Its name is that of the session, and `.` has none.
        self.folder = SessionFolder(Path(os.path.abspath(folder)))
        self.feed, self.broker = feed, broker
        self._decide = decider_of(policy)
        self.episode = LiveEpisode(env, self.config.seed)
        self.switch = KillSwitch(self.folder.kill)
        self._turn = asyncio.Lock()
        self._looping: asyncio.Task[None] | None = None
        self._is_waiting = False
        self._was_run = False
        self._is_stopping = False
        self._is_killed = False
        self._failure: Exception | None = None
        self._lost: set[str] = set()

    def stop(self) -> None:
        """Let the session end after what it is doing now; positions as `on_stop` says."""
        self._is_stopping = True
        if hasattr(self, "session"):
            # A broker that does not answer must not keep a session from ending.
            self.session.desk.is_ending = True
        if self._looping is not None and self._is_waiting:
            self._looping.cancel()

    async def run(self, bars: int | None = None) -> SessionStatus:
        """Trade until the feed ends, `stop` is called, or so many rows have come.

        Raises:
            JournalError: nothing can be written down any more, so nothing is traded; or the folder
                is of another session, or in use.
        """
        if self._was_run:
            raise RuntimeError("a runner runs once: make another on the same folder to go on")
        self._was_run = True
        async with self._opened():
            try:
                async with self._turn:
                    await self._go_on(self._begin())
                await self._loop_until_stopped(bars)
                if self._failure is not None:
                    raise self._failure
                await self._end()
            except JournalError as error:
                await self._fail(f"no trading without a journal: {error}")
                raise
            except Exception as error:
                await self._fail(f"{type(error).__name__}: {error}")
                raise
            except BaseException:
                # Cancelled: nobody may be asked anything any more.
                self.monitor.become("failed", "interrupted: what stands is settled when it goes on")
                self.log.event("interrupted", WARNING)
                raise
        return self.status()

    async def remove_asset(self, name: str) -> None:
        """Take an asset out from the next row on: it is sold, and not bought. Restarts know it."""
        await self._set_traded(name, False)

    async def add_asset(self, name: str) -> None:
        """Let an asset in again that was removed."""
        await self._set_traded(name, True)

    async def _set_traded(self, asset: str, is_traded: bool) -> None:
        async with self._turn:
            if self.episode.row == 0:
                raise ValueError("assets change between rows, and the first has not come yet")
            self.episode.set_traded(asset, is_traded)
            self.journal.append("universe", asset=asset, is_traded=is_traded)
            self.log.event("asset_added" if is_traded else "asset_removed", asset=asset)

    def status(self) -> SessionStatus:
        """How it is doing."""
        return self.monitor.status(self.feed.health)

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        self.folder.path.mkdir(parents=True, exist_ok=True)
        keeper, name = OrderKeeper(), self.folder.path.name
        self.monitor = SessionMonitor(name, self.episode.assets, keeper)
        async with contextlib.AsyncExitStack() as parts:
            parts.push_async_callback(self.broker.close)
            parts.push_async_callback(self.feed.close)
            parts.enter_context(collecting_by_hand())
            self.journal = parts.enter_context(
                contextlib.closing(SessionJournal(self.folder, self.config.sync, self.broker))
            )
            self.log = parts.enter_context(SessionLog(self.folder.log))
            self._writer = parts.enter_context(StatusWriter(self.folder.status))
            desk = Desk(self.broker, self.journal, keeper, self.monitor, self.config)
            desk.is_killed = self.switch.is_pulled
            desk.is_ending = self._is_stopping
            gate = RiskGate(self.config.limits)
            self.session = Session(
                name, self.episode, self._decide, desk, self.journal, self.monitor, gate
            )
            self._house = Housekeeping(self._tell)
            heart = asyncio.ensure_future(self._beat())
            try:
                yield
            finally:
                await end_task(heart)
                self._house.tell()

    def _begin(self) -> Recovered:
        """Write down what begins, or find out where it broke off."""
        keeper, data = self.session.desk.keeper, self.episode.portfolio.data
        self.session.row_time = int(data.calendar.nanoseconds[-1])
        found = recover(
            self.journal.records(), self.journal.count, self.folder, self.episode, keeper,
            self._note_equity,
        )  # fmt: skip
        # Now, and not when the first snapshot is due: orders may stand by then.
        check_state(self.episode.env.state_dict())
        if found.is_new:
            self.journal.append(
                "begun", assets=list(self.episode.assets),
                rows=len(data), digest=data.digest, config=self.config.to_dict(),
                observed=self.episode.observed.digest,
            )  # fmt: skip
        else:
            self.journal.append("recovered", rows=self.episode.row)
        for words in found.warnings:
            self.monitor.alert(words)
        self.log.event("begun" if found.is_new else "recovered", rows=self.episode.row)
        if found.last_row is not None:
            self.session.row_time = bar_time(found.last_row.bar)
            self.session.receive_time = found.last_row.written
        for kept in keeper.orders.values():
            self.session.gate.count(kept.decided)
        return found

    def _note_equity(self, row_time: int, equity: float) -> None:
        self.session.note_equity(row_time, equity)
        self.monitor.note_equity(str(np.datetime64(row_time, "ns")), equity)

    def _tell(self) -> None:
        """Hand on how it is doing; what could not be written before is told of once."""
        lost = {"status": self._writer.failures, "log": self.log.lost}
        for what in [name for name, count in lost.items() if count and name not in self._lost]:
            self._lost.add(what)
            error = self._writer.last_error if what == "status" else "see what it says on stderr"
            self.monitor.alert(f"the {what} cannot be written: {error}")
            self.log.event(f"{what}_lost", WARNING, error=error)
        self._writer.offer(self.status())

    async def _go_on(self, found: Recovered) -> None:
        """Settle with the broker, do what was left half done, and what was missed meanwhile."""
        missed = await self._missed(found)
        desk, last = self.session.desk, found.last_row
        age = 0.0 if last is None else (time.time_ns() - last.written) / 1e9
        desk.standing([] if missed else found.pending, age=max(0.0, age))
        self._look_at_switch()
        await desk.connect()
        self._trade()
        account = self.session.account = await desk.account()
        self.monitor.note_account(self.episode.observed.info, account, self.episode.prices)
        if found.is_new:
            self._adopt(account)
        if found.unfinished is not None:
            await self.session.finish_row(found.unfinished, bool(missed))
        for event in missed:
            await self._take_row(event)
        if self._is_killed:
            await self._stand_down()

    async def _missed(self, found: Recovered) -> list[BarEvent]:
        """Rows that came while nobody listened: the market has moved on since."""
        if found.is_new:
            return []
        last = found.last_row
        since = self.session.row_time if last is None else last.exchange_time
        events = await self.feed.since(since)
        rows = [event for event in events if isinstance(event, BarEvent)]
        return [replace(row, is_late=True) for row in rows if bar_time(row.bar) > since]

    def _adopt(self, account: BrokerAccount) -> None:
        """Say so if the account is not what the env begins with: the broker's word holds."""
        cash = float(self.episode.observed.info["cash"])
        held = {asset: units for asset, units in account.units.items() if units}
        if held or account.cash != cash:
            words = f"the account has {account.cash:.2f} and {held or 'nothing'}, not {cash:.2f}"
            self.monitor.alert(f"{words}: trading begins from there after the first row")
            self.log.event("adopted", cash=account.cash, units=held)

    async def _loop_until_stopped(self, bars: int | None) -> None:
        """Loop in a task of its own: `stop` can end its wait, and is no cancellation of `run`."""
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
                    await self._obey_switch()
                if isinstance(event, BarEvent):
                    is_news = await self._take_row(event)
                    bars = None if bars is None else bars - is_news
                elif isinstance(event, FeedNotice):
                    self._take_notice(event)
            if ready is not None:
                # Others have a turn all the same: the one who reads, and the kill switch.
                await asyncio.sleep(0)

    async def _next(self) -> FeedEvent | None:
        """Wait for the next event; None at the end."""
        self._is_waiting = True
        try:
            event = await self.feed.__anext__()
        except StopAsyncIteration:
            return None
        finally:
            self._is_waiting = False
        if self._is_stopping:
            # What was to end the wait came as it was over: better here than in the midst of a row.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        return event

    async def _take_row(self, event: BarEvent) -> bool:
        is_news = await self.session.take_row(event)
        if is_news:
            if self.episode.row % self.config.snapshot_every == 0:
                self._save()
            self._house.after_row()
        return is_news

    def _save(self) -> None:
        """Let a restart begin from here."""
        write_snapshot(self.folder.snapshot, self.episode.state_dict(), self.journal.count)
        self.journal.append("snapshot", row=self.episode.row)

    def _take_notice(self, notice: FeedNotice) -> None:
        told = self.session.note(notice.kind, notice.detail)
        if told is not None:
            self.log.event(f"feed_{notice.kind}", detail=told)

    async def _beat(self) -> None:
        """Look at the kill switch and tell those who watch, whatever the feed does."""
        try:
            while True:
                await asyncio.sleep(HEARTBEAT_SECONDS)
                if self.switch.look() != self._is_killed:
                    async with self._turn:
                        # Whoever had the turn may have obeyed already.
                        if self.switch.is_pulled() != self._is_killed:
                            await self._obey_switch()
                self._house.now_and_then()
        except Exception as error:
            # Whoever cannot hear the kill switch does not trade.
            self._failure = error
            self.stop()

    def _look_at_switch(self) -> None:
        if self.switch.is_pulled() and not self._is_killed:
            self._is_killed = True
            self.session.pause = f"the kill switch was pulled: {self.switch.reason()}"
            self.journal.append("kill", reason=self.switch.reason())
            self.log.event("killed", WARNING, reason=self.switch.reason())

    async def _obey_switch(self) -> None:
        if self._is_killed:
            self._is_killed = False
            self.session.pause, self.session.is_flattening = "", False
            self.journal.append("released")
            self.log.event("released", WARNING)
            self._trade()
            return
        self._look_at_switch()
        self._trade()
        await self._stand_down()

    async def _stand_down(self) -> None:
        """Cancel what stands, and sell if so configured."""
        desk = self.session.desk
        desk.standing([])
        await desk.cancel([order.id for order in desk.keeper.open_orders()])
        if self.config.on_kill == "flatten":
            await self.session.flatten(self.episode.row)

    def _trade(self) -> None:
        """Say whether it trades."""
        if self._is_killed:
            self.monitor.become("killed", self.session.pause)
        else:
            self.monitor.become("trading")

    async def _end(self) -> None:
        """Cancel what stands, sell if so configured, and leave everything written down."""
        async with self._turn:
            desk = self.session.desk
            desk.is_ending = True
            desk.standing([])
            await desk.cancel([order.id for order in desk.keeper.open_orders()])
            if self.config.on_stop == "flatten" and not self._is_killed:
                await sell_everything(self.session, self.feed, self.config.flatten_bars)
            self._save()
            self.journal.append("stopped", rows=self.episode.row)
            self.journal.make_durable()
            if self.monitor.state not in ("killed", "halted"):
                self.monitor.become("stopped")
            self.log.event("stopped", rows=self.episode.row)

    async def _fail(self, reason: str) -> None:
        """Leave nothing standing at the broker, if it can be reached, and say why."""
        self.monitor.become("failed", reason)
        self.monitor.alert(reason)
        self.log.event("failed", ERROR, reason=reason)
        await take_back(self.session, self.log)
