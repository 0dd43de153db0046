"""Random fault schedules, their execution on virtual time, and what must hold afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from sekai.data import Bar, MarketData, simulate_gbm
from sekai.error import BrokerError
from sekai.live import BarEvent, Feed, FeedEvent, LiveConfig, LiveRunner, RiskLimits
from sekai.market import Execution
from tests.live.simulation.venue import TrueFill, Venue, VenueConnection, VenueFaults
from tests.live.simulation.virtual import (
    SECOND,
    StatusRecorder,
    VirtualClock,
    VirtualLoop,
    VirtualRuntime,
)

KNOWN = 30
"""Rows of history."""

MAX_WEIGHT, MAX_GROSS = 0.5, 0.9
SLACK = 1.02
"""Prices move between the row of a decision and its fills."""

KILL_SECONDS = 1.0
LAST_SECONDS = 3.0
"""Time after the last row."""

FLAT_SECONDS = 15.0
"""Time within which positions are closed after a loss: an account may lag for several seconds."""

FALLING_ROWS = 6
LOSS_LIMIT = 0.05

BIG = 1.7e308

LIMITS = RiskLimits(
    max_position_weight=MAX_WEIGHT,
    max_gross_leverage=MAX_GROSS,
    max_daily_loss=None,
    max_drawdown=None,
)


@dataclass(frozen=True)
class Schedule:
    """Faults of one simulated session, drawn from a seed."""

    seed: int
    rows: int = 14
    row_seconds: float = 1.0
    venue: VenueFaults = field(default_factory=VenueFaults)
    bad_prints: dict[int, float] = field(default_factory=dict)
    """Factor on the first asset's price in a row."""

    future_rows: dict[int, float] = field(default_factory=dict)
    """Seconds by which the stamp of a row is ahead."""

    dead_feed_after: int | None = None
    wall_steps: dict[int, float] = field(default_factory=dict)
    suspends: dict[int, float] = field(default_factory=dict)
    slow_decisions: dict[int, float] = field(default_factory=dict)
    crashes: dict[int, float] = field(default_factory=dict)
    """Seconds for which the process is down, killed after a row."""

    reboots: dict[int, float] = field(default_factory=dict)
    """Step of the wall clock of a reboot, after a crash in the same row."""

    cash_lost: dict[int, float] = field(default_factory=dict)
    kill_at: float | None = None
    """Seconds after which the kill file is made."""

    on_kill: str = "hold"
    rename_after: int | None = None
    fall: tuple[int, float] | None = None
    """First row of a fall of all prices, and the share that they lose in each of six rows."""

    on_loss: str = "refuse"
    """Action on a loss; loss limits are on if prices fall."""

    @property
    def last_seconds(self) -> float:
        """Time after the last row."""
        return LAST_SECONDS if self.fall is None else LAST_SECONDS + FLAT_SECONDS

    def price_factor(self, row: int) -> float:
        """Factor on the prices of a row by the fall."""
        if self.fall is None or row < self.fall[0]:
            return 1.0
        return float((1.0 - self.fall[1]) ** min(row - self.fall[0] + 1, FALLING_ROWS))

    @classmethod
    def draw(cls, seed: int) -> Schedule:
        """Schedule with a random subset of faults."""
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(8, 16))

        def some(share: float) -> bool:
            return bool(rng.random() < share)

        def at(low: float, high: float, share: float = 0.25, count: int = 1) -> dict[int, float]:
            if not some(share):
                return {}
            where = rng.integers(1, rows, count).tolist()
            return {row: float(rng.uniform(low, high)) for row in where}

        def chance(low: float, high: float, share: float = 0.2) -> float:
            return float(rng.uniform(low, high)) if some(share) else 0.0

        crashes = at(0.1, 20.0, 0.3, 2)
        venue = VenueFaults(
            hang=chance(0.01, 0.15),
            error=chance(0.01, 0.3),
            lost_reports=chance(0.05, 0.5),
            duplicate_reports=chance(0.05, 0.5),
            late_reports=chance(0.05, 0.9),
            unknown_reports=chance(0.02, 0.2, 0.1),
            reject=chance(0.05, 0.5),
            partial=chance(0.05, 0.9),
            rest=chance(0.05, 0.5, 0.15),
            swallow=chance(0.02, 0.2, 0.1),
            account_lag_seconds=chance(0.1, 4.0, 0.3),
            empty_account=chance(0.02, 0.3, 0.15),
            lot=float(rng.choice([0.01, 0.1, 1.0])) if some(0.3) else 0.0,
            rounds_orders=some(0.3),
            foreign_asset=some(0.1),
            dead=(float(rng.uniform(1, 10)), float(rng.uniform(10, 14)))
            if some(0.08)
            else (math.inf, math.inf),
        )
        factors = [1.5, 3.0, 0.4, 1e-5, BIG, 1000.0]
        prints = at(0, 1, 0.3, 2)
        return cls(
            seed=seed,
            rows=rows,
            venue=venue,
            bad_prints={row: float(rng.choice(factors)) for row in prints},
            future_rows=at(10.0, 1e6, 0.15),
            dead_feed_after=int(rng.integers(2, rows)) if some(0.1) else None,
            wall_steps=at(-4000.0, 4000.0, 0.15),
            suspends=at(2.0, 5000.0, 0.15),
            slow_decisions=at(0.1, 60.0, 0.2, 2),
            crashes=crashes,
            reboots={row: float(rng.uniform(-40_000, 40_000)) for row in crashes if some(0.5)},
            cash_lost=at(0.05, 0.3, 0.1),
            kill_at=float(rng.uniform(0.5, rows)) if some(0.35) else None,
            on_kill="flatten" if some(0.5) else "hold",
            rename_after=int(rng.integers(2, rows)) if some(0.05) else None,
            fall=(int(rng.integers(1, 5)), float(rng.uniform(0.03, 0.1))) if some(0.2) else None,
            on_loss="flatten" if some(0.7) else "refuse",
        )


