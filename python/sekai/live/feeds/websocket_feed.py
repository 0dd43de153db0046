"""WebSocketFeed: events of a venue's websocket, with automatic reconnects."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from sekai.data import MarketData
from sekai.error import FeedError
from sekai.live.backoff import Backoff
from sekai.live.events import FeedEvent
from sekai.live.feeds.buffered import BufferFeed, BufferPolicy, EventBuffer
from sekai.live.feeds.decoder import MAX_FRAME_BYTES, Decoder
from sekai.live.feeds.timed_feed import call_within, end_task, notice
from sekai.live.secret import Secret, revealed, revealed_headers
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["SocketLimits", "WebSocketFeed"]

Backfill = Callable[[int], Awaitable[Sequence[FeedEvent]]]
MALFORMED_NOTICE_SECONDS = 1.0
"""Seconds between notices: malformed frames must not push other events out of the buffer."""

# The debug log of the library contains URLs, and with them passwords.
DISABLED_LOGGER = logging.Logger("sekai.live.feeds.websocket")
DISABLED_LOGGER.disabled = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketLimits:
    """Timeouts in seconds and frame size of a websocket."""

    open_timeout: float = 10.0
    ping_interval: float = 20.0
    """Interval of pings; without an answer within `ping_timeout` the connection is lost."""

    ping_timeout: float = 20.0
    close_timeout: float = 1.0
    send_timeout: float = 10.0
    """Longest time to send a subscription: a venue may accept connections and read nothing."""

    backfill_timeout: float = 30.0
    """Longest time of `backfill`."""

    largest_frame: int = MAX_FRAME_BYTES
    """Largest frame in bytes; a larger one ends the connection."""

    attempts: int | None = None
    """Consecutive failures after which the feed fails; None for no limit."""


class WebSocketFeed(BufferFeed):
    """Feed that reads a websocket in a task of its own, and reconnects with back-off.

    The connection is made by `open` or the first wait. Of the URL only the host is shown in
    messages, notices and logs: the rest may hold secrets.

    Args:
        url: `wss://...` or `ws://...`; a `Secret` if it holds a key.
        decoder: decodes frames and creates subscription messages.
        symbols: symbols to subscribe to after every connect.
        subscribe_message: additional message after every connect, such as a login.
        headers: additional headers of the connection, whose values may be `Secret`.
        backfill: returns the events after a time in nanoseconds, for `since`, such as a REST call.
        history: data before the first event.
        capacity: largest number of buffered events.
        policy: overflow policy, see `EventBuffer`.
        backoff: wait between attempts.
        limits: timeouts and frame size.
        seed: seed of the back-off jitter; random if None.
    """

    def __init__(
        self,
        url: str | Secret,
        decoder: Decoder,
        *,
        symbols: Collection[str] = (),
        subscribe_message: str | Secret | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        backfill: Backfill | None = None,
        history: MarketData | None = None,
        capacity: int = 10_000,
        policy: BufferPolicy = "drop_oldest",
        backoff: Backoff | None = None,
        limits: SocketLimits | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.history = history
        self.host = _host(revealed(url))
        self.limits = limits or SocketLimits()
        self._url = url
        self._decoder = decoder
        self._symbols = dict.fromkeys(symbols)
        self._subscribe_message = subscribe_message
        self._headers = dict(headers or {})
        self._backfill = backfill
        self._backoff = backoff or Backoff()
        self._rng = np.random.default_rng(seed)
        self._buffer = EventBuffer(capacity, policy, self.health)
        self._socket: ClientConnection | None = None
        self._failures = 0
        self._last_malformed_notice = float("-inf")
        self._malformed_count = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.host!r}, {type(self._decoder).__name__})"

    async def open(self) -> None:
        """Start to connect; notices report connects and disconnects."""
        if self._task is None and not self._buffer.is_finished:
            client = optional_import("websockets.asyncio.client", "live", "WebSocketFeed")
            self._task = asyncio.create_task(self._run(client.connect))

    async def subscribe(self, symbols: Collection[str]) -> None:
        """Subscribe to more symbols, now if connected and after every connect."""
        new = [name for name in symbols if name not in self._symbols]
        self._symbols.update(dict.fromkeys(new))
        if self._socket is not None and new:
            from websockets.exceptions import ConnectionClosed

            try:
                for message in self._decoder.subscription(new):
                    await self._send(self._socket, message)
            except ConnectionClosed:
                # Subscribed with the others after the next connect.
                return
            except (asyncio.CancelledError, FeedError):
                # It may not have been sent: a second call must send it again.
                for name in new:
                    del self._symbols[name]
                raise

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """Events of `backfill` after `exchange_time`; none without it."""
        if self._backfill is None:
            return []
        seconds = self.limits.backfill_timeout
        return list(await call_within(self._backfill(exchange_time), seconds, "backfill"))

    async def close(self) -> None:
        """Close the connection and discard buffered events."""
        self._buffer.discard()
        self.health.is_connected = False
        if self._socket is not None:
            # Close before cancelling: a cancelled reader would send an error code to the venue.
            with contextlib.suppress(FeedError):
                seconds = 2 * self.limits.close_timeout
                await call_within(self._socket.close(), seconds, "close() of the websocket")
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)

    async def _run(self, connect: Any) -> None:
        try:
            while not self._buffer.is_finished:
                reason = await self._connection(connect)
                self._lost(reason)
                if self._failures == self.limits.attempts:
                    raise FeedError(
                        f"cannot connect to {self.host} after {self._failures} attempts: {reason}"
                    )
                await asyncio.sleep(self._backoff.seconds(self._failures, self._rng))
        except Exception as error:
            # Raised to the reader of the buffer.
            self._buffer.finish(error)

    async def _connection(self, connect: Any) -> str:
        """Connect, read until the connection ends, and return the reason."""
        from websockets.exceptions import WebSocketException

        limits = self.limits
        try:
            async with connect(
                revealed(self._url),
                additional_headers=revealed_headers(self._headers),
                max_size=limits.largest_frame,
                open_timeout=limits.open_timeout,
                ping_interval=limits.ping_interval,
                ping_timeout=limits.ping_timeout,
                close_timeout=limits.close_timeout,
                compression=None,
                logger=DISABLED_LOGGER,
            ) as socket:
                self._socket = socket
                await self._subscribe(socket)
                async for frame in socket:
                    is_awaited = self._buffer.is_awaited
                    self._take(frame)
                    if self._buffer.is_finished:
                        return "the feed was closed"
                    if is_awaited:
                        # Let the reader act on this frame before the next one is read.
                        await asyncio.sleep(0)
            return "closed by the venue"
        except (OSError, WebSocketException, asyncio.TimeoutError, FeedError) as error:
            # Without the error's message, which may contain the URL.
            return _reason(error)
        finally:
            self._socket = None

    async def _subscribe(self, socket: ClientConnection) -> None:
        # Before the subscription: its events must follow the notice.
        self.health.is_connected = True
        self._buffer.put(notice("connected", f"to {self.host}"))
        if self._subscribe_message is not None:
            await self._send(socket, revealed(self._subscribe_message))
        for message in self._decoder.subscription(list(self._symbols)):
            await self._send(socket, message)

    async def _send(self, socket: ClientConnection, message: str) -> None:
        await call_within(socket.send(message), self.limits.send_timeout, "a subscription")

    def _take(self, frame: str | bytes) -> None:
        # Only a frame resets the back-off: a venue may accept connections and close them at once.
        self._failures = 0
        try:
            events = self._decoder.decode(frame, time.time_ns(), time.perf_counter_ns())
        except FeedError as error:
            self._count_malformed(str(error))
            return
        for event in events:
            self._buffer.put(event)

    def _lost(self, reason: str) -> None:
        self._failures += 1
        self.health.reconnects += self.health.is_connected
        self.health.is_connected = False
        self._buffer.put(notice("disconnected", f"from {self.host}: {reason}"))

    def _count_malformed(self, detail: str) -> None:
        self.health.garbage += 1
        self._malformed_count += 1
        now = time.monotonic()
        if now - self._last_malformed_notice >= MALFORMED_NOTICE_SECONDS:
            text = f"{self._malformed_count} malformed frames, the last: {detail}"
            self._buffer.put(notice("garbage", text))
            self._last_malformed_notice, self._malformed_count = now, 0


def _host(url: str) -> str:
    """Scheme, host and port of a URL: the part without secrets."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("ws", "wss") or not host:
        raise ValueError("invalid URL; expected ws:// or wss:// such as wss://host/path")
    return f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")


def _reason(error: BaseException) -> str:
    name = type(error).__name__
    received = getattr(error, "rcvd", None) or getattr(error, "sent", None)
    code = getattr(received, "code", None)
    status = getattr(getattr(error, "response", None), "status_code", None)
    number = code if code is not None else status
    return name if number is None else f"{name} {number}"
