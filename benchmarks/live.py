"""A day of trades through a live session, faster than it happened: nothing lost, how late, how much.

An exchange in a process of its own sends trades over a websocket. They are decoded, checked, made
into rows, and a small policy decides on each row; a paper broker with a ledger trades, a journal is
kept. Another process keeps the other core busy all the while.

    python benchmarks/live.py [--minutes 10] [--calm]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from live_exchange import BEGIN_MS, SYMBOLS
from measure import show
from sekai.data import MarketData, simulate_gbm
from sekai.live import (
    BarsFromTrades,
    BinanceDecoder,
    CheckedFeed,
    FeedRules,
    LiveConfig,
    LiveRunner,
    PaperAccount,
    PaperBroker,
    RiskLimits,
    SessionStatus,
    WebSocketFeed,
    check_parity,
    read_journal,
)
from sekai.market import Execution
from sekai.training import PPO, load_policy

DAY = 86_400.0
ROW_SECONDS = 10
RATE = 8.0
BUSY = "while True: pass"
LIMITS = RiskLimits(max_orders_per_minute=None, max_daily_loss=None, max_drawdown=None)


def history() -> MarketData:
    """What is known before the first trade: rows of the same length, up to that moment."""
    made = simulate_gbm(assets=len(SYMBOLS), rows=240, seed=0, volatility=0.1)
    end = np.datetime64(BEGIN_MS, "ms").astype("datetime64[ns]")
    times = end - np.timedelta64(ROW_SECONDS, "s") * np.arange(len(made))[::-1]
    scale = 100.0 / made.field("close")[-1]
    values = made.values.copy()
    prices = [made.fields.index(name) for name in ("open", "high", "low", "close")]
    values[:, :, prices] *= scale[None, :, None]
    return MarketData(
        times=times, assets=SYMBOLS, fields=made.fields, values=values
    )


def policy_in(folder: Path, env: Any) -> Any:
    """A small network, as it comes out of a file."""
    agent = PPO(env, policy={"backbone": "mlp", "width": 32}, seed=0)
    agent.save(folder / "policy.safetensors")
    return load_policy(folder / "policy.safetensors")


class Memory:
    """How much memory the process has, second by second."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float]] = []

    async def watch(self) -> None:
        """Look twice a second."""
        page = resource.getpagesize()
        while True:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            self.samples.append((time.monotonic(), pages * page / 2**20))
            await asyncio.sleep(0.5)

    def growth(self) -> tuple[float, float]:
        """Megabytes at the end, and megabytes an hour over the last two thirds."""
        times, sizes = np.asarray(self.samples[len(self.samples) // 3 :]).T
        slope = float(np.polyfit(times - times[0], sizes, 1)[0])
        return float(sizes[-1]), slope * 3600


async def soak(port: int, folder: Path, rows: int) -> tuple[SessionStatus, Memory, Any]:
    """Trade until so many rows have come."""
    known = history()
    options = {
        "features": ["log_return", "volatility(20)"], "lookback": 8, "stream": True,
        "episode_rows": None, "execution": Execution(sizing="decision"),
    }  # fmt: skip
    env = sekai.make("Portfolio-v0", data=known, **options)
    acting = policy_in(folder, sekai.make_vec("Portfolio-v0", 2, data=known, **{
        **options, "stream": False, "episode_rows": 20}))  # fmt: skip
    socket = WebSocketFeed(
        f"ws://127.0.0.1:{port}", BinanceDecoder(["trade"]), capacity=200_000, policy="stop"
    )
    checked = CheckedFeed(socket, FeedRules())
    feed = BarsFromTrades(checked, SYMBOLS, ROW_SECONDS, history=known, fields=known.fields)
    broker = PaperBroker(PaperAccount.like(env.unwrapped), ledger=folder / "paper.jsonl")
    runner = LiveRunner(acting, env, feed, broker, folder / "session", LiveConfig(limits=LIMITS))
    memory = Memory()
    watching = asyncio.ensure_future(memory.watch())
    status = await runner.run(rows)
    watching.cancel()
    parity = check_parity(folder / "session", sekai.make("Portfolio-v0", data=known, **options))
    return status, memory, parity
