"""BarsFromTrades: bars on the grid, exact, and equal to the history of the same trades."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import Bar, MarketData
from sekai.error import FeedError
from sekai.live.events import BarEvent, FeedEvent, FeedNotice, TradeEvent
from sekai.live.feeds import BarsFromTrades, QueueFeed, bars_of
from tests.live.feeds.makers import (
    BEGIN,
    SECOND,
    ListFeed,
    collect,
    kinds,
    notice,
    quote,
    run,
    run_virtually,
    trade,
)
from tests.live.feeds.test_recording import same_bar
from tests.live.feeds.venue import Venue

ASSETS = ("AAA", "BBB")
START = BEGIN // (10 * SECOND) * 10 * SECOND


def at(seconds: float, price: float, size: float = 1.0, symbol: str = "AAA") -> TradeEvent:
    moment = START + round(seconds * 1e9)
    return trade(1, price, symbol, size=size, exchange_time=moment, receive_time=moment)


def bars(
    events: Sequence[FeedEvent], history: MarketData | None = None, **options: Any
) -> tuple[list[FeedEvent], BarsFromTrades]:
    async def work() -> tuple[list[FeedEvent], BarsFromTrades]:
        feed = BarsFromTrades(ListFeed(events), ASSETS, 10.0, history, **options)
        found = await collect(feed)
        await feed.close()
        await feed.close()
        return found, feed

    return run(work())


def rows(found: Sequence[FeedEvent]) -> list[Bar]:
    return [event.bar for event in found if isinstance(event, BarEvent)]


def test_a_row_holds_the_first_highest_lowest_and_last_price_and_the_volume() -> None:
    events = [
        at(0, 10.0, 0.1), at(3, 12.0, 0.2), at(3, 9.0, 0.3), at(9.999, 11.0, 0.4),
        at(4, 50.0, 2.0, "BBB"), quote(1), at(5, 1.0, 1.0, "CCC"), at(10, 20.0),
    ]  # fmt: skip
    found, feed = bars(events)

    (bar,) = rows(found)
    assert np.datetime64(bar.time) == np.datetime64(START + 10 * SECOND, "ns")
    assert np.asarray(bar.values).tolist() == [
        [10.0, 12.0, 9.0, 11.0, 1.0], [50.0, 50.0, 50.0, 50.0, 2.0],
    ]  # fmt: skip
    assert found[0].exchange_time == START + 10 * SECOND
    assert found[0].arrival == events[-1].arrival
    assert feed.health.received == 1


def test_spans_without_trades_are_rows_with_holes() -> None:
    found, _ = bars([at(1, 10.0), at(31, 11.0, symbol="BBB"), at(41, 1.0)])

    first, second, third, fourth = rows(found)
    for bar in (second, third):
        values = np.asarray(bar.values)
        assert np.isnan(values[:, :4]).all()
        assert (values[:, 4] == 0).all()
        assert not np.asarray(bar.quoted).any()
        assert not np.asarray(bar.tradable).any()
    assert np.asarray(first.listed).tolist() == [True, False]
    assert np.asarray(third.listed).tolist() == [True, False]
    assert np.asarray(fourth.listed).tolist() == [True, True]
    assert np.asarray(fourth.quoted).tolist() == [False, True]


def test_the_last_close_is_carried_if_asked_for() -> None:
    found, _ = bars([at(1, 10.0), at(2, 12.0), at(31, 11.0), at(41, 1.0)], empty="carry")

    _, second, third, _ = rows(found)
    for bar in (second, third):
        assert np.asarray(bar.values)[0].tolist() == [12.0, 12.0, 12.0, 12.0, 0.0]
        assert np.asarray(bar.quoted).tolist() == [True, False]
        assert np.isnan(np.asarray(bar.values)[1, :4]).all()


def test_late_trades_are_counted_told_and_left_out() -> None:
    found, feed = bars([at(1, 10.0), at(11, 11.0), at(5, 99.0), at(21, 12.0)])

    assert [np.asarray(bar.values)[0, 1] for bar in rows(found)] == [10.0, 11.0]
    assert kinds(found) == ["None", "late", "None"]
    assert feed.health.late == 1


def test_a_span_is_closed_by_the_clock_and_so_are_empty_ones() -> None:
    async def work() -> None:
        queue = QueueFeed()
        feed = BarsFromTrades(queue, ["AAA"], 0.05, grace=0.02)
        loop = asyncio.get_running_loop()
        begin = loop.time()
        queue.put(trade(1, 10.0))
        first = await feed.__anext__()
        assert 0.06 <= loop.time() - begin < 1.0
        second = await feed.__anext__()
        assert loop.time() - begin >= 0.11
        assert second.exchange_time - first.exchange_time == 5 * 10**7
        assert [bar.quoted for bar in rows([first, second])] == [[True], [False]]
        await feed.close()

    run_virtually(work())


@pytest.mark.parametrize("kind", ["disconnected", "stale"])
def test_the_clock_closes_nothing_while_the_feed_may_have_missed_something(kind: str) -> None:
    async def work() -> None:
        queue = QueueFeed()
        feed = BarsFromTrades(queue, ["AAA"], 0.02, grace=0.0)
        queue.put(trade(1, 10.0))
        queue.put(notice(kind))
        assert kinds(await collect(feed, 1)) == [kind]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(feed.__anext__(), 0.1)
        queue.put(trade(1, 11.0, exchange_time=trade(1).exchange_time + 10**6))
        (bar,) = rows(await collect(feed, 1))
        assert np.asarray(bar.values)[0, 1] == 11.0
        await feed.close()

    run_virtually(work())


def test_history_and_stream_of_the_same_trades_agree_row_for_row() -> None:
    rng = np.random.default_rng(5)
    moments = np.sort(rng.uniform(0, 600, 400))
    events = [
        at(moment, 100 + rng.normal(), rng.random(), ASSETS[int(rng.integers(2))])
        for moment in moments
    ]
    whole = bars_of(events, ASSETS, 10.0)
    history = bars_of(events[:200], ASSETS, 10.0)
    found, _ = bars([one for one in events if one.exchange_time >= _end(history)], history)

    assert same_rows([*Bar.each(history), *rows(found)], list(Bar.each(whole)))
    assert whole.frequency.nanoseconds == 10 * SECOND
    streamed, _ = bars(events)
    assert same_rows(rows(streamed), list(Bar.each(whole)))


def _end(history: MarketData) -> int:
    return int(history.calendar.nanoseconds[-1])


def same_rows(found: Sequence[Bar], wanted: Sequence[Bar]) -> bool:
    return len(found) == len(wanted) and all(map(same_bar, found, wanted))


def test_a_carried_close_goes_on_from_the_history() -> None:
    history = bars_of([at(1, 10.0), at(11, 12.0), at(21, 1.0)], ASSETS, 10.0, empty="carry")
    found, _ = bars([at(35, 5.0), at(41, 6.0)], history, empty="carry")

    first, second = rows(found)
    assert np.asarray(first.values)[0].tolist() == [12.0, 12.0, 12.0, 12.0, 0.0]
    assert np.asarray(second.values)[0, 0] == 5.0


def test_trades_before_the_end_of_the_history_are_late() -> None:
    history = bars_of([at(1, 10.0), at(11, 12.0), at(21, 1.0)], ASSETS, 10.0)
    _, feed = bars([at(15, 5.0)], history)

    assert feed.health.late == 1


@pytest.mark.parametrize("other", ["assets", "grid"])
def test_a_history_of_something_else_is_refused(other: str) -> None:
    assets = ("BBB", "AAA") if other == "assets" else ASSETS
    history = bars_of([at(1, 10.0), at(11, 12.0)], assets, 10.0)
    if other == "grid":
        history = history.replace(times=history.times + np.timedelta64(1, "s"))
    with pytest.raises(ValueError, match="history .*; expected"):
        BarsFromTrades(ListFeed([]), ASSETS, 10.0, history)


def test_a_trade_from_the_far_future_moves_nothing_and_several_end_the_feed() -> None:
    far = at(1e9, 10.0)
    found, feed = bars([at(1, 10.0), far, far, at(11, 11.0), far])
    assert kinds(found) == ["clock_jump", "clock_jump", "None", "clock_jump"]
    assert feed.health.clock_jumps == 3

    with pytest.raises(FeedError, match="start again"):
        bars([at(1, 10.0), far, far, far])


def test_trades_from_the_far_future_that_are_no_row_of_their_own_end_nothing() -> None:
    far = at(1e9, 10.0)
    found, _ = bars([at(1, 10.0), far, far, at(2, 11.0), far, far, at(3, 12.0), at(11, 13.0)])

    assert kinds(found) == ["clock_jump"] * 4 + ["None"]
    assert np.asarray(rows(found)[0].values)[0].tolist() == [10.0, 12.0, 10.0, 12.0, 3.0]


def test_the_last_rows_can_be_asked_for_again() -> None:
    async def work() -> None:
        feed = BarsFromTrades(ListFeed([at(10 * n, 1.0) for n in range(6)]), ASSETS, 10.0)
        found = await collect(feed)
        assert await feed.since(found[2].exchange_time) == found[3:]

    run(work())


def test_notices_are_passed_on_and_other_fields_can_be_chosen() -> None:
    found, _ = bars([notice("gap"), at(1, 10.0, 3.0), at(11, 1.0)], fields=("volume", "close"))

    assert isinstance(found[0], FeedNotice)
    assert np.asarray(rows(found)[0].values)[0].tolist() == [3.0, 10.0]


@pytest.mark.parametrize(
    "options",
    [{"fields": ("vwap",)}, {"seconds": 0.0}, {"assets": ()}, {"empty": "x"}, {"grace": -1.0}],
)
def test_rows_without_sense_are_refused(options: dict[str, Any]) -> None:
    given_options = {"assets": ASSETS, "seconds": 10.0, **options}
    with pytest.raises(ValueError, match="must be|unknown|assets|fields"):
        BarsFromTrades(ListFeed([]), **given_options)
    with pytest.raises(FeedError, match="two bars"):
        bars_of([at(1, 10.0)], ASSETS, 10.0)


@settings(deadline=None)
@given(st.lists(st.floats(1e-8, 1e12), min_size=1, max_size=60))
def test_volumes_are_exact_sums(sizes: list[float]) -> None:
    data = bars_of([*(at(1, 10.0, size) for size in sizes), at(11, 1.0)], ["AAA"], 10.0)

    exact = sum(map(Fraction, sizes))
    found = data.values[0, 0, 4]
    assert abs(Fraction(found) - exact) <= Fraction(math.ulp(float(exact)))


def test_small_volumes_before_and_after_a_large_one_are_not_lost() -> None:
    sizes = (1.0, 1e16, 1.0)
    data = bars_of([*(at(1, 10.0, size) for size in sizes), at(11, 1.0)], ["AAA"], 10.0)

    assert data.values[0, 0, 4] == 1e16 + 2


def test_waits_that_are_cancelled_lose_no_trade() -> None:
    async def work() -> float:
        queue = QueueFeed()
        feed = BarsFromTrades(queue, ["AAA"], 10.0, grace=100.0)
        volume = 0.0
        for number in range(100):
            waiting = asyncio.ensure_future(feed.__anext__())
            await asyncio.sleep(0)
            queue.put(at(number, 10.0))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            if not waiting.cancelled():
                volume += sum(np.asarray(bar.values)[0, 4] for bar in rows([waiting.result()]))
        queue.finish()
        rest = await collect(feed)
        await feed.close()
        return float(volume + sum(np.asarray(bar.values)[0, 4] for bar in rows(rest)))

    assert run(work()) == 90.0


def test_what_waits_in_a_socket_while_the_process_is_busy_is_still_in_its_span() -> None:
    async def work() -> None:
        async with Venue() as venue:
            feed = BarsFromTrades(venue.feed(), ["AAA"], 2.0, grace=0.0)
            assert kinds(await collect(feed, 1)) == ["connected"]
            for price, delay in ((10.0, 0), (12.0, 600), (11.0, 1200)):
                await venue.trade(price=price, exchange_time=START + delay * 10**6)
                if not delay:
                    await asyncio.sleep(0.02)
                    assert feed.take_ready() is None
            time.sleep(2.5)
            event = await feed.__anext__()
            assert np.asarray(rows([event])[0].values)[0, :4].tolist() == [10.0, 12.0, 10.0, 11.0]
            assert feed.health.late == 0
            await feed.close()

    run(work())


def test_what_is_read_a_moment_after_the_process_was_busy_is_still_in_its_span() -> None:
    async def work() -> list[float]:
        queue = QueueFeed()
        feed = BarsFromTrades(queue, ["AAA"], 0.1, grace=0.0)
        queue.put(at(0, 10.0))
        assert feed.take_ready() is None
        time.sleep(0.15)
        asyncio.get_running_loop().call_later(0.005, queue.put, at(0.05, 12.0))
        (bar,) = rows(await collect(feed, 1))
        await feed.close()
        return np.asarray(bar.values)[0, :4].tolist()  # type: ignore[no-any-return]

    assert run_virtually(work()) == [10.0, 12.0, 10.0, 12.0]


def test_of_rows_that_the_clock_closes_at_once_only_the_last_is_news() -> None:
    async def work() -> list[bool]:
        queue = QueueFeed()
        feed = BarsFromTrades(queue, ["AAA"], 0.2, grace=0.0)
        queue.put(at(0.1, 10.0))
        assert feed.take_ready() is None
        time.sleep(0.6)
        found = await collect(feed, 3)
        await feed.close()
        return [event.is_late for event in found]

    assert run_virtually(work()) == [True, True, False]
