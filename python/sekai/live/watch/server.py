"""Serves the app until somebody asks it to end, which takes no longer than a moment."""

from __future__ import annotations

import socket
from types import FrameType

import uvicorn
from starlette.applications import Starlette

__all__ = ["address_of", "listening", "serve"]

WAITING = 32
"""Connections that may wait to be taken."""


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


def serve(app: Starlette, listener: socket.socket) -> None:
    """Serve until an interrupt, and raise it then.

    Raises:
        KeyboardInterrupt: somebody asked it to end.
    """
    # No log of requests: there is nothing in them to tell, and a token could be.
    config = uvicorn.Config(
        app, access_log=False, log_level="critical", server_header=False, lifespan="off",
        ws="none", proxy_headers=False, timeout_keep_alive=5, timeout_graceful_shutdown=1,
        limit_concurrency=256, h11_max_incomplete_event_size=16_384,
    )  # fmt: skip
    server = _Server(config)
    server.run(sockets=[listener])
    if server.is_interrupted:
        raise KeyboardInterrupt


class _Server(uvicorn.Server):
    is_interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.is_interrupted = True
        # Streams never end by themselves.
        self.config.app.state.stream.end()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)
