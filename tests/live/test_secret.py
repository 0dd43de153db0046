"""Secrets show themselves nowhere, and are redacted wherever they occur."""

from __future__ import annotations

import base64
import copy
import json
import pickle
import time
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live import Secret
from sekai.live import secret as secret_module
from sekai.live.journal import Journal, read_journal
from sekai.live.secret import MAX_KNOWN, revealed_headers, without_secrets
from sekai.live.session_log import SessionLog, redacted
from sekai.live.status import SessionStatus
from tests.live.sessions import session, world

KEY = "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"
TEXTS = st.text(min_size=6, max_size=40).filter(lambda text: "***" not in text)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of these tests are not searched for in those of others."""
    monkeypatch.setattr(secret_module, "_REGISTRY", secret_module._Registry())


def test_a_secret_is_shown_by_reveal_alone() -> None:
    secret = Secret(KEY)

    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>80}",
        repr([secret]),
        repr({1: secret}),
    ]

    assert not any(KEY in text for text in shown)
    assert secret.reveal() == KEY
    assert not hasattr(secret, "__dict__")


def test_a_secret_is_never_pickled_and_its_copy_is_itself() -> None:
    secret = Secret(KEY)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(secret, protocol)
    with pytest.raises(TypeError):
        json.dumps(secret)

    assert copy.deepcopy([secret])[0] is copy.copy(secret) is secret


def test_secrets_are_equal_by_their_text_and_never_to_plain_text() -> None:
    assert Secret(KEY) == Secret(KEY)
    assert len({Secret(KEY), Secret(KEY)}) == 1
    assert Secret(KEY) != Secret(KEY[:-1] + "B")
    assert Secret(KEY) != KEY


@pytest.mark.parametrize("text", ["", "short", 5, None])
def test_short_secrets_are_refused_without_showing_them(text: object) -> None:
    with pytest.raises(ValueError, match="at least 6 characters") as error:
        Secret(text)  # type: ignore[arg-type]

    assert "short" not in str(error.value).replace("shorter", "")


@given(text=TEXTS, user=st.text("abc:", max_size=5))
def test_every_encoding_of_a_secret_is_redacted(text: str, user: str) -> None:
    secret = Secret(text)
    content = text.encode("utf-8", "surrogatepass")
    pair = user.encode() + b":" + content
    written = [
        f"before {text} after",
        json.dumps({"a": text}),
        repr([text]),
        repr(content),
        f"https://host/{quote(text, safe='')}/orders",
        f"https://host/?{urlencode({'x': text})}",
        base64.b64encode(content).decode(),
        base64.urlsafe_b64encode(content).decode(),
    ]

    for line in written:
        assert without_secrets(line) != line
        assert text not in without_secrets(line)
    # A part of user and secret, from which the secret cannot be read.
    assert len(without_secrets(base64.b64encode(pair).decode())) <= len(user) * 2 + 16
    assert secret.reveal() == text


def test_the_number_of_known_secrets_is_bounded_and_redaction_stays_quick() -> None:
    secrets = [Secret(f"generated-secret-{number:06}") for number in range(2 * MAX_KNOWN)]

    text = f"{secrets[-1].reveal()} " + "x" * 100_000
    start = time.thread_time()
    assert secrets[-1].reveal() not in redacted(text)
    assert time.thread_time() - start < 2.0


def test_a_secret_reaches_no_file_of_a_session(tmp_path: Path) -> None:
    place, secret = world(), Secret("quiet-" + KEY)
    calls = 0

    def policy(observation: object) -> object:
        nonlocal calls
        calls += 1
        raise RuntimeError(f"GET https://host/v1/{secret.reveal()}/orders: {secret.reveal()!r}")

    with pytest.raises(RuntimeError):
        session(place, tmp_path / "paper", policy=policy)
    with SessionLog(tmp_path / "paper" / "other.jsonl") as log:
        log.event("sent", url=secret.reveal(), headers={"x": secret}, raw=secret.reveal().encode())

    assert calls == 1
    files = [item for item in tmp_path.rglob("*") if item.is_file()]
    assert len(files) > 4
    assert [item.name for item in files if KEY.encode() in item.read_bytes()] == []


def test_journal_and_status_redact_every_text(tmp_path: Path) -> None:
    secret = Secret("journal-" + KEY)
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append("notice", notice="garbage", detail=f"x {secret.reveal()}")
    journal.append("report", id=secret.reveal(), nested={"a": [secret.reveal()]})
    journal.close()

    status = SessionStatus(session="s", state="killed", kill_detail=secret.reveal())

    assert KEY not in path.read_text()
    assert KEY not in status.to_json()
    assert len(list(read_journal(path))) == 3


def test_headers_may_hold_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUE_KEY", KEY)

    headers: dict[str, str | Secret] = {
        "X-MBX-APIKEY": Secret.from_env("VENUE_KEY"),
        "Accept": "text/plain",
    }

    assert revealed_headers(headers) == {"X-MBX-APIKEY": KEY, "Accept": "text/plain"}
    with pytest.raises(KeyError, match="OTHER_KEY is not set"):
        Secret.from_env("OTHER_KEY")