@dataclass
class Outcome:
    """What a schedule came to."""

    schedule: Schedule
    venue: Venue
    alerts: list[str]
    statuses: StatusRecorder
    killed_at: int | None = None
    obeyed_after: float | None = None
    """Seconds from the kill file to its acknowledgement."""

    failure: BaseException | None = None
    recovered: int = 0
    events: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """Violations of the laws of a live session."""
        problems = []
        # A session that cannot reach its broker at the end fails, and says so.
        if self.failure is not None and not isinstance(self.failure, BrokerError):
            problems.append(f"session failed: {self.failure!r}")
        if self.statuses.failures:
            problems.append(f"status cannot be written: {self.statuses.last_error}")
        return [*problems, *self._exposure(), *self._kill(), *self._loss(), *self._silence()]

    def _exposure(self) -> Iterator[str]:
        for fill in self.venue.fills:
            if fill.is_increase and not _is_within(fill):
                yield (
                    f"fill of {fill.order_id} left a weight of {fill.weight:.3f} and a leverage of "
                    f"{fill.gross:.3f}"
                )

    def _kill(self) -> Iterator[str]:
        if self.killed_at is None:
            return
        limit = self.killed_at + round(KILL_SECONDS * SECOND)
        late = [
            name for time, name in self.venue.accepted if time > limit and ".close-" not in name
        ]
        if late:
            yield f"orders {late} were accepted more than {KILL_SECONDS} s after the kill"
        begin, end = self.schedule.venue.dead
        killed = (self.killed_at - self.venue.begin) / SECOND
        if begin < killed + KILL_SECONDS and killed < end + KILL_SECONDS:
            # Nobody can cancel orders at a venue that does not answer.
            return
        if self.obeyed_after is None or self.obeyed_after > KILL_SECONDS:
            yield f"kill was obeyed after {self.obeyed_after} s"

    def _loss(self) -> Iterator[str]:
        """After a loss: no orders but closing ones, over restarts as well, and soon no position."""
        begin = self.statuses.cause_times.get("loss_limit")
        if begin is None:
            return
        if not any("closing all positions" in alert for alert in self.alerts):
            yield "no alert about a loss limit that closes positions"
        late = [
            name for time, name in self.venue.accepted if time > begin and ".close-" not in name
        ]
        if late:
            yield f"orders {late} were accepted after a loss limit halted trading"
        schedule, faults = self.schedule, self.schedule.venue
        is_closable = not faults.rest and faults.dead[0] == math.inf and self.failure is None
        is_other = schedule.kill_at is not None or schedule.rename_after is not None
        passed = (self.venue.clock.true_wall - begin) / SECOND
        if is_other or not is_closable or passed < FLAT_SECONDS:
            return
        held = {name: units for name, units in self.venue.units.items() if abs(units) > faults.lot}
        if any(abs(units) > 1e-6 for units in held.values()):
            yield f"positions {held} remain {passed:.1f} s after a loss limit halted trading"

    def _silence(self) -> Iterator[str]:
        """Discrepancies that no alert mentions."""
        text = "\n".join(self.alerts)
        for event in self.events:
            pattern = ALERTS[event]
            if not re.search(pattern, text):
                yield f"no alert about {event}, expected {pattern!r}"


