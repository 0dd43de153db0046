from __future__ import annotations

import contextlib
import errno
import math
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sekai.error import JournalError
from sekai.live.journal import (
    Journal,
    JournalFollower,
    JournalRecord,
    RecordKind,
    read_journal,
)
from sekai.live.journal.records import segment_start
from tests.live.journals import WRITTEN, bits_of, small_journal

NUMBERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", bits.to_bytes(8, "big"))[0]),
    st.text(max_size=10),
    st.binary(max_size=10),
    arrays.arrays(
        st.sampled_from(["<f8", ">f8", "<f4", "<i8", "|u1", "|b1", "<M8[ns]", "<m8[s]", "<c16"]),
        arrays.array_shapes(min_dims=0, min_side=0, max_side=3),
    ),
)
KEYS = st.one_of(st.text(max_size=5), st.sampled_from(["$array", "$", "$pairs"]))
VALUES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(KEYS, st.integers(), st.none()), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(fields=st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_is_written_is_read_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"

    with Journal(path, sync="never") as journal:
        # Words that quote others may be changed: secrets are taken out of them.
        given = journal.append("observed", **{f"{name}_": value for name, value in fields.items()})
        journal.append("observed", **{"$array": fields})

    _, first, second = read_journal(path)
    assert bits_of(first.fields) == bits_of(given.fields)
    assert bits_of(second.fields["$array"]) == bits_of(fields)
    assert (first.number, first.time, first.kind) == (1, given.time, "observed")


def test_the_first_record_says_the_format_and_the_session(tmp_path: Path) -> None:
    first = small_journal(tmp_path / "journal.jsonl")[0]

    assert (first.number, first.kind) == (0, "session")
    assert dict(first.fields) == {"format": 3, "session": "s"}


def test_a_journal_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    before = small_journal(path)

    with Journal(path) as journal:
        assert (journal.session, journal.count, journal.torn) == ("s", len(before), b"")
        assert journal.append("stopped").number == len(before)

    assert [record.number for record in read_journal(path)] == list(range(len(before) + 1))


def test_sessions_without_a_name_get_different_ones(tmp_path: Path) -> None:
    with Journal(tmp_path / "a.jsonl") as one, Journal(tmp_path / "b.jsonl") as other:
        assert one.session != other.session


def test_the_journal_of_another_session_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    small_journal(path)
    before = path.read_bytes()

    with pytest.raises(JournalError, match="'s'.*'t'"):
        Journal(path, session="t")

    assert path.read_bytes() == before
    Journal(path, session="s").close()


@pytest.mark.parametrize("content", [b"a diary\n", b"a diary", b"\n", b"\0" * 100, b"{}\n{}\n"])
def test_a_file_that_is_no_journal_is_refused_and_left_alone(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "diary.txt"
    path.write_bytes(content)

    with pytest.raises(JournalError):
        Journal(path)

    assert path.read_bytes() == content


def test_a_journal_is_open_once_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    program = (
        "import sys; from sekai.live.journal import Journal; from sekai.error import JournalError\n"
        "try: Journal(sys.argv[1])\n"
        "except JournalError as error: print(error)\n"
    )

    with Journal(path):
        with pytest.raises(JournalError, match="another process"):
            Journal(path)
        other = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
        )

    assert "open in another process" in other.stdout
    Journal(path).close()


def test_a_value_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    circle: list[Any] = []
    circle.append(circle)
    with Journal(path) as journal:
        before = path.read_bytes()
        strange: Any = "strange"

        for value in (object(), circle, {(1, 2): 3}, np.array(["a"]), np.array([object()]), {1, 2}):
            with pytest.raises(ValueError, match="wanted|record|expected"):
                journal.append("bar", value=value)
        with pytest.raises(ValueError, match="one of"):
            journal.append(strange)
        with pytest.raises(ValueError, match="a record can take"):
            journal.append("bar", values=np.zeros(2**19))

        assert path.read_bytes() == before
        assert journal.append("bar", values=np.zeros(2**18)).number == 1
    assert len(list(read_journal(path))) == 2


def test_secrets_in_the_words_of_others_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"

    with Journal(path) as journal:
        for name in ("detail", "reason", "error", "message"):
            journal.append("notice", **{name: "cannot reach wss://me:hunter2@host?token=hunter2"})

    assert b"hunter2" not in path.read_bytes()


def test_a_field_may_be_called_kind(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl") as journal:
        assert journal.append("report", kind="filled").fields["kind"] == "filled"


def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.close()
    journal.close()

    with pytest.raises(JournalError, match="closed"):
        journal.append("bar")
    with pytest.raises(JournalError, match="closed"):
        journal.make_durable()


@pytest.mark.parametrize(
    ("sync", "waits"), [("every", [1, 1, 1]), ("orders", [0, 0, 1]), ("never", [0, 0, 0])]
)
def test_records_are_on_the_disk_when_sync_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Any, waits: list[int]
) -> None:
    with Journal(tmp_path / "journal.jsonl", sync) as journal:
        counted: list[int] = []
        monkeypatch.setattr(os, "fsync", counted.append)

        found = []
        for act in (journal.append, journal.append):
            counted.clear()
            act("bar")
            found.append(len(counted))
        counted.clear()
        journal.make_durable()
        found.append(len(counted))

        assert found == waits


def test_a_deleted_journal_is_not_called_durable(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    path.unlink()

    with pytest.raises(JournalError, match="deleted"):
        journal.make_durable()
    with pytest.raises(JournalError, match="No such file"):
        journal.reopen()


def test_a_follower_finds_what_was_written_since(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal, JournalFollower(path) as follower:
        assert [record.kind for record in follower.new_records()] == ["session"]
        assert follower.new_records() == []

        for kind, fields in WRITTEN:
            journal.append(kind, **fields)

        assert [record.number for record in follower.new_records(at_most=2)] == [1, 2]
        assert not follower.is_at_end
        assert [record.number for record in follower.new_records()] == [3, 4, 5]
        assert follower.is_at_end


def test_a_follower_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    small_journal(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])

    with JournalFollower(path) as follower:
        assert len(follower.new_records()) == len(WRITTEN)
        assert follower.new_records() == []
        # Another line may take its place: whoever wrote the torn one died.
        with Journal(path) as journal:
            journal.append("stopped", reason="a longer line than the one that was torn here")
        assert [record.kind for record in follower.new_records()] == ["stopped"]


def test_a_follower_tells_when_records_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    small_journal(path)
    with JournalFollower(path) as follower:
        follower.new_records()
        os.truncate(path, 100)

        with pytest.raises(JournalError, match="truncated"):
            follower.new_records()


def test_appending_takes_microseconds(tmp_path: Path) -> None:
    row = np.random.default_rng(0).normal(size=(20, 5))
    small = {"id": "s-1-A", "asset": "A", "units": 3.0, "reference_price": 1.5}
    with Journal(tmp_path / "journal.jsonl") as journal:
        best = {"small": math.inf, "row": math.inf}
        for _ in range(20):
            for name, fields in (("small", small), ("row", {"time": 1, "values": row})):
                start = time.thread_time()
                for _ in range(200):
                    journal.append("bar", **fields)
                best[name] = min(best[name], (time.thread_time() - start) / 200)

    # Three times what it takes, for machines that are slower or have other things to do.
    assert best["small"] < 45e-6
    assert best["row"] < 120e-6


def test_several_records_at_once_are_those_records_one_by_one_in_a_single_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts: list[tuple[RecordKind, dict[str, Any]]] = [
        ("bar", {"row": 1}), ("report", {"reason": "token=abc"}), ("sent", {"id": "x"}),
    ]  # fmt: skip
    writes, write = [], os.write

    def counted(file: int, content: bytes) -> int:
        writes.append(content)
        return write(file, content)

    with Journal(tmp_path / "journal.jsonl", sync="never") as journal:
        monkeypatch.setattr(os, "write", counted)
        written = journal.append_all(facts)
        monkeypatch.undo()
        journal.append("sent", id="y")

    read = list(read_journal(tmp_path / "journal.jsonl"))
    assert len(writes) == 1
    assert read[1:4] == written
    assert [record.number for record in read] == list(range(5))
    assert [record.fields for record in read[1:]] == [
        {"row": 1}, {"reason": "token=***"}, {"id": "x"}, {"id": "y"},
    ]  # fmt: skip


def test_of_several_records_all_are_taken_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    with Journal(tmp_path / "journal.jsonl", sync="never") as journal:
        before = (tmp_path / "journal.jsonl").read_bytes()

        with pytest.raises(ValueError, match="type object"):
            journal.append_all([("sent", {"id": "x"}), ("sent", {"id": object()})])
        assert (tmp_path / "journal.jsonl").read_bytes() == before

        # The disk has room for the first alone.
        monkeypatch.setattr(os, "write", lambda file, content: write(file, content[:-10]))
        with pytest.raises(JournalError, match="bytes written"):
            journal.append_all([("sent", {"id": "x"}), ("sent", {"id": "y"})])
        monkeypatch.undo()
        assert (tmp_path / "journal.jsonl").read_bytes() == before
        journal.reopen()
        assert journal.append_all([]) == []
        assert journal.append("sent", id="z").number == 1


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("journal*.jsonl"), key=lambda file: (len(file.name), file.name))


def in_segments(path: Path, *sizes: int, sync: Any = "never") -> list[JournalRecord]:
    """Write a journal whose segments have so many records after their first."""
    with Journal(path, sync, session="s") as journal:
        for number, size in enumerate(sizes):
            if number:
                journal.rotate()
            for index in range(size):
                journal.append("sent", id=f"{number}-{index}")
    return list(read_journal(path))


@pytest.mark.parametrize("sync", ["never", "orders", "every"])
def test_segments_are_one_journal(tmp_path: Path, sync: Any) -> None:
    path = tmp_path / "journal.jsonl"

    records = in_segments(path, 3, 0, 2, sync=sync)

    assert [file.name for file in segments(tmp_path)] == [
        "journal.jsonl", "journal.000002.jsonl", "journal.000003.jsonl",
    ]  # fmt: skip
    assert {file.stat().st_mode & 0o777 for file in segments(tmp_path)} == {0o600}
    assert [record.number for record in records] == list(range(8))
    assert [record.kind for record in records] == [
        "session", "sent", "sent", "sent", "segment", "segment", "sent", "sent",
    ]  # fmt: skip
    second = records[5].fields
    assert (second["segment"], second["session"]) == (3, "s")
    assert second["bytes"] == segments(tmp_path)[1].stat().st_size
    with Journal(path) as journal:
        assert (journal.session, journal.count) == ("s", 8)
        assert journal.append("stopped").number == 8


def test_a_journal_is_verified_and_read_from_a_segment_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    records = in_segments(path, 3, 2, 2)
    start = segment_start(path, 2)
    assert start is not None
    assert start.number == 4
    path.write_bytes(path.read_bytes().replace(b"0-1", b"0-2"))

    with Journal(path, session="s", start=start) as journal:
        assert (journal.session, journal.count) == ("s", 10)
        with pytest.raises(JournalError, match="another process"):
            Journal(path, session="s", start=start)

    assert list(read_journal(path, start)) == records[4:]
    for refused in (lambda: list(read_journal(path)), lambda: Journal(path)):
        with pytest.raises(JournalError, match=r"line 3 of the journal \S+journal\.jsonl"):
            refused()
    assert segment_start(path, 4) is None


def test_a_follower_goes_on_in_new_segments(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, "never") as journal, JournalFollower(path) as follower:
        found = []
        for number in range(20):
            journal.append("sent", id=str(number))
            if number % 3 == 0:
                journal.rotate()
                assert not follower.is_at_end
            found += follower.new_records(at_most=1 + number % 4)
        found += follower.new_records()

        assert follower.is_at_end
        assert follower.new_records() == []
    assert found == list(read_journal(path))


def test_no_altered_byte_of_a_segment_goes_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written = in_segments(path, 2, 1, 1)
    for number, file in enumerate(segments(tmp_path)):
        content = file.read_bytes()
        for index in range(len(content)):
            file.write_bytes(content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :])
            if number < 2:
                with pytest.raises(JournalError):
                    list(read_journal(path))
                with pytest.raises(JournalError):
                    Journal(path, "never")
                continue
            found = []
            with contextlib.suppress(JournalError):
                found = list(read_journal(path))
            assert found == written[: len(found)]
            assert len(found) < len(written)
        file.write_bytes(content)


