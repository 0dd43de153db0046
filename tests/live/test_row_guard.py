"""No row, however wrong, mutes a session: the guard rejects it, or recovers from it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sekai.data import Bar, MarketData
from sekai.live import BarEvent
from sekai.live.clock import Clock
from sekai.live.row_guard import RowGuard, RowVerdict

SECOND = 10**9
MINUTE = 60 * SECOND
BEGIN = 1_700_000_040 * SECOND
DAY = 86_400


class VirtualClock(Clock):
    """Clock that is set by hand."""

    def __init__(self, now: int = BEGIN) -> None:
        self.now = now

    def wall_ns(self) -> int:
        return self.now


def history(rows: int = 5, **changes: Any) -> MarketData:
    times = np.datetime64(BEGIN, "ns") + np.arange(1 - rows, 1) * np.timedelta64(60, "s")
    values = np.full((rows, 2, 2), 100.0)
    return MarketData(times, ["AAA", "BBB"], ["close", "volume"], values, **changes)


def row(number: float, ahead: float = 0.0, price: float = 100.0, other: float = 50.0) -> BarEvent:
    stamp = BEGIN + round(number * MINUTE) + round(ahead * SECOND)
    values = np.array([[price, 1.0], [other, 1.0]])
    return BarEvent(exchange_time=stamp, bar=Bar(np.datetime64(stamp, "ns"), values))


def judged(guard: RowGuard, clock: VirtualClock, *rows: tuple[int, BarEvent]) -> list[RowVerdict]:
    """Verdicts on rows that arrive at these minutes."""
    verdicts = []
    for minute, event in rows:
        clock.now = BEGIN + minute * MINUTE + SECOND // 10
        verdicts.append(guard.check(event))
    return verdicts


def live(limit: float | None = None) -> tuple[RowGuard, VirtualClock]:
    clock = VirtualClock()
    return RowGuard(clock, limit, history()), clock


def kinds(verdicts: list[RowVerdict]) -> list[str]:
    shown = []
    for verdict in verdicts:
        mark = "" if verdict.event is None else "+"
        shown.append(f"{mark}{verdict.kind or ''}")
    return shown


@given(ahead=st.floats(61.0, 1e6), place=st.integers(1, 8))
@example(ahead=DAY, place=6)
def test_one_row_of_the_future_is_rejected_and_the_others_are_traded_on(
    ahead: float, place: int
) -> None:
    guard, clock = live()
    rows = [(number, row(number, ahead if number == place else 0.0)) for number in range(1, 10)]

    verdicts = judged(guard, clock, *rows)

    wanted = ["+"] * 9
    wanted[place - 1] = "clock_jump"
    assert kinds(verdicts) == wanted
    assert verdicts[place - 1].is_alert
    assert "after it was received" in verdicts[place - 1].reason


def test_a_price_whose_value_overflows_is_never_confirmed() -> None:
    guard, clock = live()
    rows = [(number, row(number, price=1.7e308)) for number in range(1, 6)]

    verdicts = judged(guard, clock, *rows, (6, row(6)))

    assert [verdict.event is None for verdict in verdicts] == [True] * 5 + [False]
    assert "expected at most 1e+100" in verdicts[0].reason


def test_rows_of_a_venue_whose_clock_differs_by_seconds_are_accepted() -> None:
    guard, clock = live(limit=5.0)

    verdicts = judged(guard, clock, *[(number, row(number, 1.27)) for number in range(1, 9)])

    assert kinds(verdicts) == ["+"] * 8


def test_a_local_clock_that_is_wrong_is_alerted_and_mutes_nothing() -> None:
    guard, clock = live()

    verdicts = judged(guard, clock, *[(number, row(number, 900.0)) for number in range(1, 8)])

    assert kinds(verdicts) == ["clock_jump", "clock_jump", "+clock_jump", "+", "+", "+", "+"]
    assert "venue clock is 899.900 s ahead" in verdicts[2].reason


@pytest.mark.parametrize("before_restart", [False, True])
def test_a_wrong_row_that_was_accepted_is_recovered_from(before_restart: bool) -> None:
    guard, clock = live()
    clock.now = BEGIN + DAY * SECOND
    wrong = row(1, DAY)
    assert guard.check(wrong).event is not None
    if before_restart:
        guard, clock = live()
        guard.follow(wrong.bar)

    verdicts = judged(guard, clock, *[(number, row(number)) for number in range(2, 8)])

    assert kinds(verdicts) == ["clock_jump", "clock_jump", "+clock_jump", "+", "+", "+"]
    assert all(verdict.is_alert for verdict in verdicts[:3])
    assert verdicts[2].row_time == BEGIN + 4 * MINUTE
    times = [verdict.event.bar.time for verdict in verdicts[2:] if verdict.event is not None]
    assert [wrong.bar.time, *times] == sorted({wrong.bar.time, *times})


def test_true_times_are_used_again_once_they_pass_the_wrong_one() -> None:
    guard, clock = live()
    clock.now = BEGIN + 10 * MINUTE
    guard.check(row(10))

    verdicts = judged(guard, clock, *[(number, row(number)) for number in range(2, 14)])

    accepted = [verdict for verdict in verdicts if verdict.event is not None]
    moved = [verdict.event.bar.time != verdict.row_time for verdict in accepted if verdict.event]
    assert len(accepted) >= 9
    assert verdicts[-1].event is not None
    assert verdicts[-1].event.bar.time == row(13).bar.time
    assert any(moved)


def test_several_wrong_rows_in_a_burst_prove_nothing() -> None:
    guard, clock = live()
    burst = [(1, row(number, DAY)) for number in range(1, 8)]

    verdicts = judged(guard, clock, *burst, (1, row(1)), (2, row(2)))

    assert kinds(verdicts) == ["clock_jump"] * 7 + ["+", "+"]


@given(wrong=st.dictionaries(st.integers(1, 30), st.floats(-1e7, 1e7), max_size=8))
def test_good_rows_are_accepted_again_whatever_came_before(wrong: dict[int, float]) -> None:
    guard, clock = live()
    rows = [(number, row(number, wrong.get(number, 0.0))) for number in range(1, 31)]
    judged(guard, clock, *rows)

    verdicts = judged(guard, clock, *[(number, row(number)) for number in range(31, 51)])

    assert kinds(verdicts)[-10:] == ["+"] * 10


def test_known_rows_are_no_alert_and_late_ones_are() -> None:
    guard, clock = live()
    judged(guard, clock, (1, row(1)), (3, row(3)))

    known, late = judged(guard, clock, (3, row(1)), (3, row(2)))

    assert (known.event, known.kind, known.is_alert) == (None, "duplicate", False)
    assert (late.event, late.kind, late.is_alert) == (None, "late", True)


def test_known_rows_that_a_feed_repeats_are_never_traded_again() -> None:
    guard, clock = live()
    clock.now = BEGIN + DAY * SECOND
    judged(guard, clock, *[(number, row(number)) for number in range(1, 6)])
    guard.follow(row(6, DAY).bar)

    verdicts = judged(guard, clock, *[(6, row(number)) for number in range(-3, 6)])

    assert {verdict.kind for verdict in verdicts} == {"duplicate"}


def test_a_replay_compares_timestamps_with_each_other() -> None:
    clock = VirtualClock(BEGIN - 400 * DAY * SECOND)
    guard = RowGuard(clock, None, history(), is_replay=True)
    rows = [row(1), row(2), row(3, 40 * DAY), row(4), row(5), row(6 + 4 * 1440), row(7 + 4 * 1440)]

    verdicts = [guard.check(event) for event in rows]

    assert kinds(verdicts) == ["+", "+", "clock_jump", "+", "+", "+", "+"]


def test_a_replay_recovers_from_a_wrong_timestamp_and_accepts_a_long_gap() -> None:
    guard = RowGuard(VirtualClock(), None, history(), is_replay=True)
    rows = [row(1), row(2), row(3, 20 * DAY), row(4), row(5), row(6), row(7)]
    gap = [row(8, 90 * DAY), row(9, 90 * DAY), row(10, 90 * DAY)]

    verdicts = [guard.check(event) for event in rows + gap]

    recovered = ["+", "+", "+", "clock_jump", "clock_jump", "+clock_jump", "+"]
    assert kinds(verdicts) == [*recovered, "clock_jump", "+", "+"]


def test_a_resumed_replay_skips_the_rows_that_it_repeats() -> None:
    guard = RowGuard(VirtualClock(), None, history(), is_replay=True)
    rows = [row(number) for number in range(1, 3000)]
    for event in rows:
        guard.follow(event.bar)

    verdicts = [guard.check(event) for event in rows]

    assert all(verdict.event is None for verdict in verdicts)


@pytest.mark.parametrize("factor", [1.1e3, 1e-4, 1e90])
def test_absurd_prices_are_rejected_unless_the_next_row_confirms_them(factor: float) -> None:
    guard, clock = live()
    judged(guard, clock, (1, row(1)))

    once = judged(guard, clock, (2, row(2, price=100.0 * factor)), (3, row(3)))
    twice = judged(guard, clock, *[(4 + n, row(4 + n, price=100 * factor)) for n in range(3)])
    other = judged(guard, clock, (7, row(7)), (8, row(8, other=50 / factor)), (9, row(9)))

    assert kinds(once) == ["outlier", "+"]
    assert "of asset 0 after 100" in once[0].reason
    assert kinds(twice) == ["outlier", "+", "+"]
    assert kinds(other) == ["outlier", "outlier", "+"]


def test_prices_that_are_not_finite_are_rejected_and_missing_ones_are_not() -> None:
    guard, clock = live()
    infinite = row(1, price=float("inf"))
    missing = row(2, price=float("nan"))
    quoted = dataclasses.replace(row(3, price=float("nan")).bar, quoted=np.array([True, True]))

    verdicts = judged(
        guard, clock, (1, infinite), (2, missing), (3, dataclasses.replace(row(3), bar=quoted))
    )

    assert kinds(verdicts) == ["garbage", "+", "garbage"]


def test_the_state_of_a_guard_is_restored() -> None:
    guard, clock = live()
    judged(guard, clock, (1, row(1)), (2, row(2)))
    restored, later = live()

    restored.load_state_dict(guard.state_dict())

    assert kinds(judged(restored, later, (2, row(2)), (3, row(3, price=1e9)), (4, row(4)))) == [
        "duplicate", "outlier", "+",
    ]  # fmt: skip


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="limit_seconds must be at least 0"):
        RowGuard(VirtualClock(), -1.0, None)
