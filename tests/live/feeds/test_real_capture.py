"""Recorded Binance frames: decoded completely, and equal to independently computed bars."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from sekai.data import Bar, MarketData
from sekai.live.events import FeedEvent, FeedNotice, QuoteEvent, TradeEvent
from sekai.live.feeds import (
    BarsFromTrades,
    BinanceDecoder,
    CheckedFeed,
    FeedRules,
    RecordedFeed,
    bars_of,
)  # fmt: skip
from tests.data.panels import real
from tests.live.feeds.makers import SECOND, collect, run
from tests.live.feeds.test_bars_from_trades import rows, same_rows

FOLDER = "l2_binance/"
FIRST, SECOND_DAY = (f"{FOLDER}spot_btcusdt_2024080{day}.raw.jsonl.gz" for day in (8, 9))
ARRAY = FOLDER + "binance_spot_btcusdt_20240808T2354_651s.npz"


@pytest.fixture(scope="module")
def trades() -> list[FeedEvent]:
    async def work() -> list[FeedEvent]:
        found = []
        for name in (FIRST, SECOND_DAY):
            feed = RecordedFeed(real(name), BinanceDecoder(("trade",)))
            found += await collect(feed)
            assert feed.health.garbage == 0
        return found

    return run(work())


def test_trades_are_those_of_the_independent_reading(trades: list[FeedEvent]) -> None:
    with np.load(real(ARRAY)) as file:
        events = file["events"]
    wanted = events[events["kind"] == 2]

    found = [event for event in trades if isinstance(event, TradeEvent)]
    assert len(found) == len(trades) == 19_904
    assert np.array_equal([event.price for event in found], wanted["price"])
    assert np.array_equal([event.size for event in found], wanted["qty"])
    assert np.array_equal([event.trade_id or 0 for event in found], wanted["update_id"])
    assert np.array_equal([1 if event.is_buy else -1 for event in found], wanted["side"])
    assert np.array_equal([event.exchange_time // 10**6 for event in found], wanted["ts_exch_ms"])
    assert np.array_equal([event.receive_time for event in found], wanted["ts_local_ns"])


def test_quotes_are_those_of_the_independent_reading() -> None:
    with np.load(real(ARRAY)) as file:
        events = file["events"]
    wanted = events[events["kind"] == 3]

    async def work() -> list[FeedEvent]:
        return await collect(RecordedFeed(real(FIRST), BinanceDecoder(("bookTicker",))))

    found = [event for event in run(work()) if isinstance(event, QuoteEvent)]
    bids, asks = wanted[0::2][: len(found)], wanted[1::2][: len(found)]
    assert len(found) > 25_000
    assert np.array_equal([event.bid for event in found], bids["price"])
    assert np.array_equal([event.ask_size for event in found], asks["qty"])
    assert np.array_equal([event.sequence or 0 for event in found], bids["update_id"])


@pytest.mark.parametrize("seconds", [1.0, 7.0, 60.0])
def test_bars_are_those_of_a_group_by(trades: list[FeedEvent], seconds: float) -> None:
    pandas = pytest.importorskip("pandas")
    data = bars_of(trades, ["BTCUSDT"], seconds)

    frame = pandas.DataFrame(
        [(event.exchange_time, event.price, event.size) for event in trades
         if isinstance(event, TradeEvent)], columns=["time", "price", "size"],
    )  # fmt: skip
    span = round(seconds * SECOND)
    groups = frame.groupby(frame["time"] // span * span + span)
    wanted = groups["price"].agg(["first", "max", "min", "last"]).join(groups["size"].sum())
    # The span of the last trade is open.
    wanted = wanted.iloc[:-1]
    traded = data.quoted[:, 0]
    assert np.array_equal(data.calendar.nanoseconds[traded], wanted.index.to_numpy())
    found = data.values[traded, 0]
    assert np.array_equal(found[:, :4], wanted[["first", "max", "min", "last"]].to_numpy())
    assert np.abs(found[:, 4] - wanted["size"].to_numpy()).max() < 1e-9
    assert np.isnan(data.values[~traded, 0, :4]).all()


def test_the_stream_agrees_with_the_history_and_nothing_is_wrong(trades: list[FeedEvent]) -> None:
    async def work() -> tuple[list[FeedEvent], CheckedFeed]:
        feed = RecordedFeed(real(FIRST), BinanceDecoder())
        checked = CheckedFeed(feed, FeedRules(clock_limit=5.0))
        return await collect(BarsFromTrades(checked, ["BTCUSDT"], 1.0)), checked

    found, checked = run(work())
    whole: MarketData = bars_of(trades, ["BTCUSDT"], 1.0)
    assert len(rows(found)) > 300
    assert same_rows(rows(found), list(Bar.each(whole, 0, len(rows(found)))))
    assert not [event for event in found if isinstance(event, FeedNotice)]
    health = checked.health
    assert (health.gaps, health.duplicates, health.late, health.clock_jumps) == (0, 0, 0, 0)


def test_every_frame_is_read_the_same_in_the_quick_way_and_the_long_way() -> None:
    decoder = BinanceDecoder()
    with gzip.open(real(FIRST), "rt") as file:
        frames = [line.rstrip().partition(" ")[2] for line in file][:12_000]

    for frame in frames:
        assert decoder.decode(frame, 7, 8) == decoder._decode_any(frame, 7, 8)
