"""For any schedule of faults: exposure within limits, kills obeyed, discrepancies alerted."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from sekai.live.account_folder import AccountFolder
from sekai.live.clock import ClockGuard
from sekai.live.events import bar_time
from sekai.live.execution import ExecutionClient
from sekai.live.ledger import Ledger
from sekai.live.references import EquityReferences, PriceValidator
from sekai.live.risk import RiskGate
from sekai.live.row_guard import RowGuard, RowVerdict
from sekai.live.runner import LiveRunner
from sekai.live.session import Session
from sekai.live.watchdog import Watchdog
from tests.live.simulation.schedule import Schedule
from tests.live.simulation.venue import VenueFaults
from tests.live.simulation.world import run_schedule

BATCH = 50
DEFAULT_SCHEDULES = 1_000
NIGHTLY_SCHEDULES = 100_000


def failures(begin: int, end: int) -> list[str]:
    """Violated laws of the schedules in a range of seeds."""
    found = []
    for seed in range(begin, end):
        found += [f"{seed}: {problem}" for problem in run_schedule(Schedule.draw(seed)).problems()]
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("begin", range(0, DEFAULT_SCHEDULES, BATCH))
def test_any_schedule_of_faults_keeps_the_laws(begin: int) -> None:
    assert failures(begin, begin + BATCH) == []


@pytest.mark.nightly
@pytest.mark.timeout(14_400)
def test_100_000_schedules_keep_the_laws() -> None:
    step = 500
    starts = range(DEFAULT_SCHEDULES, NIGHTLY_SCHEDULES, step)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        chunks = pool.map(failures, starts, [start + step for start in starts])
        # All of them: one failure must not hide the others of a night.
        found = [problem for chunk in chunks for problem in chunk]
    assert found == []


def test_without_faults_a_session_trades_every_row_and_raises_no_alert() -> None:
    outcome = run_schedule(Schedule(seed=1))

    assert outcome.problems() == []
    assert len(outcome.venue.fills) >= 14
    assert [alert for alert in outcome.alerts if "refused" not in alert] == []


def test_the_same_schedule_gives_the_same_fills() -> None:
    fills = [run_schedule(Schedule.draw(17)).venue.fills for _ in range(2)]

    assert [(fill.time, fill.weight) for fill in fills[0]] == [
        (fill.time, fill.weight) for fill in fills[1]
    ]


DARK = replace(
    Schedule(seed=4), kill_at=6.0, dead_feed_after=4, on_kill="flatten",
    venue=VenueFaults(account_lag_seconds=2.0),
)  # fmt: skip


def test_positions_are_closed_although_the_feed_is_dead() -> None:
    outcome = run_schedule(DARK)

    assert outcome.problems() == []
    assert {name: units for name, units in outcome.venue.units.items() if abs(units) > 1e-6} == {}


def test_a_kill_that_meets_the_death_of_the_process_is_obeyed_by_the_next_one() -> None:
    deaths = [
        run_schedule(replace(Schedule(seed=seed), kill_at=4.0 + 0.01 * seed, kill_crash=(0.0, 3.0)))
        for seed in range(6)
    ]

    assert [outcome.problems() for outcome in deaths] == [[]] * 6
    assert sum(outcome.kill_crashes for outcome in deaths) >= 4
    assert all(outcome.recovered == 1 for outcome in deaths)
    assert all(outcome.venue.seconds > 7.0 for outcome in deaths)


def test_cash_that_vanishes_while_the_feed_is_dead_raises_an_alert() -> None:
    outcome = run_schedule(DARK_LOSS)

    assert "cash_lost" in outcome.events
    assert outcome.problems() == []


LAGGING = replace(Schedule(seed=3), venue=VenueFaults(account_lag_seconds=1.5))
DARK_LOSS = replace(
    Schedule(seed=7),
    dead_feed_after=5,
    cash_lost={4: 0.2},
    venue=VenueFaults(account_lag_seconds=2.0),
)
OVERTAKEN = Schedule.draw(1770)
"""The report of an end overtakes that of a fill, while the account lags."""


def accept_row(guard: RowGuard, event: Any) -> RowVerdict:
    return RowVerdict(event, bar_time(event.bar))


async def nothing(*values: Any) -> list[str]:
    return []


def rebase(session: Session, answer: Any) -> Any:
    session.risk.ledger.adopt(answer, 0)
    return compare(session, answer)


compare = Session._compare

MUTANTS: list[tuple[type, str, Any, list[Schedule], str]] = [
    (Session, "_compare", rebase, [replace(LAGGING, seed=seed) for seed in range(3, 9)],
     "left a weight"),
    (RiskGate, "check", lambda self, orders, view, reducing=False: (list(orders), []),
     [Schedule(seed=1)], "left a weight"),
    (ExecutionClient, "_confirm_ended", nothing, [OVERTAKEN], "left a weight"),
    (PriceValidator, "_is_near", lambda self, price, base: True,
     [replace(Schedule(seed=seed), bad_prints={4: 0.4, 8: 0.4})
      for seed in range(6)], "left a weight"),
    (Watchdog, "_check_kill", lambda self: None, [replace(Schedule(seed=5), kill_at=3.0)],
     "kill was obeyed after"),
    (Watchdog, "_cancel_all", nothing,
     [replace(Schedule(seed=5), kill_at=3.05, venue=VenueFaults(rest=1.0))],
     "were open when the kill was acknowledged"),
    (Watchdog, "_check_folder", lambda self: None, [replace(Schedule(seed=5), rename_after=4)],
     "no alert about rename"),
    (Ledger, "_differences", lambda self, account: [],
     [replace(Schedule(seed=6), cash_lost={3: 0.3})], "no alert about cash_lost"),
    (LiveRunner, "_poll_account", nothing, [DARK_LOSS], "no alert about cash_lost"),
    (ClockGuard, "check", lambda self: [], [replace(Schedule(seed=6), suspends={4: 100.0})],
     "no alert about suspend"),
    (ClockGuard, "check", lambda self: [], [replace(Schedule(seed=6), wall_steps={4: 100.0})],
     "no alert about wall_step"),
    (Session, "check_clock_and_feed", lambda self: None,
     [replace(Schedule(seed=6), dead_feed_after=4)], "no alert about dead_feed"),
    (RowGuard, "check", accept_row, [replace(Schedule(seed=6), future_rows={4: 1e5})],
     "no alert about future_row"),
    (ExecutionClient, "check_deadlines", nothing,
     [replace(Schedule(seed=6), dead_feed_after=3, venue=VenueFaults(swallow=1.0))],
     "no alert about swallowed"),
    (EquityReferences, "must_flatten", lambda self: None,
     [replace(Schedule(seed=seed), fall=(3, 0.08), on_loss="flatten") for seed in range(4)],
     "no loss limit closed positions"),
    (AccountFolder, "namespace", lambda self, is_new, named=True: "session.1",
     [replace(Schedule(seed=6), crashes={5: 3.0}, recreates=frozenset({5}))],
     "were used for two orders"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "name", "mutant", "schedules", "problem"),
    MUTANTS,
    ids=[f"{owner.__name__}.{name}-{words[-12:]}" for owner, name, _, _, words in MUTANTS],
)
def test_a_check_that_is_missing_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    mutant: Any,
    schedules: list[Schedule],
    problem: str,
) -> None:
    assert [text for one in schedules for text in run_schedule(one).problems()] == []

    monkeypatch.setattr(owner, name, mutant)

    assert any(problem in text for one in schedules for text in run_schedule(one).problems())
