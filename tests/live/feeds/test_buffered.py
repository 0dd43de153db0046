"""Event buffers: bounded, ordered, and `put` never blocks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import FeedError
from sekai.live.events import FeedEvent, FeedNotice
from sekai.live.feed import FeedHealth
from sekai.live.feeds import Buffered, CheckedFeed, EventBuffer, FeedRules, QueueFeed
from tests.live.feeds.makers import ListFeed, bar_event, collect, kinds, notice, quote, run, trade


def drained(buffer: EventBuffer) -> list[FeedEvent]:
    return [event for event in iter(buffer.take, None) if event is not None]


@given(st.integers(1, 8), st.integers(0, 30))
def test_the_newest_are_kept_and_the_others_counted_and_told_first(capacity: int, put: int) -> None:
    health = FeedHealth()
    buffer = EventBuffer(capacity, "drop_oldest", health)
    for number in range(put):
        assert buffer.put(trade(number))
        assert len(buffer) <= capacity
    found = drained(buffer)

    lost = max(0, put - capacity)
    assert health.dropped == lost
    assert kinds(found) == ["overflow"] * (lost > 0) + [str(n) for n in range(lost, put)]
    if lost:
        assert isinstance(found[0], FeedNotice)
        assert found[0].detail.startswith(f"{lost} events")


def test_the_latest_of_each_symbol_and_kind_is_kept_and_bars_all() -> None:
    health = FeedHealth()
    buffer = EventBuffer(10, "latest", health)
    for event in (
        trade(1), trade(2, symbol="BBB"), quote(3), bar_event(4), trade(5), bar_event(6), quote(7),
        notice("gap"), notice("gap"),
    ):  # fmt: skip
        buffer.put(event)

    found = drained(buffer)
    assert kinds(found) == ["5", "2", "7", "None", "None", "gap", "gap"]
    assert (health.conflated, health.dropped) == (2, 0)


def test_bars_that_are_too_many_for_the_latest_are_given_up_oldest_first() -> None:
    health = FeedHealth()
    buffer = EventBuffer(2, "latest", health)
    for number in range(4):
        buffer.put(bar_event(number, sequence=number))

    assert kinds(drained(buffer)) == ["overflow", "2", "3"]
    assert health.dropped == 2


def test_a_buffer_that_stops_raises_once_it_is_drained() -> None:
    async def work() -> list[str]:
        feed = QueueFeed(capacity=2, policy="stop")
        assert [feed.put(trade(number)) for number in range(4)] == [True, True, False, False]
        found = await collect(feed, 2)
        for _ in range(2):
            with pytest.raises(FeedError, match="more than 2 events"):
                await feed.__anext__()
        assert feed.health.dropped == 1
        await feed.close()
        return kinds(found)

    assert run(work()) == ["0", "1"]


@pytest.mark.parametrize(("capacity", "policy"), [(0, "stop"), (5, "other")])
def test_buffers_without_room_or_policy_are_refused(capacity: int, policy: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        EventBuffer(capacity, policy, FeedHealth())


def test_events_from_other_threads_come_in_their_order_and_none_is_lost() -> None:
    async def work() -> list[FeedEvent]:
        feed = QueueFeed(capacity=10_000)

        def put(symbol: str) -> None:
            for number in range(500):
                feed.put(trade(number, symbol=symbol))

        threads = [threading.Thread(target=put, args=(name,)) for name in ("A", "B", "C")]
        for thread in threads:
            thread.start()
        found = await collect(feed, 1500)
        for thread in threads:
            thread.join()
        await feed.close()
        return found

    found = run(work())
    for name in ("A", "B", "C"):
        numbers = [event.sequence for event in found if getattr(event, "symbol", "") == name]
        assert numbers == list(range(500))


def test_a_finished_queue_gives_what_waits_and_then_ends() -> None:
    async def work() -> list[str]:
        feed = QueueFeed()
        feed.put(trade(1))
        feed.finish()
        assert not feed.put(trade(2))
        return kinds(await collect(feed))

    assert run(work()) == ["1"]


def test_an_event_is_never_lost_to_a_wait_that_is_cancelled() -> None:
    async def work() -> list[str]:
        feed = QueueFeed()
        for number in range(50):
            waiting = asyncio.ensure_future(feed.__anext__())
            await asyncio.sleep(0)
            feed.put(trade(number))
            if number % 3:
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            if not waiting.cancelled():
                feed.put(waiting.result())
        feed.finish()
        return kinds(await collect(feed))

    assert sorted(map(int, run(work()))) == list(range(50))


def test_a_second_one_who_waits_is_refused() -> None:
    async def work() -> None:
        feed = QueueFeed()
        first = asyncio.ensure_future(feed.__anext__())
        await asyncio.sleep(0)
        with pytest.raises(FeedError, match="second"):
            await feed.__anext__()
        feed.put(trade(1))
        assert (await first).sequence == 1

    run(work())


def test_a_slow_reader_does_not_hold_up_the_feed() -> None:
    async def work() -> tuple[list[str], int]:
        inner = ListFeed([trade(number) for number in range(100)])
        feed = Buffered(inner, capacity=10)
        await feed.open()
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not inner._events
        found = await collect(feed)
        await feed.close()
        await feed.close()
        return kinds(found), feed.health.dropped

    assert run(work()) == (["overflow", *map(str, range(90, 100))], 90)


def test_an_error_of_the_feed_is_raised_where_it_is_read() -> None:
    class Broken(ListFeed):
        async def __anext__(self) -> FeedEvent:
            if not self._events:
                raise FeedError("broken")
            return await super().__anext__()

    async def work() -> None:
        feed = Buffered(Broken([trade(1)]))
        assert (await feed.__anext__()).sequence == 1
        with pytest.raises(FeedError, match="broken"):
            await feed.__anext__()
        await feed.close()
        with pytest.raises(StopAsyncIteration):
            await feed.__anext__()

    run(work())


def test_a_buffered_feed_asks_its_feed_for_symbols_and_for_what_was_missed() -> None:
    async def work() -> None:
        feed = Buffered(ListFeed([], known=[trade(1), trade(2)]))
        assert kinds(await feed.since(trade(1).exchange_time)) == ["2"]
        with pytest.raises(NotImplementedError, match="BBB"):
            await feed.subscribe(["BBB"])
        await feed.close()

    run(work())


def test_no_symbol_waits_forever_behind_those_that_change_as_often() -> None:
    buffer = EventBuffer(10, "latest", FeedHealth())
    taken = []
    for number in range(6):
        for symbol in ("AAA", "BBB", "CCC"):
            buffer.put(quote(number, symbol=symbol))
        taken.append(buffer.take())

    assert [getattr(event, "symbol", "") for event in taken] == ["AAA", "BBB", "CCC"] * 2
    assert kinds([event for event in taken if event]) == [str(number) for number in range(6)]


def test_a_buffer_before_a_feed_that_is_stale_says_so() -> None:
    async def work() -> list[bool]:
        queue = QueueFeed()
        feed = Buffered(CheckedFeed(queue, FeedRules(stale_after=0.02)))
        found = []
        for number in range(2):
            queue.put(trade(number))
            while kinds([await feed.__anext__()]) != [str(number)]:
                pass
            found.append(feed.health.is_stale)
            assert kinds([await feed.__anext__()]) == ["stale"]
            found.append(feed.health.is_stale)
        await feed.close()
        return found

    assert run(work()) == [False, True, False, True]
