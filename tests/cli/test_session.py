"""`sekai session`: operate a paper session that runs in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sekai.error import JournalError
from sekai.live import SessionFolder, SessionStatus, read_journal, read_status
from tests.cli.commands import Outcome, begin, call, until

SPEED = "28800"
"""Rows are days, so that there is one in three seconds, for seven minutes."""

pytestmark = pytest.mark.timeout(180)


class Operated:
    """Running session, and the commands of its operator."""

    def __init__(self, runs: Path, process: subprocess.Popen[str]) -> None:
        self.runs, self.process = runs, process
        self.folder = SessionFolder(runs / "small" / "live" / "operated")

    def command(self, name: str, *options: str, session: str = "small") -> Outcome:
        return call("session", name, session, "--runs", self.runs, *options)

    def status(self) -> SessionStatus | None:
        """Status; None while there is none."""
        try:
            return read_status(self.folder.status)
        except JournalError:
            return None

    def is_trading(self, bars: int = 1) -> bool:
        status = self.status()
        return status is not None and status.state == "trading" and status.bars >= bars

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Fields of the journal records of a kind."""
        records = read_journal(self.folder.journal)
        return [dict(record.fields) for record in records if record.kind == kind]


@pytest.fixture(scope="module")
def operated(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """A paper session that trades a row in three seconds."""
    runs = Path(shutil.copytree(trained, tmp_path_factory.mktemp("operated") / "runs"))
    process = begin(
        "paper", "small", "--runs", runs, "--session", "operated", "--speed", SPEED, "-q",
        folder=runs.parent,
    )  # fmt: skip
    session = Operated(runs, process)
    try:
        until(session.is_trading, process)
        yield session
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_status_shows_the_state_and_json_all_of_it(operated: Operated) -> None:
    shown = operated.command("status")
    whole = operated.command("status", "--json")

    assert shown.code == 0
    assert shown.out.startswith("operated: trading at ")
    assert json.loads(whole.out)["session"] == "operated"


def test_a_kill_is_obeyed_by_the_running_process_and_a_release_lets_it_trade(
    operated: Operated,
) -> None:
    killed = operated.command("kill", "--reason", "prices look wrong")
    until(lambda: "obeyed at" in operated.command("status").out, operated.process)
    shown = operated.command("status")
    again = operated.command("kill", "--reason", "another")
    released = operated.command("release")
    until(operated.is_trading, operated.process)
    twice = operated.command("release")

    assert (killed.code, released.code, twice.code) == (0, 0, 2)
    assert "kill requested" in killed.out
    assert shown.out.startswith("operated: killed at ")
    assert "prices look wrong" in shown.out
    assert "pulled already: prices look wrong" in again.out
    assert "is not pulled" in twice.err
    assert "prices look wrong" in operated.records("kill")[-1]["reason"]
    assert operated.records("released")


@pytest.mark.parametrize(
    ("command", "journaled"),
    [("adopt", "adopt_account"), ("reset-peak", "reset_peak"), ("reset-day", "reset_day")],
)
def test_a_command_is_journaled_with_its_reason_and_obeyed(
    operated: Operated, command: str, journaled: str
) -> None:
    count = {kind: len(operated.records(kind)) for kind in ("ledger", "reset")}

    handed = operated.command(command, "--reason", f"reviewed for {command}")
    until(
        lambda: journaled in {record["command"] for record in operated.records("command")},
        operated.process,
    )

    assert handed.code == 0
    assert f"{journaled} handed to" in handed.out
    record = next(one for one in operated.records("command") if one["command"] == journaled)
    assert record["reason"] == f"reviewed for {command}"
    assert record["by"]
    kind = "ledger" if command == "adopt" else "reset"
    until(lambda: len(operated.records(kind)) > count[kind], operated.process)
    until(lambda: f"reviewed for {command}" in operated.command("status").out, operated.process)


def test_a_kill_needs_no_reason_and_other_commands_do(operated: Operated) -> None:
    for command in ("adopt", "reset-peak", "reset-day"):
        assert operated.command(command).code == 2
        blank = operated.command(command, "--reason", " ")
        assert blank.code == 2
        assert "reason must be a text of 1 to 1000 characters" in blank.err

    killed = operated.command("kill")

    assert killed.code == 0
    assert "no reason given" in operated.folder.kill.read_text(encoding="utf-8")
    assert operated.command("release").code == 0


def test_two_running_sessions_of_a_run_have_to_be_told_apart(operated: Operated) -> None:
    other = operated.folder.path.with_name("other")
    other.mkdir()
    # Without a time of its own, it is as old as its file.
    shown = json.loads(operated.folder.status.read_text(encoding="utf-8")) | {"updated": ""}
    (other / "status.json").write_text(json.dumps(shown), encoding="utf-8")
    later = time.time() + 3_600.0
    os.utime(other / "status.json", (later, later))
    until(operated.is_trading, operated.process)
    try:
        refused = operated.command("kill")
        named = operated.command("status", session="small/live/operated")
    finally:
        shutil.rmtree(other)

    assert refused.code == 2
    assert "has 2 running sessions" in refused.err
    assert "small/live/operated" in refused.err
    assert not operated.folder.kill.exists()
    assert named.code == 0


COMMANDS = ["status", "kill", "release", "adopt", "reset-peak", "reset-day"]


def reason_of(command: str) -> tuple[str, ...]:
    return () if command in ("status", "release") else ("--reason", "reviewed")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_name_is_refused_and_changes_nothing(
    trained: Path, tmp_path: Path, command: str
) -> None:
    options = ("--runs", str(trained), *reason_of(command))

    unknown = call("session", command, "nobody", *options)
    without = call("session", command, "small", *options)
    elsewhere = call("session", command, tmp_path, *options)

    assert (unknown.code, without.code, elsewhere.code) == (2, 2, 2)
    assert "there is no run and no session 'nobody'" in unknown.err
    assert "'small' has no live session" in without.err
    assert "there is no run and no session" in elsewhere.err
    assert list(tmp_path.iterdir()) == []


def test_commands_to_a_stopped_session_are_obeyed_at_its_next_start(runs: Path) -> None:
    call("paper", "small", "--runs", runs, "--bars", "5", "--session", "first", "-q")
    folder = SessionFolder(runs / "small" / "live" / "first")

    shown = call("session", "status", "small", "--runs", runs)
    handed = call("session", "reset-day", "small", "--runs", runs, "--reason", "reviewed")
    killed = call("session", "kill", folder.path, "--reason", "enough")
    waiting = call("session", "status", "small", "--runs", runs)
    resumed = call("paper", "small", "--runs", runs, "--bars", "3", "--resume", "-q")

    assert shown.out.startswith("first: stopped at ")
    assert "obeyed when it starts again" in handed.out
    assert "is not running, and obeys at its next start" in killed.out
    assert "kill requested, NOT obeyed yet: enough" in waiting.out
    assert resumed.code == 1
    commands = [one for one in read_journal(folder.journal) if one.kind == "command"]
    assert [one.fields["command"] for one in commands] == ["reset_day"]
    assert read_status(folder.status).state == "killed"
    assert "obeyed at" in call("session", "status", folder.path).out


def test_a_process_that_died_is_not_shown_as_trading_now(runs: Path) -> None:
    call("paper", "small", "--runs", runs, "--bars", "5", "--session", "first", "-q")
    folder = SessionFolder(runs / "small" / "live" / "first")
    text = folder.status.read_text(encoding="utf-8")
    values = json.loads(text) | {"state": "trading", "updated": "2024-01-01T00:00:00.000+00:00"}
    folder.status.write_text(json.dumps(values), encoding="utf-8")

    shown = call("session", "status", "small", "--runs", runs)

    assert shown.code == 0
    assert "no sign of life since 2024-01-01T00:00:00+00:00" in shown.out


def test_a_session_without_a_status_says_so(runs: Path) -> None:
    folder = SessionFolder(runs / "small" / "live" / "empty")
    folder.path.mkdir(parents=True)
    folder.facts.write_text("{}", encoding="utf-8")

    shown = call("session", "status", "small", "--runs", runs)

    assert shown.code == 1
    assert "is not the status of a session" in shown.err
