from __future__ import annotations

import json
import logging
import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.live.session_log import LOGGER, SessionLog, is_secret_name, redacted, redacted_fields

# Letters of no word that is written here: what is found was leaked.
MARK = "QZX"
PLAIN = st.text(string.ascii_letters + string.digits + "-_.~+/=", max_size=20).map(
    lambda text: f"{MARK}{text}{MARK}"
)
URL_SAFE = st.text(string.ascii_letters + string.digits + "-_.~!$*+,;:%=", max_size=20).map(
    lambda text: f"{MARK}{text}{MARK}"
)
ANYTHING = st.one_of(st.text(max_size=20), st.text("\"'\\ ,&", max_size=6)).map(
    lambda text: f"{MARK}{text}{MARK}"
)
NAMES = st.sampled_from(
    ["token", "access_token", "api_key", "apiKey", "API-KEY", "secret", "client_secret",
     "password", "passwd", "signature", "listenKey", "X-MBX-APIKEY", "session_token", "key",
     "credentials", "passphrase", "private_key", "Set-Cookie", "jwt"]
)  # fmt: skip
HEADERS = st.sampled_from(
    ["API-Sign", "API-Key", "X-MBX-APIKEY", "KC-API-SIGN", "KC-API-KEY", "KC-API-PASSPHRASE",
     "OK-ACCESS-SIGN", "CB-ACCESS-SIGN", "X-BAPI-SIGN", "X-GEMINI-SIGNATURE", "apca-api-secret-key"]
)  # fmt: skip
KEYS = st.text(string.ascii_letters + string.digits + "_-", min_size=26, max_size=60).map(
    lambda text: f"{MARK}{text}{MARK}"
)
PEM = "-----BEGIN {}PRIVATE KEY-----\n{}\n{}\n-----END PRIVATE KEY-----"
AROUND = st.text(string.ascii_lowercase + " .,", max_size=20)
IN_TEXT = st.one_of(
    st.builds("wss://me:{}@host/path".format, URL_SAFE),
    st.builds("https://{}@host".format, URL_SAFE),
    st.builds("Authorization: Bearer {}".format, PLAIN),
    st.builds("authorization: Basic {}".format, PLAIN),
    st.builds("Authorization: {} {}".format, PLAIN, PLAIN),
    st.builds("{{'Authorization': 'Bearer {}'}}".format, PLAIN),
    st.builds("bearer {}".format, PLAIN),
    st.builds("GET https://host/path?symbol=A&{}={}&limit=5".format, NAMES, PLAIN),
    st.builds("{}={}".format, NAMES, PLAIN),
    st.builds("{}: {}".format, NAMES, PLAIN),
    st.builds("{} = '{}'".format, NAMES, PLAIN),
    st.builds("{{'{}': '{}'}}".format, NAMES, PLAIN),
    st.builds(lambda name, secret: json.dumps({"a": 1, name: secret}), NAMES, ANYTHING),
    st.builds(lambda name, secret: json.dumps(json.dumps({name: secret})), NAMES, ANYTHING),
    st.builds(lambda name, secret: repr({name: secret}), NAMES, ANYTHING),
    st.builds("eyJhbGciOi{}.eyJ{}.{}".format, *[st.just(MARK)] * 3),
    st.builds("GET https://host:8443/v1/{}/orders?limit=5".format, KEYS),
    st.builds("wss://host/ws/{} was closed".format, KEYS),
    st.builds("https://api.host/bot12345:{}/sendMessage".format, KEYS),
    st.builds("https://hooks.slack.com/services/T01/B02/{}".format, PLAIN),
    st.builds(PEM.format, st.sampled_from(["", "RSA ", "EC ", "OPENSSH "]), PLAIN, PLAIN),
    st.builds(lambda secret: json.dumps({"a": PEM.format("", secret, secret)}), PLAIN),
    st.builds("-----BEGIN PRIVATE KEY-----\n{}".format, PLAIN),
    st.builds("{}: {}".format, HEADERS, PLAIN),
    st.builds(lambda name, secret: repr({name: secret}), HEADERS, ANYTHING),
    st.builds(lambda name, secret: repr([(name, secret)]), HEADERS, PLAIN),
    st.builds(lambda name, secret: repr([(name.encode(), secret.encode())]), HEADERS, PLAIN),
)


@settings(deadline=None)
@given(before=AROUND, secret=IN_TEXT, after=AROUND)
def test_secrets_are_taken_out_of_words(before: str, secret: str, after: str) -> None:
    found = redacted(f"{before} {secret} {after}")

    assert MARK not in found
    assert "***" in found
    assert redacted(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "order s-12-BTC rejected: insufficient funds",
        "wss://stream.host:9443/ws/btcusdt@trade was closed: code 1006",
        "the feed is stale: 12.5 s since 2024-05-06T07:08:09Z",
        "keyboard: yes, monkey=3, turkey: 2",
        "https://api.host:443/api/v3/klines?symbol=BTCUSDT&interval=1m is unreachable",
        "/home/user/runs/a-very-long-name-of-a-run-that-is-no-secret-at-all/live/paper",
        "design: round, assign=3, ('price', 'size') of robot:5",
        "-----BEGIN CERTIFICATE-----",
        "{'symbol': 'BTC', 'price': 5}",
        "",
    ],
)
def test_words_without_secrets_stay_as_they_are(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    ["a-" * 50_000, "a://" * 20_000, "x" * 100_000, '"' * 50_000, "authorization" * 9000,
     "token" * 20_000, "token " * 20_000, "token\\" * 20_000, "key:" + " " * 99_999,
     "basic" + " " * 99_999, "eyJaaaaa-" * 9000, "token='" * 10_000, "://@" * 20_000,
     "-----BEGIN PRIVATE KEY-----" * 4000, "-" * 100_000, "-----BEGIN " * 9000, "://h/" * 20_000,
     "://h/" + "a" * 100_000, "/bot1:" * 20_000, "'key'," * 20_000, "'key'" + " " * 99_999]
)  # fmt: skip
def test_long_words_take_no_longer_than_their_length(text: str) -> None:
    start = time.thread_time()
    redacted(text)

    assert time.thread_time() - start < 2.0


