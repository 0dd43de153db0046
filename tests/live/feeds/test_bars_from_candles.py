"""BarsFromCandles: complete, late, missing and rejected bars."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sekai
from sekai.data import Bar, MarketData
from sekai.live import LiveRunner, PaperBroker, check_parity
from sekai.live.events import BarEvent, CandleEvent, FeedEvent, FeedNotice
from sekai.live.feeds import (
    BarsFromCandles,
    BinanceDecoder,
    CheckedFeed,
    EventRecorder,
    JsonDecoder,
    JsonMapping,
    QueueFeed,
    RecordedFeed,
)
from sekai.market import Execution
from tests.live.feeds.makers import SECOND, ListFeed, collect, kinds, notice, run, trade
from tests.live.feeds.test_recording import same_bar
from tests.live.feeds.venue import Venue

ASSETS = ("AAA", "BBB", "CCC")
FIELDS = ("open", "high", "low", "close", "volume")
MINUTE = 60 * SECOND
START = 1_700_000_000 // 60 * MINUTE


def candle(
    minute: int, symbol: str = "AAA", after: float = 0.1, close: float = 11.0, **changes: Any
) -> CandleEvent:
    """The candle that ends with a minute, read so many seconds after it."""
    end = START + minute * MINUTE
    made: dict[str, Any] = {
        "exchange_time": end, "receive_time": end + round(after * 1e9), "begin": end - MINUTE,
        "symbol": symbol, "open": 10.0, "high": 50.0, "low": 9.0, "close": close,
        "volume": 5.0, **changes,
    }  # fmt: skip
    return CandleEvent(**made)


def panel(rows: int = 30) -> MarketData:
    """History up to minute 0."""
    rng = np.random.default_rng(7)
    times = np.datetime64(START, "ns") + np.arange(1 - rows, 1) * np.timedelta64(60, "s")
    close = 10.0 + rng.random((rows, 3))
    values = np.stack([close, close + 1, close - 1, close, close * 3], axis=2)
    return MarketData(times, ASSETS, FIELDS, values)


def aligned(events: Sequence[FeedEvent], **options: Any) -> tuple[list[FeedEvent], BarsFromCandles]:
    async def work() -> tuple[list[FeedEvent], BarsFromCandles]:
        given_ = {"wait_seconds": 5.0, **options}
        feed = BarsFromCandles(ListFeed(events), ASSETS, 60.0, **given_)
        found = await collect(feed)
        await feed.close()
        await feed.close()
        return found, feed

    return run(work())


def rows(found: Sequence[FeedEvent]) -> list[Bar]:
    return [event.bar for event in found if isinstance(event, BarEvent)]


def closes(bar: Bar) -> list[float]:
    return [float(value) for value in np.asarray(bar.values)[:, 3]]


def told(found: Sequence[FeedEvent]) -> list[str]:
    return [event.kind for event in found if isinstance(event, FeedNotice)]


def test_a_row_is_whole_when_every_symbol_has_closed() -> None:
    found, feed = aligned(
        [candle(1, "BBB", close=2.0 + 10), candle(1, "CCC", 0.3, 13.0), candle(1, "AAA", 0.9)]
    )

    (event,) = [one for one in found if isinstance(one, BarEvent)]
    assert event.exchange_time == START + MINUTE
    # Latencies count from the candle that made it whole.
    assert event.receive_time == START + MINUTE + round(0.9e9)
    assert closes(event.bar) == [11.0, 12.0, 13.0]
    assert event.bar.quoted is not None
    assert np.asarray(event.bar.quoted).all()
    assert not event.is_late
    assert feed.health.received == 1


def test_a_symbol_that_is_missing_is_not_quoted_and_never_filled() -> None:
    events = [candle(1, name) for name in ASSETS]
    events += [candle(2, "AAA"), candle(2, "CCC", 4.9), candle(3, "AAA")]

    found, _ = aligned(events)

    second = rows(found)[1]
    assert np.asarray(second.quoted).tolist() == [True, False, True]
    assert np.asarray(second.tradable).tolist() == [True, False, True]
    assert np.isnan(np.asarray(second.values)[1]).all()
    # It is still there, and quoted again when it comes: nobody delists it.
    assert np.asarray(second.listed).all()


def test_a_symbol_is_listed_from_its_first_candle_or_as_the_history_says() -> None:
    found, _ = aligned([candle(1, "AAA"), candle(2, "BBB"), candle(3, "AAA")])
    listed = [np.asarray(bar.listed).tolist() for bar in rows(found)]
    assert listed == [[True, False, False], [True, True, False], [True, True, False]]

    found, _ = aligned([candle(1, "AAA")], history=panel())
    assert np.asarray(rows(found)[0].listed).all()


def test_a_row_waits_so_long_after_its_first_candle() -> None:
    in_time = [candle(1, "AAA", 1.0), candle(1, "BBB", 5.9), candle(1, "CCC", 6.0)]
    assert np.asarray(rows(aligned(in_time)[0])[0].quoted).all()

    too_late = [candle(1, "AAA", 1.0), candle(1, "BBB", 5.9), candle(1, "CCC", 6.001)]
    found, feed = aligned(too_late)

    assert np.asarray(rows(found)[0].quoted).tolist() == [True, True, False]
    assert told(found) == ["late"]
    assert feed.health.late == 1
    assert len(rows(found)) == 1


def test_a_candle_of_a_later_time_shows_that_the_wait_is_over() -> None:
    # Read at once, as after an outage: only the venue's times tell how long ago it was.
    stuck = [candle(1, "AAA", 600.0), candle(2, "AAA", 539.0), candle(1, "BBB", 600.1)]

    found, feed = aligned(stuck)

    assert [np.asarray(bar.quoted).tolist() for bar in rows(found)] == [[True, False, False]] * 2
    assert [event.is_late for event in found if isinstance(event, BarEvent)] == [True, False]
    assert feed.health.late == 1


def test_a_whole_row_ends_the_wait_of_those_before_it() -> None:
    events = [candle(1, "AAA", 70.0), *(candle(2, name, 11.0) for name in ASSETS)]
    # Those of a symbol come in order: this one is none that was waited for.
    events += [candle(1, "BBB", 72.0)]

    found, feed = aligned(events, wait_seconds=90.0)

    made = [event for event in found if isinstance(event, BarEvent)]
    assert [event.exchange_time for event in made] == [START + MINUTE, START + 2 * MINUTE]
    assert [event.receive_time for event in made] == [START + 131 * SECOND] * 2
    assert np.asarray(made[0].bar.quoted).tolist() == [True, False, False]
    # Behind the first the market had moved on: nothing is decided on it.
    assert [event.is_late for event in made] == [True, False]
    assert feed.health.late == 1


def test_a_whole_row_is_not_held_up_by_times_that_no_symbol_has_a_candle_of() -> None:
    found, feed = aligned([*(candle(2, name) for name in ASSETS), candle(1, "AAA", 61.0)])

    assert [event.exchange_time for event in found if isinstance(event, BarEvent)] == [
        START + 2 * MINUTE
    ]
    assert feed.health.late == 1


def test_duplicates_are_counted_and_corrections_count_until_the_row_is_whole() -> None:
    events = [
        candle(1, "AAA"), candle(1, "AAA"), candle(1, "AAA", close=12.0),
        candle(1, "BBB"), candle(1, "CCC"), candle(1, "CCC"), candle(1, "CCC", close=15.0),
    ]  # fmt: skip

    found, feed = aligned(events)

    assert closes(rows(found)[0]) == [12.0, 11.0, 11.0]
    assert told(found) == ["duplicate", "duplicate", "duplicate", "late"]
    assert (feed.health.duplicates, feed.health.late) == (3, 1)
    details = [event.detail for event in found if isinstance(event, FeedNotice)]
    assert "other values" in details[1]


@pytest.mark.parametrize(
    ("wrong", "kind", "count"),
    [
        (candle(1, begin=START), "", "received"),
        (candle(1, begin=START - 4 * MINUTE), "garbage", "garbage"),
        (
            candle(1, exchange_time=START + MINUTE + SECOND, begin=START + SECOND, after=2.0),
            "garbage", "garbage",
        ),
        (candle(1, after=-5.1), "clock_jump", "clock_jumps"),
        (candle(-3, after=400.0), "late", "late"),
    ],
)  # fmt: skip
def test_candles_that_cannot_be_are_refused_with_a_notice(
    wrong: CandleEvent, kind: str, count: str
) -> None:
    before = [candle(0, name) for name in ASSETS]

    found, feed = aligned([*before, wrong])

    assert told(found) == ([kind] if kind else [])
    assert getattr(feed.health, count) == (2 if count == "received" else 1)


def test_what_the_history_knows_already_is_passed_over() -> None:
    found, feed = aligned([candle(0), candle(-1), candle(1)], history=panel())

    assert len(rows(found)) == 1
    assert told(found) == []
    assert feed.health.late == 0


def test_other_symbols_and_events_are_passed_over_and_notices_handed_on() -> None:
    found, _ = aligned([candle(1, "XXX"), trade(1), notice("connected"), candle(1)])

    assert kinds(found) == ["connected", "None"]


def test_the_end_of_a_feed_ends_the_wait() -> None:
    found, _ = aligned([candle(1, "AAA"), candle(1, "BBB")])

    assert np.asarray(rows(found)[0].quoted).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"wait_seconds": 0.0}, "wait_seconds"),
        ({"fields": ("close", "colour")}, "unknown fields"),
        ({"clock_limit": -1.0}, "clock_limit"),
        ({"history": panel().select(["AAA", "BBB"])}, "history has assets"),
    ],
)
def test_settings_that_cannot_be_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        aligned([], **change)


def test_the_clock_ends_the_wait_where_nothing_more_comes() -> None:
    async def work() -> None:
        inner = QueueFeed()
        feed = BarsFromCandles(inner, ASSETS, 60.0, wait_seconds=0.2, clock_limit=None)
        begun = time.monotonic()
        inner.put(dataclasses.replace(candle(1), receive_time=time.time_ns()))
        event = await feed.__anext__()
        assert isinstance(event, BarEvent)
        assert time.monotonic() - begun > 0.15
        assert np.asarray(event.bar.quoted).tolist() == [True, False, False]
        await feed.close()

    run(work())


def test_one_who_waits_can_be_cancelled_and_nothing_is_lost() -> None:
    async def work() -> None:
        inner = QueueFeed()
        feed = BarsFromCandles(inner, ASSETS, 60.0, wait_seconds=30.0)
        for name in ASSETS:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(feed.__anext__(), 0.01)
            inner.put(candle(1, name))
        event = await asyncio.wait_for(feed.__anext__(), 20.0)
        assert isinstance(event, BarEvent)
        assert np.asarray(event.bar.quoted).all()
        assert await feed.since(0) == [event]
        await feed.close()

    run(work())


@st.composite
def interleavings(draw: st.DrawFn) -> list[list[CandleEvent]]:
    """Candles of three symbols, some missing: minute by minute, and in another order.

    Those of one symbol come in order, as a venue sends them.
    """
    prices = {
        name: [(minute, draw(st.floats(9.0, 50.0))) for minute in minutes]
        for name in ASSETS
        for minutes in [sorted(draw(st.sets(st.integers(1, 3))))]
    }
    turns = [name for name, those in prices.items() for _ in those]
    left = {name: iter(those) for name, those in prices.items()}
    mixed = [(name, *next(left[name])) for name in draw(st.permutations(turns))]
    orders = []
    for order in (sorted(mixed, key=lambda one: one[1]), mixed):
        moments = [START + 4 * MINUTE + number * SECOND for number in range(len(order))]
        orders.append([
            candle(minute, name, close=price, receive_time=moment)
            for (name, minute, price), moment in zip(order, moments, strict=True)
        ])  # fmt: skip
    return orders


@given(both=interleavings())
@example(both=[[candle(1), candle(2, "BBB")], [candle(2, "BBB"), candle(1, after=70.0)]])
@settings(deadline=None, max_examples=200)
def test_the_order_of_candles_within_the_wait_does_not_show_in_the_rows(
    both: list[list[CandleEvent]],
) -> None:
    first, second = (rows(aligned(events, wait_seconds=300.0)[0]) for events in both)

    assert len(first) == len(second) == len({event.exchange_time for event in both[0]})
    assert all(same_bar(one, other) for one, other in zip(first, second, strict=True))


@given(
    delays=st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from(ASSETS), st.floats(0.0, 20.0)), max_size=25
    )
)
@settings(deadline=None, max_examples=200)
def test_rows_rise_and_every_candle_is_in_one_or_counted(
    delays: list[tuple[int, str, float]],
) -> None:
    events = sorted((candle(*one) for one in delays), key=lambda event: event.receive_time)

    found, feed = aligned(events)

    times = [event.exchange_time for event in found if isinstance(event, BarEvent)]
    assert times == sorted(set(times))
    used = sum(int(np.asarray(bar.quoted).sum()) for bar in rows(found))
    assert used + feed.health.late + feed.health.duplicates == len(events)
    assert len(told(found)) == feed.health.late + feed.health.duplicates


@given(
    delays=st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from(ASSETS), st.floats(0.0, 20.0)), min_size=1,
        max_size=25,
    )
)  # fmt: skip
@settings(deadline=None, max_examples=25)
def test_a_recording_gives_the_same_rows_again(
    delays: list[tuple[int, str, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    events = sorted((candle(*one) for one in delays), key=lambda event: event.receive_time)
    path = tmp_path_factory.mktemp("recorded") / "events.jsonl"
    with EventRecorder(path) as recorder:
        for event in events:
            recorder.record(event)

    async def replayed(speed: float | None) -> list[FeedEvent]:
        feed = BarsFromCandles(RecordedFeed(path, speed=speed), ASSETS, 60.0, wait_seconds=5.0)
        return await collect(feed)

    expected = [event for event in aligned(events)[0] if isinstance(event, BarEvent)]
    for speed in (None, 1e4):
        found = [one for one in run(replayed(speed)) if isinstance(one, BarEvent)]
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert same_bar(one.bar, other.bar)
            assert (one.exchange_time, one.receive_time) == (
                other.exchange_time, other.receive_time
            )  # fmt: skip
            assert one.is_late == other.is_late


def test_a_recording_of_rows_that_the_clock_closed_gives_them_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    path = tmp_path / "events.jsonl"

    async def live() -> list[FeedEvent]:
        inner = QueueFeed()
        feed = BarsFromCandles(inner, ASSETS, 60.0, wait_seconds=0.03)

        async def send() -> None:
            with EventRecorder(path) as recorder:
                for minute in range(1, 25):
                    for name in rng.permutation(ASSETS):
                        await asyncio.sleep(float(rng.choice([0.0, 0.005, 0.02, 0.06])))
                        event = candle(minute, str(name), receive_time=time.time_ns())
                        recorder.record(event)
                        inner.put(event)
            inner.finish()

        sending = asyncio.create_task(send())
        found = await collect(feed)
        await sending
        return found

    async def replayed() -> list[FeedEvent]:
        return await collect(BarsFromCandles(RecordedFeed(path), ASSETS, 60.0, wait_seconds=0.03))

    first, second = rows(run(live())), rows(run(replayed()))

    assert any(not np.asarray(bar.quoted).all() for bar in first)
    assert any(np.asarray(bar.quoted).all() for bar in first)
    assert all(same_bar(one, other) for one, other in zip(first, second, strict=True))


def kline(minute: int, symbol: str, close: float, *, is_closed: bool = True) -> str:
    """A candle as Binance sends it, of the minutes that are over by now."""
    end = START + minute * MINUTE
    inner = {
        "t": (end - MINUTE) // 10**6, "T": end // 10**6 - 1, "s": symbol, "i": "1m", "o": "10.0",
        "c": f"{close:.2f}", "h": "50.0", "l": "9.0", "v": "5.0", "x": is_closed,
    }  # fmt: skip
    told_ = {"e": "kline", "E": end // 10**6, "s": symbol, "k": inner}
    return json.dumps({"stream": f"{symbol.lower()}@kline_1m", "data": told_})


def served(venue: Venue, decoder: Any = None) -> BarsFromCandles:
    """Messages of a local venue, in rows after the history."""
    decoder = BinanceDecoder(["kline_1m"]) if decoder is None else decoder
    feed = venue.feed(decoder=decoder, symbols=ASSETS, backfill=None)
    return BarsFromCandles(CheckedFeed(feed), ASSETS, 60.0, panel(), wait_seconds=0.5)


def venue_frames(minutes: int) -> list[str]:
    """Klines of three symbols, with unfinished ones between; one symbol misses the last."""
    frames = []
    for minute in range(1, minutes + 1):
        for place, name in enumerate(ASSETS):
            frames.append(kline(minute, name, 20.0, is_closed=False))
            if minute < minutes or name != "BBB":
                frames.append(kline(minute, name, 10.0 + minute + place))
    return frames


def test_klines_of_a_venue_become_rows_that_an_env_steps_on() -> None:
    async def work() -> list[Any]:
        async with Venue() as venue:
            sending = asyncio.create_task(venue.send(*venue_frames(4)))
            feed = served(venue)
            env = sekai.make("Portfolio-v0", data=feed, features=["log_return"], lookback=5)
            await env.async_reset(seed=0)
            seen = [await env.async_step(np.array([0.3, 0.3, 0.3, 0.1])) for _ in range(4)]
            inner: Any = env.unwrapped
            prices = inner.data.field("close")[-4:]
            env.close()
            await feed.close()
            await sending
        assert prices[:3].tolist() == [[11.0, 12.0, 13.0], [12.0, 13.0, 14.0], [13.0, 14.0, 15.0]]
        return [step.observation["mask"].tolist() for step in seen]

    assert run(work()) == [[1, 1, 1]] * 3 + [[1, 0, 1]]


def test_candles_of_any_venue_that_speaks_json_become_rows() -> None:
    names = ("open", "high", "low", "close", "volume", "symbol", "begin", "exchange_time")
    mapping = JsonMapping(
        kind="candle", fields={name: name for name in names}, only_if={"closed": True},
        time_unit="ns", subscribe="candles {symbol}",
    )  # fmt: skip
    frames = [
        json.dumps({
            **{name: getattr(candle(1, symbol), name) for name in names}, "closed": is_closed,
        })
        for symbol in ASSETS
        for is_closed in (False, True)
    ]  # fmt: skip

    async def work() -> Bar:
        async with Venue() as venue:
            sending = asyncio.create_task(venue.send(*frames))
            feed = served(venue, JsonDecoder(mapping))
            bar = await feed.next_bar()
            await feed.close()
            await sending
            return bar

    assert closes(run(work())) == [11.0] * 3


def test_a_live_session_trades_on_candles_and_replays_to_the_same_bytes(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "data": panel(), "features": ["log_return"], "lookback": 5, "stream": True,
        "episode_rows": None, "execution": Execution(sizing="decision"),
    }  # fmt: skip

    async def work() -> Any:
        async with Venue() as venue:
            sending = asyncio.create_task(venue.send(*venue_frames(6)))
            env = sekai.make("Portfolio-v0", **options)
            runner = LiveRunner(
                lambda seen: np.array([0.3, 0.3, 0.3, 0.1]), env, served(venue),
                PaperBroker.like(env), tmp_path / "session",
            )  # fmt: skip
            status = await runner.run(bars=6)
            await sending
            return status

    status = run(work(), 60.0)
    parity = check_parity(tmp_path / "session", sekai.make("Portfolio-v0", **options))

    assert (parity.rows, parity.equal) == (6, 6)
    assert status.fills > 0
