"""A session killed at any point resumes: no order is lost or submitted twice."""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sekai.error import JournalError
from sekai.live import SessionFolder, check_parity, read_journal, read_status, trades_of
from sekai.market import Execution
from tests.live.sessions import FREE, World, disrupted, session, world

ROWS = 140
FORK = multiprocessing.get_context("fork")
PATIENT = dataclasses.replace(FREE, max_staleness_seconds=None)
"""However slow the machine is, what was decided is sent after a restart."""


def quiet() -> World:
    return world(rows=ROWS)


def eventful() -> World:
    """Short market with a halt, a delisting and carried orders."""
    carried = Execution(sizing="decision", participation=1e-7, unfilled="carry")
    return dataclasses.replace(disrupted(rows=74, execution=carried), known=65)


def trade(folder: Path, place: World, snapshot_every: int = 25) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    broker = place.broker(SessionFolder(folder).paper)
    session(place, folder, broker=broker, snapshot_every=snapshot_every, limits=PATIENT)


def size_of(folder: Path) -> int:
    """Size of all segments of journal and ledger in bytes."""
    files = [*folder.glob("journal*.jsonl"), *folder.glob("paper*.jsonl")]
    # A segment that was begun in vain is removed.
    return sum(file.stat().st_size for file in files if file.exists())


def trade_until_size(folder: Path, end: int) -> None:
    """Trade until the process kills itself in the byte in which journal and ledger have a size.

    Whoever kills from outside is late on a busy machine, and the session may have ended.
    """
    written = os.write

    def write(file: int, content: bytes) -> int:
        left = end - size_of(folder)
        if left <= len(content):
            written(file, content[: max(0, left)])
            os.kill(os.getpid(), signal.SIGKILL)
        return written(file, content)

    os.write = write  # type: ignore[assignment]
    trade(folder, quiet())


def killed(folder: Path, more: int) -> bool:
    """Resume the session and kill it after so many more bytes; False if it ended."""
    child = FORK.Process(target=trade_until_size, args=(folder, size_of(folder) + more))
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


def last_kind(folder: Path) -> str:
    kinds = ["nothing"]
    try:
        kinds += [record.kind for record in read_journal(SessionFolder(folder).journal)]
    except (JournalError, FileNotFoundError):
        # It was killed before there was a journal, or in the middle of a line.
        kinds.append("torn")
    return kinds[-1]


def outcome(folder: Path) -> dict[str, Any]:
    status = read_status(SessionFolder(folder).status)
    trades = trades_of(SessionFolder(folder).journal)
    return {
        "equity": status.equity,
        "cash": status.cash,
        "positions": status.positions,
        "counts": (status.bars, status.decisions, status.orders_sent, status.fills),
        "costs": status.costs,
        # Sorted: what was missed is told before what is new.
        "trades": sorted((t.order_id, t.report_id, t.units, t.price, t.cost) for t in trades),
    }


def assert_exactly_once(folder: Path, place: World) -> None:
    """Assert that the broker has every decided order once, and that accounts agree."""
    decided = [
        one["id"]
        for record in read_journal(SessionFolder(folder).journal)
        if record.kind == "decision"
        for one in record.fields["orders"]
    ]
    ledger = read_journal(SessionFolder(folder).paper)
    taken = [record.fields["id"] for record in ledger if record.kind == "order"]
    assert len(decided) == len(set(decided))
    assert taken == decided
    account = asyncio.run(place.broker(SessionFolder(folder).paper).account())
    status = read_status(SessionFolder(folder).status)
    held = {asset: one["units"] for asset, one in status.positions.items()}
    assert status.cash == account.cash
    assert held == {asset: units for asset, units in account.units.items() if units}


