"""Decoder fuzzing: no frame raises anything but a `FeedError`."""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.data import Bar
from sekai.error import FeedError
from sekai.live.events import CandleEvent, FeedEvent, QuoteEvent, TradeEvent
from sekai.live.feeds import (
    BinanceDecoder,
    Decoder,
    JsonDecoder,
    JsonMapping,
    event_from_json,
    event_to_json,
)  # fmt: skip
from sekai.live.feeds.decoder import MAX_NUMBER
from sekai.live.feeds.folder_feed import RowAssembler
from tests.live.feeds.makers import panel
from tests.live.feeds.test_decoders import KLINE, MAPPING, QUOTE, TRADE, enveloped, row
from tests.live.feeds.test_recording import EVENTS

DECODERS: list[Decoder] = [
    BinanceDecoder(("trade", "bookTicker", "kline_1m")), BinanceDecoder(("aggTrade",)),
    JsonDecoder(MAPPING),
    JsonDecoder(JsonMapping(kind="quote", fields={
        "symbol": "s", "bid": "b", "bid_size": "B", "ask": "a", "ask_size": "A",
    })),
    JsonDecoder(JsonMapping(kind="candle", time_unit="iso", fields={name: name for name in (
        "open", "high", "low", "close", "volume", "symbol", "begin", "exchange_time",
    )})),
]  # fmt: skip
REAL = [
    TRADE, QUOTE, json.dumps(KLINE), enveloped(TRADE), enveloped(QUOTE),
    json.dumps({"rows": [row()]}),
    json.dumps({
        "symbol": "A", "open": 2, "high": 3, "low": 1, "close": 2, "volume": 0,
        "begin": "2020-01-31", "exchange_time": "2020-01-31T16:00:00.123Z",
    }),
]  # fmt: skip
TRICKY = st.sampled_from([
    0, -0.0, 5e-324, 1e308, 2**53 + 1, 2**63, -(2**63), 10**19, "0", "-0", "-1", "1e999", "1e-999",
    "9" * 40, "9" * 41, "0." + "0" * 39 + "1", " 1", "1 ", "1_0", "\uff11", "+1", ".5", "0x1",
    "NaN", "nan", "Infinity", "-inf", "\ud800", "\u202e", "\x00", "\x1b[2J", "A" * 65, "",
    "1677-09-21", "1969-12-31T23:59:59", "2262-04-12", "2020-02-30", "0000-00-00",
])  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | TRICKY
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner)
)


def read(decoder: Decoder, frame: str | bytes) -> list[FeedEvent]:
    """The events, all of which are sound; or none if it is an error, which is short."""
    try:
        found, words = decoder.decode(frame, 7, 8), ""
    except FeedError as error:
        found, words = [], str(error)
    assert len(words) < 300
    assert words.isprintable()
    for event in found:
        assert 0 < event.exchange_time < 2**63
        assert isinstance(event, (TradeEvent, QuoteEvent, CandleEvent))
        assert event.symbol.isprintable()
        assert 0 < len(event.symbol) <= 64
        prices, sizes = numbers_of(event)
        assert all(0 < price < MAX_NUMBER for price in prices)
        assert all(0 <= size < MAX_NUMBER for size in sizes)
        if event.sequence is not None:
            assert 0 <= event.sequence < 2**63
    return found


def numbers_of(event: TradeEvent | QuoteEvent | CandleEvent) -> tuple[list[float], list[float]]:
    """Prices and sizes."""
    if isinstance(event, TradeEvent):
        return [event.price], [event.size]
    if isinstance(event, QuoteEvent):
        return [event.bid, event.ask], [event.bid_size, event.ask_size]
    assert event.low <= min(event.open, event.close)
    assert event.high >= max(event.open, event.close)
    assert event.begin < event.exchange_time
    return [event.open, event.high, event.low, event.close], [event.volume]


def with_any_value_in_any_place(found: Any, data: st.DataObject) -> str:
    """JSON of which one part is replaced."""
    place = found
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(VALUES)
    return json.dumps(found)


@given(st.text() | st.binary())
def test_any_text_and_any_bytes_are_read_or_refused(frame: str | bytes) -> None:
    for decoder in DECODERS:
        read(decoder, frame)
    with pytest.raises(FeedError):
        event_from_json(frame)


@given(VALUES)
def test_any_json_is_read_or_refused(value: Any) -> None:
    for decoder in DECODERS:
        read(decoder, json.dumps(value))
        read(decoder, json.dumps({"stream": "x", "data": value}))
        read(decoder, json.dumps({"rows": value}))


@given(st.sampled_from(REAL), st.data())
def test_real_frames_with_any_value_in_any_place_are_read_or_refused(
    frame: str, data: st.DataObject
) -> None:
    text = with_any_value_in_any_place(json.loads(frame), data)
    for decoder in DECODERS:
        read(decoder, text)


