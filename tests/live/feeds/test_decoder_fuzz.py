"""No frame whatever does more harm than a `FeedError`."""

from __future__ import annotations

import inspect
import json
import math
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import FeedError
from sekai.live.events import FeedEvent, QuoteEvent, TradeEvent
from sekai.live.feeds import BinanceDecoder, Decoder, JsonDecoder, event_from_json
from tests.live.feeds.test_decoders import KLINE, MAPPING, QUOTE, TRADE, enveloped, row

DECODERS: list[Decoder] = [
    BinanceDecoder(("trade", "bookTicker", "kline_1m")), BinanceDecoder(("aggTrade",)),
    JsonDecoder(MAPPING),
]  # fmt: skip
REAL = [
    TRADE, QUOTE, json.dumps(KLINE), enveloped(TRADE), enveloped(QUOTE),
    json.dumps({"rows": [row()]}),
]  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
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
        if isinstance(event, TradeEvent):
            assert 0 < event.price < math.inf
            assert 0 <= event.size < math.inf
        if isinstance(event, QuoteEvent):
            assert min(event.bid, event.ask) > 0
            assert min(event.bid_size, event.ask_size) >= 0
    return found


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
    found = json.loads(frame)
    place = found
    while True:
        key = data.draw(st.sampled_from(list(place)) if isinstance(place, dict) else st.just(0))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(VALUES)
    for decoder in DECODERS:
        read(decoder, json.dumps(found))


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
        '{"e":"trade","p":"' + "1" * (1 << 19) + '"}',
    ],
    ids=range(14),
)  # fmt: skip
def test_no_frame_takes_long(frame: str) -> None:
    before = time.process_time()
    for decoder in DECODERS:
        assert read(decoder, frame) == []

    assert time.process_time() - before < 2.0
