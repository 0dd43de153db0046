"""Execution of a schedule on virtual time: market, clock, feed and processes."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from sekai.data import Bar, MarketData, simulate_gbm
from sekai.live import BarEvent, Feed, FeedEvent, LiveConfig, LiveRunner
from sekai.market import Execution
from tests.live.simulation.schedule import (
    BIG,
    KNOWN,
    LIMITS,
    LOSS_LIMIT,
    NOTICED_SECONDS,
    START_CASH,
    Outcome,
    Schedule,
)
from tests.live.simulation.venue import Venue, VenueConnection
from tests.live.simulation.virtual import (
    SECOND,
    StatusRecorder,
    VirtualClock,
    VirtualLoop,
    VirtualRuntime,
)


class ScheduledFeed(Feed):
    """Feed of a schedule: rows at their times, with bad prints and stamps."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.history = world.history

    async def __anext__(self) -> FeedEvent:
        return await self._world.next_row()


class World:
    """Market, venue, clock and process of one schedule."""

    def __init__(self, schedule: Schedule, folder: Path) -> None:
        self.schedule, self.folder = schedule, folder
        data = _market()
        self.history = data.rows(0, KNOWN)
        self._bars = list(Bar.each(data, KNOWN))[: schedule.rows]
        self._times = data.calendar.nanoseconds
        self.clock = VirtualClock(int(self._times[KNOWN - 1]))
        self.venue = Venue(self.clock, data.assets, START_CASH, schedule.venue, schedule.seed)
        self._closes = data.field("close")
        names = ("open", "high", "low", "close")
        self._price_fields = [index for index, name in enumerate(data.fields) if name in names]
        self.venue.move(dict(zip(data.assets, self._closes[KNOWN - 1].tolist(), strict=True)))
        self.recorder = StatusRecorder(self.clock)
        self.outcome = Outcome(schedule, self.venue, [], self.recorder)
        self._row = 0
        self._rng = np.random.default_rng(schedule.seed + 1)
        self._crashed: set[int] = set()
        self._died_killed = False
        self._noted: set[str] = set()
        self.decisions = 0
        self.seconds = 0.0

    @property
    def may_die(self) -> bool:
        """True if the process may die before it shows an alert."""
        return bool(self.schedule.crashes) or self.schedule.kill_crash is not None

    def note(self, event: str) -> None:
        if event not in self._noted:
            self._noted.add(event)
            self.outcome.events.append(event)

    def policy(self) -> Any:
        """Policy that moves its target far in every row."""
        world = self

        class Policy:
            seconds = 0.0

            def __call__(self, observation: Any) -> Any:
                world.decisions += 1
                self.seconds = world.schedule.slow_decisions.get(world._row, 0.0)
                if self.seconds > 5.0 and not world.may_die:
                    world.note("slow_decision")
                size = len(world.history.assets)
                return world._rng.dirichlet(np.full(size + 1, 0.3))

        return Policy()

    async def next_row(self) -> FeedEvent:
        """Wait for the next row, and let its faults happen."""
        schedule, row = self.schedule, self._row
        is_dead = schedule.dead_feed_after is not None and row >= schedule.dead_feed_after
        if is_dead or row >= len(self._bars):
            await self._wait(30.0 if is_dead else schedule.last_seconds)
            if is_dead:
                self.note("dead_feed")
            self._note_venue()
            raise StopAsyncIteration
        await asyncio.sleep(schedule.row_seconds)
        self._row += 1
        closes = self._closes[KNOWN + row] * schedule.price_factor(row)
        self.venue.move(dict(zip(self.history.assets, closes.tolist(), strict=True)))
        self._happen(row)
        return self._event(row)

    async def _wait(self, seconds: float) -> None:
        """Let time pass without rows; the venue goes on filling orders."""
        for _ in range(round(seconds)):
            await asyncio.sleep(1.0)
            self.venue.move(self.venue.prices)

    def _happen(self, row: int) -> None:
        schedule = self.schedule
        if row in schedule.cash_lost:
            self.venue.take_cash(schedule.cash_lost[row])
            # The account may lag behind by as many rows; it is asked although the feed is dead.
            is_seen = schedule.dead_feed_after is not None or row < schedule.rows - 4
            if is_seen and not self.may_die:
                self.note("cash_lost")
        if row in schedule.wall_steps and abs(schedule.wall_steps[row]) > 2.0:
            self.clock.step_wall(round(schedule.wall_steps[row] * SECOND))
            if row not in schedule.crashes and schedule.kill_crash is None:
                self.note("wall_step")
        if row in schedule.suspends:
            self.clock.suspend(round(schedule.suspends[row] * SECOND))
            if not self.may_die:
                self.note("suspend")
        if schedule.venue.foreign_asset and self.folder.exists():
            self.note("foreign_asset")
        if row == schedule.rename_after and self.folder.exists():
            self.folder.rename(self.folder.with_name("renamed"))
            if not self.may_die:
                self.note("rename")

    def _note_venue(self) -> None:
        """Faults of the venue that a living process has had the time to notice."""
        venue, (begin, end) = self.venue, self.schedule.venue.dead
        if self.may_die:
            return
        if venue.unknown_reports:
            self.note("unknown_report")
        lost = [
            name for name, time in venue.swallowed.items()
            if name not in venue.orders and time < venue.seconds - NOTICED_SECONDS
        ]  # fmt: skip
        if lost:
            self.note("swallowed")
        # A machine that is suspended sees nothing of it.
        if begin < end - NOTICED_SECONDS and end < venue.seconds and not self.schedule.suspends:
            self.note("dead_venue")

    def _event(self, row: int) -> FeedEvent:
        schedule, bar = self.schedule, self._bars[row]
        time = self.clock.true_wall
        values = np.array(bar.values, np.float64)
        values[:, self._price_fields] *= schedule.price_factor(row)
        if row in schedule.bad_prints:
            close = self.history.fields.index("close")
            factor = schedule.bad_prints[row]
            values[0, close] = factor if factor == BIG else values[0, close] * factor
        if row in schedule.future_rows:
            time += round(schedule.future_rows[row] * SECOND)
            if row not in schedule.crashes and schedule.kill_crash is None:
                self.note("future_row")
        stamped = Bar(
            time=np.datetime64(time, "ns"),
            values=values,
            listed=bar.listed,
            quoted=bar.quoted,
            tradable=bar.tradable,
            market=bar.market,
        )
        return BarEvent(
            exchange_time=time,
            receive_time=self.clock.wall_ns(),
            arrival=self.clock.monotonic_ns(),
            bar=stamped,
        )

    def due_crash(self) -> float | None:
        """Seconds of the crash that is due after the current row or kill; None without one."""
        outcome, kill_crash = self.outcome, self.schedule.kill_crash
        if kill_crash is not None and outcome.killed_at is not None and not self._died_killed:
            delay, down = kill_crash
            if self.clock.true_wall - outcome.killed_at >= round(delay * SECOND):
                self._died_killed = True
                outcome.kill_crashes += outcome.obeyed_after is None
                return down
        row = self._row - 1
        if row in self.schedule.crashes and row not in self._crashed:
            self._crashed.add(row)
            return self.schedule.crashes[row]
        return None

    def seconds_to_look(self) -> float:
        """Seconds until a crash is looked for again."""
        schedule, is_killed = self.schedule, self.outcome.killed_at is not None
        if schedule.kill_crash is None or schedule.kill_at is None or self._died_killed:
            return 0.1
        left = schedule.kill_at - self.venue.seconds
        return 0.01 if is_killed else min(0.1, max(0.01, left))

    def collect_alerts(self) -> None:
        """Keep what the process has shown before it died or ended."""
        seen = {alert: None for status in self.recorder.statuses for alert in status.alerts}
        self.outcome.alerts += seen

    def restart(self, seconds: float) -> None:
        """Let time pass until the next process, in the folder or in a new one."""
        row = self._row - 1
        if row in self.schedule.recreates and self.folder.exists():
            self.folder.rename(self.folder.with_name(f"before-{row}"))
        if row in self.schedule.reboots:
            self.clock.reboot(round(seconds * SECOND), round(self.schedule.reboots[row] * SECOND))
        else:
            self.clock.advance(round(seconds * SECOND))


