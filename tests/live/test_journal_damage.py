from __future__ import annotations

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sekai.error import JournalError
from sekai.live.journal import Journal, JournalRecord, read_journal
from sekai.live.journal import records as journal_records
from sekai.live.journal.records import START, JournalPosition, _digest, decode_line, encode_line
from tests.live.journals import WRITTEN, are_first_of, files_of_this_process, same, small_journal


def read_or_refused(path: Path) -> list[JournalRecord]:
    """Records that both a reader and a reopened journal find."""
    found: list[JournalRecord] = []
    try:
        for record in read_journal(path):
            found.append(record)  # noqa: PERF402 - those before an error count
        is_whole = True
    except JournalError:
        is_whole = False
    before = path.read_bytes()
    try:
        with Journal(path, sync="never") as journal:
            assert is_whole or not found
            journal.append("stopped")
    except JournalError:
        assert not is_whole or not found
        assert path.read_bytes() == before, "a refused journal is left alone"
    else:
        assert [record.kind for record in read_journal(path)][-1] == "stopped"
        assert list(map(same, found, read_journal(path))) == [True] * len(found)
    return found


def test_a_journal_cut_anywhere_keeps_every_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written = small_journal(path)
    content = path.read_bytes()

    for length in range(len(content)):
        path.write_bytes(content[:length])
        found = read_or_refused(path)
        assert are_first_of(found, written)
        assert len(found) == content[:length].count(b"\n")


def test_no_altered_byte_makes_a_record_that_was_not_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written = small_journal(path)
    content = path.read_bytes()
    ends = [place for place, byte in enumerate(content) if byte == 10]

    for place in range(len(content)):
        for flip in (1 << place % 8, content[place] ^ 0x0A or 0xFF):
            changed = bytes([content[place] ^ flip])
            path.write_bytes(content[:place] + changed + content[place + 1 :])
            found = read_or_refused(path)
            assert are_first_of(found, written)
            assert len(found) == sum(end < place for end in ends)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [*lines[:3], *lines[2:]],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: [*lines[:2], b"\n", *lines[2:]],
        lambda lines: lines[1:],
    ],
    ids=["lost", "repeated", "exchanged", "added", "first lost"],
)
def test_lines_that_do_not_follow_each_other_are_named(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    path = tmp_path / "journal.jsonl"
    small_journal(path)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = change(lines)
    path.write_bytes(b"".join(changed))
    line = next(at for at, (old, new) in enumerate(zip(lines, changed, strict=False)) if old != new)

    with pytest.raises(JournalError, match=f"line {line + 1} of"):
        list(read_journal(path))
    with pytest.raises(JournalError, match=f"line {line + 1} of"):
        Journal(path)


def test_a_line_of_another_journal_is_found(tmp_path: Path) -> None:
    path, other = tmp_path / "journal.jsonl", tmp_path / "other.jsonl"
    small_journal(path)
    with Journal(other, session="t") as journal:
        for kind, fields in WRITTEN:
            journal.append(kind, **fields)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = other.read_bytes().splitlines(keepends=True)[2]
    path.write_bytes(b"".join(lines))

    with pytest.raises(JournalError, match="line 3 of"):
        list(read_journal(path))


def test_a_journal_whose_first_record_is_torn_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for length in range(len(FIRST)):
        path.write_bytes(FIRST[:length])

        assert list(read_journal(path)) == []
        with Journal(path, sync="never", session="t") as journal:
            assert (journal.session, journal.count) == ("t", 1)


def test_what_was_cut_off_is_told(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    small_journal(path)
    with path.open("ab") as file:
        file.write(b"0123")

    with Journal(path) as journal:
        assert journal.torn == b"0123"


class Faults:
    """Makes the n-th call of an `os` function fail."""

    def __init__(self, name: str, at: int, error: int, short: int | None = None) -> None:
        self.real: Any = getattr(os, name)
        self.calls, self.at, self.error, self.short = 0, at, error, short

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self.calls != self.at:
            return self.real(*arguments)
        if self.short is None:
            raise OSError(self.error, os.strerror(self.error))
        return self.real(arguments[0], arguments[1][: self.short])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("short", [None, 0, 1, 30])
@pytest.mark.parametrize("can_cut", [True, False])
def test_a_failed_write_leaves_the_records_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, short: int | None, can_cut: bool
) -> None:
    for at in range(1, len(WRITTEN) + 1):
        path = tmp_path / f"{at}.jsonl"
        journal = Journal(path, sync="never")
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", Faults("write", at, error, short))
            if not can_cut:
                patch.setattr(os, "ftruncate", Faults("ftruncate", 1, errno.EIO))
            for kind, fields in WRITTEN[: at - 1]:
                journal.append(kind, **fields)
            with pytest.raises(JournalError, match="reopen"):
                journal.append(*WRITTEN[at - 1][:1], **WRITTEN[at - 1][1])
            # The disk is well again, but what was refused stays refused until somebody looks.
            with pytest.raises(JournalError, match="reopen"):
                journal.append("stopped")

        assert journal.count == len(list(read_journal(path))) == at
        assert path.read_bytes().endswith(b"\n") or not can_cut
        journal.reopen()
        assert journal.append("stopped").number == at
        assert [record.number for record in read_journal(path)] == list(range(at + 1))
        journal.close()


def test_a_journal_that_cannot_begin_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    before = files_of_this_process()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", Faults("write", 1, errno.ENOSPC, short=20))
        with pytest.raises(JournalError):
            Journal(path)

    assert files_of_this_process() == before
    with Journal(path) as journal:
        assert journal.count == 1


@pytest.mark.parametrize("sync", ["orders", "every"])
def test_what_the_disk_does_not_confirm_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Any
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, sync)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", Faults("fsync", 1, errno.EIO))
        if sync == "orders":
            journal.append("bar")
        with pytest.raises(JournalError, match="fsync failed"):
            journal.append("bar") if sync == "every" else journal.make_durable()
        with pytest.raises(JournalError):
            journal.append("bar")

    kept = 1 if sync == "every" else 2
    assert len(list(read_journal(path))) == kept, "what append did not return is not there"
    again: list[bytes] = []
    real = os.pwrite

    def noted(file: int, data: bytes, place: int) -> int:
        again.append(data)
        return real(file, data, place)

    monkeypatch.setattr(os, "pwrite", noted)
    journal.reopen()
    assert b"".join(again).count(b"\n") == kept - 1
    assert journal.append("stopped").number == kept
    journal.close()


