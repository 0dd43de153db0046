"""Access control: hosts, tokens, cookies, CSRF and body limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sekai.live.config import SessionFolder
from sekai.live.watch import SessionSource
from sekai.live.watch.app import watch_app
from sekai.live.watch.security import MAX_BODY_BYTES, Token
from tests.live.watch.client import HERE, Client
from tests.live.watch.samples import TOKEN, put, sample

DOORS = [
    ("GET", "/"),
    ("GET", "/api/state"),
    ("GET", "/metrics"),
    ("GET", "/assets/session.js"),
    ("GET", "/assets/plotly.js"),
    ("POST", "/api/kill"),
    ("POST", "/api/release"),
]
CLOSED = [
    *DOORS,
    ("GET", "/api/stream"),
    ("GET", "/nowhere"),
    ("PUT", "/"),
    ("OPTIONS", "/metrics"),
]
BODIES = {"/api/kill": {"source": 0}, "/api/release": {"source": 0, "confirm": "paper"}}
BEARER = {"Authorization": f"Bearer {TOKEN}"}
COOKIE = {"Cookie": f"{Token(TOKEN).cookie_name}={Token(TOKEN).cookie_value}"}
WRONG = [
    {},
    {"Authorization": "Bearer "},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN[:-1]}"},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": TOKEN},
    {"Cookie": f"{Token(TOKEN).cookie_name}={TOKEN}"},
    {"Cookie": f"token={TOKEN}"},
    {**COOKIE, "Authorization": "Bearer wrong"},
]


@pytest.fixture
def folder(tmp_path: Path) -> SessionFolder:
    folder = SessionFolder(tmp_path / "paper")
    put(folder, sample())
    return folder


@pytest.fixture
def client(folder: SessionFolder) -> Client:
    return Client(watch_app([SessionSource(folder)], TOKEN))


def ask(
    client: Client, method: str, path: str, headers: dict[str, str], origin: str | None = HERE
) -> httpx.Response:
    sides = {"Origin": origin} if origin else {}
    if method == "POST":
        return client.post(path, json=BODIES[path], headers={**sides, **headers})
    return client.request(method, path, headers={**sides, **headers})


@pytest.mark.parametrize("headers", [BEARER, COOKIE], ids=["bearer", "cookie"])
@pytest.mark.parametrize(("method", "path"), DOORS)
def test_the_token_opens_every_door(
    client: Client, method: str, path: str, headers: dict[str, str]
) -> None:
    assert ask(client, method, path, headers).status_code == 200


@pytest.mark.parametrize("headers", WRONG, ids=str)
def test_nothing_opens_without_it_and_nothing_is_told(
    client: Client, folder: SessionFolder, headers: dict[str, str]
) -> None:
    for method, path in CLOSED:
        app = watch_app([SessionSource(folder)], TOKEN)
        answer = ask(Client(app), method, path, headers)
        assert answer.status_code == 401, path
        assert answer.text == "a token is needed: open the address that `sekai watch` printed\n"
        assert "set-cookie" not in answer.headers
        assert answer.headers["cache-control"] == "no-store"

    assert not folder.kill.exists()


def test_the_token_in_another_address_than_the_pages_opens_nothing(client: Client) -> None:
    for path in ("/api/state", "/metrics", "/healthzz"):
        assert client.get(path, params={"token": TOKEN}).status_code == 401
    assert client.post("/", params={"token": TOKEN}, json={}).status_code == 401


@pytest.mark.parametrize("headers", [{}, BEARER, COOKIE], ids=["nothing", "bearer", "cookie"])
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8321", "127.0.0.1.evil.example", "localhost.", "127.0.0.1@evil",
     "192.168.0.7:8321", "", "[::1", "127.0.0.1:port", "127.0.0.1/evil"],
)  # fmt: skip
def test_another_name_is_not_served_whatever_it_brings(
    client: Client, folder: SessionFolder, host: str, headers: dict[str, str]
) -> None:
    for method, path in [*CLOSED, ("GET", "/healthz"), ("GET", f"/?token={TOKEN}")]:
        answer = ask(client, method, path, {**headers, "Host": host}, f"http://{host}")
        assert answer.status_code == 403, path
        assert "set-cookie" not in answer.headers

    assert not folder.kill.exists()


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost:9000", "[::1]:8321", "LOCALHOST"])
def test_names_of_this_machine_are_served_at_any_port(client: Client, host: str) -> None:
    assert client.get("/api/state", headers={**BEARER, "Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/api/kill", "/api/release"])
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", None, "http://127.0.0.1:9999", "http://127.0.0.1",
     "ftp://127.0.0.1:8321", "http://[", "http://evil@127.0.0.1:8321"],
)  # fmt: skip
def test_a_page_from_elsewhere_changes_nothing_with_the_cookie(
    client: Client, folder: SessionFolder, path: str, origin: str | None
) -> None:
    answer = ask(client, "POST", path, COOKIE, origin)

    assert answer.status_code == 403
    assert not folder.kill.exists()
    assert ask(client, "POST", path, BEARER, origin).status_code == 200, "no browser sends a bearer"


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_a_page_from_elsewhere_reads_nothing_with_the_cookie(client: Client, site: str) -> None:
    told = {**COOKIE, "Sec-Fetch-Site": site}

    for path in ("/api/state", "/api/stream", "/metrics", "/assets/plotly.js"):
        assert client.get(path, headers=told).status_code == 403
    assert client.get("/", headers=told).status_code == 200, "a link may lead here"
    own = {**COOKIE, "Sec-Fetch-Site": "same-origin"}
    assert client.get("/api/state", headers=own).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_a_form_could_send_changes_nothing(
    client: Client, folder: SessionFolder, kind: str
) -> None:
    for headers in (BEARER, COOKIE):
        told = {**headers, "Origin": HERE, "Content-Type": kind}
        answer = client.post("/api/kill", content=b'{"source": 0}', headers=told)
        assert answer.status_code == 415

    assert not folder.kill.exists()


def test_the_token_in_the_address_becomes_a_cookie_and_goes_away(client: Client) -> None:
    answer = client.get("/", params={"token": TOKEN})

    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in answer.headers["set-cookie"], "the secret itself is kept nowhere"
    assert client.get("/").status_code == 200
    assert client.get("/", headers={"Cookie": ""}).status_code == 401


def test_who_follows_a_link_elsewhere_steps_in_without_a_redirect(client: Client) -> None:
    told = {"Sec-Fetch-Site": "cross-site"}

    answer = client.get("/", params={"token": TOKEN}, headers=told)

    assert answer.status_code == 200
    assert "set-cookie" in answer.headers
    assert TOKEN not in answer.text
    assert 'content="0;url=/"' in answer.text


def test_a_ticket_opens_the_page_once(folder: SessionFolder) -> None:
    token = Token(TOKEN)
    app = watch_app([SessionSource(folder)], token)
    ticket = token.ticket()

    def status(headers: dict[str, str] | None = None, **params: str) -> int:
        client = Client(app)
        return client.get("/", params=params, headers=headers).status_code

    assert status({"Authorization": f"Bearer {ticket}"}) == 401
    assert status(token=ticket) == 303
    assert status(token=ticket) == 401
    assert status(token=TOKEN) == 303


def test_wrong_tokens_are_counted_but_never_lock_out_who_is_right(client: Client) -> None:
    codes = [client.get("/", params={"token": f"guess {n}"}).status_code for n in range(15)]

    assert codes == [401] * 10 + [429] * 5
    assert client.get("/api/state").status_code == 401, "who brings none has not guessed"
    assert client.get("/api/state", headers={"Authorization": "Bearer no"}).status_code == 429
    assert client.get("/api/state", headers=BEARER).status_code == 200
    assert client.get("/api/state", headers=COOKIE).status_code == 200


def test_health_tells_nothing_but_that_it_is_there(client: Client) -> None:
    answer = client.get("/healthz")

    assert (answer.status_code, answer.text) == (200, "ok")


def test_every_answer_keeps_others_out(client: Client) -> None:
    answers = [ask(client, method, path, BEARER) for method, path in DOORS]
    answers += [client.get("/healthz"), client.get("/"), client.get("/", headers={"Host": "evil"})]
    for answer in answers:
        headers = answer.headers
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert not [name for name in headers if name.startswith("access-control")]
        is_plotly = answer.request.url.path == "/assets/plotly.js"
        assert headers["cache-control"] == (
            "private, max-age=86400" if is_plotly else "no-store"
        ), answer.request.url


def test_bodies_are_short(client: Client, folder: SessionFolder) -> None:
    told = {**BEARER, "Content-Type": "application/json"}
    long = b'{"source": 0, "reason": "' + b"x" * MAX_BODY_BYTES + b'"}'

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(long), 1000):
            yield long[at : at + 1000]

    assert client.post("/api/kill", content=long, headers=told).status_code == 413
    assert client.post("/api/kill", content=pieces(), headers=told).status_code == 413
    for wrong in ("-1", "9" * 5000, "²"):
        length = {**told, "Content-Length": wrong.encode("latin-1")}
        assert client.post("/api/kill", content=b"", headers=length).status_code == 413
    assert not folder.kill.exists()


def test_a_websocket_is_closed_at_once(client: Client) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/api/stream", "headers": []}
    asyncio.run(client.app(scope, receive, send))

    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("text", ["", "short", "x" * 31, "with a space in it " * 3, "ü" * 40])
def test_a_token_that_could_be_guessed_or_sent_wrong_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at least 32 letters") as refused:
        Token(text)

    assert not text or text not in str(refused.value)


def test_tokens_are_made_anew_and_shown_by_nobody() -> None:
    one, other = Token(), Token()

    assert one.text != other.text
    assert len(one.text) == 43
    assert one.text not in repr(one)
    assert one.cookie_name != other.cookie_name
