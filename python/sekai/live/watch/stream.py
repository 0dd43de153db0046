"""Polling of monitor sources, and their server-sent event stream."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from sekai.live.watch.sources import MonitorSource

__all__ = ["EventStream", "SourcePoller", "SourceState"]

READ_SECONDS = 0.2
"""Shortest time between two polls of the files."""

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # Proxies must not buffer the stream.
    (b"x-accel-buffering", b"no"),
]


@dataclass(slots=True)
class SourceState:
    """Last state of a source, as a value and as JSON."""

    version: Hashable = field(default_factory=object)
    value: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    changes: int = 0


class SourcePoller:
    """Polls all sources and keeps their state: it costs the same for any number of clients.

    Args:
        sources: the sources in display order.
        read_seconds: shortest time between two polls.
    """

    def __init__(
        self, sources: Sequence[MonitorSource], read_seconds: float = READ_SECONDS
    ) -> None:
        self.sources = tuple(sources)
        self._states = tuple(SourceState() for _ in self.sources)
        self._read_seconds = read_seconds
        self._last_poll = -float("inf")
        self._lock = asyncio.Lock()

    async def states(self, *, at_once: bool = False) -> tuple[SourceState, ...]:
        """State of each source, at most `read_seconds` old; `at_once` polls now."""
        async with self._lock:
            if at_once or time.monotonic() - self._last_poll >= self._read_seconds:
                # In a thread: the first read of a long training run takes a while.
                await asyncio.to_thread(self._poll)
                self._last_poll = time.monotonic()
        return self._states

    def _poll(self) -> None:
        for source, state in zip(self.sources, self._states, strict=True):
            version = source.version()
            if version == state.version:
                continue
            value = source.read()
            text = json.dumps(value, allow_nan=False)
            state.version, state.value = version, value
            if text != state.text:
                state.text = text
                state.changes += 1


class EventStream:
    """Server-sent events: sends each client the sources that changed since its last event.

    Nothing is queued: a slow client gets fewer events, one that does not read is disconnected.

    Args:
        poller: state of the sources.
        most_clients: largest number of clients; more get a 503.
        poll_seconds: polling interval.
        beat_seconds: longest time without an event.
        send_seconds: timeout of a send.
    """

    def __init__(
        self,
        poller: SourcePoller,
        *,
        most_clients: int = 32,
        poll_seconds: float = 0.25,
        beat_seconds: float = 2.0,
        send_seconds: float = 20.0,
    ) -> None:
        self._poller = poller
        self._most_clients = most_clients
        self._poll_seconds = poll_seconds
        self._beat_seconds = beat_seconds
        self._send_seconds = send_seconds
        self._is_ending = False
        self.clients = 0

    def end(self) -> None:
        """Disconnect all clients."""
        self._is_ending = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client until it disconnects."""
        if self.clients >= self._most_clients:
            text = f"too many clients: {self._most_clients}; close a page or try again\n"
            await PlainTextResponse(text, 503, {"Retry-After": "5"})(scope, receive, send)
            return
        self.clients += 1
        disconnect = asyncio.ensure_future(_until_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._serve(disconnect, send)
        finally:
            self.clients -= 1
            disconnect.cancel()

    async def _serve(self, disconnect: asyncio.Future[None], send: Send) -> None:
        seen = [0] * len(self._poller.sources)
        last = -float("inf")
        while not disconnect.done() and not self._is_ending:
            text = ""
            for index, state in enumerate(await self._poller.states()):
                if state.changes != seen[index]:
                    seen[index] = state.changes
                    text += f"event: source\nid: {index}\ndata: {state.text}\n\n"
            if text or time.monotonic() - last >= self._beat_seconds:
                text += f": beat\nevent: beat\ndata: {json.dumps(time.time())}\n\n"
                if not await self._send(text, send):
                    return
                last = time.monotonic()
            await asyncio.wait({disconnect}, timeout=self._poll_seconds)
        if not disconnect.done():
            await self._send("", send, is_last=True)

    async def _send(self, text: str, send: Send, *, is_last: bool = False) -> bool:
        message = {"type": "http.response.body", "body": text.encode(), "more_body": not is_last}
        try:
            await asyncio.wait_for(send(message), self._send_seconds)
        except asyncio.TimeoutError:
            return False
        return True


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
