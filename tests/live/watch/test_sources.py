from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.config import SessionFolder
from sekai.live.status import LatencySummary, SessionStatus
from sekai.live.watch import MonitorSource, SessionSource
from sekai.live.watch.prometheus import metrics_text
from sekai.live.watch.sources import checked_status, plain_status
from tests.live.watch.samples import put, sample, stamp


@pytest.fixture
def folder(tmp_path: Path) -> SessionFolder:
    return SessionFolder(tmp_path / "paper")


def test_a_session_is_a_source_and_says_what_its_status_says(folder: SessionFolder) -> None:
    status = sample()
    put(folder, status)
    source = SessionSource(folder)

    found = source.read()

    assert isinstance(source, MonitorSource)
    assert (source.kind, source.title) == ("session", "paper")
    assert SessionStatus.from_json(json.dumps(found["status"])) == status
    assert (found["note"], found["silent_since"], found["kill"]) == ("", None, None)


def test_a_session_that_has_told_nothing_yet_is_no_error(folder: SessionFolder) -> None:
    found = SessionSource(folder).read()

    assert found["status"] is None
    assert "no status yet" in found["note"]


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(sample().to_json()), **changes})


ENDLESS = json.dumps({"a": asdict(sample().latency["order_to_fill"])}).replace("[0.1,", "[1e999,")

