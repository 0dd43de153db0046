"""WebSocketFeed: reconnects, and redaction of secrets."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import FeedError
from sekai.live.events import FeedEvent
from sekai.live.feeds import Backoff, BinanceDecoder, SocketLimits, WebSocketFeed
from tests.live.feeds.makers import collect, kinds, run, trade
from tests.live.feeds.venue import Venue, numbers, told, until


async def take_all(feed: WebSocketFeed, found: list[FeedEvent]) -> None:
    """Keep what comes, also when the feed ends with an error."""
    while True:
        found.append(await feed.__anext__())


def test_trades_come_in_order_after_a_notice_and_symbols_are_asked_for() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.feed(subscribe_message="hello") as feed:
            for _ in range(3):
                await venue.trade()
            found = await until(feed, 3)
            assert kinds(found) == ["connected", "1", "2", "3"]
            assert feed.health.is_connected
            assert (feed.health.received, feed.health.reconnects) == (3, 0)
            assert venue.heard[0] == "hello"
            assert json.loads(venue.heard[1])["params"] == ["aaa@trade"]

    run(work())


def test_all_symbols_are_asked_for_again_after_every_reconnect() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.feed() as feed:
            await venue.trade()
            await until(feed, 1)
            await feed.subscribe(["BBB", "AAA"])
            await venue.restart()
            await venue.trade()
            found = await until(feed, 2)
            asked = [json.loads(message)["params"] for message in venue.heard]
            assert asked == [["aaa@trade"], ["bbb@trade"], ["aaa@trade", "bbb@trade"]]
            assert kinds(found)[0] == "disconnected"
            assert kinds(found)[-2:] == ["connected", "2"]
            assert feed.health.reconnects == 1

    run(work())


def test_a_frame_that_is_too_long_ends_the_connection_and_not_the_feed() -> None:
    async def work() -> None:
        limits = SocketLimits(largest_frame=2000, close_timeout=0.1)
        async with Venue() as venue, venue.feed(limits=limits) as feed:
            await venue.trade()
            await until(feed, 1)
            await venue.send("x" * 5000)
            venue._joined.clear()
            await venue.trade()
            found = await until(feed, 2)
            assert "1009" in told(found, "disconnected")[0]

    run(work())


def test_a_venue_that_does_not_answer_pings_is_left() -> None:
    async def work() -> None:
        limits = SocketLimits(ping_interval=0.5, ping_timeout=0.5, close_timeout=0.05)
        async with Venue() as venue, venue.feed(limits=limits) as feed:
            await venue.trade()
            await until(feed, 1)
            assert venue._socket is not None
            venue._socket.transport.pause_reading()
            found = await collect(feed, 1)
            assert kinds(found) == ["disconnected"]
            assert venue._socket is not None
            venue._socket.transport.abort()

    run(work())


def test_garbage_is_counted_and_told_once_a_second_and_the_feed_goes_on() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.feed() as feed:
            await venue.send(*["{" + "\x1b[2J" * 100] * 50, b"\xff\xfe", "[" * 5000)
            await venue.trade()
            found = await until(feed, 1)
            assert feed.health.garbage == 52
            details = told(found, "garbage")
            assert len(details) == 1
            assert details[0].isprintable()
            assert len(details[0]) < 200

    run(work())


def test_what_an_address_holds_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def work() -> str:
        async with Venue() as venue:
            url = f"ws://user:hidden@127.0.0.1:{venue.port}/hidden?token=hidden"
            feed = WebSocketFeed(
                url, BinanceDecoder(), symbols=["AAA"], backoff=Backoff(first=0.001, longest=0.001),
                limits=SocketLimits(attempts=2, close_timeout=0.1),
            )  # fmt: skip
            first = asyncio.ensure_future(feed.__anext__())
            await venue.trade()
            found = [await first]
            await venue.stop()
            with pytest.raises(FeedError) as caught:
                await take_all(feed, found)
            await venue.start()
            words = [repr(feed), str(feed), str(caught.value), repr(caught.value.__cause__)]
            words += [repr(caught.value.__context__), *map(repr, found)]
            await feed.close()
            return "\n".join(words)

    shown = run(work())
    # The venue itself runs in this process too, and may say what it is sent.
    shown += "".join(
        record.getMessage() for record in caplog.records if record.name != "websockets.server"
    )
    assert "127.0.0.1" in shown
    assert "hidden" not in shown
    assert "user" not in shown


@pytest.mark.parametrize("url", ["http://user:hidden@host/x", "wss://", "ws://[hidden", ""])
def test_addresses_of_other_kinds_are_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match="wss://host/path") as caught:
        WebSocketFeed(url, BinanceDecoder())
    assert "hidden" not in repr(caught.value) + repr(caught.value.__cause__)


def test_a_venue_that_is_not_there_is_given_up_after_so_many_attempts() -> None:
    async def work() -> None:
        async with Venue() as venue:
            port = venue.port
        feed = WebSocketFeed(
            f"ws://127.0.0.1:{port}", BinanceDecoder(), backoff=Backoff(first=0.001, longest=0.002),
            limits=SocketLimits(attempts=3),
        )  # fmt: skip
        found: list[FeedEvent] = []
        with pytest.raises(FeedError, match="after 3 attempts"):
            await take_all(feed, found)
        assert kinds(found) == ["disconnected"] * 3
        await feed.close()

    run(work())


def test_a_venue_that_hangs_up_on_everybody_is_not_hammered() -> None:
    async def work() -> int:
        async with Venue() as venue:
            feed = venue.feed(backoff=Backoff(first=0.05, longest=1.0))
            await feed.open()
            for _ in range(3):
                await asyncio.wait_for(venue._joined.wait(), 20)
                await venue.cut()
            await feed.close()
            return feed._failures

    assert run(work()) >= 2


def test_a_decoder_that_fails_ends_the_feed_with_its_error() -> None:
    class Broken(BinanceDecoder):
        def decode(self, frame: str | bytes, receive_time: int, arrival: int) -> list[FeedEvent]:
            raise ZeroDivisionError("broken")

    async def work() -> None:
        async with Venue() as venue, venue.feed(decoder=Broken()) as feed:
            await venue.trade()
            with pytest.raises(ZeroDivisionError):
                await collect(feed)

    run(work())


def test_closing_twice_in_any_state_leaves_nothing_running() -> None:
    async def work() -> None:
        async with Venue() as venue:
            unopened, opened, reading = venue.feed(), venue.feed(), venue.feed()
            await opened.open()
            waiting = asyncio.ensure_future(collect(reading))
            await venue.trade()
            for feed in (unopened, opened, reading):
                await feed.close()
                await feed.close()
                with pytest.raises(StopAsyncIteration):
                    await feed.__anext__()
                assert not feed.health.is_connected
            await waiting

    run(work())


def test_a_feed_that_is_closed_takes_leave_of_the_venue() -> None:
    async def work() -> None:
        async with Venue() as venue:
            feed = venue.feed()
            await feed.open()
            await venue.trade()
            await until(feed, 1)
            await feed.close()
            assert venue._socket is not None
            await asyncio.wait_for(venue._socket.wait_closed(), 20)
            assert venue._socket.close_code == 1000
            assert feed.health.reconnects == 0

    run(work())


def test_a_slow_reader_loses_the_oldest_and_is_told() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.feed(capacity=5) as feed:
            for _ in range(20):
                await venue.trade()
            while feed.health.dropped < 16:
                await asyncio.sleep(0.001)
            found = await until(feed, 20)
            assert kinds(found) == ["overflow", "16", "17", "18", "19", "20"]

    run(work())


def test_a_feed_that_stops_hangs_up_and_raises_once_it_is_drained() -> None:
    async def work() -> None:
        async with Venue() as venue:
            feed = venue.feed(capacity=3, policy="stop")
            await feed.open()
            for _ in range(3):
                await venue.trade()
            assert venue._socket is not None
            await asyncio.wait_for(venue._socket.wait_closed(), 20)
            assert kinds(await collect(feed, 3)) == ["connected", "1", "2"]
            with pytest.raises(FeedError, match="more than 3 events"):
                await feed.__anext__()
            await feed.close()
            assert venue.connections == 1

    run(work())


@given(st.integers(1, 10_000), st.floats(1e-3, 1), st.floats(1, 5), st.integers(0, 5))
def test_waits_grow_to_the_limit_and_no_further(
    failures: int, first: float, factor: float, seed: int
) -> None:
    backoff = Backoff(first=first, factor=factor, longest=10.0)
    waits = [backoff.seconds(failures, np.random.default_rng(seed)) for _ in range(2)]
    limit = min(10.0, first * factor ** min(failures - 1, 64))

    assert waits[0] == waits[1]
    assert limit / 2 <= waits[0] <= limit


def test_backoffs_without_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="first"):
        Backoff(first=2.0, longest=1.0)


def test_trades_are_what_the_venue_sent() -> None:
    async def work() -> None:
        async with Venue() as venue, venue.feed() as feed:
            await venue.trade(price=12.5, size=0.25)
            event = (await until(feed, 1))[-1]
            assert numbers([event]) == [1]
            sent = trade(1, price=12.5, size=0.25)
            assert (event.exchange_time, event.price) == (sent.exchange_time, 12.5)  # type: ignore[attr-defined]

    run(work())


def test_symbols_whose_question_was_cancelled_are_asked_for_when_they_are_wanted_again() -> None:
    class Stuck:
        """A socket whose other side reads nothing at first."""

        def __init__(self) -> None:
            self.sent: list[str] = []
            self.is_stuck = True

        async def send(self, message: str) -> None:
            while self.is_stuck:
                await asyncio.sleep(0.001)
            self.sent.append(message)

    async def work() -> list[str]:
        feed = WebSocketFeed("ws://127.0.0.1:1", BinanceDecoder(("trade",)), symbols=["AAA"])
        socket: Any = Stuck()
        feed._socket = socket
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(feed.subscribe(["AAA", "BBB"]), 0.01)
        socket.is_stuck = False
        for _ in range(2):
            await feed.subscribe(["AAA", "BBB"])
        return list(socket.sent)

    (asked,) = run(work())
    assert "bbb@trade" in asked
    assert "aaa" not in asked
