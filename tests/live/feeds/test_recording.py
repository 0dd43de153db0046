"""Recording and replay of events and panels."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.data import Bar
from sekai.error import FeedEndedError, FeedError
from sekai.live.events import BarEvent, FeedEvent, FeedNotice
from sekai.live.feeds import (
    BinanceDecoder,
    EventRecorder,
    RecordedFeed,
    ReplayFeed,
    event_from_json,
    event_to_json,
)  # fmt: skip
from tests.live.feeds.makers import (
    BEGIN,
    bar_event,
    candle,
    collect,
    frame,
    kinds,
    notice,
    panel,
    quote,
    run,
    trade,
)  # fmt: skip


def same(one: FeedEvent, other: FeedEvent) -> bool:
    """Return True if events are equal; bars are compared by content."""
    if not (isinstance(one, BarEvent) and isinstance(other, BarEvent)):
        return one == other
    heads = [(e.exchange_time, e.receive_time, e.sequence) for e in (one, other)]
    return heads[0] == heads[1] and same_bar(one.bar, other.bar)


def same_bar(one: Bar, other: Bar) -> bool:
    masks = [
        (a is None) == (b is None) and (a is None or np.array_equal(a, b))
        for a, b in zip(one.masks().values(), other.masks().values(), strict=True)
    ]
    market = one.market.keys() == other.market.keys() and all(
        np.array_equal(one.market[name], other.market[name], equal_nan=True) for name in one.market
    )
    values = np.array_equal(np.asarray(one.values), np.asarray(other.values), equal_nan=True)
    return np.datetime64(one.time) == np.datetime64(other.time) and values and market and all(masks)


def test_rows_come_in_order_after_a_history_of_those_before() -> None:
    data = panel()

    async def work() -> list[FeedEvent]:
        feed = ReplayFeed(data, 15)
        assert feed.history == data.rows(0, 15)
        found = await collect(feed)
        assert not feed.health.is_connected
        assert feed.health.received == 5
        return found

    found = run(work())
    assert kinds(found) == ["15", "16", "17", "18", "19"]
    for event, bar in zip(found, Bar.each(data, 15), strict=True):
        assert isinstance(event, BarEvent)
        assert same_bar(event.bar, bar)
        assert event.exchange_time == int(np.datetime64(bar.time).astype(np.int64))


def test_a_replay_never_tells_of_rows_that_have_not_come() -> None:
    async def work() -> None:
        data = panel()
        feed = ReplayFeed(data, 10)
        await collect(feed, 3)
        first = int(data.calendar.nanoseconds[0])
        assert kinds(await feed.since(0)) == [str(row) for row in range(13)]
        assert kinds(await feed.since(first + 11 * 60 * 10**9)) == ["12"]
        assert await feed.since(2**62) == []

    run(work())


def test_a_replay_keeps_its_pace() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        feed = ReplayFeed(panel(), 0, speed=60 / 0.02)
        assert feed.history is None
        begin = loop.time()
        await collect(feed, 6)
        return loop.time() - begin

    assert 0.1 <= run(work()) < 1.0


def test_rows_end_with_the_error_that_says_so() -> None:
    async def work() -> None:
        feed = ReplayFeed(panel(), 18, stop_row=19)
        await feed.next_bar()
        with pytest.raises(FeedEndedError):
            await feed.next_bar()

    run(work())


@pytest.mark.parametrize(("start", "options"), [(-1, {}), (21, {}), (5, {"stop_row": 4})])
def test_rows_that_are_not_there_are_refused(start: int, options: dict[str, int]) -> None:
    with pytest.raises(IndexError, match="from 0 to 20"):
        ReplayFeed(panel(), start, **options)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf"), float("nan")])
def test_a_speed_without_sense_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed"):
        ReplayFeed(panel(), 1, speed=speed)


def rich_bar() -> BarEvent:
    bar = Bar(
        np.datetime64(BEGIN + 1, "ns"), np.array([[1.5, np.nan], [2.0, 0.1]]),
        np.array([True, True]), np.array([False, True]), None, {"rate": 0.5, "hole": np.nan},
    )  # fmt: skip
    return BarEvent(exchange_time=BEGIN + 1, bar=bar)


EVENTS: list[FeedEvent] = [
    trade(1, 0.1 + 0.2, is_buy=True), quote(2), candle(3), bar_event(4), rich_bar(),
    notice("stale"),
    trade(5, sequence=None, trade_id=None, symbol="币安"),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_is_the_same_after_it_was_written_and_read(event: FeedEvent) -> None:
    line = event_to_json(event)

    assert "\n" not in line
    assert same(event_from_json(line), event)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63) + 1, 2**63 - 1))
def test_numbers_are_the_same_to_the_last_bit(price: float, number: int) -> None:
    event = trade(1, price, sequence=number)

    assert event_from_json(event_to_json(event)) == event


def test_infinite_numbers_are_not_written() -> None:
    with pytest.raises(FeedError, match="finite"):
        event_to_json(trade(1, float("inf")))


@pytest.mark.parametrize("event", EVENTS)
def test_lines_with_a_field_changed_are_refused(event: FeedEvent) -> None:
    whole = json.loads(event_to_json(event))
    for name, value in whole.items():
        bad: list[Any] = [{}, [], "1" if not isinstance(value, str) else 1]
        bad += [] if isinstance(value, float) else [2**64]
        for wrong in bad:
            with pytest.raises(FeedError):
                event_from_json(json.dumps({**whole, name: wrong}))
    with pytest.raises(FeedError):
        event_from_json(json.dumps({**whole, "other": 1}))
    del whole["exchange_time"]
    with pytest.raises(FeedError):
        event_from_json(json.dumps(whole))


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz"])
def test_what_was_recorded_is_replayed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with EventRecorder(path) as recorder:
        for event in EVENTS:
            recorder.record(event)
        assert not path.exists()
        assert recorder.count == len(EVENTS)
    recorder.close()

    async def work() -> list[FeedEvent]:
        feed = RecordedFeed(path)
        first = await collect(feed, 3)
        again = await feed.since(BEGIN + 10**9)
        assert [event.exchange_time for event in again] == [
            event.exchange_time for event in first[1:]
        ]
        return first + await collect(feed)

    found = run(work())
    assert len(found) == len(EVENTS)
    assert all(map(same, found, EVENTS))
    assert not recorder.part.exists()


def test_a_recorder_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="another name"):
        EventRecorder(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz"])
def test_a_recording_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, name: str) -> None:
    recorder = EventRecorder(tmp_path / name)
    for number in range(50):
        recorder.record(trade(number))
    recorder.flush()
    whole = recorder.part.read_bytes()
    cut = tmp_path / f"cut-{name}"
    cut.write_bytes(whole[:-7])
    recorder.close()

    async def work() -> tuple[list[str], int]:
        feed = RecordedFeed(cut)
        return kinds(await collect(feed)), feed.health.garbage

    found, garbage = run(work())
    assert found[-1] == "garbage"
    assert found[:-1] == [str(number) for number in range(len(found) - 1)]
    assert len(found) > 45
    assert garbage == 1


def test_raw_lines_are_read_by_a_decoder(tmp_path: Path) -> None:
    lines = [
        f"{BEGIN} {frame(trade(1))}", "12", "x y", "9" * 30 + " {}", f"{BEGIN} {{",
        f"{BEGIN} {frame(trade(2))}",
    ]  # fmt: skip
    path = tmp_path / "raw.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n" + b"7 \xff\n\n"))

    async def work(decoder: BinanceDecoder | None) -> list[FeedEvent]:
        return await collect(RecordedFeed(path, decoder))

    found = run(work(BinanceDecoder()))
    assert kinds(found) == ["1", *["garbage"] * 4, "2", "garbage"]
    assert found[0].receive_time == BEGIN
    without = run(work(None))
    assert "no decoder" in without[0].detail  # type: ignore[attr-defined]


def test_a_recording_keeps_its_pace_and_can_be_closed_while_it_waits(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventRecorder(path) as recorder:
        # The last is due two seconds after the others.
        for number in (0, 1, 201):
            recorder.record(trade(number))

    async def work() -> list[str]:
        feed = RecordedFeed(path, speed=100.0)
        loop = asyncio.get_running_loop()
        begin = loop.time()
        found = await collect(feed, 2)
        assert loop.time() - begin >= 0.009
        waiting = asyncio.ensure_future(collect(feed))
        await asyncio.sleep(0.001)
        await feed.close()
        await feed.close()
        return kinds(found + await waiting)

    assert run(work()) == ["0", "1"]


def test_a_recording_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such"):
        RecordedFeed(tmp_path / "no-such")


def test_a_replay_lets_others_have_their_turn(tmp_path: Path) -> None:
    async def work() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await collect(ReplayFeed(panel(500), 1))
        task.cancel()
        await asyncio.wait({task})
        return turns

    assert run(work()) >= 5


def test_notices_are_not_counted_as_received(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventRecorder(path) as recorder:
        for event in EVENTS:
            recorder.record(event)

    async def work() -> int:
        feed = RecordedFeed(path)
        await collect(feed)
        return feed.health.received

    assert run(work()) == sum(not isinstance(event, FeedNotice) for event in EVENTS)


def test_what_cannot_be_read_does_not_hold_up_a_recording_that_keeps_its_pace(
    tmp_path: Path,
) -> None:
    lines = [event_to_json(trade(number)) for number in range(3)]
    (tmp_path / "a.jsonl").write_text("\n".join(["x", lines[0], "y", *lines[1:], "z"]) + "\n")

    async def work() -> tuple[list[str], float]:
        begin = time.monotonic()
        found = await collect(RecordedFeed(tmp_path / "a.jsonl", speed=20.0))
        return kinds(found), time.monotonic() - begin

    found, seconds = run(work())
    assert found == ["garbage", "0", "garbage", "1", "2", "garbage"]
    assert seconds >= 0.099


def test_a_recorded_event_arrives_when_it_is_due(tmp_path: Path) -> None:
    lines = [event_to_json(trade(number)) for number in range(2)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")

    async def work() -> list[int]:
        return [event.arrival async for event in RecordedFeed(tmp_path / "a.jsonl", speed=10.0)]

    first, second = run(work())
    assert second - first >= 0.099e9


@pytest.mark.parametrize(
    "bar",
    [{"time": 1, "values": [[1.0]], "market": []}, {"time": 1, "values": [[1.0]], "market": None},
     {"time": 1, "values": {"a": 1}, "market": {}}, {"time": 1, "values": [{"a": 1}]}, [], "x"],
)  # fmt: skip
def test_a_recorded_row_of_another_shape_is_refused(bar: Any) -> None:
    with pytest.raises(FeedError, match="expected a recorded bar"):
        event_from_json(json.dumps({"event": "bar", "exchange_time": 1, "bar": bar}))


def test_a_local_time_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(f"{2**63} {frame(trade(1))}\n")

    found = run(collect(RecordedFeed(tmp_path / "raw.txt", BinanceDecoder())))
    assert kinds(found) == ["garbage"]