@cache
def _market() -> MarketData:
    data = simulate_gbm(assets=2, rows=KNOWN + 20, seed=7)
    times = np.datetime64("2024-03-01T10:00:00", "ns") + np.arange(len(data)) * np.timedelta64(
        1, "s"
    )
    values = np.array(data.values)
    closes = data.fields.index("close")
    # Small moves: limits are checked at the prices of a row.
    steps = np.random.default_rng(3).normal(0.0, 0.0005, (len(data), 2))
    prices = 100.0 * np.exp(np.cumsum(steps, axis=0))
    for index, name in enumerate(data.fields):
        if name in ("open", "high", "low", "close"):
            values[:, :, index] = prices
    assert closes >= 0
    return MarketData(times, data.assets, data.fields, values)


def make_env(history: MarketData) -> Any:
    return sekai.make(
        "Portfolio-v0",
        data=history,
        features=["log_return"],
        lookback=3,
        stream=True,
        episode_rows=None,
        execution=Execution(sizing="decision"),
    )


def run_schedule(schedule: Schedule) -> Outcome:
    """Run a session through a schedule, with restarts after crashes."""
    root = Path(tempfile.mkdtemp(prefix="sekai-simulation-", dir=_memory_folder()))
    try:
        world = World(schedule, root / "session")
        loop = VirtualLoop(world.clock)
        asyncio.set_event_loop(loop)
        try:
            _run(world, loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()
        return world.outcome
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _run(world: World, loop: VirtualLoop) -> None:
    for _ in range(5):
        crash = loop.run_until_complete(_process(world))
        if crash is None:
            return
        world.restart(crash)
        world.outcome.recovered += 1


async def _process(world: World) -> float | None:
    """One process: a session until it ends, or until it is killed."""
    schedule = world.schedule
    has_limit = schedule.fall is not None
    config = LiveConfig(
        accounts=str(world.folder.with_name("accounts")),
        limits=replace(LIMITS, max_daily_loss=LOSS_LIMIT) if has_limit else LIMITS,
        on_loss=schedule.on_loss,  # type: ignore[arg-type]
        sync="never",
        retry_seconds=0.05,
        attempts=3,
        on_kill=schedule.on_kill,  # type: ignore[arg-type]
        snapshot_every=5,
        seed=1,
    )
    runtime = VirtualRuntime(world.clock, world.recorder, schedule.seed)
    if not world.folder.exists() and world.outcome.recovered and schedule.rename_after is not None:
        world.outcome.is_abandoned = True
        return None
    runner = LiveRunner(
        world.policy(),
        make_env(world.history),
        ScheduledFeed(world),
        VenueConnection(world.venue),
        world.folder,
        config,
        runtime=runtime,
    )
    world.recorder.statuses.clear()
    session = asyncio.ensure_future(runner.run())
    operator = asyncio.ensure_future(_operate(world))
    deadline = asyncio.get_running_loop().time() + 400.0
    crash: float | None = None
    while not session.done():
        await world.clock.sleep(world.seconds_to_look())
        crash = world.due_crash()
        if crash is not None or asyncio.get_running_loop().time() > deadline:
            break
    world.collect_alerts()
    await _end(world, session, operator)
    if crash is None:
        _note_end(world)
        if not session.done() or session.cancelled():
            world.outcome.failure = TimeoutError("the session did not end")
        elif session.exception() is not None:
            world.outcome.failure = session.exception()
    return crash


def _note_end(world: World) -> None:
    """A session that ended by itself trades no more: that is the end of a kill, too."""
    outcome = world.outcome
    if outcome.killed_at is not None and outcome.obeyed_after is None:
        outcome.obeyed_after = (world.clock.true_wall - outcome.killed_at) / SECOND


async def _operate(world: World) -> None:
    """Make the kill file, and wait for its acknowledgement."""
    schedule, outcome = world.schedule, world.outcome
    if schedule.kill_at is None or outcome.obeyed_after is not None:
        return
    if outcome.killed_at is None:
        await asyncio.sleep(max(0.0, schedule.kill_at - world.venue.seconds))
        folder = world.folder if world.folder.exists() else world.folder.with_name("renamed")
        if not folder.exists():
            return
        (folder / "KILL").touch()
        outcome.killed_at = world.clock.true_wall
    # A process that died before it obeyed leaves the file to the next one.
    outcome.obeying_since = world.clock.true_wall
    at = asyncio.get_running_loop().time()
    while outcome.obeyed_after is None:
        await world.clock.sleep(0.02)
        status = world.recorder.statuses[-1] if world.recorder.statuses else None
        if status is not None and status.kill_obeyed:
            outcome.obeyed_after = asyncio.get_running_loop().time() - at
            outcome.open_when_obeyed = [
                name
                for name, item in world.venue.orders.items()
                if item.is_open and ".close-" not in name
            ]


async def _end(world: World, *tasks: asyncio.Task[Any]) -> None:
    """Let a process die: what its tasks do while they are cancelled is undone."""
    root, kept = world.folder.parent, world.folder.parent.with_name(f"{world.folder.parent.name}-")
    if not tasks[0].done():
        shutil.copytree(root, kept)
        world.venue.is_cut_off = True
    current = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not current]
    for task in {*others, *tasks}:
        task.cancel()
    for task in {*others, *tasks}:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
    if world.venue.is_cut_off:
        shutil.rmtree(root)
        kept.rename(root)
        world.venue.is_cut_off = False


def _memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
