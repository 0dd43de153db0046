"""Every call of a feed to the outside returns in time, whatever the other side does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Collection, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sekai.error import FeedError
from sekai.live import CheckedFeed, Feed, FeedEvent, Secret, fetch_klines
from sekai.live.feeds import (
    BinanceDecoder,
    JsonDecoder,
    JsonMapping,
    SocketLimits,
    WebSocketFeed,
    timed_feed,
)
from tests.live.feeds.makers import run, trade
from tests.live.feeds.venue import QUICK, Venue, until

KEY = "k3yOfTheVenue-0123456789-abcdefghij"


class HungFeed(Feed):
    """Feed whose calls return only when they are released, and ignore cancellation."""

    def __init__(self) -> None:
        super().__init__()
        self.is_released = False

    async def _hang(self) -> None:
        while not self.is_released:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    async def __anext__(self) -> FeedEvent:
        await self._hang()
        raise StopAsyncIteration

    async def open(self) -> None:
        await self._hang()

    async def close(self) -> None:
        await self._hang()

    async def subscribe(self, symbols: Collection[str]) -> None:
        await self._hang()

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        await self._hang()
        return []


@pytest.mark.parametrize("name", ["open", "subscribe", "since", "close"])
def test_a_call_that_never_returns_is_an_error_in_time(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(timed_feed, "OPEN_SECONDS", 0.05)
    monkeypatch.setattr(timed_feed, "CLOSE_SECONDS", 0.05)
    hung = HungFeed()
    feed = CheckedFeed(hung)
    arguments: dict[str, tuple[Any, ...]] = {"subscribe": (["AAA"],), "since": (0,)}

    async def work() -> None:
        reading = asyncio.ensure_future(feed.next_before(asyncio.get_running_loop().time() + 0.02))
        await reading
        begin = time.monotonic()
        with pytest.raises(FeedError, match=f"{name}.* did not return; expected it within"):
            await getattr(feed, name)(*arguments.get(name, ()))
        assert time.monotonic() - begin < 9.0
        hung.is_released = True
        await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(work(), 10))


def test_a_venue_that_reads_nothing_does_not_hang_subscribe_and_close() -> None:
    asyncio.run(asyncio.wait_for(_stuck_venue(), 20))


async def _stuck_venue() -> None:
    """A server that completes the handshake, and then never reads its socket."""
    from websockets.server import ServerProtocol

    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        line, _ = listener.accept()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        protocol = ServerProtocol()
        while not (events := protocol.events_received()):
            protocol.receive_data(line.recv(4096))
        protocol.send_response(protocol.accept(events[0]))  # type: ignore[arg-type]
        for data in protocol.data_to_send():
            line.sendall(data)
        held.append(line)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    mapping = JsonMapping(
        kind="trade",
        fields={"symbol": "s", "price": "p", "size": "q"},
        subscribe="{symbol}" + "x" * 900_000,
    )
    feed = WebSocketFeed(
        f"ws://127.0.0.1:{listener.getsockname()[1]}/",
        JsonDecoder(mapping),
        limits=SocketLimits(send_timeout=0.3, close_timeout=0.2),
        backoff=QUICK,
    )
    await feed.open()
    assert "connected" in str(await feed.__anext__())
    begin = time.monotonic()
    with pytest.raises(FeedError, match="a subscription did not return"):
        await feed.subscribe([f"S{number}" for number in range(40)])
    await feed.close()
    assert time.monotonic() - begin < 15.0
    thread.join(5)
    listener.close()
    for line in held:
        line.close()


def test_a_backfill_that_never_returns_is_an_error_in_time() -> None:
    async def hang(exchange_time: int) -> list[FeedEvent]:
        await asyncio.sleep(60)
        return []

    async def work() -> None:
        limits = SocketLimits(backfill_timeout=0.05)
        feed = WebSocketFeed("ws://host/", BinanceDecoder(), backfill=hang, limits=limits)
        with pytest.raises(FeedError, match="backfill did not return"):
            await feed.since(0)

    run(work())


def test_headers_and_messages_may_be_secret_and_reach_the_venue_alone() -> None:
    async def work() -> None:
        login = Secret('{"op": "login", "key": "' + KEY + '"}')
        async with Venue() as venue:
            feed = venue.feed(subscribe_message=login, headers={"X-MBX-APIKEY": Secret(KEY)})
            async with feed:
                await venue.trade()
                await until(feed, 1)
                assert venue.heard[0] == login.reveal()
                assert venue._socket is not None
                assert venue._socket.request is not None
                assert venue._socket.request.headers["X-MBX-APIKEY"] == KEY
            assert KEY not in repr(feed)
            assert KEY not in repr(vars(feed))

    run(work())


class Answering(BaseHTTPRequestHandler):
    """Answers slowly, or with a redirect."""

    seen: list[str | None]

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("X-MBX-APIKEY"))
        if self.path.startswith("/redirect"):
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/other")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(1_000):
                self.wfile.write(b"[")
                self.wfile.flush()
                time.sleep(0.05)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def venue() -> Iterator[str]:
    Answering.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_klines_that_drip_in_end_at_the_deadline(venue: str) -> None:
    begin = time.monotonic()

    with pytest.raises(FeedError, match="no klines from 127.0.0.1: TimeoutError"):
        fetch_klines(f"{venue}/slow", ["AAA"], 60.0, 5, timeout=0.5)

    assert time.monotonic() - begin < 20.0


def test_keys_of_klines_are_not_sent_to_the_host_of_a_redirect(venue: str) -> None:
    headers = {"X-MBX-APIKEY": Secret(KEY)}

    with pytest.raises(FeedError, match="status 302") as error:
        fetch_klines(Secret(f"{venue}/redirect?key={KEY}"), ["AAA"], 60.0, 5, headers=headers)

    assert Answering.seen == [KEY]
    assert KEY not in str(error.value)


def test_a_trade_is_read_by_a_feed_with_deadlines() -> None:
    async def work() -> None:
        async with Venue() as place, place.checked() as feed:
            await place.trade()
            events = await until(feed, 1)
            assert events[-1].exchange_time == trade(1).exchange_time

    run(work())
