"""The kill switch: pulled by a file, cheap to check."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sekai.live.kill_switch import KillSwitch


class Watch:
    """Manual clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_off_until_somebody_makes_the_file(tmp_path: Path) -> None:
    watch = Watch()
    switch = KillSwitch(tmp_path / "KILL", clock=watch)
    assert not switch.is_pulled()

    (tmp_path / "KILL").write_text("prices look wrong\n")
    watch.now += 0.05

    assert switch.is_pulled()
    assert switch.reason() == "prices look wrong"


def test_a_file_that_goes_away_lets_trading_go_on(tmp_path: Path) -> None:
    watch = Watch()
    switch = KillSwitch(tmp_path / "KILL", clock=watch)
    (tmp_path / "KILL").touch()
    assert switch.is_pulled()

    (tmp_path / "KILL").unlink()
    watch.now += 0.05

    assert not switch.is_pulled()
    assert switch.reason() == ""


def test_it_looks_at_the_disk_at_most_every_50_ms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, looks = Watch(), []
    real = os.lstat

    def lstat(path: Path) -> os.stat_result:
        looks.append(path)
        return real(path)

    monkeypatch.setattr(os, "lstat", lstat)
    switch = KillSwitch(tmp_path / "KILL", clock=watch)

    for _ in range(1000):
        switch.is_pulled()
        watch.now += 0.001

    assert len(looks) in (20, 21)


def test_who_looks_sees_it_at_once_and_others_believe_it(tmp_path: Path) -> None:
    watch = Watch()
    switch = KillSwitch(tmp_path / "KILL", clock=watch)
    assert not switch.is_pulled()

    (tmp_path / "KILL").touch()
    watch.now += 0.04

    assert not switch.is_pulled()
    assert switch.look()
    (tmp_path / "KILL").unlink()
    watch.now += 0.04
    assert switch.is_pulled()
    assert not switch.look()


def test_pulling_stops_this_process_at_once_and_others_by_the_file(tmp_path: Path) -> None:
    here, there = KillSwitch(tmp_path / "KILL"), KillSwitch(tmp_path / "KILL")
    assert not here.is_pulled()

    here.pull("lost too much")

    assert here.is_pulled()
    assert there.is_pulled()
    assert there.reason() == "lost too much"
    assert [file.name for file in tmp_path.iterdir()] == ["KILL"]


def test_the_first_reason_is_kept(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "KILL")

    switch.pull("first")
    switch.pull("second")

    assert switch.reason() == "first"


def test_it_stays_pulled_when_the_file_is_taken_away_behind_its_back(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "KILL", look_every=0.0)
    switch.pull("stop")

    (tmp_path / "KILL").unlink()

    assert switch.is_pulled()


def test_releasing_by_hand_allows_trading_at_once(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "KILL")
    switch.pull("stop")

    switch.release()

    assert not switch.is_pulled()
    assert not list(tmp_path.iterdir())


def test_a_switch_that_cannot_write_its_file_is_pulled_all_the_same(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "no such folder" / "KILL")

    with pytest.raises(OSError, match="no such folder"):
        switch.pull("stop")

    assert switch.is_pulled()


def test_who_cannot_look_must_not_trade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: object) -> None:
        raise PermissionError(13, "not allowed")

    monkeypatch.setattr(os, "lstat", fail)

    assert KillSwitch(tmp_path / "KILL").is_pulled()


@pytest.mark.parametrize(
    "error", [PermissionError(1, "not permitted"), OSError(95, "no such call")]
)
def test_it_works_on_disks_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def fail(source: object, target: object) -> None:
        raise error

    monkeypatch.setattr(os, "link", fail)
    KillSwitch(tmp_path / "KILL").pull("stop")

    assert KillSwitch(tmp_path / "KILL").reason() == "stop"
    assert [file.name for file in tmp_path.iterdir()] == ["KILL"]
