"""HTTP server of the monitor, with a fast shutdown."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from sekai.live.watch.security import Token

__all__ = ["Service", "listening_socket", "server_url"]

BACKLOG = 1_024
"""Pending connections of the socket."""

ACCEPTED_AT_ONCE = 64
"""Connections accepted before requests of others are read."""

IDLE_SECONDS = 10.0
"""Seconds that a connection may be open without a request."""

HEADER_SECONDS = 2.0
"""Seconds until the first request of a connection must be complete."""

UNAUTHORIZED_SHARE = 64
"""Connections that have not sent the token; of more, the oldest are closed."""

YOUNG_SECONDS = 0.25
"""A connection of this age is not closed for a newer one, so that its request can be read."""

MOST_UNAUTHORIZED = 512
"""Connections that have not sent the token, of any age."""

REQUESTS_PER_SECOND = 64
"""Requests without a token that are read; of more, each is refused by its first bytes."""

MAX_TOKEN_BYTES = 512
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Length: 37\r\n\r\ntoo many connections without a token\n"
)


def listening_socket(host: str, port: int) -> socket.socket:
    """Create a listening socket.

    Args:
        host: address or name.
        port: 0 for any free port.

    Raises:
        OSError: the address is in use, or not of this machine.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def server_url(listener: socket.socket) -> str:
    """URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class Service:
    """Server of an app; inside its `with` block SIGINT and SIGTERM end it.

    Args:
        app: result of `watch_app`.
        listener: result of `listening_socket`.
    """

    def __init__(self, app: Starlette, listener: socket.socket) -> None:
        # No access log: it could contain tokens.
        config = uvicorn.Config(
            app,
            http=_Connection,
            loop="asyncio",
            backlog=ACCEPTED_AT_ONCE,
            access_log=False,
            log_level="critical",
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=16_384,
        )
        app.state.waiting = _Waiting(app.state.token)
        self._server = _Server(config)
        self._listener = listener
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Service:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._server.handle_exit)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def run(self) -> None:
        """Serve until a signal ends the server.

        Raises:
            KeyboardInterrupt: a signal arrived.
        """
        self._server.run(sockets=[self._listener])
        if self._server.is_interrupted:
            raise KeyboardInterrupt


class _Waiting:
    """Connections that have not sent the token yet, oldest first.

    They hold at most a share of the connections and, when there are many, are answered without
    reading their requests: clients without a token cannot block the kill switch.
    """

    def __init__(self, token: Token) -> None:
        self._token = token
        self._since: dict[_Connection, float] = {}
        self._second = self._requests = 0

    def add(self, connection: _Connection, now: float) -> None:
        self._since[connection] = now
        while len(self._since) > UNAUTHORIZED_SHARE:
            oldest = next(iter(self._since))
            is_young = now - self._since[oldest] < YOUNG_SECONDS
            if not oldest.is_readable or (is_young and len(self._since) <= MOST_UNAUTHORIZED):
                return
            del self._since[oldest]
            oldest.transport.abort()

    def discard(self, connection: _Connection) -> None:
        self._since.pop(connection, None)

    def is_refused(self, connection: _Connection, data: bytes, now: float) -> bool:
        """Return True for data without the token while there are many such requests."""
        if connection not in self._since:
            return False
        if self._token.is_in(data):
            # Only who has the token can send it.
            self.discard(connection)
            return False
        if int(now) != self._second:
            self._second, self._requests = int(now), 0
        self._requests += 1
        is_crowded = len(self._since) > UNAUTHORIZED_SHARE // 2
        return is_crowded or self._requests > REQUESTS_PER_SECOND


class _Connection(H11Protocol):
    """Connection that is closed when idle, or when its request stays incomplete.

    Otherwise clients without a token could hold all connections and block the kill switch.
    """

    is_readable = False
    """True once its first data, if it was there, has been read."""

    _last_cycle: RequestResponseCycle | None = None
    _tail = b""
    _waiting: _Waiting

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waiting = self.config.app.state.waiting  # type: ignore[union-attr]
        self._waiting.add(self, self.loop.time())
        # The loop reads the socket for the first time in its next turn.
        self.loop.call_soon(self.loop.call_soon, self._set_readable)
        self.loop.call_later(HEADER_SECONDS, self._close_without_request)
        self.loop.call_later(IDLE_SECONDS, self._close_if_idle)

    def data_received(self, data: bytes) -> None:
        # The token may be divided between two reads.
        head, self._tail = self._tail + data, data[-MAX_TOKEN_BYTES:]
        if self._waiting.is_refused(self, head, self.loop.time()):
            self.transport.write(BUSY)
            self.transport.close()
            self._waiting.discard(self)
            return
        super().data_received(data)

    def _set_readable(self) -> None:
        self.is_readable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting.discard(self)
        super().connection_lost(exc)

    def _close_without_request(self) -> None:
        has_request = self.cycle is not None
        if not has_request:
            self.transport.abort()

    def _close_if_idle(self) -> None:
        if self.transport.is_closing():
            # The client does not read the rest of the response.
            self.transport.abort()
            return
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self.cycle is self._last_cycle:
            self.transport.close()
        self._last_cycle = self.cycle
        self.loop.call_later(IDLE_SECONDS, self._close_if_idle)


class _Server(uvicorn.Server):
    is_interrupted = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        # asyncio accepts as many connections at once as its backlog has; that of the system is
        # longer, so that none is refused meanwhile.
        for listener in sockets or []:
            listener.listen(BACKLOG)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.is_interrupted = True
        # Event streams do not end by themselves.
        self.config.app.state.stream.end()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)