@given(secret=ANYTHING, text=st.text())
def test_what_is_known_to_be_secret_is_found_anywhere(secret: str, text: str) -> None:
    assert secret not in redacted(f"{text}{secret}{text}", secrets=[secret, ""])


@given(name=NAMES, secret=ANYTHING)
def test_fields_are_hidden_by_their_name(name: str, secret: str) -> None:
    fields: dict[str, Any] = {
        name: secret,
        "a": [{name: [secret]}],
        "b": {"c": {name: {1: secret}}},
    }

    assert is_secret_name(name)
    assert MARK not in repr(redacted_fields(fields))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SessionLog]:
    with SessionLog(tmp_path / "log.jsonl", secrets=["open sesame"]) as opened:
        yield opened


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_an_event_is_a_line_with_its_fields(log: SessionLog, tmp_path: Path) -> None:
    log.event("reconnected", tries=3, wait=np.float32(0.5), level_="x", time="other")
    log.event("quiet", logging.DEBUG)

    (line,) = lines_of(tmp_path / "log.jsonl")
    assert line["time"].endswith("Z")
    assert len(line["time"]) == 24
    del line["time"]
    assert line == {
        "level": "info", "event": "reconnected", "tries": 3, "wait": 0.5, "level_": "x",
        "time_": "other",
    }  # fmt: skip


def test_what_libraries_mark_records_with_is_left_out(log: SessionLog, tmp_path: Path) -> None:
    logging.getLogger(LOGGER).info("seen", extra={"_library_time": 1, "rows": 2})

    (line,) = lines_of(tmp_path / "log.jsonl")
    assert line.keys() == {"time", "level", "event", "rows"}


def test_what_others_log_is_a_line_too(log: SessionLog, tmp_path: Path) -> None:
    logger = logging.getLogger(f"{LOGGER}.feed")
    try:
        raise RuntimeError("cannot reach wss://me:hunter2@host")
    except RuntimeError:
        logger.exception("lost %s", "https://h/?token=hunter2", extra={"password": "hunter2"})

    (line,) = lines_of(tmp_path / "log.jsonl")
    assert line["event"] == "lost https://h/?token=***"
    assert "RuntimeError: cannot reach wss://***@host" in line["error"]
    assert line["password"] == "***"


@settings(deadline=None, max_examples=60)
@given(secret=IN_TEXT, value=ANYTHING, name=NAMES)
def test_nothing_secret_is_ever_written(
    tmp_path_factory: pytest.TempPathFactory, secret: str, value: str, name: str
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    with SessionLog(path, secrets=["open sesame"]) as log:
        log.event(secret, url=secret, nested={"a": [secret], name: value}, raw=secret.encode())
        log.event("said", word="open sesame", bytes=b"open sesame", inside={"open sesame": 1})
        logging.getLogger(LOGGER).warning(secret, extra={name: value, "url": secret})

    written = path.read_text(encoding="utf-8")
    assert MARK not in written
    assert "open sesame" not in written
    assert len(lines_of(path)) == 3


def test_numbers_that_are_not_finite_have_words(log: SessionLog, tmp_path: Path) -> None:
    log.event("odd", a=float("nan"), b=[float("-inf")], c={"d": float("inf")})

    (line,) = lines_of(tmp_path / "log.jsonl")
    assert (line["a"], line["b"], line["c"]) == ("nan", ["-inf"], {"d": "inf"})


def test_a_full_file_makes_way_for_a_new_one(tmp_path: Path) -> None:
    with SessionLog(tmp_path / "log.jsonl", largest=1000, kept=2) as log:
        for number in range(100):
            log.event("counted", number=number)

    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["log.jsonl", "log.jsonl.1", "log.jsonl.2"]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    assert lines_of(tmp_path / "log.jsonl")[-1]["number"] == 99


def test_a_full_disk_stops_nobody_and_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    with SessionLog("/dev/full") as log:
        log.event("token=hunter2")
        logging.getLogger(LOGGER).warning("password: hunter2")

        assert log.lost == 2
    assert "hunter2" not in capsys.readouterr().err


def test_a_closed_log_writes_no_more(tmp_path: Path) -> None:
    logger = logging.getLogger(LOGGER)
    before = logger.level, list(logger.handlers)
    log = SessionLog(tmp_path / "log.jsonl")
    log.close()
    log.close()

    log.event("late")

    assert (logger.level, list(logger.handlers)) == before
    assert lines_of(tmp_path / "log.jsonl") == []
