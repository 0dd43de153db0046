"""Decoders: frames of Binance and mapped JSON as events."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from sekai.error import FeedError
from sekai.live.events import CandleEvent, FeedEvent, QuoteEvent, TradeEvent
from sekai.live.feeds import BinanceDecoder, Decoder, JsonDecoder, JsonMapping

TRADE = (
    '{"e":"trade","E":1723161255343,"s":"BTCUSDT","t":3735683259,"p":"61837.63000000",'
    '"q":"0.02000000","T":1723161255342,"m":true,"M":true}'
)
QUOTE = (
    '{"u":50093239212,"s":"BTCUSDT","b":"61837.63000000","B":"3.78826000","a":"61837.64000000",'
    '"A":"1.54698000"}'
)
DEPTH = (
    '{"e":"depthUpdate","E":1723161255208,"s":"BTCUSDT","U":1,"u":2,"b":[["61737.63","0.0"]],'
    '"a":[]}'
)
KLINE: dict[str, Any] = {
    "e": "kline", "E": 1723161300001, "s": "BTCUSDT",
    "k": {"t": 1723161240000, "T": 1723161299999, "s": "BTCUSDT", "i": "1m", "o": "10.0",
          "c": "11.0", "h": "12.0", "l": "9.0", "v": "5.5", "x": True},
}  # fmt: skip


def decoded(frame: str | bytes, decoder: Decoder | None = None) -> list[FeedEvent]:
    return (decoder or BinanceDecoder()).decode(frame, 7, 8)


def enveloped(frame: str) -> str:
    return f'{{"stream":"btcusdt@trade","data":{frame}}}'


@pytest.mark.parametrize("wrap", [str, enveloped, lambda frame: json.dumps(json.loads(frame))])
def test_a_trade_is_read_with_its_aggressor_and_number(wrap: Any) -> None:
    wanted = TradeEvent(
        exchange_time=1723161255342 * 10**6, receive_time=7, sequence=3735683259, symbol="BTCUSDT",
        price=61837.63, size=0.02, is_buy=False, trade_id=3735683259,
    )  # fmt: skip

    assert decoded(wrap(TRADE)) == [wanted]
    assert decoded(wrap(TRADE).encode()) == [wanted]
    assert decoded(wrap(TRADE))[0].arrival == 8


@pytest.mark.parametrize("wrap", [str, enveloped, lambda frame: json.dumps(json.loads(frame))])
def test_a_quote_without_a_time_has_ours(wrap: Any) -> None:
    wanted = QuoteEvent(
        exchange_time=7, receive_time=7, sequence=50093239212, symbol="BTCUSDT", bid=61837.63,
        bid_size=3.78826, ask=61837.64, ask_size=1.54698,
    )  # fmt: skip

    assert decoded(wrap(QUOTE)) == [wanted]


def test_a_quote_of_futures_has_the_venues_time() -> None:
    frame = json.dumps({"e": "bookTicker", "E": 5, "T": 4, **json.loads(QUOTE)})

    assert decoded(frame)[0].exchange_time == 4 * 10**6


def test_aggregates_are_trades_with_numbers_of_their_own() -> None:
    frame = TRADE.replace('"e":"trade"', '"e":"aggTrade"').replace('"t":', '"a":')

    found = decoded(frame, BinanceDecoder(("aggTrade",)))
    assert [event.sequence for event in found] == [3735683259]
    assert decoded(frame) == []


def test_a_candle_is_read_when_it_is_closed_and_of_the_interval_asked_for() -> None:
    decoder = BinanceDecoder(("kline_1m",))
    still_open = {**KLINE, "k": {**KLINE["k"], "x": False}}
    other = {**KLINE, "k": {**KLINE["k"], "i": "5m"}}

    assert decoded(json.dumps(KLINE), decoder) == [
        CandleEvent(
            exchange_time=1723161300000 * 10**6, receive_time=7, symbol="BTCUSDT",
            begin=1723161240000 * 10**6, open=10.0, high=12.0, low=9.0, close=11.0, volume=5.5,
        )
    ]  # fmt: skip
    assert decoded(json.dumps(still_open), decoder) == decoded(json.dumps(other), decoder) == []


@pytest.mark.parametrize(
    "frame",
    [
        DEPTH, enveloped(DEPTH), '{"stream":"btcusdt@depth@100ms","data":' + DEPTH + "}",
        '{"result":null,"id":1}', '{"lastUpdateId":1,"bids":[],"asks":[]}',
        '{"e":"24hrTicker","s":"BTCUSDT"}', DEPTH.encode(),
        '{"e":"24hrTicker","x":' + "[" * 63 + "]" * 63 + "}",
        '{"e":"24hrTicker","x":[' + '"[[[",{},' * 90 + "0]}",
    ],
)  # fmt: skip
def test_what_is_not_for_us_is_passed_over_by_its_name(frame: str | bytes) -> None:
    assert decoded(frame) == []


@pytest.mark.parametrize(
    "frame",
    [
        "", "{", "[]", "3", "null", '"text"', b"\xff\xfe", "NaN", '{"e":"unheard"}', '{"e":3}',
        '{"error":{"code":2,"msg":"no"},"id":1}', '{"data":3}', '{"e":"trade"}', "[" * 100_000,
        '{"a":' * 100_000, "[" * 900 + "]" * 900, "1" * 5000, "x" * (1 << 20 | 1), "[1e999]",
        TRADE.replace('"61837.63000000"', "NaN"), TRADE.replace('"61837.63000000"', "1e999"),
        TRADE.replace("61837.63000000", "0.00000000"), TRADE.replace("61837.63000000", "-1.0"),
        TRADE.replace("61837.63000000", "nan"), TRADE.replace("61837.63000000", "Infinity"),
        TRADE.replace("61837.63000000", "1_0"), TRADE.replace("61837.63000000", " 1.0"),
        TRADE.replace("61837.63000000", "9" * 39), TRADE.replace("61837.63000000", "1" * 100_000),
        TRADE.replace('"61837.63000000"', "true"), TRADE.replace('"61837.63000000"', "[]"),
        TRADE.replace("0.02000000", "-0.02000000"), TRADE.replace("true,", '"yes",'),
        TRADE.replace("1723161255342", "9223372036854775"), TRADE.replace("1723161255342", "0"),
        TRADE.replace("1723161255342", "1.5"), TRADE.replace("3735683259", "9" * 19 + "9"),
        TRADE.replace("3735683259", "-1"), TRADE.replace("BTCUSDT", ""),
        TRADE.replace("BTCUSDT", "A" * 65), TRADE.replace("BTCUSDT", "\\u001b[2J"),
        TRADE.replace("BTCUSDT", "\\ud800"), TRADE.replace('"M":true', '"p":"1.0"'),
        TRADE + TRADE, QUOTE + "}", enveloped(QUOTE) + "}", enveloped(QUOTE)[:-1],
        QUOTE.replace("61837.64", "0.0"), QUOTE.replace("61837.63", "0.0"),
        TRADE.replace('"M":true', '"M":NaN'), TRADE.replace('"M":true', '"M":-Infinity'),
        TRADE.replace("1723161255342", "9999999999999"), TRADE + " " * (1 << 20),
        '{"e":"24hrTicker","x":' + "[" * 64 + "]" * 64 + "}",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_that_shows_little_of_it(frame: str | bytes) -> None:
    with pytest.raises(FeedError) as caught:
        decoded(frame)

    assert len(str(caught.value)) < 250
    assert str(caught.value).isprintable()
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "changes", [{"h": "10.5"}, {"l": "10.5"}, {"T": 1723161239998}, {"x": 1}, {"v": "-1"}]
)
def test_candles_that_contradict_themselves_are_errors(changes: dict[str, Any]) -> None:
    with pytest.raises(FeedError):
        decoded(
            json.dumps({**KLINE, "k": {**KLINE["k"], **changes}}), BinanceDecoder(("kline_1m",))
        )


@pytest.mark.parametrize(
    "streams", [(), ("depth",), ("trade", "aggTrade"), ("kline_1m", "kline_5m")]
)
def test_streams_that_are_not_read_or_come_twice_are_refused(streams: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="unknown|choose|one interval|invalid fields"):
        BinanceDecoder(streams)


def test_many_symbols_are_asked_for_in_several_messages() -> None:
    names = [f"S{number}" for number in range(120)]
    messages = [json.loads(one) for one in BinanceDecoder().subscription(names)]

    assert [len(message["params"]) for message in messages] == [100, 100, 40]
    assert messages[0]["params"][:2] == ["s0@trade", "s0@bookTicker"]
    assert len({message["id"] for message in messages}) == 3
    assert BinanceDecoder().subscription([]) == []


MAPPING = JsonMapping(
    kind="trade",
    fields={
        "symbol": "pair", "price": "deal.0", "size": "deal.1", "exchange_time": "at",
        "sequence": "n",
    },
    time_unit="us", items="rows", only_if={"type": "match"}, symbols={"XBT/USD": "BTC"},
    subscribe='{"sub":"{symbol}"}',
)  # fmt: skip


def row(**changes: Any) -> dict[str, Any]:
    return {"pair": "XBT/USD", "deal": [100.5, "2"], "at": 5, "n": 9, "type": "match", **changes}


def test_a_mapping_says_where_things_are() -> None:
    frame = json.dumps({"rows": [row(), row(type="other"), row(pair="ETH", n=None)]})
    found = decoded(frame, JsonDecoder(MAPPING))

    assert found == [
        TradeEvent(
            exchange_time=5000, receive_time=7, sequence=9, symbol="BTC", price=100.5, size=2.0
        ),
        TradeEvent(exchange_time=5000, receive_time=7, symbol="ETH", price=100.5, size=2.0),
    ]  # fmt: skip
    assert decoded('{"hello": 1}', JsonDecoder(MAPPING)) == []
    assert JsonDecoder(MAPPING).subscription(["BTC", "ETH"]) == [
        '{"sub":"XBT/USD"}', '{"sub":"ETH"}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [{"deal": []}, {"deal": [0, 1]}, {"deal": [1, -1]}, {"deal": 3}, {"at": "x"}, {"at": "1e999"},
     {"at": True}, {"at": -1.5}, {"at": []}, {"at": 2**60},
     {"n": 1.5}, {"pair": None}],
)  # fmt: skip
def test_rows_that_are_not_as_mapped_are_errors(changes: dict[str, Any]) -> None:
    with pytest.raises(FeedError):
        decoded(json.dumps({"rows": [row(**changes)]}), JsonDecoder(MAPPING))


def test_candles_and_quotes_can_be_mapped_too() -> None:
    names = ("symbol", "open", "high", "low", "close", "volume", "begin", "exchange_time")
    candles = JsonDecoder(JsonMapping(kind="candle", fields={name: name for name in names}))
    told = {"symbol": "A", "open": 2, "high": 3, "low": 1, "close": 2, "volume": 0, "begin": 1,
            "exchange_time": 2}  # fmt: skip
    quotes = JsonDecoder(
        JsonMapping(kind="quote", fields={
            "symbol": "s", "bid": "b", "bid_size": "B", "ask": "a", "ask_size": "A",
        })
    )  # fmt: skip

    assert isinstance(decoded(json.dumps(told), candles)[0], CandleEvent)
    with pytest.raises(FeedError, match="low <= open"):
        decoded(json.dumps({**told, "high": 1}), candles)
    with pytest.raises(FeedError, match="after it begins"):
        decoded(json.dumps({**told, "begin": 2}), candles)
    assert isinstance(decoded(QUOTE, quotes)[0], QuoteEvent)


@pytest.mark.parametrize(
    ("unit", "told", "wanted"),
    [
        ("s", 1534614057, 1534614057 * 10**9), ("s", "1534614057.321597", 1534614057321597000),
        ("s", 1.5, 1_500_000_000), ("ms", "1534614057321", 1534614057321000000), ("ns", 7, 7),
        ("iso", "2018-08-18T17:40:57.321597Z", 1534614057321597000),
    ],
)  # fmt: skip
def test_times_are_read_in_the_ways_that_venues_write_them(
    unit: Any, told: Any, wanted: int
) -> None:
    mapping = dataclasses.replace(MAPPING, time_unit=unit)
    found = decoded(json.dumps({"rows": [row(at=told)]}), JsonDecoder(mapping))

    assert found[0].exchange_time == wanted


@pytest.mark.parametrize("told", [5, "1969-12-31T23:59:59", "1970-01-01", "2300-01-01"])
def test_times_in_words_are_wanted_where_they_are_said_to_be(told: Any) -> None:
    with pytest.raises(FeedError, match="a time"):
        decoded(
            json.dumps({"rows": [row(at=told)]}),
            JsonDecoder(dataclasses.replace(MAPPING, time_unit="iso")),
        )


@pytest.mark.parametrize(
    "changes", [{"kind": "other"}, {"time_unit": "h"}, {"fields": {"symbol": "s"}},
                {"fields": {**MAPPING.fields, "bid": "b"}}]
)  # fmt: skip
def test_mappings_without_sense_are_refused(changes: dict[str, Any]) -> None:
    given = {"kind": "trade", "fields": MAPPING.fields, **changes}
    with pytest.raises(ValueError, match="unknown|choose|one interval|invalid fields"):
        JsonMapping(**given)