@pytest.mark.parametrize(
    "kills", [12, pytest.param(200, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
)
def test_killed_at_random_points_a_session_comes_to_the_same_end(
    tmp_path: Path, kills: int
) -> None:
    whole, parts = tmp_path / "whole" / "session", tmp_path / "parts" / "session"
    trade(whole, quiet())
    rng, stride, kinds = random.Random(kills), size_of(whole) / kills, Counter[str]()
    while kinds.total() < kills and killed(parts, rng.randrange(int(stride))):
        kinds[last_kind(parts)] += 1

    trade(parts, quiet())

    assert kinds.total() == kills
    assert len(kinds) >= min(5, kills // 4), kinds
    assert outcome(parts) == outcome(whole)
    assert_exactly_once(parts, quiet())
    assert check_parity(parts, quiet().env(), simulate=True).is_whole


def trade_until(folder: Path, write: int, share: float) -> None:
    """Trade until the process kills itself within a write."""
    calls, main = 0, threading.current_thread()
    written, replaced = os.write, os.replace

    def dies(do_part: Callable[[], object]) -> None:
        nonlocal calls
        if threading.current_thread() is main:
            calls += 1
            if calls == write:
                do_part()
                os.kill(os.getpid(), signal.SIGKILL)

    def write_some(file: int, content: bytes) -> int:
        dies(lambda: written(file, content[: int(share * len(content))]))
        return written(file, content)

    def replace_some(draft: Any, path: Any) -> None:
        dies(lambda: replaced(draft, path) if share == 1.0 else None)
        replaced(draft, path)

    os.write, os.replace = write_some, replace_some  # type: ignore[assignment]
    trade(folder, eventful(), 3)


@pytest.mark.parametrize(
    "stride", [25, pytest.param(1, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])]
)
def test_killed_in_any_write_a_session_comes_to_the_same_end(tmp_path: Path, stride: int) -> None:
    trade(tmp_path / "whole" / "session", eventful(), 3)
    wanted, write, points = outcome(tmp_path / "whole" / "session"), 1, 0
    while True:
        folder = tmp_path / str(write) / "session"
        child = FORK.Process(target=trade_until, args=(folder, write, (0.0, 0.5, 1.0)[points % 3]))
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL

        trade(folder, eventful(), 3)

        assert outcome(folder) == wanted, write
        assert_exactly_once(folder, eventful())
        write, points = write + stride, points + 1
    assert points > 100 // stride


def trade_until_rotation(folder: Path, step: int, share: float) -> None:
    """Trade until the process kills itself within a write or a rename of the second snapshot."""
    calls, written, replaced, opened = 0, os.write, os.replace, os.open
    main = threading.current_thread()

    def dies(path: str, do_part: Callable[[], object]) -> None:
        nonlocal calls
        if threading.current_thread() is main and is_of_rotation(path):
            calls += 1
            if calls == step:
                do_part()
                os.kill(os.getpid(), signal.SIGKILL)

    def write_some(file: int, content: bytes) -> int:
        part = content[: int(share * len(content))]
        dies(os.readlink(f"/proc/self/fd/{file}"), lambda: written(file, part))
        return written(file, content)

    def replace_some(draft: Any, path: Any) -> None:
        dies(str(path), lambda: replaced(draft, path) if share == 1.0 else None)
        replaced(draft, path)

    def open_some(path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_EXCL:
            dies(str(path), lambda: opened(path, flags, *mode) if share == 1.0 else None)
        return opened(path, flags, *mode)

    os.write, os.replace, os.open = write_some, replace_some, open_some  # type: ignore[assignment]
    trade(folder, eventful(), 3)


def is_of_rotation(path: str) -> bool:
    """Return True for the files of the second snapshot of journal and ledger."""
    name = Path(path).name.removeprefix(".")
    return name.startswith(("journal.000003", "paper.000003", "snapshot.2", "paper.snapshot.2"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_killed_in_any_write_of_a_snapshot_a_session_comes_to_the_same_end(
    tmp_path: Path, share: float
) -> None:
    trade(tmp_path / "whole" / "session", eventful(), 3)
    wanted, step = outcome(tmp_path / "whole" / "session"), 1
    files = set[str]()
    # The writes of three rows follow in the new segments.
    while step <= 24:
        folder = tmp_path / str(step) / "session"
        child = FORK.Process(target=trade_until_rotation, args=(folder, step, share))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        files.add(" ".join(sorted(file.name for file in folder.iterdir() if "00003" in file.name)))

        trade(folder, eventful(), 3)

        assert outcome(folder) == wanted, step
        assert_exactly_once(folder, eventful())
        assert [name for name in os.listdir(folder) if name.startswith(".")] == []
        step += 1 if step < 12 else 4
    assert len(files) >= 2, files