ALERTS = {
    "cash_lost": "cash",
    "suspend": "suspended",
    "wall_step": "clock stepped",
    "future_row": "future|ahead|clock|rejected|row",
    "foreign_asset": "FOREIGN",
    "rename": "renamed or replaced",
    "slow_decision": "policy",
    "unknown_report": "unusable report",
    "swallowed": "not acknowledged|overdue|unknown to the broker",
    "dead_venue": "no answer",
    "dead_feed": "stale, no row for",
}


def _is_within(fill: TrueFill) -> bool:
    return fill.weight <= MAX_WEIGHT * SLACK and fill.gross <= MAX_GROSS * SLACK


class _Killed(BaseException):
    """Death of the process."""


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
        self.venue = Venue(self.clock, data.assets, 100_000.0, schedule.venue, schedule.seed)
        self._closes = data.field("close")
        names = ("open", "high", "low", "close")
        self._price_fields = [index for index, name in enumerate(data.fields) if name in names]
        self.venue.move(dict(zip(data.assets, self._closes[KNOWN - 1].tolist(), strict=True)))
        self.recorder = StatusRecorder(self.clock)
        self.outcome = Outcome(schedule, self.venue, [], self.recorder)
        self._row = 0
        self._rng = np.random.default_rng(schedule.seed + 1)
        self._crashed: set[int] = set()
        self._noted: set[str] = set()
        self.decisions = 0
        self.seconds = 0.0

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
                if self.seconds > 5.0 and not world.schedule.crashes:
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
            # The account is asked with rows, and may lag behind by as many.
            rows = schedule.rows if schedule.dead_feed_after is None else schedule.dead_feed_after
            if row < rows - 4 and not schedule.crashes:
                self.note("cash_lost")
        if row in schedule.wall_steps and abs(schedule.wall_steps[row]) > 2.0:
            self.clock.step_wall(round(schedule.wall_steps[row] * SECOND))
            if row not in schedule.crashes:
                self.note("wall_step")
        if row in schedule.suspends:
            self.clock.suspend(round(schedule.suspends[row] * SECOND))
            if row not in schedule.crashes:
                self.note("suspend")
        if schedule.venue.foreign_asset and self.folder.exists():
            self.note("foreign_asset")
        if row == schedule.rename_after and self.folder.exists():
            self.folder.rename(self.folder.with_name("renamed"))
            if not schedule.crashes:
                self.note("rename")

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
        """Seconds of the crash that is due after the current row; None without one."""
        row = self._row - 1
        if row in self.schedule.crashes and row not in self._crashed:
            self._crashed.add(row)
            return self.schedule.crashes[row]
        return None

    def restart_clock(self, seconds: float) -> None:
        row = self._row - 1
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
        world.outcome.alerts += _alerts(world.recorder)
        if crash is None:
            return
        world.restart_clock(crash)
        world.outcome.recovered += 1


async def _process(world: World) -> float | None:
    """One process: a session until it ends, or until it is killed."""
    schedule = world.schedule
    has_limit = schedule.fall is not None
    config = LiveConfig(
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
    session = asyncio.ensure_future(runner.run())
    operator = asyncio.ensure_future(_operate(world))
    deadline = asyncio.get_running_loop().time() + 400.0
    crash: float | None = None
    while not session.done():
        await world.clock.sleep(0.1)
        crash = world.due_crash()
        if crash is not None or asyncio.get_running_loop().time() > deadline:
            break
    await _end(session, operator)
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
    at = asyncio.get_running_loop().time()
    while outcome.obeyed_after is None:
        await world.clock.sleep(0.02)
        status = world.recorder.statuses[-1] if world.recorder.statuses else None
        if status is not None and status.kill_obeyed:
            outcome.obeyed_after = asyncio.get_running_loop().time() - at


async def _end(*tasks: asyncio.Task[Any]) -> None:
    """Let a process die: nothing of it runs any more."""
    current = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not current]
    for task in {*others, *tasks}:
        task.cancel()
    for task in {*others, *tasks}:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


def _alerts(recorder: StatusRecorder) -> list[str]:
    seen = {alert: None for status in recorder.statuses for alert in status.alerts}
    return list(seen)


def _memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
