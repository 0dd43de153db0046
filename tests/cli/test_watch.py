"""`sekai watch`, from the words that were typed to the last answer."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sekai.cli.failure import CommandError
from sekai.cli.watch import find_sources, newest_source
from sekai.experiment.run_folder import lock_run
from sekai.live.config import SessionFolder
from tests.cli.commands import begin, call, environment
from tests.live.watch.samples import TOKEN, begin_run, put, sample

Process = subprocess.Popen[str]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run that was interrupted, and a session that trades."""
    begin_run(tmp_path / "runs", "momentum", rows=3)
    put(SessionFolder(tmp_path / "runs" / "momentum" / "live" / "paper"), sample())
    return tmp_path / "runs"


@contextmanager
def watching(folder: Path, *words: str) -> Iterator[tuple[Process, str]]:
    process = begin("watch", *words, folder=folder)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_names_folders_and_sessions_are_found(runs: Path) -> None:
    def titles(name: str | Path, root: Path = runs) -> list[str]:
        return [f"{one.kind} {one.title}" for one in find_sources([str(name)], root)]

    assert titles("momentum/live/paper") == ["session paper"]
    assert titles(runs / "momentum" / "live" / "paper", runs / "elsewhere") == ["session paper"]
    assert titles("momentum") == ["session paper", "training momentum"]
    assert titles(runs / "momentum", runs / "elsewhere") == titles("momentum")


def test_a_run_is_shown_with_its_sessions_that_run_or_else_the_last(runs: Path) -> None:
    def titles() -> list[str]:
        return [one.title for one in find_sources(["momentum", "momentum/live/paper"], runs)]

    for name in ("one", "two"):
        put(SessionFolder(runs / "momentum" / "live" / name), sample(state="stopped"))
    assert titles() == ["paper", "momentum"]
    with lock_run(runs / "momentum"):
        assert titles() == ["momentum", "paper"]
    paper = SessionFolder(runs / "momentum" / "live" / "paper")
    put(paper, sample(state="stopped"))
    os.utime(paper.status, (1, 1))
    assert titles() == ["two", "momentum", "paper"]


def test_a_wrong_name_is_answered_with_near_ones(runs: Path, tmp_path: Path) -> None:
    told = call("watch", "momentun", "--runs", runs)
    assert told.code == 2
    assert "no run and no session 'momentun'" in told.err
    assert "did you mean 'momentum'?" in told.err
    assert "did you mean 'momentum/live/paper'?" in call(
        "watch", "momentum/live/papre", "--runs", runs
    ).err  # fmt: skip
    assert "there are no runs yet" in call(
        "watch", "one", "--runs", tmp_path / "none"
    ).err  # fmt: skip


def test_without_a_name_it_is_what_told_something_last(runs: Path) -> None:
    session = SessionFolder(runs / "momentum" / "live" / "paper")
    run = begin_run(runs, "value", rows=1)
    assert newest_source(runs).title == "paper", "the others do not run"

    with lock_run(run.path):
        os.utime(run.curve.file, (time.time() + 5, time.time() + 5))
        assert newest_source(runs).title == "value"
        os.utime(session.status, (time.time() + 9, time.time() + 9))
        assert newest_source(runs).title == "paper"

    for ended in (sample(state="stopped"), sample(updated="2026-01-02T03:04:05.678+00:00")):
        put(session, ended)
        with pytest.raises(CommandError, match="nothing is running in .*"):
            newest_source(runs)
    with pytest.raises(CommandError, match="nothing is running in .*; name one of momentum"):
        newest_source(runs)
    with pytest.raises(CommandError, match="start a run with sekai train"):
        newest_source(runs / "none")


def test_it_serves_who_has_the_address_and_ends_at_once(runs: Path) -> None:
    with watching(runs.parent, "momentum", "momentum/live/paper", "--port", "0") as (process, line):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", line)
        page, _, token = line.partition("?token=")
        with httpx.Client(trust_env=False) as client:
            assert client.get(f"{page}healthz").text == "ok"
            assert client.get(page).status_code == 401
            answer = client.get(line)
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            assert "server" not in answer.headers
            state = client.get(f"{page}api/state").json()
        assert [one["title"] for one in state["sources"]] == ["paper", "momentum"]

        bearer = {"Authorization": f"Bearer {token}"}
        open_stream = httpx.stream("GET", f"{page}api/stream", headers=bearer, trust_env=False)
        with open_stream as stream:
            lines = stream.iter_lines()
            first = next(lines)
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            # To its end: what breaks off is an error.
            rest = list(lines)
            said = process.communicate(timeout=30)
            took = time.monotonic() - begun

    assert first == "event: source"
    assert process.returncode == 130
    assert rest
    assert took < 20, "a second is asked for; a busy machine gets more"
    assert said[0] == ""
    assert "Ctrl-C ends the page" in said[1]
    assert token not in said[1]
    assert "Traceback" not in said[1]


