"""Serves the app until somebody asks it to end, which takes no longer than a moment."""

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

__all__ = ["Service", "address_of", "listening"]

WAITING = 32
"""Connections that may wait to be taken."""

IDLE_SECONDS = 10.0
"""For so long a connection may be open without a question."""


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens, so that an address is told only where one is.

    Args:
        host: an address or a name.
        port: 0 for any that is free.

    Raises:
        OSError: it is taken, or not of this machine.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(WAITING)
    except OSError:
        made.close()
        raise
    return made


def address_of(listener: socket.socket) -> str:
    """What to type into a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class Service:
    """An app at a socket; while it is entered, a request to end is kept until it can be met."""

    def __init__(self, app: Starlette, listener: socket.socket) -> None:
        """Say what is served, and where.

        Args:
            app: that `watch_app` gave.
            listener: that `listening` gave.
        """
        # No log of requests: there is nothing in them to tell, and a token could be.
        config = uvicorn.Config(
            app, http=_Connection, access_log=False, log_level="critical", server_header=False,
            lifespan="off", ws="none", proxy_headers=False, timeout_keep_alive=5,
            timeout_graceful_shutdown=1, limit_concurrency=256,
            h11_max_incomplete_event_size=16_384,
        )  # fmt: skip
        self._server = _Server(config)
        self._listener = listener
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Service:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._server.handle_exit)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self) -> None:
        """Serve until somebody asks it to end.

        Raises:
            KeyboardInterrupt: somebody did.
        """
        self._server.run(sockets=[self._listener])
        if self._server.is_interrupted:
            raise KeyboardInterrupt


class _Connection(H11Protocol):
    """Hangs up on who asks nothing, or never comes to the end of a question.

    Otherwise anybody, without a token, could hold as many as there may be, and keep out who wants
    to stop trading.
    """

    _seen: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            # What was sent last is read by nobody.
            self.transport.abort()
            return
        has_nothing_to_do = self.cycle is None or self.cycle.response_complete
        if has_nothing_to_do and self.cycle is self._seen:
            self.transport.close()
        self._seen = self.cycle
        self.loop.call_later(IDLE_SECONDS, self._look)


class _Server(uvicorn.Server):
    is_interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.is_interrupted = True
        # Streams never end by themselves.
        self.config.app.state.stream.end()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)