def test_a_missing_segment_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    in_segments(path, 1, 1, 1, 1)
    for missing in (1, 2, 0):
        moved = segments(tmp_path)[missing]
        moved.rename(tmp_path / "elsewhere")
        names = os.listdir(tmp_path)

        with pytest.raises(JournalError, match="missing|cannot be read"):
            list(read_journal(path))
        with pytest.raises(JournalError, match="missing"):
            Journal(path)

        assert os.listdir(tmp_path) == names
        (tmp_path / "elsewhere").rename(moved)


def test_a_segment_whose_first_record_is_torn_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    records = in_segments(path, 2, 1, 0)
    last = segments(tmp_path)[-1]
    line = last.read_bytes()
    for length in range(0, len(line), 7):
        last.write_bytes(line[:length])
        with JournalFollower(path) as follower:
            assert follower.new_records() == list(read_journal(path)) == records[:-1]

            with Journal(path, "never") as journal:
                assert journal.torn == line[:length]
                assert journal.count == len(records) - 1
                assert not last.exists()
                journal.rotate()

            (again,) = follower.new_records()
            assert (again.kind, again.number) == ("segment", len(records) - 1)


@pytest.mark.parametrize("name", ["write", "fsync", "open"])
def test_a_segment_that_cannot_be_created_leaves_the_journal_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, real = tmp_path / "journal.jsonl", getattr(os, name)

    def full(file: Any, *rest: Any) -> Any:
        target = file if isinstance(file, (str, Path)) else os.readlink(f"/proc/self/fd/{file}")
        if str(target).endswith("000002.jsonl"):
            raise OSError(errno.ENOSPC, "no space")
        return real(file, *rest)

    with Journal(path) as journal:
        journal.append("bar")
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(JournalError, match="000002.jsonl cannot be created.*no space"):
                journal.rotate()

        assert segments(tmp_path) == [path]
        journal.append("bar")
        journal.rotate()
    assert [record.kind for record in read_journal(path)] == ["session", "bar", "bar", "segment"]


@pytest.mark.parametrize("name", ["close", "reopen", "rotate"])
def test_a_descriptor_is_not_closed_while_another_thread_syncs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    begun, may_end = threading.Event(), threading.Event()
    fsync, synced = os.fsync, list[int]()

    def slow(file: int) -> None:
        if threading.current_thread() is syncing:
            begun.set()
            assert may_end.wait(10.0)
            # It would be that of another file by now, or of none.
            synced.append(os.fstat(file).st_ino)
        fsync(file)

    inode = (tmp_path / "journal.jsonl").stat().st_ino
    monkeypatch.setattr(os, "fsync", slow)
    syncing = threading.Thread(target=journal.make_durable)
    syncing.start()
    assert begun.wait(10.0)
    closing = threading.Thread(target=getattr(journal, name))
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    may_end.set()
    for thread in (syncing, closing):
        thread.join(10.0)

    assert synced == [inode]
    journal.close()
