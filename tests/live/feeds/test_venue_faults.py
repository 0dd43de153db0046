"""Venue faults: events that can be backfilled are neither lost nor repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sekai.live.events import FeedEvent, TradeEvent
from sekai.live.feeds import CheckedFeed, FeedRules
from tests.live.feeds.makers import BEGIN, SECOND, ListFeed, collect, frame, kinds, quote, run
from tests.live.feeds.venue import Venue, numbers, told, until


def test_dropped_trades_are_asked_for_and_come_in_their_place() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked() as feed:
            await venue.trade()
            venue.make()
            venue.make()
            await venue.trade()
            found = await until(feed, 4)
            assert kinds(found) == ["connected", "1", "gap", "2", "3", "4"]
            assert told(found, "gap") == ["trade of AAA number 4: 2 missing, 2 backfilled"]
            assert (feed.health.gaps, feed.health.missing, feed.health.received) == (1, 0, 4)

    run(work())


def test_what_nobody_can_give_again_is_counted_as_missing_and_is_late_if_it_comes() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked(backfill=None) as feed:
            await venue.trade()
            held = [frame(venue.make()) for _ in range(2)]
            await venue.trade()
            await venue.send(held[1])
            await venue.trade()
            found = await until(feed, 5)
            assert kinds(found) == ["connected", "1", "gap", "4", "late", "5"]
            assert (feed.health.gaps, feed.health.missing, feed.health.late) == (1, 2, 1)

    run(work())


def test_duplicates_are_left_out_counted_and_told() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked() as feed:
            await venue.trade()
            await venue.trade()
            await venue.send(frame(venue.made[0]), frame(venue.made[1]))
            await venue.trade()
            found = await until(feed, 3)
            assert kinds(found) == ["connected", "1", "2", "duplicate", "duplicate", "3"]
            assert (feed.health.duplicates, feed.health.received) == (2, 3)

    run(work())


def test_trades_out_of_order_come_in_order_and_none_twice() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked() as feed:
            await venue.trade()
            held = frame(venue.make())
            await venue.trade()
            await venue.send(held)
            await venue.trade()
            found = await until(feed, 4)
            assert numbers(found) == [1, 2, 3, 4]
            # It is the copy of one that was asked for: no fault of the venue.
            assert (feed.health.duplicates, feed.health.late) == (0, 0)

    run(work())


def test_a_feed_that_stalls_is_stale_and_then_fresh() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked(FeedRules(stale_after=0.05)) as feed:
            await venue.trade()
            await until(feed, 1)
            assert kinds([await feed.__anext__()]) == ["stale"]
            assert feed.health.is_stale
            await venue.trade()
            assert kinds(await until(feed, 2)) == ["fresh", "2"]
            assert not feed.health.is_stale

    run(work())


def test_garbage_between_trades_costs_none_of_them() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked() as feed:
            await venue.trade()
            zero = frame(venue.make()).replace("100.00000000", "0.00000000")
            await venue.send("{", b"\xff", zero, '{"e":"trade"}', '{"a":' * 999)
            await venue.trade()
            found = await until(feed, 3)
            assert numbers(found) == [1, 2, 3]
            assert feed.health.garbage == 5

    run(work())


def test_a_clock_that_goes_back_is_told_and_order_is_by_number() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked() as feed:
            await venue.trade()
            await venue.trade(exchange_time=BEGIN - 5 * SECOND)
            await venue.trade()
            found = await until(feed, 3)
            assert kinds(found) == ["connected", "1", "clock_jump", "2", "3"]
            assert "back by 6.000 s" in told(found, "clock_jump")[0]
            assert feed.health.clock_jumps == 1

    run(work())


def test_clocks_that_differ_too_much_are_told_once() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked(FeedRules(clock_limit=5.0)) as feed:
            for _ in range(3):
                await venue.trade()
            found = await until(feed, 3)
            assert kinds(found) == ["connected", "clock_jump", "1", "2", "3"]

    run(work())


def test_an_outlier_is_left_out_until_others_agree_with_it() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked() as feed:
            for price in (100.0, 1e9, 101.0, 5000.0, 5001.0, 5002.0, 5003.0):
                await venue.trade(price=price)
            found = await until(feed, 7)
            assert numbers(found) == [1, 3, 6, 7]
            assert told(found, "outlier")[0] == "AAA at 1000000000 after 100"
            assert (feed.health.outliers, feed.health.gaps) == (3, 0)

    run(work())


def test_a_connection_that_is_cut_in_a_frame_loses_nothing() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked() as feed:
            await venue.trade()
            await until(feed, 1)
            await venue.cut()
            venue.make()
            venue.make()
            await venue.trade()
            found = await until(feed, 4)
            assert numbers(found) == [2, 3, 4]
            assert kinds(found)[0] == "disconnected"
            assert (feed.health.missing, feed.health.reconnects) == (0, 1)

    run(work())


def test_a_venue_that_restarts_and_counts_anew_is_followed() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked() as feed:
            for _ in range(3):
                await venue.trade()
            await until(feed, 3)
            await venue.restart()
            later = BEGIN + 1000 * SECOND
            for number in (1, 2):
                await venue.trade(sequence=number, trade_id=number, exchange_time=later + number)
            found = await until(feed, 2)
            assert numbers(found) == [1, 2]
            assert "restarted its sequence" in told(found, "gap")[0]

    run(work())


def test_a_buffer_that_ran_over_is_filled_again() -> None:
    async def work() -> None:
        async with Venue() as venue:
            feed = venue.checked(capacity=4)
            await feed.open()
            await venue.trade()
            await until(feed, 1)
            for _ in range(20):
                await venue.trade()
            while feed._feed.health.dropped < 16:
                await asyncio.sleep(0.001)
            found = await until(feed, 21)
            assert numbers(found) == list(range(2, 22))
            assert kinds(found)[0] == "overflow"
            assert feed.health.dropped == 16
            await feed.close()

    run(work())


ACTIONS = ("send", "drop", "twice", "swap", "garbage", "cut", "restart", "outside", "ahead", "back")
Schedule = Sequence[str]


async def act(venue: Venue, action: str) -> None:
    """Do one thing wrong; trades are made in every case, and sent in some."""
    # A second apart, but for those that a clock makes up.
    shift = {"ahead": 1000, "back": -1000}.get(action, 0)
    number = len(venue.made) + 1
    event = venue.make(exchange_time=BEGIN + (number + shift) * SECOND)
    if action == "twice":
        await venue.send(frame(event), frame(event))
    elif action == "swap":
        await venue.send(frame(venue.make()), frame(event))
    elif action == "garbage":
        await venue.send("{" + frame(event), frame(event))
    elif action == "cut":
        await venue.cut()
    elif action == "restart":
        await venue.restart()
    elif action == "outside":
        await venue.send(frame(event).replace("100.00000000", "0.00000000"))
    elif action in ("send", "ahead", "back"):
        await venue.send(frame(event))


async def lived_through(schedule: Schedule) -> tuple[list[FeedEvent], Venue, Any]:
    async with Venue() as venue, venue.checked() as feed:
        await venue.trade()
        for action in schedule:
            await act(venue, action)
        await venue.trade()
        found = await until(feed, len(venue.made))
        return found, venue, feed.health


def check_schedule(schedule: Schedule) -> None:
    found, venue, health = run(lived_through(schedule))

    trades = [event for event in found if isinstance(event, TradeEvent)]
    came = numbers(trades)
    lost = set(range(1, len(venue.made) + 1)) - set(came)
    assert came == sorted(set(came))
    assert [event.exchange_time for event in trades] == [
        venue.made[number - 1].exchange_time for number in came
    ]
    assert (health.received, health.missing, health.late) == (len(trades), len(lost), 0)
    # Asked by time, a venue cannot give what its clock dated before others that came.
    times = [event.exchange_time for event in venue.made]
    dated_back = {n + 1 for n, moment in enumerate(times) if moment < max(times[: n + 1])}
    assert lost <= dated_back
    assert health.reconnects == schedule.count("cut") + schedule.count("restart")
    # Where a connection ends, what was on its way may never have come.
    if health.reconnects == 0:
        assert health.garbage == schedule.count("garbage") + schedule.count("outside")
        assert health.duplicates == schedule.count("twice")
    if not {"ahead", "back"} & set(schedule):
        assert health.clock_jumps == 0


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(ACTIONS), max_size=12))
def test_nothing_is_lost_or_doubled_on_any_schedule_of_faults(schedule: Schedule) -> None:
    check_schedule(schedule)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(ACTIONS), max_size=60))
def test_nothing_is_lost_or_doubled_on_long_schedules_of_faults(schedule: Schedule) -> None:
    check_schedule(schedule)


def test_a_wait_that_is_cancelled_at_any_moment_costs_no_trade() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.checked() as feed:
            await venue.trade()
            found: list[FeedEvent] = []
            for action in ("send", "drop", "send", "swap", "cut", "send", "drop", "twice"):
                await act(venue, action)
                for delay in (0, 0, 0.0005, 0.002):
                    waiting = asyncio.ensure_future(feed.__anext__())
                    await asyncio.sleep(delay)
                    waiting.cancel()
                    await asyncio.wait({waiting})
                    if not waiting.cancelled():
                        found.append(waiting.result())
            await venue.trade()
            found += await until(feed, len(venue.made))
            assert numbers(found) == list(range(1, len(venue.made) + 1))

    run(work())


def test_crossed_quotes_are_left_out_or_passed_on_as_the_rules_say() -> None:
    events = [quote(1), quote(3, bid=102.0, ask=101.0), quote(4, bid=101.0, ask=101.0), quote(9)]

    async def work(rules: FeedRules) -> tuple[list[str], int]:
        feed = CheckedFeed(ListFeed(events), rules)
        return kinds(await collect(feed)), feed.health.crossed

    assert run(work(FeedRules())) == (["1", "crossed", "crossed", "9"], 2)
    passed = ["1", "crossed", "3", "crossed", "4", "9"]
    assert run(work(FeedRules(crossed="pass_on"))) == (passed, 2)
