"""Idle connections are closed, so that they cannot block other clients."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sekai.live.config import SessionFolder
from sekai.live.watch import SessionSource, server
from sekai.live.watch.app import watch_app
from tests.live.watch.samples import TOKEN, put, sample

IDLE = 0.3
ASKING = f"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
REFUSED = "POST /api/kill HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999\r\n\r\n"


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Address of a running monitor."""
    monkeypatch.setattr(server, "IDLE_SECONDS", IDLE)
    folder = SessionFolder(tmp_path / "paper")
    put(folder, sample())
    app = watch_app([SessionSource(folder)], TOKEN)
    with server.listening_socket("127.0.0.1", 0) as listener:
        service = server.Service(app, listener)
        running = threading.Thread(target=service.run)
        running.start()
        yield listener.getsockname()[1]
        app.state.stream.end()
        service._server.should_exit = True
        running.join(20)


def is_hung_up(line: socket.socket, seconds: float = 10) -> bool:
    """Return True if the server closes the connection within a time."""
    line.settimeout(seconds)
    try:
        while line.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "sent",
    ["", "GET / HT", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", REFUSED + "x"],
    ids=["nothing", "half a line", "half a header", "half a body"],
)
def test_who_never_ends_a_question_is_hung_up_on(port: int, sent: str) -> None:
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(sent.encode())
        for _ in range(3):
            # A letter now and then is no question either.
            time.sleep(IDLE / 3)
            if sent:
                line.sendall(b"x")

        assert is_hung_up(line)


def test_who_listens_is_not_hung_up_on(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(ASKING.encode())

        assert b"event: source" in line.recv(65_536) + line.recv(65_536)
        line.settimeout(4 * IDLE)
        with contextlib.suppress(TimeoutError):
            assert line.recv(65_536)
        line.settimeout(10)
        assert b"beat" in line.recv(65_536)