def test_an_interrupted_append_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    real = os.write

    def interrupted(file: int, data: bytes) -> int:
        real(file, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append("bar")

    assert len(list(read_journal(path))) == 1
    journal.reopen()
    assert journal.append("bar").number == 1
    journal.close()


FILLING = """
import resource, signal, sys
from sekai.error import JournalError
from sekai.live.journal import Journal
if sys.argv[2] == "limit":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
journal = Journal(sys.argv[1], sync="never")
try:
    while True:
        number = journal.append("notice", detail="x" * 333).number
except JournalError as error:
    print(number, error)
"""


def filled(path: Path, how: str) -> tuple[int, str]:
    """Append until a write fails; return the last acknowledged number and the error."""
    run = subprocess.run(
        [sys.executable, "-c", FILLING, str(path), how], capture_output=True, text=True, check=True
    )
    number, _, words = run.stdout.partition(" ")
    return int(number), words


def test_a_file_that_may_not_grow_is_cut_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"

    number, words = filled(path, "limit")

    assert "bytes written" in words or "File too large" in words
    assert [record.number for record in read_journal(path)] == list(range(number + 1))
    assert path.read_bytes().endswith(b"\n")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)])
    if made.returncode != 0:
        pytest.skip("only the owner of a machine may mount disks")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full_keeps_every_acknowledged_record(small_disk: Path) -> None:
    path = small_disk / "journal.jsonl"

    number, _words = filled(path, "disk")

    assert number > 50
    assert [record.number for record in read_journal(path)] == list(range(number + 1))
    assert path.read_bytes().endswith(b"\n")


WRITING = """
import sys
import numpy as np
from sekai.live.journal import Journal
journal = Journal(sys.argv[1])
values = np.arange(float(sys.argv[2]))
while True:
    number = journal.append("bar", values=values).number
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def kill_while_writing(path: Path, seconds: float, size: int) -> int:
    """Kill a process that appends; return the last acknowledged number."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITING, str(path), str(size)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    first = writer.stdout.readline()
    time.sleep(seconds)
    writer.send_signal(signal.SIGKILL)
    rest = writer.stdout.read()
    writer.wait()
    writer.stdout.close()
    whole = (first + rest).rpartition(b"\n")[0]
    return int(whole.rpartition(b"\n")[2])


def check_kills(folder: Path, times: int) -> None:
    chance = random.Random(7)
    for attempt in range(times):
        # Some go on with the journal of one that was killed.
        path = folder / f"{attempt // 4}.jsonl"
        acknowledged = kill_while_writing(
            path, chance.uniform(0.0, 0.03), chance.choice((5, 500, 20_000))
        )
        last = -1
        for record in read_journal(path):
            last = record.number
        assert last >= acknowledged