ODD = {
    "nothing": "",
    "half": sample().to_json()[:500],
    "no object": "[]",
    "no status": "{}",
    "a new field": changed(more=1),
    "no number": changed(equity=float("nan")),
    "an endless number": changed(latency=None).replace("null", ENDLESS),
    "no finite cost": changed(costs={"fees": 1}).replace('"fees": 1', '"fees": 1e999'),
    "words for a number": changed(equity="<b>"),
    "a number for words": changed(reason=3),
    "odd costs": changed(costs={"fees": "much"}),
    "odd positions": changed(positions={"A": 1}),
    "positions in a list": changed(positions=[1]),
    "odd orders": changed(orders=[{"id": 1}]),
    "odd alerts": changed(alerts=[1]),
    "odd equity": changed(equity_values=["1"]),
    "odd feed": changed(feed={"received": "all"}),
    "odd latency": changed(latency={"a": {"buckets": [["x", 1]]}}),
    "a huge number": changed(bars=10**400),
    "a state that nobody knows": changed(state="odd"),
    "no state": changed(state=""),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_an_odd_file_leaves_the_last_good_one_with_a_note(folder: SessionFolder, text: str) -> None:
    put(folder, sample(equity=123.0))
    source = SessionSource(folder)
    before = source.read()
    version = source.version()

    folder.status.write_text(text)
    found = source.read()

    assert source.version() != version
    assert found["status"] == before["status"]
    assert found["note"].startswith("cannot read status.json, showing the last valid one")
    put(folder, sample(equity=124.0))
    assert source.read()["status"]["equity"] == 124.0
    assert source.read()["note"] == ""


def test_what_is_no_text_and_what_is_too_large_is_odd_as_well(folder: SessionFolder) -> None:
    put(folder, sample())
    source = SessionSource(folder)
    good = source.read()["status"]

    folder.status.write_bytes(b"\xff\xfe{")
    assert source.read()["status"] == good
    with folder.status.open("wb") as file:
        file.truncate(9 * 2**20)
    assert "9,437,184 bytes" in source.read()["note"]
    folder.status.unlink()
    found = source.read()
    assert found["status"] == good
    assert "is missing" in found["note"]


WORST: list[Any] = [
    None, True, 1.5, float("nan"), 1e999, 1e308, 10**400, "x", "\ud800", "9" * 5000, [], {},
    [[1, float("inf")]], [[10**400, 1]], {"a": float("nan")}, {"a": {"units": None}}, [{"a": 1}],
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
]  # fmt: skip


def places(found: Any) -> Iterator[tuple[Any, Any]]:
    """Every list and object inside, with the keys of it, three of a list."""
    for key in list(found) if isinstance(found, dict) else range(min(len(found), 3)):
        yield found, key
        if isinstance(found[key], (dict, list)):
            yield from places(found[key])


def test_no_value_in_any_place_makes_a_source_or_its_numbers_raise(folder: SessionFolder) -> None:
    short = sample(
        orders=sample().orders[:1], equity_times=("2020",), equity_values=(1.0,), alerts=("a",),
        positions={"A": {"units": 1.0}}, costs={"fees": 1.0},
        latency={"a": LatencySummary(buckets=((1.0, 1),))},
    )  # fmt: skip
    told = json.loads(short.to_json())
    put(folder, short)
    for place, key in list(places(told)):
        kept = place[key]
        for worst in WORST:
            place[key] = worst
            folder.status.write_text(json.dumps(told))
            source = SessionSource(folder)
            found = source.read()
            assert source.version()
            assert json.dumps(found, allow_nan=False)
            if found["status"] is not None:
                assert metrics_text([found])
        place[key] = kept


@given(cut=st.integers(0, 6000), put_in=st.text(max_size=5))
def test_no_text_makes_a_source_raise(
    cut: int, put_in: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = SessionFolder(tmp_path_factory.mktemp("session"))
    text = sample().to_json()
    folder.status.write_bytes((text[:cut] + put_in + text[cut + 1 :]).encode("utf-8", "replace"))

    found = SessionSource(folder).read()

    assert json.dumps(found, allow_nan=False)
    assert (found["status"] is None) == bool(found["note"])


def test_the_version_changes_when_something_does(folder: SessionFolder) -> None:
    put(folder, sample())
    source = SessionSource(folder)
    source.read()
    versions = [source.version(), source.version()]

    put(folder, sample(1))
    versions.append(source.version())
    folder.kill.write_text("enough")
    versions.append(source.version())
    folder.kill.unlink()
    put(folder, sample(2))
    versions.append(source.version())

    assert versions[0] == versions[1]
    assert len(set(versions)) == 4


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("state", ["starting", "trading", "halted", "killed"])
def test_a_process_that_says_nothing_for_5_seconds_gives_no_sign_of_life(
    folder: SessionFolder, state: Any
) -> None:
    clock = Clock()
    put(folder, sample(state=state))
    source = SessionSource(folder, clock)
    source.read()
    before = source.version()

    clock.now += 4.5
    assert source.version() == before
    clock.now += 1.0

    assert source.version() != before
    since = datetime.fromisoformat(source.read()["silent_since"])
    assert abs(since.timestamp() - (clock.now - 5.5)) < 2
    put(folder, sample(updated=stamp(datetime.fromtimestamp(clock.now, timezone.utc))))
    assert source.read()["silent_since"] is None


@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_a_process_that_said_goodbye_is_not_missed(folder: SessionFolder, state: Any) -> None:
    clock = Clock()
    put(folder, sample(state=state))
    source = SessionSource(folder, clock)
    clock.now += 1000

    assert source.read()["silent_since"] is None


AHEAD = stamp(datetime.now(timezone.utc) + timedelta(days=2))


@pytest.mark.parametrize("updated", ["", "at noon", AHEAD], ids=["none", "no time", "ahead"])
def test_without_a_time_that_can_be_the_files_own_counts(
    folder: SessionFolder, updated: str
) -> None:
    put(folder, sample(updated=updated))
    source = SessionSource(folder)
    assert source.read()["silent_since"] is None

    os.utime(folder.status, (time.time() - 60, time.time() - 60))

    assert source.read()["silent_since"] is not None


def test_times_without_a_zone_and_with_a_letter_are_in_utc(folder: SessionFolder) -> None:
    moment = datetime.now(timezone.utc) - timedelta(seconds=100)
    for text in (f"{moment:%Y-%m-%dT%H:%M:%S}", f"{moment:%Y-%m-%dT%H:%M:%S}Z"):
        put(folder, sample(updated=text))
        assert SessionSource(folder).read()["silent_since"][:19] == f"{moment:%Y-%m-%dT%H:%M:%S}"


def test_the_first_reason_to_stop_stays_and_is_one_line(folder: SessionFolder) -> None:
    put(folder, sample())
    source = SessionSource(folder)

    source.kill("  too\nmuch   risk  " + "x" * 500)
    source.kill("another")

    said = source.read()["kill"]
    assert said.startswith("too much risk xxx")
    assert folder.kill.read_text().count("\n") == 1
    assert "another" not in said
    assert sorted(one.name for one in folder.path.iterdir()) == ["KILL", "status.json"]


def test_half_a_character_in_the_reason_stops_trading_all_the_same(folder: SessionFolder) -> None:
    put(folder, sample())

    SessionSource(folder).kill("too much \ud83d")

    assert folder.kill.read_text().startswith("too much ? (")


def test_a_full_disk_stops_trading_all_the_same(
    folder: SessionFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, sample())

    def full(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("sekai.live.kill_switch.create_file", full)
    source = SessionSource(folder)
    source.kill("too much risk")

    assert source.read()["kill"] == "kill file without a reason"
    assert sorted(one.name for one in folder.path.iterdir()) == ["KILL", "status.json"]


def test_trading_is_allowed_again_for_who_types_the_name(folder: SessionFolder) -> None:
    put(folder, sample())
    source = SessionSource(folder)
    source.kill("enough")

    for name in ("", "Paper", "paper "):
        with pytest.raises(ValueError, match="is not the session name 'paper'"):
            source.release(name)
    assert folder.kill.exists()
    source.release("paper")
    source.release("paper")

    assert source.read()["kill"] is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.touch, "kill file without a reason"),
        (lambda file: file.write_bytes(b"\xff\xfe"), "\ufffd\ufffd"),
        (Path.mkdir, "reason cannot be read: Is a directory"),
    ],
)
def test_whatever_is_called_kill_stops_trading(
    folder: SessionFolder, make: Callable[[Path], object], said: str
) -> None:
    put(folder, sample())
    make(folder.kill)

    assert SessionSource(folder).read()["kill"] == said


def test_what_a_session_writes_passes_the_check() -> None:
    for status in (sample(), SessionStatus(session="new", state="starting")):
        found = checked_status(status.to_json())
        assert asdict(found) == asdict(status)
        assert json.dumps(plain_status(found)) == json.dumps(asdict(status))
