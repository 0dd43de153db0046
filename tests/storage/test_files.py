"""Atomic replacement: readers find the old content or the new one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sekai.storage.files import (
    append_line,
    atomic_write,
    create_file,
    draft_folder,
    new_folder,
    rename_file,
    replace_file,
)


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def noted(name: str, function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        calls.append(name)
        return function(*arguments)

    return call


def test_atomic_write_replaces_all_of_a_file(tmp_path: Path) -> None:
    target = tmp_path / "status.json"
    target.write_bytes(b"an older and longer content")

    atomic_write(target, [b"new", b" content"])

    assert target.read_bytes() == b"new content"
    assert names(tmp_path) == ["status.json"]


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "status.json"
    target.write_bytes(b"old")

    def pieces() -> object:
        yield b"half"
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        atomic_write(target, pieces())  # type: ignore[arg-type]

    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["status.json"]


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data)[:3]))

    atomic_write(tmp_path / "model", b"0123456789")

    assert (tmp_path / "model").read_bytes() == b"0123456789"


@pytest.mark.parametrize("fsync", [True, False])
def test_content_and_name_are_synced_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool
) -> None:
    calls: list[str] = []
    for name in ("replace", "fsync"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name), calls))

    atomic_write(tmp_path / "file", b"content", fsync=fsync)

    assert calls == (["fsync", "replace", "fsync"] if fsync else ["replace"])


def test_replace_file_needs_its_suffix_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.png"), replace_file("a.gif", ".png"):
        pass
    missing = tmp_path / "absent" / "a.png"
    with pytest.raises(FileNotFoundError, match="create it first"), replace_file(missing, ".png"):
        pass


def test_a_new_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "data") as draft:
            (draft / "rows").write_text("1")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == []

    with new_folder(tmp_path / "data") as draft:
        (draft / "rows").write_text("1")
        assert not (tmp_path / "data").exists()

    assert names(tmp_path) == ["data"]
    assert names(tmp_path / "data") == ["rows"]
    with pytest.raises(FileExistsError, match="remove it"), new_folder(tmp_path / "data"):
        pass


def test_a_draft_folder_is_removed(tmp_path: Path) -> None:
    with draft_folder(tmp_path / "data") as draft:
        (draft / "rows").write_text("1")

    assert names(tmp_path) == []


def test_create_file_keeps_the_first_content(tmp_path: Path) -> None:
    assert create_file(tmp_path / "KILL", b"first")
    assert not create_file(tmp_path / "KILL", b"second")

    assert (tmp_path / "KILL").read_bytes() == b"first"
    assert names(tmp_path) == ["KILL"]


def test_create_file_works_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)

    assert create_file(tmp_path / "KILL", b"reason")
    assert (tmp_path / "KILL").read_bytes() == b"reason"


def test_rename_file_replaces_its_target(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"new")
    (tmp_path / "whole").write_bytes(b"old")

    rename_file(tmp_path / "part", tmp_path / "whole")

    assert names(tmp_path) == ["whole"]
    assert (tmp_path / "whole").read_bytes() == b"new"


def test_a_torn_last_line_is_ended_before_the_next(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    file.write_bytes(b"whole\nto")

    append_line(file, b"next")

    assert file.read_bytes() == b"whole\nto\nnext\n"
