"""Random fault schedules, their execution on virtual time, and what must hold afterwards."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sekai.error import BrokerError
from sekai.live import RiskLimits
from tests.live.simulation.venue import TrueFill, Venue, VenueFaults
from tests.live.simulation.virtual import (
    SECOND,
    StatusRecorder,
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

NOTICED_SECONDS = 8.0
"""Time within which a session alerts about an order without an acknowledgement, or a dead venue."""

START_CASH = 100_000.0
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

    recreates: frozenset[int] = frozenset()
    """Crashes after which the session begins in a new folder of the same name."""

    cash_lost: dict[int, float] = field(default_factory=dict)
    kill_at: float | None = None
    """Seconds after which the kill file is made."""

    kill_crash: tuple[float, float] | None = None
    """Seconds from the kill file to the death of the process, and for which it is down."""

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
        kill_at = float(rng.uniform(0.5, rows)) if some(0.35) else None
        kill_crash = (float(rng.uniform(0.0, 0.15)), float(rng.uniform(0.1, 5.0)))
        # An account that lags is adopted as it is: whoever begins anew waits for it.
        restarts = {row for row, down in crashes.items() if down > venue.account_lag_seconds + 2.0}
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
            recreates=frozenset(restarts if kill_at is None and some(0.3) else ()),
            kill_at=kill_at,
            kill_crash=kill_crash if kill_at is not None and some(0.3) else None,
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
    """Seconds from the kill file to its acknowledgement, or after a crash from the next start."""

    open_when_obeyed: list[str] = field(default_factory=list)
    """Orders that were open at the venue when the kill was acknowledged."""

    obeying_since: int = 0
    """Start of the process that acknowledged the kill, or time of the kill file."""

    is_abandoned: bool = False
    """True if a process died whose folder was renamed, and none was started again."""

    kill_crashes: int = 0
    """Deaths of the process between the kill file and its acknowledgement."""

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
        if self.venue.reused:
            problems.append(f"ids {self.venue.reused} were used for two orders")
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
        if self.open_when_obeyed:
            yield f"orders {self.open_when_obeyed} were open when the kill was acknowledged"
        begin, end = self.schedule.venue.dead
        killed = (self.killed_at - self.venue.begin) / SECOND
        last = (max(self.obeying_since, self.killed_at) - self.venue.begin) / SECOND
        if self.is_abandoned or (begin < last + KILL_SECONDS and killed < end + KILL_SECONDS):
            # Nobody runs, or can cancel orders at a venue that does not answer.
            return
        if self.obeyed_after is None or self.obeyed_after > KILL_SECONDS:
            yield f"kill was obeyed after {self.obeyed_after} s"

    def _loss(self) -> Iterator[str]:
        """After a loss: no orders but closing ones, over restarts as well, and soon no position."""
        begin = self.statuses.cause_times.get("loss_limit")
        if begin is None:
            if self._must_flatten():
                yield f"no loss limit closed positions at an equity of {self.venue.equity():.0f}"
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

    def _must_flatten(self) -> bool:
        """Return True if prices alone lost twice the limit, and nothing hid it."""
        schedule, faults = self.schedule, self.schedule.venue
        is_plain = (
            not (
                schedule.bad_prints
                or schedule.cash_lost
                or schedule.crashes
                or schedule.wall_steps
                or schedule.suspends
                or faults.foreign_asset
            )
            and (schedule.kill_at, schedule.rename_after, schedule.dead_feed_after) == (None,) * 3
        )
        is_lost = self.venue.equity() < (1.0 - 2.0 * LOSS_LIMIT) * START_CASH
        is_asked = schedule.fall is not None and schedule.on_loss == "flatten"
        return is_asked and is_lost and is_plain and faults.dead[0] == math.inf

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
    "future_row": "row of .* rejected|days after the last|timestamp that was wrong|ahead of the",
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
