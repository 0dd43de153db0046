from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.core.result import equal_values
from sekai.core.wrapper import Wrapper
from sekai.error import JournalError
from sekai.live import LiveConfig, LiveRunner, snapshot
from sekai.live.journal.records import JournalPosition
from sekai.live.snapshot import read_snapshot, remove_drafts, write_snapshot
from sekai.registry import isolated, register_kind
from tests.live.sessions import FREE, follow, session, world


@dataclasses.dataclass(frozen=True)
class Own:
    """User-defined class in the state of an env."""

    size: int = 3


START = JournalPosition(3, b"12345678", 0, 2)


STATES = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.one_of(
            st.none(), st.booleans(), st.integers(-(2**200), 2**200), st.floats(), st.text(),
            st.binary(), st.builds(np.arange, st.integers(0, 5)),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), inner, max_size=3),
        ),
        max_leaves=8,
    ),
    max_size=4,
)  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(state=STATES, number=st.integers(0, 2**62), segment=st.integers(2, 2**40))
def test_a_state_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, state: dict[str, Any], number: int, segment: int
) -> None:
    path = tmp_path_factory.mktemp("snapshot") / "snapshot.json"
    position = JournalPosition(number, b"12345678", 0, segment)

    write_snapshot(path, state, position)

    found = read_snapshot(path)
    assert found.position == position
    assert equal_values(found.parts, state)


def test_a_snapshot_cut_or_altered_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    write_snapshot(path, {"a": b"xyz", "b": [1.5, math.nan]}, START)
    content = path.read_bytes()

    for place in range(len(content)):
        path.write_bytes(content[:place])
        with pytest.raises(JournalError):
            read_snapshot(path)
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(JournalError):
            read_snapshot(path)


@pytest.mark.parametrize("name", ["fsync", "replace", "write"])
def test_a_snapshot_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "snapshot.json"
    write_snapshot(path, {"a": 1}, START)

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        if name == "write":
            path_of_draft = "/dev/full"
            patch.setattr(Path, "with_name", lambda *_: Path(path_of_draft))
            patch.setattr(Path, "unlink", lambda *_, **__: None)
        else:
            patch.setattr(os, name, fail)
        with pytest.raises(JournalError, match="cannot be written"):
            write_snapshot(path, {"a": 2}, START)

    assert read_snapshot(path).parts == {"a": 1}
    assert os.listdir(tmp_path) == ["snapshot.json"]


def test_drafts_of_killed_processes_are_removed_and_nothing_else(tmp_path: Path) -> None:
    drafts = [".status.0123456789abcdef.json", ".snapshot.1.fedcba9876543210.json"]
    others = [
        "status.json", "snapshot.1.json", ".status.json", ".status.0123.json", ".KILL.json",
        ".other.0123456789abcdef.json", ".status.0123456789abcdef.jsonl", ".gitignore",
    ]  # fmt: skip
    for name in (*drafts, *others):
        (tmp_path / name).touch()

    remove_drafts(tmp_path, "status.json", "snapshot.1.json")

    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_a_session_removes_the_drafts_of_one_that_was_killed(tmp_path: Path) -> None:
    place = world()
    (tmp_path / ".status.0123456789abcdef.json").touch()
    (tmp_path / ".snapshot.2.0123456789abcdef.json").touch()
    (tmp_path / ".paper.snapshot.1.0123456789abcdef.json").touch()

    session(place, tmp_path, broker=place.broker(tmp_path / "paper.jsonl"), bars=3)

    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


class Noted(Wrapper[Any, Any, Any, Any]):
    """Wrapper with a user-defined object in its state."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.own = Own(5)


def test_a_session_that_cannot_be_snapshotted_does_not_begin(tmp_path: Path) -> None:
    place = world()

    async def run() -> None:
        env: Any = Noted(place.env())
        config = LiveConfig(limits=FREE, sync="never")
        runner = LiveRunner(follow, env, place.feed(), place.broker(), tmp_path, config)
        await runner.run(3)

    with pytest.raises(ValueError, match="of type Own.*register_kind"):
        asyncio.run(run())

    assert b"begun" not in (tmp_path / "journal.jsonl").read_bytes()
    with isolated():
        register_kind("tests.Own", Own)
        asyncio.run(run())


def test_a_snapshot_of_an_older_version_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    write_snapshot(path, {"a": 1}, START)
    path.write_bytes(path.read_bytes().replace(b"snapshot 4", b"snapshot 3"))

    with pytest.raises(JournalError, match="expected the format 'sekai snapshot 4'"):
        read_snapshot(path)


@pytest.mark.parametrize(
    "value",
    [
        {"$import": "os:system"},
        {"$import": "sekai.live.journal:os.system"},
        {"$dataclass": ["subprocess:Popen", {"args": ["true"]}]},
        {"$dataclass": ["sekai.live.journal:Path", {}]},
        {"$jsonable": ["sekai.live.journal:os.PathLike", {}]},
        {"$enum": ["http:HTTPStatus", "OK"]},
        {"$dataclass": ["this:Zen", {}]},
        {"$dataclass": ["sekai.no_such:Thing", {}]},
        {"$dataclass": "sekai"},
        {"$dataclass": [1, 2, 3]},
        {"$array": {"dtype": "|O", "shape": [1], "base64": "AAAAAAAAAAA="}},
        {"$strange": 1},
        {"$dataclass": ["sekai.__main__:Thing", {}]},
        {"$object": ["sekai.__main__:Thing", {}]},
        {"$object": ["Costs", {"half_spread": {"$import": "this:Zen"}}]},
        {"$object": ["Costs", {"no_such": 1}]},
        {"$object": ["Costs"]},
        {"$object": [["Costs"], {}]},
        {"$kind": "Costs"},
        {"$array": {"dtype": "<f8", "shape": [-1], "base64": ""}},
        [1],
    ],
)
def test_a_forged_snapshot_runs_nothing(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "snapshot.json"
    state = value if isinstance(value, list) else {"a": value}
    text = json.dumps(state)
    place = snapshot._place(START)
    digest = snapshot._digest(place, text)
    head = {"format": snapshot.SNAPSHOT_FORMAT, **place, "state": digest}
    path.write_text(f"{json.dumps(head)}\n{text}\n", encoding="ascii")

    with pytest.raises(JournalError):
        read_snapshot(path)
    assert "this" not in sys.modules, "nothing of others is imported"


@settings(deadline=None, max_examples=60)
@given(content=st.one_of(st.binary(), st.text().map(str.encode)))
def test_no_content_is_another_kind_of_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("snapshot") / "snapshot.json"
    path.write_bytes(content)

    with pytest.raises(JournalError):
        read_snapshot(path)


def test_a_snapshot_that_is_not_there_is_the_same_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for name in ("nothing", "pipe", "."):
        with pytest.raises(JournalError):
            read_snapshot(tmp_path / name)
