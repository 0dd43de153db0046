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

__all__ = ["Service", "listening_socket", "server_url"]

BACKLOG = 32
"""Pending connections of the socket."""

IDLE_SECONDS = 10.0
"""Seconds that a connection may be open without a request."""


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
            access_log=False,
            log_level="critical",
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            limit_concurrency=256,
            h11_max_incomplete_event_size=16_384,
        )
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


class _Connection(H11Protocol):
    """Connection that is closed when idle, or when its request stays incomplete.

    Otherwise clients without a token could hold all connections and block the kill switch.
    """

    _last_cycle: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(IDLE_SECONDS, self._close_if_idle)

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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.is_interrupted = True
        # Event streams do not end by themselves.
        self.config.app.state.stream.end()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)
