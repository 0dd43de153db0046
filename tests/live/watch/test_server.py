"""Connections without a token are closed, so that they cannot block other clients."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
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


@contextlib.contextmanager
def running(folder: SessionFolder) -> Iterator[int]:
    """Port of a running monitor."""
    put(folder, sample())
    app = watch_app([SessionSource(folder)], TOKEN)
    with server.listening_socket("127.0.0.1", 0) as listener:
        service = server.Service(app, listener)
        thread = threading.Thread(target=service.run)
        thread.start()
        yield listener.getsockname()[1]
        app.state.stream.end()
        service._server.should_exit = True
        thread.join(20)


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Address of a monitor that closes idle connections soon."""
    monkeypatch.setattr(server, "IDLE_SECONDS", IDLE)
    with running(SessionFolder(tmp_path / "paper")) as found:
        yield found


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Address of a monitor, and the kill file of its session."""
    folder = SessionFolder(tmp_path / "paper")
    with running(folder) as found:
        yield found, folder.kill


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
        line.settimeout(30)
        assert b"beat" in line.recv(65_536)


KILL = (
    "POST /api/kill HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    f"Authorization: Bearer {TOKEN}\r\nContent-Length: 13\r\n\r\n"
    '{"source": 0}'
)
SLOW = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
UNAUTHORIZED = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HEALTH = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@contextlib.contextmanager
def crowd(port: int, count: int, sent: str) -> Iterator[list[socket.socket]]:
    """Connections that send the same and stay open."""
    lines: list[socket.socket] = []
    try:
        for _ in range(count):
            line = socket.create_connection(("127.0.0.1", port), timeout=30)
            lines.append(line)
            with contextlib.suppress(OSError):
                line.sendall(sent.encode())
        yield lines
    finally:
        for line in lines:
            line.close()


def killed_after(port: int) -> float:
    """Seconds until a kill by token is answered."""
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall(KILL.encode())
        answer = line.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 200")
    return time.monotonic() - begin


@pytest.mark.parametrize("count", [300, 1_000])
@pytest.mark.parametrize(
    "sent", ["", SLOW, UNAUTHORIZED, HEALTH], ids=["idle", "slow", "unauthorized", "public"]
)
def test_a_kill_is_answered_however_many_connections_have_no_token(
    monitor: tuple[int, Path], count: int, sent: str
) -> None:
    port, kill = monitor

    with crowd(port, count, sent):
        seconds = killed_after(port)

    assert seconds < 20.0
    assert kill.exists()


FLOOD = """
import contextlib, socket, sys

while True:
    lines = []
    with contextlib.suppress(OSError):
        for _ in range(100):
            line = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=1)
            lines.append(line)
            line.sendall(b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
    for line in lines:
        line.close()
"""


def test_a_kill_is_answered_during_a_flood_of_connections(monitor: tuple[int, Path]) -> None:
    port, kill = monitor
    # In another process: it must not share the interpreter lock with the server.
    attacker = subprocess.Popen([sys.executable, "-c", FLOOD, str(port)])
    try:
        time.sleep(1.0)
        seconds = [killed_after(port) for _ in range(10)]
        assert attacker.poll() is None
    finally:
        attacker.kill()
        attacker.wait()

    # As many connections as fit into the backlog are ahead of it, all of the time.
    assert max(seconds) < 20.0
    assert kill.exists()


def test_an_authorized_connection_is_kept_while_others_are_closed(
    monitor: tuple[int, Path],
) -> None:
    port, _ = monitor
    with socket.create_connection(("127.0.0.1", port), timeout=30) as listening:
        listening.sendall(ASKING.encode())
        assert listening.recv(65_536)

        with crowd(port, 600, SLOW):
            time.sleep(0.5)

        listening.settimeout(30)
        assert b"beat" in listening.recv(65_536) + listening.recv(65_536)


def test_a_request_must_be_complete_in_time(
    monitor: tuple[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, _ = monitor
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    begin = time.monotonic()

    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(SLOW.encode())
        assert is_hung_up(line, 20)

    assert time.monotonic() - begin > 0.2
