"""Events from a venue's websocket, for as long as there is one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from sekai.data import MarketData
from sekai.error import FeedError, MissingExtraError
from sekai.live.events import FeedEvent, FeedNotice, NoticeKind
from sekai.live.feeds.backoff import Backoff
from sekai.live.feeds.decoder import Decoder
from sekai.live.feeds.event_buffer import BufferPolicy, EventBuffer
from sekai.live.feeds.frame import LARGEST_FRAME
from sekai.live.feeds.reading import count_received, end_task
from sekai.live.feeds.timed_feed import TimedFeed

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["SocketLimits", "WebSocketFeed"]

Backfill = Callable[[int], Awaitable[Sequence[FeedEvent]]]
GARBAGE_NOTICES_EVERY = 1.0
"""Seconds: a venue that sends nothing but garbage must not push out what waits."""

# The library writes addresses, and with them passwords, to its log when that is set to debug.
SILENT = logging.Logger("sekai.live.feeds.websocket")
SILENT.disabled = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketLimits:
    """How long and how much a websocket may take, in seconds and bytes."""

    open_timeout: float = 10.0
    ping_interval: float = 20.0
    """After so long without an answer to a ping and `ping_timeout` more, the line is dead."""

    ping_timeout: float = 20.0
    close_timeout: float = 1.0
    largest_frame: int = LARGEST_FRAME
    """A longer frame ends the connection."""

    attempts: int | None = None
    """Failures in a row after which to give up; None for never."""


class WebSocketFeed(TimedFeed):
    """Reads a websocket in a task of its own, and connects again whenever it is lost.

    What the address holds beyond the host is taken for a secret: it is in no message, no notice
    and no log.
    """

    def __init__(
        self,
        url: str,
        decoder: Decoder,
        *,
        symbols: Collection[str] = (),
        subscribe_message: str | None = None,
        backfill: Backfill | None = None,
        history: MarketData | None = None,
        capacity: int = 10_000,
        policy: BufferPolicy = "drop_oldest",
        backoff: Backoff | None = None,
        limits: SocketLimits | None = None,
        seed: int | None = None,
    ) -> None:
        """Say where to connect to; `open` or the first wait does it.

        Args:
            url: the address, `wss://...` or `ws://...`.
            decoder: what reads the frames, and asks for symbols.
            symbols: what to ask for, after every connect.
            subscribe_message: what else to send after every connect.
            backfill: gives the events after a time in nanoseconds, for `since`; such as a call
                of the venue's web service.
            history: what was known before the first event.
            capacity: how many events may wait for the one who acts.
            policy: what happens when there are more, see `EventBuffer`.
            backoff: how long to wait between attempts.
            limits: how long and how much the socket may take.
            seed: of the waits between attempts; from the operating system if not given.
        """
        super().__init__()
        self.history = history
        self.host = _host(url)
        self.limits = limits or SocketLimits()
        self._url = url
        self._decoder = decoder
        self._symbols = dict.fromkeys(symbols)
        self._subscribe_message = subscribe_message
        self._backfill = backfill
        self._backoff = backoff or Backoff()
        self._rng = np.random.default_rng(seed)
        self._buffer = EventBuffer(capacity, policy, self.health)
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._failures = 0
        self._garbage_told = float("-inf")
        self._garbage_untold = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.host!r}, {type(self._decoder).__name__})"

    async def open(self) -> None:
        """Begin to connect; notices tell when it is done, and when it is lost."""
        if self._reader is None and not self._buffer.is_finished:
            self._reader = asyncio.create_task(self._run(_connect()))

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """See `TimedFeed`."""
        if self._reader is None:
            await self.open()
        event = await self._buffer.get(deadline)
        return event if event is None else count_received(self.health, event)

    def take_ready(self) -> FeedEvent | None:
        """The next event if it is here already."""
        event = self._buffer.take()
        return event if event is None else count_received(self.health, event)

    async def subscribe(self, symbols: Collection[str]) -> None:
        """Ask for more symbols, now if there is a connection and after every connect."""
        new = [name for name in symbols if name not in self._symbols]
        self._symbols.update(dict.fromkeys(new))
        if self._socket is not None and new:
            from websockets.exceptions import ConnectionClosed

            try:
                for message in self._decoder.subscription(new):
                    await self._socket.send(message)
            except ConnectionClosed:
                # They are asked for with the others as soon as there is a connection again.
                return
            except asyncio.CancelledError:
                # It may not have been sent: who asks for them again is not to be told that it was.
                for name in new:
                    del self._symbols[name]
                raise

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """What `backfill` gives; nothing without it."""
        return [] if self._backfill is None else list(await self._backfill(exchange_time))

    async def close(self) -> None:
        """Hang up, and give up what waits."""
        self._buffer.discard()
        self.health.is_connected = False
        if self._socket is not None:
            # To take leave first: a reader that is cancelled would tell the venue of a failure.
            await self._socket.close()
        reader, self._reader = self._reader, None
        if reader is not None:
            await end_task(reader)

    async def _run(self, connect: Any) -> None:
        try:
            while not self._buffer.is_finished:
                reason = await self._connection(connect)
                self._lost(reason)
                if self._failures == self.limits.attempts:
                    raise FeedError(
                        f"a connection to {self.host} was wanted, found none in "
                        f"{self._failures} attempts: {reason}"
                    )
                await asyncio.sleep(self._backoff.seconds(self._failures, self._rng))
        except Exception as error:
            # It is raised where it can be dealt with: at the one who waits for events.
            self._buffer.finish(error)

    async def _connection(self, connect: Any) -> str:
        """Stay connected for as long as it lasts, and say why it ended."""
        from websockets.exceptions import WebSocketException

        limits = self.limits
        try:
            async with connect(
                self._url, max_size=limits.largest_frame, open_timeout=limits.open_timeout,
                ping_interval=limits.ping_interval, ping_timeout=limits.ping_timeout,
                close_timeout=limits.close_timeout, compression=None, logger=SILENT,
            ) as socket:  # fmt: skip
                self._socket = socket
                await self._greet(socket)
                async for frame in socket:
                    is_awaited = self._buffer.is_awaited
                    self._take(frame)
                    if self._buffer.is_finished:
                        return "nobody reads"
                    if is_awaited:
                        # What it leads to comes before reading what is behind it.
                        await asyncio.sleep(0)
            return "the venue hung up"
        except (OSError, WebSocketException, asyncio.TimeoutError) as error:
            # Not the error's own words: they may hold the address.
            return _reason(error)
        finally:
            self._socket = None

    async def _greet(self, socket: ClientConnection) -> None:
        # Before the subscription: what comes in answer to it must come after the notice.
        self.health.is_connected = True
        self._tell("connected", f"to {self.host}")
        if self._subscribe_message is not None:
            await socket.send(self._subscribe_message)
        for message in self._decoder.subscription(list(self._symbols)):
            await socket.send(message)

    def _take(self, frame: str | bytes) -> None:
        # A venue that accepts and hangs up at once has not become well: only a frame counts.
        self._failures = 0
        try:
            events = self._decoder.decode(frame, time.time_ns(), time.perf_counter_ns())
        except FeedError as error:
            self._tell_garbage(str(error))
            return
        for event in events:
            self._buffer.put(event)

    def _lost(self, reason: str) -> None:
        self._failures += 1
        self.health.reconnects += self.health.is_connected
        self.health.is_connected = False
        self._tell("disconnected", f"from {self.host}: {reason}")

    def _tell_garbage(self, detail: str) -> None:
        self.health.garbage += 1
        self._garbage_untold += 1
        now = time.monotonic()
        if now - self._garbage_told >= GARBAGE_NOTICES_EVERY:
            self._tell("garbage", f"{self._garbage_untold} frames, the last: {detail}")
            self._garbage_told, self._garbage_untold = now, 0

    def _tell(self, kind: NoticeKind, detail: str) -> None:
        self._buffer.put(FeedNotice(exchange_time=time.time_ns(), kind=kind, detail=detail))


def _connect() -> Any:
    try:
        from websockets.asyncio.client import connect
    except ImportError as error:
        raise MissingExtraError.of("websockets", "live", "WebSocketFeed") from error
    return connect


def _host(url: str) -> str:
    """What of an address may be shown."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("ws", "wss") or not host:
        raise ValueError("an address such as wss://host/path was wanted, found another")
    return f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")


def _reason(error: BaseException) -> str:
    name = type(error).__name__
    received = getattr(error, "rcvd", None) or getattr(error, "sent", None)
    code = getattr(received, "code", None)
    status = getattr(getattr(error, "response", None), "status_code", None)
    number = code if code is not None else status
    return name if number is None else f"{name} {number}"
