"""CheckedFeed: violations are counted, reported and backfilled."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.live.events import FeedEvent, FeedNotice, TradeEvent
from sekai.live.feed import FeedHealth
from sekai.live.feeds import CheckedFeed, FeedRules, QueueFeed, ReplayFeed
from tests.live.feeds.makers import (
    BEGIN,
    SECOND,
    ListFeed,
    bar_event,
    candle,
    collect,
    kinds,
    notice,
    panel,
    quote,
    run,
    run_virtually,
    trade,
)  # fmt: skip


def checked(
    events: Sequence[FeedEvent], known: Sequence[FeedEvent] = (), begin: int | None = None,
    history: MarketData | None = None, **rules: Any,
) -> tuple[list[FeedEvent], FeedHealth]:  # fmt: skip
    async def work() -> tuple[list[FeedEvent], FeedHealth]:
        feed = CheckedFeed(ListFeed(events, known, history), FeedRules(**rules), begin)
        found = await collect(feed)
        await feed.close()
        await feed.close()
        return found, feed.health

    return run(work())


def times(found: Sequence[FeedEvent]) -> list[int]:
    return [event.exchange_time for event in found if not isinstance(event, FeedNotice)]


def bare(number: int, price: float = 100.0, at: int | None = None) -> TradeEvent:
    """A trade that has no number of any kind."""
    when = BEGIN + (number if at is None else at) * SECOND
    return trade(number, price, sequence=None, trade_id=None, exchange_time=when)


def test_what_is_as_it_should_be_is_handed_on_as_it_is() -> None:
    events = [
        trade(1),
        quote(1),
        trade(2),
        quote(5),
        trade(6, symbol="BBB"),
        notice("gap"),
        trade(3, receive_time=BEGIN + 7 * SECOND),
    ]
    found, health = checked(events)

    assert found == events
    assert health.received == 6
    assert (health.gaps, health.duplicates, health.late, health.clock_jumps) == (0, 0, 0, 0)


def test_rows_that_are_missing_in_the_calendar_are_asked_for() -> None:
    rows = [bar_event(number) for number in range(8)]
    sent = [rows[0], rows[1], rows[4], rows[7]]
    found, health = checked(sent, known=[*rows[:4], rows[6]], bar_seconds=60.0)

    assert times(found) == [row.exchange_time for number, row in enumerate(rows) if number != 5]
    assert kinds(found).count("gap") == 2
    assert (health.gaps, health.missing) == (2, 1)


def test_rows_that_come_twice_or_late_are_left_out() -> None:
    rows = [bar_event(number) for number in range(4)]
    found, health = checked([rows[0], rows[0], rows[2], rows[1], rows[3]])

    assert times(found) == [rows[0].exchange_time, rows[2].exchange_time, rows[3].exchange_time]
    assert (health.duplicates, health.late) == (1, 1)


def test_rules_can_pass_on_what_others_leave_out() -> None:
    events = [trade(2), trade(2), quote(3), quote(1)]
    found, _ = checked(events, duplicate="pass_on", late="pass_on")

    assert [event for event in found if not isinstance(event, FeedNotice)] == events
    assert kinds(found) == ["2", "duplicate", "2", "3", "late", "1"]


def test_rows_of_a_replay_that_were_dropped_come_back_in_their_place() -> None:
    class Lossy(ReplayFeed):
        async def __anext__(self) -> FeedEvent:
            event = await super().__anext__()
            return await super().__anext__() if event.sequence in (6, 9) else event

    async def work() -> list[str]:
        return kinds(await collect(CheckedFeed(Lossy(panel(), 5))))

    assert run(work()) == [
        "5", "gap", "6", "7", "8", "gap", "9", *map(str, range(10, 20)),
    ]  # fmt: skip


def test_candles_follow_each_other_if_they_are_said_to() -> None:
    candles = [candle(number) for number in range(5)]
    found, health = checked([candles[0], candles[3]], candles, contiguous=("candle",))

    assert found[0] == candles[0]
    assert found[2:] == candles[1:4]
    assert (health.gaps, health.missing) == (1, 0)
    assert checked([candles[0], candles[3]])[1].gaps == 0


def test_after_a_reconnect_trades_without_numbers_are_asked_for_and_twins_are_matched() -> None:
    before = [bare(1), bare(2), bare(2)]
    missed = [bare(2, at=2), bare(3), bare(3), bare(4)]
    after = [bare(4), bare(5)]
    events = [notice("connected"), *before, notice("disconnected"), notice("connected"), *after]
    found, health = checked(events, known=[*before, *missed, bare(5)])

    trades = [event for event in found if isinstance(event, TradeEvent)]
    assert trades == [*before, *missed, bare(5)]
    assert (health.duplicates, health.late, health.received) == (0, 0, 8)


def test_what_was_missed_before_the_first_event_of_a_stream_is_asked_for_once_more() -> None:
    # The venue takes its time to begin: what happens until then is in no answer to `connected`.
    class Late(ListFeed):
        async def since(self, exchange_time: int) -> list[FeedEvent]:
            found = await super().since(exchange_time)
            return found[:-1] if len(self.asked) == 1 else found

    events = [notice("connected"), bare(1), notice("connected"), bare(4), bare(5), bare(6)]

    async def work() -> list[FeedEvent]:
        feed = Late(events, [bare(1), bare(2), bare(3)])
        found = await collect(CheckedFeed(feed))
        assert len(feed.asked) == 2
        return found

    trades = [event for event in run(work()) if isinstance(event, TradeEvent)]
    assert trades == [bare(number) for number in range(1, 7)]


def test_what_a_full_buffer_gave_up_is_asked_for_also_where_nothing_is_numbered() -> None:
    known = [bare(number) for number in range(1, 6)]
    found, _ = checked([known[0], notice("overflow"), known[4]], known)

    assert [event for event in found if isinstance(event, TradeEvent)] == known


def test_what_was_missed_of_the_last_instant_is_asked_for_too() -> None:
    known = [trade(1), trade(2, exchange_time=trade(1).exchange_time), trade(100, sequence=3)]
    found, health = checked([known[0], known[2]], known)

    assert kinds(found) == ["1", "gap", "2", "3"]
    assert health.missing == 0


def test_a_beginning_is_caught_up_with_before_anything_else() -> None:
    known = [trade(number) for number in range(1, 6)]
    found, health = checked(known[3:], known, begin=known[1].exchange_time)

    assert kinds(found) == ["3", "4", "5"]
    assert (health.duplicates, health.gaps) == (0, 0)


def test_an_answer_that_does_not_come_is_told_and_the_feed_goes_on() -> None:
    class Failing(ListFeed):
        async def since(self, exchange_time: int) -> list[FeedEvent]:
            if len(self.asked) % 2:
                await asyncio.sleep(60)
            self.asked.append(exchange_time)
            raise ConnectionError("https://user:password@host")

    async def work() -> tuple[list[FeedEvent], FeedHealth]:
        feed = CheckedFeed(
            Failing([trade(1), trade(3), trade(5)]), FeedRules(backfill_timeout=0.02)
        )
        return await collect(feed), feed.health

    found, health = run(work())
    assert kinds(found) == ["1", "gap", "3", "gap", "5"]
    details = [event.detail for event in found if isinstance(event, FeedNotice)]
    assert "ConnectionError" in details[0]
    assert "TimeoutError" in details[1]
    assert "password" not in "".join(details)
    assert health.missing == 2


def test_a_lower_number_at_a_later_time_is_a_new_count_once_the_next_follows() -> None:
    moments = {n: BEGIN + (50 + n) * SECOND for n in (1, 2, 3)}
    later = [trade(n, exchange_time=at, receive_time=at) for n, at in moments.items()]
    found, health = checked([trade(7), trade(8), *later], known=later)

    assert kinds(found) == ["7", "8", "duplicate", "gap", "1", "2", "3"]
    assert (health.gaps, health.missing) == (1, 0)


def test_symbols_beyond_the_limit_are_left_out() -> None:
    events = [trade(1, symbol=f"S{number}") for number in range(5)]
    found, health = checked(events, most_streams=3)

    assert kinds(found) == ["1", "1", "1", "garbage", "garbage"]
    assert health.garbage == 2


def test_a_row_with_a_price_that_cannot_be_is_left_out() -> None:
    history = MarketData(
        np.array(["2020-01-01"], "M8[ns]"), ["A", "B"], ["close"], np.array([[[100.0], [2.0]]])
    )
    rows = [bar_event(1), bar_event(2, 1e9), bar_event(3), bar_event(4, 0.0), bar_event(5, np.nan)]
    found, health = checked(rows, history=history)

    assert times(found) == [rows[place].exchange_time for place in (0, 2, 4)]
    assert health.outliers == 2


def test_a_clock_of_ours_that_goes_back_is_told() -> None:
    events = [trade(1), replace(trade(2), receive_time=BEGIN - SECOND), trade(3)]
    found, _ = checked(events)

    assert kinds(found) == ["1", "clock_jump", "2", "3"]
    left_out, _ = checked(events, clock_jump="leave_out")
    assert kinds(left_out) == ["1", "clock_jump", "3"]


@pytest.mark.parametrize(
    "rules",
    [{"contiguous": ("other",)}, {"late": "maybe"}, {"stale_after": 0.0}, {"price_factor": 1.0},
     {"confirmations": 0}, {"clock_limit": float("nan")}],
)  # fmt: skip
def test_rules_without_sense_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be|unknown kind"):
        FeedRules(**rules)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans())
def test_nothing_is_lost_or_doubled_whatever_is_dropped_doubled_or_swapped(
    data: st.DataObject, has_numbers: bool
) -> None:
    count = data.draw(st.integers(2, 12))
    known: list[FeedEvent] = [trade(n, sequence=n if has_numbers else None) for n in range(count)]
    picked = data.draw(st.lists(st.sampled_from(known[1:-1] or known), max_size=20))
    if not has_numbers:
        # Without numbers a drop leaves no trace; doubles and swaps do.
        picked = [*known, *picked]
    found, health = checked([known[0], *picked, known[-1]], known)

    given_on = [event for event in found if not isinstance(event, FeedNotice)]
    assert given_on == known
    assert health.received == count
    assert health.missing == 0


@pytest.mark.parametrize("sent", [(0, 3, 5), (0, 5)])
def test_a_wait_that_is_cancelled_while_the_feed_is_asked_loses_nothing(
    sent: tuple[int, ...],
) -> None:
    class Slow(ListFeed):
        async def since(self, exchange_time: int) -> list[FeedEvent]:
            await asyncio.sleep(0.01)
            return await super().since(exchange_time)

    async def work() -> list[str]:
        known = [trade(number) for number in range(1, 7)]
        feed = CheckedFeed(Slow([known[place] for place in sent], known))
        found: list[FeedEvent] = []
        for _ in range(200):
            waiting = asyncio.ensure_future(feed.__anext__())
            await asyncio.sleep(0.002)
            waiting.cancel()
            await asyncio.wait({waiting})
            if waiting.cancelled():
                # What is asked for goes on; let it be answered once in a while.
                found.append(await feed.__anext__())
            elif isinstance(waiting.exception(), StopAsyncIteration):
                break
            else:
                found.append(waiting.result())
        await feed.close()
        return [kind for kind in kinds(found) if kind != "gap"]

    assert run_virtually(work()) == ["1", "2", "3", "4", "5", "6"]


def test_counts_of_the_feed_below_are_counted_above() -> None:
    async def work() -> FeedHealth:
        inner = QueueFeed(capacity=2)
        for number in range(5):
            inner.put(trade(number))
        inner.finish()
        feed = CheckedFeed(inner)
        await collect(feed)
        await feed.close()
        return feed.health

    health = run(work())
    assert health.dropped == 3
    assert health.received == 2


def test_a_feed_that_goes_on_is_not_stale_however_it_is_read() -> None:
    async def work() -> tuple[list[str], list[str]]:
        queue = QueueFeed()
        feed = CheckedFeed(queue, FeedRules(stale_after=0.1))
        found: list[FeedEvent] = []

        async def read() -> None:
            async for event in feed:
                found.append(event)  # noqa: PERF401 - it is looked at while it grows

        task = asyncio.create_task(read())
        for number in range(1, 12):
            queue.put(trade(2 * number - 1))
            queue.put(trade(2 * number))
            await asyncio.sleep(0.02)
        going_on = kinds(found)
        await asyncio.sleep(0.15)
        queue.finish()
        await task
        return going_on, kinds(found)[len(going_on) :]

    going_on, after = run_virtually(work())
    assert going_on == [str(number) for number in range(1, 23)]
    assert after == ["stale"]


def test_what_is_remembered_does_not_grow_with_what_comes() -> None:
    async def work() -> int:
        tracemalloc.start()
        queue = QueueFeed()
        feed = CheckedFeed(queue)
        sizes = []
        for part in range(3):
            for number in range(300):
                place = part * 10_000 + 2 * number
                queue.put(trade(place))
                queue.put(quote(place, exchange_time=BEGIN))
            queue.put(notice("fresh"))
            while kinds([await feed.__anext__()]) != ["fresh"]:
                pass
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        return sizes[2] - sizes[1]

    assert run(work()) < 20_000


def test_a_time_that_was_made_up_does_not_silence_a_stream_for_good() -> None:
    far = bare(1, at=10**8)
    later = [bare(number) for number in range(2, 150)]
    found, health = checked([far, *later], ahead_limit=None)

    assert times(found) == [far.exchange_time, *(event.exchange_time for event in later[100:])]
    assert (health.late, health.clock_jumps) == (100, 1)


def test_silence_is_counted_from_the_last_event_however_it_was_taken() -> None:
    async def work() -> None:
        queue = QueueFeed()
        feed = CheckedFeed(queue, FeedRules(stale_after=0.2))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(feed.__anext__(), 0.01)
        await asyncio.sleep(0.2)
        queue.put(trade(1))
        for _ in range(5):
            await asyncio.sleep(0)
        taken = feed.take_ready()
        assert taken is not None
        assert taken.sequence == 1
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(feed.__anext__(), 0.01)
        assert not feed.health.is_stale
        await feed.close()

    run_virtually(work())


@pytest.mark.parametrize("price", [0.0, -1.0, float("inf"), float("nan")])
def test_prices_that_no_market_has_are_never_believed(price: float) -> None:
    events = [
        trade(1, price),
        trade(2),
        *(trade(number, price) for number in range(3, 9)),
        trade(9),
    ]
    found, health = checked(events)

    assert [event for event in found if isinstance(event, TradeEvent)] == [trade(2), trade(9)]
    assert health.outliers == 7


def test_a_number_that_was_made_up_does_not_silence_trades_for_good() -> None:
    wrong = replace(trade(3), sequence=2**60)
    found, health = checked([trade(1), trade(2), wrong, *(trade(n) for n in range(4, 10))])

    assert kinds(found) == ["1", "2", "gap", str(2**60), "late", "gap", "5", "6", "7", "8", "9"]
    assert (health.late, health.gaps) == (1, 2)


def test_a_number_that_was_made_up_does_not_silence_quotes_for_good() -> None:
    wrong = replace(quote(3), sequence=2**60)
    found, health = checked([quote(1), wrong, *(quote(3 * n) for n in range(2, 120))])

    assert kinds(found)[-18:] == [str(3 * n) for n in range(102, 120)]
    assert health.late == 100


def test_what_was_missing_and_comes_late_in_order_is_late_and_no_new_count() -> None:
    found, health = checked([trade(1), trade(200), *(trade(n) for n in range(2, 200)), trade(201)])

    assert [event.sequence for event in found if isinstance(event, TradeEvent)] == [1, 200, 201]
    assert (health.late, health.gaps) == (198, 1)