ODD: list[Any] = [None, True, -1, 2**64, 1.5, "x", [], {}, [[]], [[None]], {"a": []}, [{}]]


def refused(work: Callable[[], Any]) -> Any:
    """Decoded events; None for an error, whose message is short."""
    try:
        return work()
    except FeedError as error:
        words = str(error)
    assert len(words) < 300
    return None


def places(found: Any) -> Iterator[tuple[Any, Any]]:
    """Every list and object inside, with every key of it."""
    for key in list(found) if isinstance(found, dict) else range(len(found)):
        yield found, key
        if isinstance(found[key], (dict, list)):
            yield from places(found[key])


@pytest.mark.parametrize("event", EVENTS)
def test_recorded_lines_with_odd_values_in_any_place_are_read_or_refused(event: FeedEvent) -> None:
    told = json.loads(event_to_json(event))
    for place, key in list(places(told)):
        kept = place[key]
        for odd in ODD:
            place[key] = odd
            text = json.dumps(told)
            found = refused(lambda text=text: event_from_json(text))  # type: ignore[misc]
            # What is read is something that can be written.
            assert found is None or event_from_json(event_to_json(found))
        place[key] = kept


@given(st.lists(VALUES, max_size=3), st.data())
def test_lines_of_a_folder_with_any_value_in_any_place_make_rows_of_its_shape(
    others: list[Any], data: st.DataObject
) -> None:
    history = panel(3)
    line = {"time": int(history.calendar.nanoseconds[-1]) + 1, "asset": "AAA", "close": 1.0,
            "volume": 2.0, "quoted": True}  # fmt: skip
    assembler = RowAssembler(history)
    found: list[Bar] = []
    for one in (*others, json.loads(with_any_value_in_any_place(dict(line), data)), line):
        found += refused(lambda one=one: list(assembler.add(one))) or []  # type: ignore[misc]
    found += assembler.flush()
    for bar in found:
        values = np.asarray(bar.values)
        assert values.shape == (2, 2)
        assert not np.isinf(values).any()
        assert not (values[:, 0] <= 0).any()


@given(st.sampled_from(REAL), st.integers(0, 400), st.integers(0, 8), st.binary(max_size=8))
def test_real_frames_with_any_bytes_in_any_place_are_read_or_refused(
    frame: str, at: int, cut: int, put: bytes
) -> None:
    raw = frame.encode()
    mutated = raw[:at] + put + raw[at + cut :]
    for decoder in DECODERS:
        read(decoder, mutated)


@given(st.sampled_from(REAL[:5]), st.integers(0, 250), st.sampled_from('0123456789"{},:.eE-+ tru'))
def test_the_quick_way_and_the_long_way_read_the_same(frame: str, at: int, put: str) -> None:
    text = frame[:at] + put + frame[at + 1 :]
    decoder = BinanceDecoder()
    try:
        slow: Any = decoder._decode_any(text, 7, 8)
    except FeedError:
        slow = FeedError
    try:
        quick: Any = decoder.decode(text, 7, 8)
    except FeedError:
        quick = FeedError

    assert quick == slow


def test_a_caller_who_is_deep_in_calls_gets_an_error_too() -> None:
    frame = '{"rows":' + "[" * 60 + "]" * 60 + "}"

    def deep(calls: int) -> list[FeedEvent]:
        return deep(calls - 1) if calls else read(JsonDecoder(MAPPING), frame)

    # So few calls are left that the reader of JSON itself runs out of them.
    left = sys.getrecursionlimit() - len(inspect.stack())
    assert deep(left - 40) == []


@pytest.mark.parametrize(
    "frame",
    [
        "[" * (1 << 20), '{"a":' * (1 << 17), "[" + "1," * (1 << 19) + "1]", "9" * (1 << 20),
        "1." + "9" * (1 << 19), '"' + "\\" * (1 << 19), '"\\"' * (1 << 18), '["' + "[" * (1 << 19),
        "[" + "1" * 4000 + ("," + "1" * 4000) * 200 + "]", "{" + '"a":1,' * (1 << 17) + '"b":1}',
        '{"stream":"' + "a" * (1 << 19), '{"u":' + "1" * (1 << 19), "x" * (1 << 24),
        '{"e":"trade","p":"' + "1" * (1 << 19) + '"}', "1e" + "9" * (1 << 19),
        "[" + ("1." + "9" * 999 + ",") * 1000 + "1]", '{"rows":[' + "{}," * (1 << 16) + "{}]}",
        '{"\\ud800' * (1 << 16), b'{"e":"' + b"\xff" * (1 << 19),
    ],
    ids=range(19),
)  # fmt: skip
def test_no_frame_takes_long(frame: str | bytes) -> None:
    before = time.process_time()
    for decoder in DECODERS:
        assert read(decoder, frame) == []

    assert time.process_time() - before < 2.0
