"""A session that is killed anywhere goes on: no order lost, none sent twice."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sekai.error import JournalError
from sekai.live import SessionFolder, check_parity, read_journal, read_status, trades_of
from tests.live.sessions import session, world

ROWS = 140
FORK = multiprocessing.get_context("fork")


def trade(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    place = world(rows=ROWS)
    session(place, folder, broker=place.broker(SessionFolder(folder).paper), snapshot_every=25)


def size_of(folder: Path) -> int:
    """Bytes that were written down, by the session and by its broker."""
    files = (SessionFolder(folder).journal, SessionFolder(folder).paper)
    return sum(file.stat().st_size if file.exists() else 0 for file in files)


def killed(folder: Path, more: int) -> bool:
    """Let the session go on and kill it when so many bytes more are written; False if it ended."""
    end = size_of(folder) + more
    child = FORK.Process(target=trade, args=(folder,))
    child.start()
    while child.is_alive() and size_of(folder) < end:
        time.sleep(0.0002)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
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
        "trades": [(one.order_id, one.asset, one.units, one.price, one.cost) for one in trades],
    }


@pytest.mark.parametrize(
    "kills", [12, pytest.param(200, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
)
def test_killed_at_random_points_a_session_comes_to_the_same_end(
    tmp_path: Path, kills: int
) -> None:
    whole, parts = tmp_path / "whole" / "session", tmp_path / "parts" / "session"
    trade(whole)
    rng, stride, kinds = random.Random(kills), size_of(whole) / kills, Counter[str]()
    while kinds.total() < kills and killed(parts, rng.randrange(int(1.6 * stride))):
        kinds[last_kind(parts)] += 1

    trade(parts)

    assert kinds.total() >= 0.9 * kills
    assert len(kinds) >= min(5, kills // 4), kinds
    assert outcome(parts) == outcome(whole)
    account = asyncio.run(world(rows=ROWS).broker(SessionFolder(parts).paper).account())
    assert account.cash == outcome(whole)["cash"]
    assert check_parity(parts, world(rows=ROWS).env(), simulate=True).is_whole
