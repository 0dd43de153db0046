"""An event that is stamped in the future is left out, and mutes no feed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import Bar, MarketData
from sekai.live import BarEvent, BarsFromCandles, BarsFromTrades, CheckedFeed, FeedEvent, FeedNotice
from sekai.live.feed import Feed
from sekai.live.feeds.feed_rules import AheadCheck
from tests.live.feeds.makers import BEGIN, SECOND, ListFeed, candle, collect, run, trade

AHEAD = 95_040 * SECOND


def stamped(event: FeedEvent, ahead: int) -> FeedEvent:
    """The same event, received at the same time, with another stamp."""
    return replace(event, exchange_time=event.exchange_time + ahead)


def read(feed: Feed) -> tuple[list[BarEvent], list[str]]:
    events = run(collect(feed))
    notices: list[str] = [event.kind for event in events if isinstance(event, FeedNotice)]
    return [event for event in events if isinstance(event, BarEvent)], notices


@pytest.mark.parametrize("place", [0, 1, 20])
def test_a_trade_of_the_future_makes_no_empty_bars_and_no_trade_late(place: int) -> None:
    trades: list[FeedEvent] = [trade(number) for number in range(1_000)]
    trades[place] = stamped(trades[place], AHEAD)
    feed = BarsFromTrades(ListFeed(trades), ["AAA"], 1.0)

    bars, notices = read(feed)

    assert feed.health.late == 0
    assert len(bars) == (998 if place == 0 else 999)
    assert notices == ["clock_jump"]
    assert feed.health.clock_jumps == 1


def test_trades_of_a_venue_whose_clock_is_ahead_are_accepted_after_seconds() -> None:
    trades = [stamped(trade(number), AHEAD) for number in range(100)]
    feed = BarsFromTrades(ListFeed(trades), ["AAA"], 1.0)

    bars, notices = read(feed)

    assert notices == ["clock_jump"] * 5
    assert len(bars) == 94


def test_bars_return_from_a_future_that_many_trades_agreed_on() -> None:
    trades: list[FeedEvent] = [trade(number) for number in range(100)]
    wrong = [stamped(trade(number), AHEAD) for number in range(100, 110)]
    after: list[FeedEvent] = [trade(number) for number in range(110, 200)]
    feed = BarsFromTrades(ListFeed([*trades, *wrong, *after]), ["AAA"], 1.0)

    bars, notices = read(feed)

    assert bars[-1].exchange_time == BEGIN + 199 * SECOND
    assert notices.count("late") < 10
    assert "clock_jump" in notices


def test_a_candle_of_the_future_makes_no_candle_late() -> None:
    candles = [candle(number) for number in range(1, 60)]
    wrong = replace(candles[9], exchange_time=candles[9].exchange_time + 60 * AHEAD)
    candles[9] = replace(wrong, begin=wrong.exchange_time - 60 * SECOND)
    feed = BarsFromCandles(ListFeed(candles), ["AAA"], 60.0)

    bars, notices = read(feed)

    assert len(bars) == 58
    assert notices == ["clock_jump"]


def test_candles_of_a_local_clock_that_is_behind_are_accepted() -> None:
    candles = [
        replace(candle(number), receive_time=candle(number).receive_time - 900 * SECOND)
        for number in range(1, 60)
    ]
    feed = BarsFromCandles(ListFeed(candles), ["AAA"], 60.0)

    bars, notices = read(feed)

    assert notices == ["clock_jump"] * 2
    assert len(bars) == 57


def test_candles_return_from_a_future_that_several_agreed_on() -> None:
    wrong = [
        candle(number + 10_000, receive_time=candle(number).receive_time)
        for number in range(10, 14)
    ]
    rest = [candle(number) for number in range(14, 60)]
    feed = BarsFromCandles(
        ListFeed([*(candle(number) for number in range(1, 10)), *wrong, *rest]), ["AAA"], 60.0
    )

    bars, notices = read(feed)

    assert bars[-1].exchange_time == rest[-1].exchange_time
    assert notices.count("late") < 6


def row(number: int) -> BarEvent:
    stamp = BEGIN + number * 60 * SECOND
    bar = Bar(np.datetime64(stamp, "ns"), np.array([[100.0]]))
    return BarEvent(exchange_time=stamp, receive_time=stamp, bar=bar)


def rows_feed(rows: list[BarEvent]) -> ListFeed:
    times = np.datetime64(BEGIN, "ns") + np.arange(-4, 1) * np.timedelta64(60, "s")
    history = MarketData(times, ["AAA"], ["close"], np.full((5, 1, 1), 100.0))
    return ListFeed(rows, history=history)


@settings(deadline=None, max_examples=20)
@given(place=st.integers(0, 38), ahead=st.integers(121, 10**7))
def test_a_checked_feed_leaves_out_the_row_of_the_future_alone(place: int, ahead: int) -> None:
    rows = [row(number) for number in range(1, 41)]
    wrong = rows[place]
    rows[place] = replace(wrong, exchange_time=wrong.exchange_time + ahead * SECOND)
    feed = CheckedFeed(rows_feed(rows))

    bars, notices = read(feed)

    assert len(bars) == 39
    assert notices == ["clock_jump"]
    assert feed.health.late == 0


def test_a_checked_feed_recovers_from_a_wrong_time_that_was_accepted() -> None:
    rows = [row(number) for number in range(1, 41)]
    ahead = 10**6 * SECOND
    # The local clock was as wrong as the row.
    rows[5] = replace(
        rows[5],
        exchange_time=rows[5].exchange_time + ahead,
        receive_time=rows[5].receive_time + ahead,
    )
    feed = CheckedFeed(rows_feed(rows))

    bars, _ = read(feed)

    assert len(bars) >= 36
    assert feed.health.late == 3


def test_backfilled_events_of_the_future_are_left_out() -> None:
    known = [trade(2), replace(trade(3), exchange_time=BEGIN + AHEAD)]
    feed = CheckedFeed(ListFeed([trade(1), trade(4), trade(5)], known))

    events = run(collect(feed))

    assert [event.sequence for event in events if not isinstance(event, FeedNotice)] == [1, 2, 4, 5]


def test_clocks_that_agree_again_are_trusted_again() -> None:
    check = AheadCheck(5 * SECOND, 0)
    now = BEGIN
    for _ in range(3):
        check.problem(now + 900 * SECOND, now)
    assert check.problem(now + 900 * SECOND, now) is None

    for _ in range(3):
        assert check.problem(now, now) is None

    assert check.problem(now + 900 * SECOND, now) is not None