def test_an_interrupt_is_met_however_early_it_comes(runs: Path) -> None:
    with watching(runs.parent, "momentum", "--port", "0") as (process, _):
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in said


def test_a_token_that_was_given_is_not_printed_and_a_request_to_end_is_an_interrupt(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKAI_WATCH_TOKEN", TOKEN)
    with watching(runs.parent, "momentum", "--port", "0") as (process, line):
        page = line.partition("?")[0]
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        found = httpx.get(f"{page}metrics", headers=bearer, trust_env=False)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert line.endswith("?token=...")
    assert TOKEN not in said
    assert "sekai_training_steps" in found.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", ""])
@pytest.mark.parametrize("words", [[], ["--allow-remote"], ["--token-file", "token"]], ids=str)
def test_other_machines_are_let_in_only_by_who_says_so_twice(
    runs: Path, host: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    (runs / "token").write_text(TOKEN)

    told = call("watch", "momentum", "--runs", runs, "--host", host, *words)

    assert told.code == 2
    assert "ssh -L 8321:127.0.0.1:8321" in told.err
    assert TOKEN not in told.err


def test_who_says_so_twice_may(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str] = []
    monkeypatch.setattr(
        "sekai.live.watch.server.Service.run",
        lambda service: served.append(service._listener.getsockname()),
    )
    (tmp_path / "token").write_text(f"{TOKEN}\n")

    told = call("watch", "momentum", "--runs", runs, "--host", "0.0.0.0", "--port", "0",
                "--allow-remote", "--token-file", tmp_path / "token")  # fmt: skip

    assert told.code == 0, told.err
    assert served[0][0] == "0.0.0.0"


def test_a_short_token_and_a_missing_file_are_refused(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    words = ("watch", "momentum", "--runs", runs, "--token-file")

    short, missing = call(*words, tmp_path / "token"), call(*words, tmp_path / "none")

    assert (short.code, missing.code) == (1, 1)
    assert "at least 32 letters" in short.err
    assert "secret'" not in short.err
    assert "No such file" in missing.err


def test_a_port_that_is_taken_is_said_to_be(runs: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        told = call("watch", "momentum", "--runs", runs, "--port", str(other.getsockname()[1]))

    assert told.code == 2
    assert "cannot listen on" in told.err
    assert "--port 0" in told.err


def test_the_browser_is_given_a_ticket_and_not_the_token(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("sekai.live.watch.server.Service.run", lambda service: None)

    told = call("watch", "momentum", "--runs", runs, "--port", "0", "--open")
    call("watch", "momentum", "--runs", runs, "--port", "0")

    assert len(opened) == 1
    printed = told.out.strip().partition("?token=")
    assert opened[0].startswith(printed[0])
    assert printed[2] not in opened[0]


def test_a_kill_is_printed_as_requested_until_it_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sekai.live.watch.server.Service.run", lambda service: None)
    folder = SessionFolder(tmp_path / "demo" / "live" / "paper")
    words = ("watch", "demo/live/paper", "--runs", tmp_path, "--port", "0")
    put(folder, sample())
    folder.kill.write_text("enough")
    requested = call(*words)
    put(folder, sample(state="killed", kill_requested="10:00", kill_obeyed="10:01"))
    obeyed = call(*words)

    assert "kill requested, NOT obeyed yet: enough" in requested.err
    assert "kill requested at 10:00, obeyed at 10:01" in obeyed.err


def test_without_its_extra_it_says_what_to_install(runs: Path) -> None:
    # In this order: what was imported once is there for the next.
    packages = ("plotly", "starlette", "prometheus_client", "uvicorn")
    code = (
        "import sys\n"
        "from sekai.cli.command import main\n"
        f"for package in {packages!r}:\n"
        "    sys.modules[package] = None\n"
        f"    assert main(['watch', 'momentum', '--runs', {str(runs)!r}]) == 1\n"
        "    del sys.modules[package]\n"
    )

    found = subprocess.run(
        [sys.executable, "-c", code], env=environment(), text=True, capture_output=True, timeout=50
    )

    assert found.returncode == 0, found.stderr
    told = found.stderr.splitlines()
    assert len(told) == len(packages)
    for package, line in zip(packages, told, strict=True):
        assert f"needs the package '{package}'" in line
        assert "pip install '.[live,cli]'" in line