def test_what_was_acknowledged_survives_a_killed_process(tmp_path: Path) -> None:
    check_kills(tmp_path, times=4)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_what_was_acknowledged_survives_fifty_killed_processes(tmp_path: Path) -> None:
    check_kills(tmp_path, times=50)


FIRST, PLACE = encode_line(START, 1, "session", {"format": 1, "session": "s"})


def forged(text: bytes, place: JournalPosition = PLACE) -> bytes:
    """Line with a valid digest and any text."""
    return _digest(place, text).hex().encode() + b" " + text + b"\n"


@settings(deadline=None)
@given(
    content=st.lists(
        st.one_of(st.binary(max_size=40), st.sampled_from([b"\n", b" ", b"{", FIRST, FIRST[:30]])),
        max_size=8,
    ).map(b"".join),
    is_begun=st.booleans(),
)
def test_no_file_makes_a_reader_fail_otherwise(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, is_begun: bool
) -> None:
    path = tmp_path_factory.mktemp("hostile") / "journal.jsonl"
    path.write_bytes((FIRST if is_begun else b"") + content)

    read_or_refused(path)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["$array", "$scalar", "$float", "$bytes", "$pairs", "$x", "a"]),
            st.one_of(
                inner,
                st.tuples(
                    st.sampled_from(["<f8", "|O8", "<M8[ns]", "f8,f8", "|S9", "<f99", "|b1"]),
                    st.lists(st.integers(-1, 2**62), max_size=2),
                    st.sampled_from(["", "AAAAAAAA8D8=", "!", "AgM="]),
                ),
            ),
            max_size=1,
        ),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(fields=JSON)
@example(fields={"a": {"$array": ["|O8", [1], "AAAAAAAA8D8="]}})
@example(fields={"a": {"$array": ["|b1", [2], "AgM="]}})
@example(fields={"a": {"$pairs": [[[], 1]]}})
@example(fields={"a": {"$scalar": []}})
@example(fields={"a": {"$array": ["<f8", ["a", 2**50], ""]}})
def test_no_record_that_somebody_forged_is_another_kind_of_error(fields: Any) -> None:
    text = json.dumps({"number": 1, "time": 1, "kind": "bar", "fields": fields}).encode()

    try:
        record = decode_line(PLACE, forged(text))
    except ValueError:
        return
    assert record.kind == "bar"


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"number":1,"time":1,"kind":"bar","fields":' + b'{"a":' * 100_000,
        b"9" * 5000,
        b"NaN",
        b'{"number":1,"time":1,"kind":"bar","fields":{"a":NaN}}',
        b'{"number":1,"time":1,"kind":"strange","fields":{}}',
        b'{"number":2,"time":1,"kind":"bar","fields":{}}',
        b'{"number":true,"time":1,"kind":"bar","fields":{}}',
        b'{"number":1,"time":1.0,"kind":"bar","fields":{}}',
        b'{"number":1,"time":1,"kind":"bar","fields":[]}',
        b'{"number":1,"time":1,"kind":["bar"],"fields":{}}',
        b'{"number":1,"time":1,"kind":"bar"}',
        b'{"number":1,"time":1,"kind":"bar","fields":{},"more":1}',
        b'{"number":1,"time":1,"kind":"bar","fields":{"a":{"$array":["|O8",[1],"AAAAAAAA8D8="]}}}',
        b'{"number":1,"time":1,"kind":"bar","fields":{"a":{"$array":["<f8",[0,-1],""]}}}',
        b'{"number":1,"time":1,"kind":"bar","fields":{"a":{"$array":["|b1",[2],"AgM="]}}}',
        b"\xff",
    ],
)
def test_a_forged_record_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="."):
        decode_line(PLACE, forged(text))


@pytest.mark.parametrize("fields", [{}, {"format": 1, "session": "s"}, {"format": True}])
def test_a_journal_of_another_format_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encode_line(START, 1, "session", fields)[0])

    with pytest.raises(JournalError, match="expected a journal of format 3"):
        list(read_journal(path))


def test_a_file_without_lines_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    small_journal(path)
    os.truncate(path, 2**34)
    monkeypatch.setattr(journal_records, "MAX_LINE_BYTES", 2**16)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(JournalError, match="longer than 65536 bytes"):
        list(read_journal(path))
    with pytest.raises(JournalError, match="longer than 65536 bytes"):
        Journal(path)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "nothing"):
        with pytest.raises(JournalError):
            list(read_journal(path))
    for path in (tmp_path / "pipe", Path("/dev/full"), tmp_path):
        with pytest.raises(JournalError):
            Journal(path)
