"""Sessions on real trades replay to the same bytes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import sekai
from sekai.live import (
    BarsFromTrades,
    BinanceDecoder,
    CheckedFeed,
    FeedEvent,
    FeedRules,
    LiveConfig,
    LiveRunner,
    PaperBroker,
    RecordedFeed,
    TradeEvent,
    bars_of,
    check_parity,
)
from sekai.market import Execution
from tests.data.panels import real
from tests.live.sessions import FREE, follow

CAPTURE = "l2_binance/spot_btcusdt_20240808.raw.jsonl.gz"
ASSETS = ("BTCUSDT",)
KNOWN = 40


def captured() -> RecordedFeed:
    return RecordedFeed(real(CAPTURE), BinanceDecoder(["trade"]))


async def trades_in(feed: RecordedFeed) -> list[FeedEvent]:
    return [event async for event in feed if isinstance(event, TradeEvent)]


def test_a_session_on_bars_of_captured_trades_replays_to_the_same_bytes(tmp_path: Path) -> None:
    trades = asyncio.run(trades_in(captured()))
    whole = bars_of(trades, ASSETS, 1.0, empty="carry")
    history = whole.rows(0, KNOWN)
    options: dict[str, Any] = {
        "data": history, "features": ["log_return"], "lookback": 4, "stream": True,
        "episode_rows": None, "execution": Execution(sizing="decision"),
    }  # fmt: skip
    env = sekai.make("Portfolio-v0", **options)
    checked = CheckedFeed(captured(), FeedRules())
    feed = BarsFromTrades(checked, ASSETS, 1.0, history=history, empty="carry", grace=1e6)
    config = LiveConfig(limits=FREE, sync="never")

    runner = LiveRunner(follow, env, feed, PaperBroker.like(env), tmp_path, config)
    status = asyncio.run(runner.run())

    assert status.bars == len(whole) - KNOWN > 100
    assert status.fills > 100
    for simulate in (False, True):
        parity = check_parity(tmp_path, sekai.make("Portfolio-v0", **options), simulate=simulate)
        assert parity.is_whole
        assert parity.rows == status.bars
