"""Files of a session are for their owner alone, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sekai.live import PaperBroker, SessionFolder
from sekai.live.feeds.history import save_history
from sekai.live.kill_switch import write_kill_file
from sekai.live.session_log import SessionLog
from sekai.storage.files import SHARED, atomic_write, create_file, private_folder
from tests.live.sessions import session, world


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Files that others may read and write, unless a mode is named."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_nothing_in_a_session_folder_is_readable_by_others(tmp_path: Path) -> None:
    folder, place = SessionFolder(tmp_path / "runs" / "paper"), world()
    broker = PaperBroker.like(place.env(), folder.path)

    session(place, folder.path, broker=broker, snapshot_every=10)
    save_history(folder.history, place.data)
    write_kill_file(folder.kill, "enough")

    modes = {item.name: mode(item) for item in [folder.path, *folder.path.rglob("*")]}
    assert {"log.jsonl", "status.json", "trades.jsonl", "snapshot.1.json", "KILL"} <= modes.keys()
    assert {name: oct(bits) for name, bits in modes.items() if bits & 0o077} == {}
    assert mode(folder.path) == 0o700


def test_rotated_logs_are_private_too(tmp_path: Path) -> None:
    with SessionLog(tmp_path / "log.jsonl", largest=200, kept=2) as log:
        for number in range(20):
            log.event("counted", number=number)

    assert [mode(file) for file in tmp_path.iterdir()] == [0o600] * 3


def test_models_and_reports_follow_the_umask(tmp_path: Path) -> None:
    atomic_write(tmp_path / "model", b"content", mode=SHARED)
    atomic_write(tmp_path / "status", b"content")
    create_file(tmp_path / "KILL", b"content")

    assert [mode(tmp_path / name) for name in ("model", "status", "KILL")] == [0o666, 0o600, 0o600]


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    shared, mine = tmp_path / "shared", tmp_path / "shared" / "a" / "b"
    shared.mkdir(mode=0o755)

    private_folder(shared)
    private_folder(mine)

    assert (mode(shared), mode(mine)) == (0o755, 0o700)
