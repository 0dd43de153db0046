from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sekai.cli.training_source import TrainingSource
from sekai.live.config import SessionFolder
from sekai.live.watch import SessionSource
from sekai.live.watch.app import watch_app
from tests.live.watch.client import Client
from tests.live.watch.samples import HOSTILE, TOKEN, begin_run, put, sample

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def folder(tmp_path: Path) -> SessionFolder:
    folder = SessionFolder(tmp_path / "demo" / "live" / "paper")
    put(folder, sample())
    return folder


@pytest.fixture
def client(folder: SessionFolder, tmp_path: Path) -> Client:
    training = TrainingSource(begin_run(tmp_path / "runs"))
    return Client(watch_app([SessionSource(folder), training], TOKEN))


def test_the_state_is_what_all_sources_say(client: Client, folder: SessionFolder) -> None:
    first = client.get("/api/state", headers=BEARER).json()

    assert [one["kind"] for one in first["sources"]] == ["session", "training"]
    assert first["sources"][0]["status"]["session"] == "paper"
    assert first["sources"][1]["steps"] == 60 * 1024


def test_the_kill_switch_writes_the_file_and_the_name_takes_it_away(
    client: Client, folder: SessionFolder
) -> None:
    def post(path: str, **body: object) -> tuple[int, str]:
        answer = client.post(path, json=body, headers=BEARER)
        return answer.status_code, answer.text

    code, text = post("/api/kill", source=0, reason="too much\nrisk")
    assert code == 200
    assert json.loads(text)["kill"].startswith("too much risk (")
    assert json.loads(text)["status"]["kill_obeyed"] == ""
    assert folder.kill.read_text().startswith("too much risk (")

    assert post("/api/release", source=0, confirm="papr")[0] == 409
    assert post("/api/release", source=0)[0] == 400
    assert post("/api/release", source=0, confirm=["paper"])[0] == 400
    assert folder.kill.exists()

    code, text = post("/api/release", source=0, confirm="paper")
    assert code == 200
    assert json.loads(text)["kill"] is None
    assert not folder.kill.exists()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"source": 1}, 409),
        ({"source": 2}, 404),
        ({"source": -1}, 404),
        ({"source": "0"}, 404),
        ({}, 404),
        ([], 400),
        ({"source": 0, "reason": 5}, 400),
        ({"source": 0, "session": "another"}, 409),
    ],
)
def test_what_is_asked_wrongly_stops_nothing(
    client: Client, folder: SessionFolder, body: object, code: int
) -> None:
    for path in ("/api/kill", "/api/release"):
        answer = client.post(path, json=body, headers=BEARER)
        assert answer.status_code in (code, 400)
        assert answer.headers["content-type"].startswith("text/plain")

    assert not folder.kill.exists()
    told = {**BEARER, "Content-Type": "application/json"}
    assert client.post("/api/kill", content=b"{", headers=told).status_code == 400
    assert client.post("/api/kill", content=b"[" * 4000, headers=told).status_code == 400


def test_a_folder_that_has_gone_is_said_not_to_be_stopped(
    client: Client, folder: SessionFolder
) -> None:
    folder.path.rename(folder.path.with_name("elsewhere"))

    answer = client.post("/api/kill", json={"source": 0}, headers=BEARER)

    assert answer.status_code == 500
    assert answer.text.startswith("trading is NOT stopped")


def test_the_page_runs_its_own_scripts_only_and_each_time_by_another_word(client: Client) -> None:
    nonces = []
    for _ in range(2):
        answer = client.get("/", headers=BEARER)
        policy = answer.headers["content-security-policy"]
        (nonce,) = re.findall(r"script-src 'nonce-([\w-]+)';", policy)
        nonces.append(nonce)
        scripts = re.findall(r"<script[^>]*>", answer.text)
        assert scripts
        assert all(f'nonce="{nonce}" src="/assets/' in one for one in scripts)
        assert "unsafe-eval" not in policy
        assert not re.search(r"\son\w+=", answer.text)
        assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)

    assert nonces[0] != nonces[1]


def test_the_page_itself_holds_nothing_of_what_is_watched(folder: SessionFolder) -> None:
    put(folder, sample(session=HOSTILE, alerts=(HOSTILE,), positions={HOSTILE: {"weight": 1.0}}))
    client = Client(watch_app([SessionSource(folder)], TOKEN))

    page = client.get("/", headers=BEARER).text
    state = client.get("/api/state", headers=BEARER)

    assert "hacked" not in page
    assert HOSTILE in state.json()["sources"][0]["status"]["positions"]
    assert state.headers["content-type"] == "application/json"


def test_every_part_of_the_page_is_there_and_nothing_beside_it(client: Client) -> None:
    page = client.get("/", headers=BEARER).text
    parts = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)

    assert len(parts) > 8
    for part in parts:
        answer = client.get(part, headers=BEARER)
        assert answer.status_code == 200
        assert len(answer.text) > 100
    for odd in ("/assets/page.html", "/assets/../app.py", "/assets/%2e%2e%2fapp.py", "/assets/"):
        assert client.get(odd, headers=BEARER).status_code == 404


def test_scripts_never_read_html() -> None:
    from sekai.live.watch.app import SCRIPTS, asset

    reading = re.compile(r"innerHTML|outerHTML|AdjacentHTML|document\.write|eval\(|Function\(")
    ours = [name for name in SCRIPTS if name != "plotly.js"]

    assert len(ours) > 5
    for name in ours:
        assert not reading.findall(asset(name)), name
