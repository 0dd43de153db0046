"""Soak test of a live session: latency and completeness of a day of trades in minutes.

An exchange in another process sends trades over a websocket. They are decoded, checked and
aggregated to rows; a small policy decides on each row, a paper broker with a ledger fills orders,
and the session keeps its journal. A further process keeps the other core busy.

    python benchmarks/live.py [--minutes 10] [--calm]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from live_exchange import BEGIN_MS, SYMBOLS, Tape
from measure import show
from sekai.data import MarketData
from sekai.live import (
    BarsFromTrades,
    BinanceDecoder,
    CheckedFeed,
    FeedRules,
    LiveConfig,
    LiveRunner,
    PaperBroker,
    RiskLimits,
    SessionStatus,
    WebSocketFeed,
    check_parity,
    read_journal,
)
from sekai.market import Execution

ROW_SECONDS = 10
HISTORY = 240
RATE = 8.0
BUSY = "while True: pass"
LIMITS = RiskLimits(max_orders_per_minute=None, max_daily_loss=None, max_drawdown=None)


def history() -> MarketData:
    """History before the first trade: rows of the same length."""
    end = np.datetime64(BEGIN_MS, "ms").astype("datetime64[ns]")
    span = np.timedelta64(ROW_SECONDS, "s")
    # Rows are aligned to multiples of their length.
    end -= (end - np.datetime64(0, "ns")) % span
    prices = np.full((HISTORY, len(SYMBOLS), 1), 100.0)
    noise = np.random.default_rng(0).normal(0.0, 1e-4, prices.shape).cumsum(axis=0)
    prices = prices * np.exp(noise - noise[-1])
    volumes = np.full_like(prices, 40.0)
    return MarketData(
        times=end - span * np.arange(HISTORY)[::-1],
        assets=SYMBOLS,
        fields=("open", "high", "low", "close", "volume"),
        values=np.concatenate([prices, prices, prices, prices, volumes], axis=2),
    )


class Linear:
    """Linear softmax policy on the windows."""

    def __init__(self, size: int) -> None:
        self._matrix = np.random.default_rng(0).normal(0.0, 0.1, (size, len(SYMBOLS) + 1))

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Weights of the assets and cash."""
        scores = np.exp(observation["windows"].reshape(-1) @ self._matrix)
        return scores / scores.sum()


def policy_in(folder: Path, env: Any) -> Any:
    """Small PPO network, loaded from a file."""
    from sekai.training import PPO, load_policy

    agent = PPO(env, policy={"backbone": "mlp", "width": 32}, seed=0)
    agent.save(folder / "policy.safetensors")
    return load_policy(folder / "policy.safetensors")


