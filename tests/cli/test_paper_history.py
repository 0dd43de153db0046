"""`sekai paper` on a live feed: history from a file, from the venue, or collected at the start."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve

from sekai.data import MarketData, Pipeline, simulate_gbm
from sekai.live import SessionFolder, read_journal, read_status
from sekai.live.feeds.history import load_history
from tests.cli.commands import call
from tests.live.feeds.kline_server import KlineServer, serving

ASSETS = ("A000", "A001", "A002")


def panel(rows: int, last: int, seconds: int = 60) -> MarketData:
    """Rows up to a time in seconds."""
    data = simulate_gbm(list(ASSETS), rows=rows, seed=3)
    times = (last - seconds * np.arange(rows)[::-1]).astype("datetime64[s]")
    return data.replace(times=times, frequency=None, values=np.round(data.values, 5))


def feed_file(folder: Path, **values: Any) -> Path:
    file, table = folder / "feed.toml", values.pop("history", None)
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    if table is not None:
        lines += ["[history]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def paper(runs: Path, feed: Path, *more: str) -> Any:
    # The run was trained on days, and trades minutes here.
    allowed = () if "--resume" in more else ("--allow", "bar_length")
    return call("paper", "small", "--runs", runs, "--feed", feed, "--session", "s", *allowed, *more)


def session(runs: Path) -> SessionFolder:
    return SessionFolder(runs / "small" / "live" / "s")


def bar_times(folder: SessionFolder) -> list[int]:
    records = read_journal(folder.journal)
    return [record.fields["time"] for record in records if record.kind == "bar"]


@contextmanager
def trades_over_a_websocket() -> Iterator[str]:
    """Serve ten trades a second of each asset, stamped with the current time."""
    ready, ends = threading.Event(), threading.Event()
    found: dict[str, int] = {}

    async def tell(socket: ServerConnection) -> None:
        await socket.recv()
        for number in range(1, 1_000):
            stamp = time.time_ns() // 1_000_000
            for asset in ASSETS:
                frame = {
                    "e": "trade", "E": stamp, "s": asset, "t": number, "p": f"{100 + number % 7}",
                    "q": "1", "T": stamp, "m": False, "M": True,
                }  # fmt: skip
                await socket.send(json.dumps(frame))
            await asyncio.sleep(0.1)

    async def run() -> None:
        async with serve(tell, "127.0.0.1", 0, compression=None) as server:
            found["port"] = server.sockets[0].getsockname()[1]
            ready.set()
            await asyncio.to_thread(ends.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield f"ws://127.0.0.1:{found['port']}/"
    finally:
        ends.set()
        thread.join()


def test_rows_of_a_file_are_the_history(runs: Path, tmp_path: Path) -> None:
    data = panel(80, 1_700_000_040)
    data.rows(0, 50).to_parquet(tmp_path / "recent.parquet")
    (tmp_path / "rows").mkdir()
    data.rows(50, 80).to_parquet(tmp_path / "rows" / "more.parquet")
    history = {"path": str(tmp_path / "recent.parquet")}
    feed = feed_file(tmp_path, kind="folder", path=str(tmp_path / "rows"), history=history)

    first = paper(runs, feed, "--bars", "20")
    (tmp_path / "recent.parquet").unlink()
    again = paper(runs, feed, "--bars", "10", "--resume")

    assert (first.code, again.code) == (0, 0), first.err + again.err
    assert "30 of 30 rows replay to the same bytes" in again.out
    # Prices are shown with the five decimals that the data has.
    assert re.search(r"^A00\d +-?[\d.,]+ +\d+\.\d{5} ", again.out, re.MULTILINE), again.out
    assert load_history(session(runs).history) == data.rows(0, 50)
    assert bar_times(session(runs)) == data.calendar.nanoseconds[50:].tolist()


def test_klines_of_the_venue_are_the_history_of_its_trades(runs: Path, tmp_path: Path) -> None:
    candles = KlineServer(panel(120, int(time.time()) + 60, seconds=1))
    with serving(candles) as url, trades_over_a_websocket() as socket:
        feed = feed_file(
            tmp_path, kind="websocket", url=socket, decoder="binance", streams=["trade"],
            seconds=1, history={"url": url, "rows": 40},
        )  # fmt: skip

        found = paper(runs, feed, "--bars", "5")

    assert found.code == 0, found.err
    history = load_history(session(runs).history)
    assert len(history) == 40
    assert history == candles.data.between(history.times[0], history.times[-1])
    last = int(history.calendar.nanoseconds[-1])
    times = bar_times(session(runs))
    assert last < times[0] <= last + 5 * 10**9
    assert np.diff(times).tolist() == [10**9] * 4


def test_a_cold_start_collects_rows_and_says_so(runs: Path, tmp_path: Path) -> None:
    with trades_over_a_websocket() as socket:
        feed = feed_file(
            tmp_path, kind="websocket", url=socket, decoder="binance", streams=["trade"],
            seconds=1, history={"cold_start": True},
        )  # fmt: skip

        found = paper(runs, feed, "--bars", "3")

    assert found.code == 0, found.err
    # Two rows of the window, and the row before them for the first log return.
    assert "cold start: collecting 3 rows for the features; nothing is traded" in found.err
    history = load_history(session(runs).history)
    assert len(history) == 3
    assert np.isfinite(Pipeline(["log_return"]).transform(history).values[-2:]).all()
    assert bar_times(session(runs))[0] == int(history.calendar.nanoseconds[-1]) + 10**9
    assert read_status(session(runs).status).bars == 3


def test_history_that_is_too_old_for_trades_names_the_table(runs: Path, tmp_path: Path) -> None:
    feed = feed_file(tmp_path, kind="websocket", url="ws://127.0.0.1:1/", seconds=60)

    found = paper(runs, feed)

    assert found.code == 2
    assert "more than 100,000 rows of 60 s ago" in found.err
    assert "[history]" in found.err
    assert "cold_start = true" in found.err


@pytest.mark.parametrize(
    ("kind", "history", "words"),
    [
        ("folder", {}, "needs one of path"),
        ("folder", {"path": "x", "cold_start": True}, "got path, cold_start"),
        ("folder", {"file": "x"}, "[history] has no key 'file'"),
        ("folder", {"cold_start": 1}, "cold_start must be"),
        ("folder", {"path": "nowhere.parquet"}, "there is no file or folder nowhere.parquet"),
        ("folder", {"url": "http://127.0.0.1:1/"}, "seconds of the feed"),
        ("recorded", {"cold_start": True}, "cold_start needs a websocket feed, got recorded"),
        ("folder", {"cold_start": True}, "cold_start needs a websocket feed, got folder"),
        ("replay", {"path": "x"}, "a replay feed has no key 'history'"),
    ],
)
def test_a_wrong_history_is_pointed_at(
    runs: Path, tmp_path: Path, kind: str, history: dict[str, Any], words: str
) -> None:
    feed = feed_file(tmp_path, kind=kind, path=str(tmp_path), history=history)

    found = paper(runs, feed)

    assert found.code == 2
    assert words in found.err


def test_a_history_of_other_assets_is_refused(runs: Path, tmp_path: Path) -> None:
    simulate_gbm(["A000", "X"], rows=30, seed=1).to_parquet(tmp_path / "other.parquet")
    feed = feed_file(
        tmp_path,
        kind="folder",
        path=str(tmp_path),
        history={"path": str(tmp_path / "other.parquet")},
    )

    found = paper(runs, feed)

    assert found.code == 2
    assert "history lacks A001, A002" in found.err
