"""Timed reads: deadlines are met, no event is lost, and no task is needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sekai.live.events import FeedEvent
from sekai.live.feed import FeedHealth
from sekai.live.feeds import (
    BarsFromTrades,
    Buffered,
    CheckedFeed,
    EventBuffer,
    FeedRules,
    QueueFeed,
)
from sekai.live.feeds.timed_feed import TimedFeed
from tests.live.feeds.makers import ListFeed, collect, kinds, run, run_virtually, trade
from tests.live.feeds.venue import Venue


def checked(feed: QueueFeed, stale_after: float | None = 1000.0) -> CheckedFeed:
    return CheckedFeed(feed, FeedRules(stale_after=stale_after))


TIMED: dict[str, Callable[[QueueFeed], TimedFeed]] = {
    "queue": lambda queue: queue,
    "buffered": Buffered,
    "checked": checked,
    "bars": lambda queue: BarsFromTrades(queue, ["AAA"], 1.0, grace=1000.0),
    "all": lambda queue: BarsFromTrades(Buffered(checked(queue)), ["AAA"], 1.0, grace=1000.0),
}


@asynccontextmanager
async def feed_of(name: str) -> AsyncIterator[TimedFeed]:
    if name != "websocket":
        yield TIMED[name](QueueFeed())
        return
    async with Venue() as venue:
        feed = venue.feed()
        assert kinds(await collect(feed, 1)) == ["connected"]
        yield feed


def soon(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


@pytest.mark.parametrize("name", [*TIMED, "websocket"])
def test_a_wait_ends_when_its_time_is_over_and_others_can_follow(name: str) -> None:
    async def work() -> None:
        async with feed_of(name) as feed:
            for _ in range(3):
                deadline = soon(0.01)
                assert await feed.next_before(deadline) is None
                assert soon(0.001) >= deadline
            assert await feed.next_before(soon(-1.0)) is None
            await feed.close()

    run(work())


@pytest.mark.parametrize("name", [*TIMED, "websocket"])
def test_who_waits_with_a_limit_is_told_of_the_end_when_the_feed_is_closed(name: str) -> None:
    async def work() -> None:
        async with feed_of(name) as feed:
            waiting = asyncio.ensure_future(feed.next_before(soon(1000.0)))
            await asyncio.sleep(0.01)
            assert not waiting.done()
            await feed.close()
            with pytest.raises(StopAsyncIteration):
                await asyncio.wait_for(waiting, 20.0)

    run(work())


@pytest.mark.parametrize("name", ["queue", "checked"])
def test_an_event_that_comes_with_the_timer_is_given_once(name: str) -> None:
    async def work() -> list[FeedEvent]:
        queue = QueueFeed()
        feed = TIMED[name](queue)
        loop = asyncio.get_running_loop()
        found: list[FeedEvent] = []
        for number in range(60):
            deadline = soon(0.001)
            if number % 2:
                loop.call_at(deadline, queue.put, trade(number))
            waiting = asyncio.ensure_future(feed.next_before(deadline))
            await asyncio.sleep(0)
            if not number % 2:
                loop.call_at(deadline, queue.put, trade(number))
            event = await waiting
            assert event is not None
            found.append(event)
        queue.finish()
        found += await collect(feed)
        await feed.close()
        return found

    assert kinds(run_virtually(work())) == [str(number) for number in range(60)]


@pytest.mark.parametrize("name", ["queue", "checked"])
def test_waits_with_a_limit_that_are_cancelled_lose_nothing(name: str) -> None:
    async def work() -> list[FeedEvent]:
        queue = QueueFeed()
        feed = TIMED[name](queue)
        found: list[FeedEvent] = []
        for number in range(60):
            waiting = asyncio.ensure_future(feed.next_before(soon((number % 5 - 1) * 1e-4)))
            for _ in range(number % 3):
                await asyncio.sleep(0)
            queue.put(trade(number))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            if not waiting.cancelled() and (event := waiting.result()) is not None:
                found.append(event)
        queue.finish()
        found += await collect(feed)
        await feed.close()
        return found

    assert kinds(run(work())) == [str(number) for number in range(60)]


def test_after_a_wait_that_ended_somehow_nobody_waits_and_no_timer_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        buffer = EventBuffer(10, "stop", FeedHealth())
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []
        call_at = loop.call_at

        def noted(*args: Any, **options: Any) -> asyncio.TimerHandle:
            timers.append(call_at(*args, **options))
            return timers[-1]

        monkeypatch.setattr(loop, "call_at", noted)
        assert await buffer.get(soon(-1.0)) is None
        seen = [buffer.is_awaited]
        for is_cancelled in (True, False):
            waiting = asyncio.ensure_future(buffer.get(soon(1000.0)))
            await asyncio.sleep(0)
            seen.append(buffer.is_awaited)
            _ = waiting.cancel() if is_cancelled else buffer.put(trade(1))
            await asyncio.wait({waiting})
            seen.append(buffer.is_awaited)
        assert seen == [False, True, False, True, False]
        assert len(timers) == 3
        assert all(timer.cancelled() for timer in timers)

    run(work())


def test_another_can_wait_as_soon_as_the_one_before_is_cancelled() -> None:
    async def work() -> None:
        queue = QueueFeed()
        first = asyncio.ensure_future(queue.__anext__())
        await asyncio.sleep(0)
        first.cancel()
        asyncio.get_running_loop().call_later(0.005, queue.put, trade(1))
        assert (await queue.__anext__()).sequence == 1
        assert first.cancelled()

    run(work())


def test_events_from_another_thread_are_not_lost_to_short_limits() -> None:
    async def work() -> list[FeedEvent]:
        queue = QueueFeed()
        feed = checked(queue)

        def put() -> None:
            for number in range(2000):
                queue.put(trade(number))
            queue.finish()

        thread = threading.Thread(target=put)
        thread.start()
        found: list[FeedEvent] = []
        try:
            while True:
                event = await feed.next_before(soon(1e-5))
                found += [] if event is None else [event]
        except StopAsyncIteration:
            thread.join()
        await feed.close()
        return found

    assert kinds(run(work())) == [str(number) for number in range(2000)]


def test_a_limit_that_is_over_already_lets_others_have_a_turn_first() -> None:
    async def work() -> None:
        queue = QueueFeed()
        asyncio.get_running_loop().call_soon(queue.put, trade(1))
        event = await queue.next_before(soon(-1.0))
        assert event is not None
        assert event.sequence == 1

    run(work())


def test_a_row_is_here_one_turn_after_its_trade_and_nobody_needs_a_task() -> None:
    async def work() -> None:
        queue = QueueFeed()
        feed = BarsFromTrades(checked(queue), ["AAA"], 1.0)
        queue.put(trade(1))
        others = asyncio.all_tasks()
        waiting = asyncio.ensure_future(feed.__anext__())
        await asyncio.sleep(0)
        assert asyncio.all_tasks() - others == {waiting}

        queue.put(trade(2))
        await asyncio.sleep(0)

        assert waiting.done()
        await feed.close()

    run(work())


@pytest.mark.parametrize("stale_first", [True, False])
def test_the_nearer_of_two_limits_ends_the_wait(stale_first: bool) -> None:
    async def work() -> None:
        feed = checked(QueueFeed(), 0.01 if stale_first else 1000.0)
        event = await feed.next_before(soon(1000.0 if stale_first else 0.01))
        assert kinds([event] if event else []) == ["stale"] * stale_first
        await feed.close()

    run(work())


def test_a_limit_before_the_end_of_a_span_closes_no_row() -> None:
    async def work() -> None:
        queue = QueueFeed()
        feed = BarsFromTrades(queue, ["AAA"], 1.0, grace=0.0)
        queue.put(trade(1, exchange_time=trade(2).exchange_time - 3 * 10**8))
        assert await feed.next_before(soon(0.01)) is None
        row = await feed.next_before(soon(10.0))
        assert row is not None
        assert row.exchange_time == trade(2).exchange_time
        await feed.close()

    run(work())


def test_a_feed_that_can_only_be_waited_for_keeps_what_comes_after_a_limit() -> None:
    class Slow(ListFeed):
        async def __anext__(self) -> FeedEvent:
            await asyncio.sleep(0.03)
            return await super().__anext__()

    async def work() -> list[str]:
        events = [trade(1), trade(2), trade(3)]
        feed = CheckedFeed(Slow(events), FeedRules(stale_after=0.01))
        found = await collect(feed)
        await feed.close()
        return kinds(found)

    one = ["stale", "fresh"]
    assert run_virtually(work()) == [*one, "1", *one, "2", *one, "3", "stale"]


def test_a_feed_that_waits_in_its_own_way_is_read_in_that_way() -> None:
    class Counting(QueueFeed):
        waits = 0

        async def __anext__(self) -> FeedEvent:
            self.waits += 1
            return await super().__anext__()

    async def work() -> int:
        queue = Counting()
        feed = checked(queue)
        waiting = asyncio.ensure_future(feed.__anext__())
        await asyncio.sleep(0.01)
        queue.put(trade(1))
        assert (await waiting).sequence == 1
        await feed.close()
        return queue.waits

    assert run(work()) == 1


class Asked(ListFeed):
    """Answers when it is told to."""

    def __init__(self, *numbers: int) -> None:
        super().__init__([trade(number) for number in numbers], [trade(n) for n in range(6)])
        self.may_answer = asyncio.Event()

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        found = await super().since(exchange_time)
        await self.may_answer.wait()
        return found


@pytest.mark.parametrize("begin", [None, trade(0).exchange_time])
def test_an_answer_that_takes_long_holds_up_nobody_and_is_asked_for_once(
    begin: int | None,
) -> None:
    async def work() -> None:
        feed = Asked(1, 5)
        reading = CheckedFeed(feed, begin=begin)
        found: list[FeedEvent] = []
        for _ in range(4):
            event = await reading.next_before(soon(0.005))
            found += [] if event is None else [event]
        assert kinds(found) == ["1"] * (begin is None)
        feed.may_answer.set()
        found += await collect(reading)
        await reading.close()
        assert [kind for kind in kinds(found) if kind.isdigit()] == ["1", "2", "3", "4", "5"]
        assert len(feed.asked) == 1

    run_virtually(work())


@pytest.mark.parametrize("is_answered", [True, False])
def test_closing_while_the_feed_is_asked_leaves_nothing_to_hand_on(is_answered: bool) -> None:
    async def work() -> None:
        feed = Asked(1, 5)
        reading = CheckedFeed(feed)
        assert kinds(await collect(reading, 1)) == ["1"]
        waiting = asyncio.ensure_future(reading.__anext__())
        await asyncio.sleep(0.01)
        if is_answered:
            feed.may_answer.set()
            await asyncio.sleep(0)
        await reading.close()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, 20.0)
        assert reading.take_ready() is None

    run(work())


def test_a_feed_that_was_closed_is_asked_for_nothing() -> None:
    async def work() -> list[int]:
        feed = ListFeed([])
        reading = CheckedFeed(feed, begin=1)
        await reading.close()
        assert await collect(reading) == []
        return feed.asked

    assert run(work()) == []


def test_a_queue_goes_on_in_another_loop_than_the_one_where_it_was_waited_for() -> None:
    queue = QueueFeed()
    feed = checked(queue)

    async def wait() -> FeedEvent | None:
        return await feed.next_before(soon(0.005))

    assert asyncio.run(wait()) is None
    queue.put(trade(1))
    event = asyncio.run(wait())
    assert event is not None
    assert event.sequence == 1