class Memory:
    """Resident memory of the process over time."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float]] = []

    async def watch(self) -> None:
        """Sample twice a second."""
        page = resource.getpagesize()
        while True:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            self.samples.append((time.monotonic(), pages * page / 2**20))
            await asyncio.sleep(0.5)

    def growth(self) -> tuple[float, float]:
        """Final size in MB, and growth in MB per hour over the last two thirds."""
        times, sizes = np.asarray(self.samples[len(self.samples) // 3 :]).T
        slope = float(np.polyfit(times - times[0], sizes, 1)[0])
        return float(sizes[-1]), slope * 3600


def env_options(known: MarketData) -> dict[str, Any]:
    """Arguments of the env."""
    return {
        "data": known,
        "features": ["log_return", "volatility(20)"],
        "lookback": 8,
        "stream": True,
        "keep_rows": 1_024,  # as in `sekai paper`
        "episode_rows": None,
        "execution": Execution(sizing="decision"),
    }


async def soak(
    port: int, folder: Path, rows: int, is_network: bool
) -> tuple[SessionStatus, Memory]:
    """Run a session of `rows` rows."""
    known = history()
    options = env_options(known)
    env = sekai.make("Portfolio-v0", **options)
    training = {**options, "stream": False, "keep_rows": None, "episode_rows": 20}
    acting = (
        policy_in(folder, sekai.make_vec("Portfolio-v0", 2, **training))
        if is_network
        else Linear(int(np.prod(env.observation_space["windows"].shape)))  # type: ignore[index]
    )
    socket = WebSocketFeed(
        f"ws://127.0.0.1:{port}", BinanceDecoder(["trade"]), capacity=200_000, policy="stop"
    )
    checked = CheckedFeed(socket, FeedRules(stale_after=10.0))
    feed = BarsFromTrades(checked, SYMBOLS, ROW_SECONDS, history=known, empty="carry")
    broker = PaperBroker.like(env, folder / "paper.jsonl")
    runner = LiveRunner(acting, env, feed, broker, folder / "session", LiveConfig(limits=LIMITS))
    memory = Memory()
    watching = asyncio.ensure_future(memory.watch())
    try:
        return await runner.run(rows), memory
    finally:
        watching.cancel()


def tape(seconds: float) -> tuple[int, int]:
    """Number and volume (in hundredths) of the trades in the first `seconds`."""
    trades, count, hundredths = Tape(0, RATE), 0, 0
    while True:
        frame = json.loads(trades.next())
        if frame["T"] >= BEGIN_MS + 1_000 * seconds:
            return count, hundredths
        count, hundredths = count + 1, hundredths + round(100 * float(frame["q"]))


def journaled(folder: Path) -> tuple[int, int]:
    """Number and volume (in hundredths) of the rows in the journal."""
    records = read_journal(folder / "session" / "journal.jsonl")
    bars = [record.fields["values"][:, -1] for record in records if record.kind == "bar"]
    return len(bars), round(100 * float(np.sum(bars)))


def started(folder: Path, speed: float, is_calm: bool) -> tuple[list[subprocess.Popen[bytes]], int]:
    """Start the exchange and a process that keeps a core busy; return both and the port."""
    port_file = folder / "port"
    script = str(Path(__file__).with_name("live_exchange.py"))
    options = ["--port-file", str(port_file), "--speed", str(speed), "--rate", str(RATE)]
    command = [sys.executable, script, *options]
    running = [subprocess.Popen(command)]
    if not is_calm:
        running.append(subprocess.Popen([sys.executable, "-c", BUSY]))
    # The session has one core, the exchange and the load share the others.
    first, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {first})
    for process in running:
        os.sched_setaffinity(process.pid, set(others) or {first})
    while not port_file.exists():
        time.sleep(0.05)
    return running, int(port_file.read_text(encoding="utf-8"))


def main() -> None:
    """Run the session and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="duration of the run")
    parser.add_argument("--hours", type=float, default=24.0, help="hours of the day to replay")
    parser.add_argument("--calm", action="store_true", help="do not keep the other core busy")
    parser.add_argument("--network", action="store_true", help="use a torch network as policy")
    arguments = parser.parse_args()
    rows = int(arguments.hours * 3_600 / ROW_SECONDS)
    speed = arguments.hours * 60 / arguments.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        running, port = started(folder, speed, arguments.calm)
        begin = time.process_time()
        try:
            status, memory = asyncio.run(soak(port, folder, rows, arguments.network))
        finally:
            for process in running:
                process.kill()
        spent = time.process_time() - begin
        report(status, memory, folder, rows, spent)


def report(status: SessionStatus, memory: Memory, folder: Path, rows: int, spent: float) -> None:
    """Print the tables; exit with an error if anything was lost."""
    trades, expected = tape(rows * ROW_SECONDS)
    actual_rows, actual = journaled(folder)
    end, growth = memory.growth()
    show(
        "Trades sent and journaled (target: equal)",
        ["", "trades", "rows", "traded"],
        [
            ["sent", f"{trades:,}", f"{rows:,}", f"{expected / 100:,.2f}"],
            ["journal", "", f"{actual_rows:,}", f"{actual / 100:,.2f}"],
        ],
    )
    show(
        "Latency in milliseconds (target: feed to decision p99 below 2)",
        ["", "count", "p50", "p99", "p99.9", "largest"],
        [
            [
                name.replace("_", " "),
                f"{summary.count:,}",
                *(f"{getattr(summary, key):.3f}" for key in ("p50", "p99", "p999", "largest")),
            ]
            for name, summary in status.latency.items()
        ],
    )
    env = sekai.make("Portfolio-v0", **env_options(history()))
    parity = check_parity(folder / "session", env)
    health = status.feed
    counters = f"{health.duplicates}, {health.late}, {health.gaps}, {health.dropped}"
    show(
        "Session",
        ["", ""],
        [
            ["memory at the end, MB", f"{end:.1f}"],
            ["growth in the last two thirds, MB per hour", f"{growth:.2f}"],
            ["CPU seconds of the session", f"{spent:.1f}"],
            ["rows that replay to the same bytes", f"{parity.equal:,} of {parity.rows:,}"],
            ["duplicates, late, gaps, dropped", counters],
            ["fills", f"{status.fills:,}"],
        ],
    )
    if (actual_rows, actual) != (rows, expected) or not parity.is_whole:
        raise SystemExit("rows were lost or duplicated, or do not replay")


if __name__ == "__main__":
    main()
