"""For any schedule of faults: exposure within limits, kills obeyed, discrepancies alerted."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from sekai.live.ledger import Ledger
from sekai.live.references import PriceValidator
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
        for found in pool.map(failures, starts, [start + step for start in starts]):
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


LAGGING = replace(Schedule(seed=3), venue=VenueFaults(account_lag_seconds=1.5))
DARK = replace(
    Schedule(seed=4), kill_at=6.0, dead_feed_after=4, on_kill="flatten",
    venue=VenueFaults(account_lag_seconds=2.0),
)  # fmt: skip


def test_positions_are_closed_although_the_feed_is_dead() -> None:
    outcome = run_schedule(DARK)

    assert outcome.problems() == []
    assert {name: units for name, units in outcome.venue.units.items() if abs(units) > 1e-6} == {}


def test_a_missing_second_opinion_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def rebase(self: Session, answer: Any) -> Any:
        self.risk.ledger.adopt(answer, 0)
        return original(self, answer)

    original = Session._compare
    monkeypatch.setattr(Session, "_compare", rebase)

    assert any("left a weight" in text for seed in range(3, 9) for text in lagging(seed))


def test_a_missing_price_validation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PriceValidator, "_is_near", lambda self, price, base: True)
    low = dict.fromkeys(range(2, 12), 0.4)

    problems = [
        problem
        for seed in range(6)
        for problem in run_schedule(replace(Schedule(seed=seed), bad_prints=low)).problems()
    ]

    assert problems


def test_a_watchdog_that_does_not_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watchdog, "_check_kill", lambda self: None)

    problems = run_schedule(replace(Schedule(seed=5), kill_at=3.0)).problems()

    assert any("kill was obeyed after" in text for text in problems)


def test_an_account_that_is_never_compared_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "_differences", lambda self, account: [])

    problems = run_schedule(replace(Schedule(seed=6), cash_lost={3: 0.3})).problems()

    assert any("no alert about cash_lost" in text for text in problems)


def lagging(seed: int) -> list[str]:
    return run_schedule(replace(LAGGING, seed=seed)).problems()
