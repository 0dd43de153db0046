"""History of live feeds: klines of a venue, and rows collected from the feed."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.data import Frequency, MarketData, simulate_gbm
from sekai.data.calendar import DAY, YEAR_DAYS
from sekai.error import DataError, FeedEndedError, FeedError
from sekai.live import (
    BarsFromTrades,
    LiveConfig,
    LiveRunner,
    PaperBroker,
    ReplayFeed,
    WebSocketFeed,
    check_parity,
    collect_history,
    fetch_klines,
)
from sekai.live.feeds import BinanceDecoder
from sekai.live.feeds.history import load_history, save_history
from sekai.market import Execution
from tests.live.feeds.kline_server import KlineServer, serving
from tests.live.feeds.makers import BEGIN, SECOND, frame, trade
from tests.live.feeds.venue import QUICK, Venue
from tests.live.sessions import FREE, follow

MINUTE = np.timedelta64(60, "s")
SYMBOLS = ("AAA", "BBB")


def minutes(rows: int, end: str = "2026-01-05T10:00", **changes: Any) -> MarketData:
    """Rows of a minute that end at a time."""
    data = simulate_gbm(SYMBOLS, rows=rows, seed=2)
    times = np.datetime64(end, "ns") - MINUTE * np.arange(rows)[::-1]
    values = changes.pop("values", data.values)
    frequency = Frequency(60 * 10**9, DAY * YEAR_DAYS / (60 * 10**9))
    return MarketData(times, SYMBOLS, data.fields, values, frequency=frequency, **changes)


def nanoseconds(time: Any) -> int:
    return int(np.datetime64(time, "ns").astype(np.int64))


@pytest.mark.parametrize(("rows", "requests"), [(40, 1), (1_000, 1), (2_300, 3)])
def test_the_klines_of_a_venue_are_the_history(rows: int, requests: int) -> None:
    data = minutes(2_400)
    venue = KlineServer(data)

    with serving(venue) as url:
        # Half a minute after the last row: the open candle is not asked for.
        end = nanoseconds(data.times[-1]) + 30 * 10**9
        history = fetch_klines(url, SYMBOLS, 60.0, rows, fields=data.fields, end=end)

    assert history == data.rows(2_400 - rows, 2_400)
    assert len(venue.queries) == 2 * requests
    assert {query["interval"] for query in venue.queries} == {"1m"}


def test_a_symbol_without_a_candle_is_not_quoted() -> None:
    values = minutes(20).values.copy()
    values[:3, 0] = np.nan
    values[10, 1] = np.nan
    data = minutes(20, values=values)

    with serving(KlineServer(data)) as url:
        history = fetch_klines(
            url, SYMBOLS, 60.0, 20, fields=data.fields, end=nanoseconds(data.times[-1])
        )

    assert np.array_equal(history.quoted, np.isfinite(values).all(axis=2))
    assert history.listed[:, 0].tolist() == [False] * 3 + [True] * 17
    assert history.listed[:, 1].all()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (500, "no klines from 127.0.0.1: status 500"),
        ({"code": -1}, "expected a list"),
        ([], "has no klines of AAA, BBB in the last 5 rows"),
        ([[1, "1", "1", "1", "1", "1", 2]], "unexpected kline"),
        (["x"], "unexpected kline"),
    ],
)
def test_another_answer_is_refused_without_the_url(answer: Any, words: str) -> None:
    venue = KlineServer(minutes(5))
    venue.answer = answer

    with serving(venue) as url, pytest.raises(FeedError, match=words) as caught:
        fetch_klines(f"{url}?key=hidden", SYMBOLS, 60.0, 5)

    assert "hidden" not in str(caught.value)


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="https://"):
        fetch_klines("file:///etc/passwd", SYMBOLS, 60.0, 5)
    with pytest.raises(ValueError, match="whole number of seconds"):
        fetch_klines("http://localhost/", SYMBOLS, 0.5, 5)
    with pytest.raises(ValueError, match="rows must be at least 1"):
        asyncio.run(collect_history(ReplayFeed(minutes(5), 0), SYMBOLS, 0))


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    data = minutes(9).replace(market={"rate": np.arange(9.0)}, sectors={"AAA": "x"})

    save_history(tmp_path / "history.json", data)

    assert load_history(tmp_path / "history.json") == data
    (tmp_path / "history.json").write_text("{}")
    with pytest.raises(DataError, match="not a usable history"):
        load_history(tmp_path / "history.json")


def test_a_cold_start_collects_rows_and_then_trades(tmp_path: Path) -> None:
    data = minutes(60)
    counts: list[int] = []

    async def cold() -> Any:
        feed = ReplayFeed(data, 0)
        history = await collect_history(
            feed, data.assets, 12, fields=data.fields, seconds=60.0, note_row=counts.append
        )
        options: dict[str, Any] = {
            "data": history, "features": ["log_return"], "lookback": 5, "stream": True,
            "episode_rows": None, "execution": Execution(sizing="decision"),
        }  # fmt: skip
        env = sekai.make("Portfolio-v0", **options)
        runner = LiveRunner(
            follow, env, feed, PaperBroker.like(env), tmp_path / "cold",
            LiveConfig(limits=dataclasses.replace(FREE, max_staleness_seconds=None)),
        )  # fmt: skip
        return history, await runner.run(), sekai.make("Portfolio-v0", **options)

    history, status, env = asyncio.run(cold())

    assert counts == list(range(1, 13))
    # The first row is left out, because a feed may begin in the middle of it.
    assert history == data.rows(1, 13)
    assert (status.state, status.bars) == ("stopped", 47)
    assert status.fills > 0
    assert check_parity(tmp_path / "cold", env).is_whole


def test_a_feed_that_ends_in_a_cold_start_says_how_far_it_came() -> None:
    data = minutes(5)

    with pytest.raises(FeedEndedError, match="after 4 of 5 rows"):
        asyncio.run(collect_history(ReplayFeed(data, 0), SYMBOLS, 5, fields=data.fields))


def test_rows_of_a_websocket_are_collected_from_its_trades() -> None:
    async def collected() -> MarketData:
        async with Venue() as venue:
            socket = WebSocketFeed(
                f"ws://127.0.0.1:{venue.port}/", BinanceDecoder(("trade",)), symbols=["AAA"],
                backoff=QUICK,
            )  # fmt: skip
            feed = BarsFromTrades(socket, ["AAA"], 1.0)
            await feed.open()
            frames = [
                frame(trade(number, exchange_time=BEGIN + number * SECOND // 2))
                for number in range(1, 13)
            ]
            sending = asyncio.ensure_future(venue.send(*frames))
            history = await collect_history(feed, ["AAA"], 4, seconds=1.0)
            await sending
            await feed.close()
        assert feed.history is history
        return history

    history = asyncio.run(collected())

    assert len(history) == 4
    assert np.isfinite(history.values).all()
    assert set(np.diff(history.times)) == {np.timedelta64(1, "s")}


def test_trades_long_after_the_history_name_the_ways_to_another() -> None:
    history = minutes(5, "2020-01-01")

    async def late() -> None:
        async with Venue() as venue:
            feed = BarsFromTrades(
                venue.feed(symbols=list(SYMBOLS)), SYMBOLS, 60.0, history, history.fields
            )
            await feed.open()
            sending = asyncio.ensure_future(
                venue.send(*[frame(trade(number, symbol="AAA")) for number in range(1, 5)])
            )
            async for _ in feed:
                pass
            await sending

    with pytest.raises(FeedError, match=r"fetch_klines.*collect_history.*\[history\]"):
        asyncio.run(late())
