"""Local venue with fault injection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve

from sekai.live.events import FeedEvent, FeedNotice, TradeEvent
from sekai.live.feeds import (
    Backoff,
    BinanceDecoder,
    CheckedFeed,
    FeedRules,
    SocketLimits,
    WebSocketFeed,
)  # fmt: skip
from tests.live.feeds.makers import frame, trade

QUICK = Backoff(first=0.002, longest=0.02)


class Venue:
    """Numbers trades from 1 on, and sends them or not; what it has made it can give again."""

    def __init__(self) -> None:
        self.made: list[TradeEvent] = []
        self.heard: list[str] = []
        self.connections = 0
        self.port = 0
        self._server: Server | None = None
        self._socket: ServerConnection | None = None
        self._joined = asyncio.Event()

    async def __aenter__(self) -> Venue:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.stop()

    async def start(self) -> None:
        self._server = await serve(self._handle, "127.0.0.1", self.port, compression=None)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        self._joined.clear()

    def feed(self, **options: Any) -> WebSocketFeed:
        given: dict[str, Any] = {
            "symbols": ["AAA"], "backfill": self.since, "backoff": QUICK, "seed": 0,
            "limits": SocketLimits(close_timeout=0.1), **options,
        }  # fmt: skip
        decoder = given.pop("decoder", BinanceDecoder(("trade",)))
        return WebSocketFeed(f"ws://127.0.0.1:{self.port}/secret?token=hidden", decoder, **given)

    def checked(self, rules: FeedRules | None = None, **options: Any) -> CheckedFeed:
        return CheckedFeed(self.feed(**options), rules)

    async def since(self, exchange_time: int) -> Sequence[FeedEvent]:
        await asyncio.sleep(0)
        return [event for event in self.made if event.exchange_time > exchange_time]

    def make(self, **changes: Any) -> TradeEvent:
        event = trade(len(self.made) + 1, **changes)
        self.made.append(event)
        return event

    async def send(self, *frames: str | bytes) -> None:
        """Send to whoever is there, once somebody is and has asked for something."""
        await asyncio.wait_for(self._joined.wait(), 20)
        assert self._socket is not None
        for one in frames:
            await self._socket.send(one)

    async def trade(self, **changes: Any) -> None:
        await self.send(frame(self.make(**changes)))

    async def cut(self) -> None:
        """Hang up in the middle of a frame."""
        await asyncio.wait_for(self._joined.wait(), 20)
        assert self._socket is not None
        self._joined.clear()
        self._socket.transport.write(b"\x81\x7e\x01\x00half a frame")
        self._socket.transport.close()

    async def restart(self) -> None:
        await asyncio.wait_for(self._joined.wait(), 20)
        await self.stop()
        await self.start()

    async def _handle(self, socket: ServerConnection) -> None:
        self.connections += 1
        async for message in socket:
            self.heard.append(str(message))
            self._socket = socket
            self._joined.set()


async def until(feed: Any, number: int) -> list[FeedEvent]:
    """Everything up to a trade of that number."""
    found: list[FeedEvent] = []
    async for event in feed:
        found.append(event)
        if not isinstance(event, FeedNotice) and event.sequence == number:
            return found
    return found


def numbers(found: Sequence[FeedEvent]) -> list[int]:
    return [event.sequence or 0 for event in found if isinstance(event, TradeEvent)]


def told(found: Sequence[FeedEvent], kind: str) -> list[str]:
    """The details of the notices of a kind."""
    return [event.detail for event in found if isinstance(event, FeedNotice) and event.kind == kind]
