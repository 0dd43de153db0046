"""BinanceDecoder: trades, best quotes and candles of the public streams of Binance."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from sekai.error import FeedError
from sekai.live.events import CandleEvent, FeedEvent, QuoteEvent, TradeEvent
from sekai.live.feeds.decoder import (
    invalid,
    parse_count,
    parse_price,
    parse_size,
    parse_symbol,
    parse_whole_time,
    read_json,
)

__all__ = ["BinanceDecoder"]

MILLISECOND = 10**6
STREAMS_PER_MESSAGE = 100
IGNORED = frozenset(
    [
        "depthUpdate",
        "24hrTicker",
        "24hrMiniTicker",
        "1hTicker",
        "4hTicker",
        "1dTicker",
        "avgPrice",
        "markPriceUpdate",
        "forceOrder",
        "executionReport",
        "outboundAccountPosition",
        "balanceUpdate",
        "listStatus",
        "serverShutdown",
    ]
)
"""Events without market data for us; an unknown event is an error."""

# Book updates are most of the bytes, and recognized by their first characters.
_is_depth = re.compile(
    r'\{"stream":"[^"@]{1,80}@depth[^"]{0,20}","data":\{|\{"e":"depthUpdate",'
).match

# Fast path for the most frequent frames, parsed and validated by one match. Frames in another
# format are parsed as JSON, with the same result.
_DECIMAL = r'"([0-9]{1,20}\.[0-9]{1,20})"'
_SYMBOL = r'"([A-Z0-9]{1,20})"'
_ENVELOPE = r'(\{"stream":"[a-zA-Z0-9@_]{1,80}","data":)?'
_usual_quote = re.compile(
    rf'{_ENVELOPE}\{{"u":([1-9][0-9]{{0,17}}),"s":{_SYMBOL},"b":{_DECIMAL},"B":{_DECIMAL},'
    rf'"a":{_DECIMAL},"A":{_DECIMAL}\}}(?(1)\}})'
).fullmatch
_usual_trade = re.compile(
    rf'{_ENVELOPE}\{{"e":"trade","E":[1-9][0-9]{{0,12}},"s":{_SYMBOL},"t":([1-9][0-9]{{0,17}}),'
    rf'"p":{_DECIMAL},"q":{_DECIMAL},"T":([1-8][0-9]{{12}}|[1-9][0-9]{{0,11}}),"m":(?:(true)|false),"M":true\}}'
    rf"(?(1)\}})"
).fullmatch

INTERVAL_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_interval = re.compile(r"([1-9][0-9]{0,3})([smhdw])").fullmatch

Payload = dict[str, Any]


class BinanceDecoder:
    """Decoder of Binance spot and futures streams, raw or combined.

    Spot quotes carry no exchange time: their `exchange_time` is the receive time. The `sequence`
    of trades is their id and increases by one; that of quotes only increases.

    Args:
        streams: stream names of Binance: `trade` or `aggTrade`, `bookTicker`, `kline_1m`; other
            streams are ignored.
    """

    def __init__(self, streams: Sequence[str] = ("trade", "bookTicker")) -> None:
        self.streams = tuple(streams)
        kinds = {name.partition("_")[0] for name in self.streams}
        if not kinds or kinds - _PARSERS.keys():
            raise ValueError(f"unknown streams {streams}; expected some of {sorted(_PARSERS)}")
        if {"trade", "aggTrade"} <= kinds:
            raise ValueError("trade and aggTrade repeat each trade; choose one of the two streams")
        self._intervals = [name.partition("_")[2] for name in streams if name.startswith("kline_")]
        if len(self._intervals) > 1:
            raise ValueError(f"candles must have one interval, got {self._intervals}")
        self._parsers = {name: _PARSERS[name] for name in kinds}

    @property
    def candle_seconds(self) -> float | None:
        """Length of the candles; None without candles or for months."""
        if not self._intervals:
            return None
        match = _interval(self._intervals[0])
        return None if match is None else int(match[1]) * INTERVAL_UNITS[match[2]]

    def subscription(self, symbols: Collection[str]) -> list[str]:
        """Subscription messages of at most 100 streams each."""
        names = [f"{name.lower()}@{stream}" for name in symbols for stream in self.streams]
        size = STREAMS_PER_MESSAGE
        return [
            json.dumps(
                {"method": "SUBSCRIBE", "params": names[first : first + size], "id": first + 1}
            )
            for first in range(0, len(names), size)
        ]

    def decode(self, frame: str | bytes, receive_time: int, arrival: int) -> list[FeedEvent]:
        """Decode a frame; see `Decoder`."""
        if type(frame) is str:
            if "bookTicker" in self._parsers and (match := _usual_quote(frame)):
                return [_matched_quote(match, receive_time, arrival)]
            if "trade" in self._parsers and (match := _usual_trade(frame)):
                return [_matched_trade(match, receive_time, arrival)]
            if _is_depth(frame):
                return []
        return self._decode_any(frame, receive_time, arrival)

    def _decode_any(self, frame: str | bytes, receive_time: int, arrival: int) -> list[FeedEvent]:
        payload = read_json(frame)
        if type(payload) is dict and "data" in payload:
            payload = payload["data"]
        if type(payload) is not dict:
            raise invalid("a Binance event", frame)
        name = _event_name(payload)
        parser = self._parsers.get(name)
        if parser is None:
            _check_ignored(name, payload, frame)
            return []
        try:
            event = parser(payload, receive_time, arrival)
        except KeyError as missing:
            raise invalid(f"{name} with {missing.args[0]!r}", frame) from None
        if name == "kline" and payload["k"].get("i") not in self._intervals:
            return []
        return [] if event is None else [event]


def _check_ignored(name: str, payload: Payload, frame: str | bytes) -> None:
    if name in IGNORED or name in _PARSERS:
        return
    if name == "" and ("lastUpdateId" in payload or payload.get("result", "") is None):
        return
    raise invalid("no error" if "error" in payload else "a known Binance event", frame)


def _event_name(payload: Payload) -> str:
    name = payload.get("e", "")
    if type(name) is not str:
        raise FeedError(f"event name must be text, got {type(name).__name__}")
    # Spot quotes have no event name; no other event has their keys.
    return "bookTicker" if not name and "u" in payload and "B" in payload else name


def _matched_quote(match: re.Match[str], receive_time: int, arrival: int) -> QuoteEvent:
    _, number, name, bid, bid_size, ask, ask_size = match.groups()
    return QuoteEvent(
        exchange_time=receive_time,
        receive_time=receive_time,
        arrival=arrival,
        sequence=int(number),
        symbol=name,
        bid=float(bid) or parse_price(bid),
        bid_size=float(bid_size),
        ask=float(ask) or parse_price(ask),
        ask_size=float(ask_size),
    )


def _matched_trade(match: re.Match[str], receive_time: int, arrival: int) -> TradeEvent:
    _, name, number, price, size, time, is_sale = match.groups()
    trade_id = int(number)
    return TradeEvent(
        exchange_time=int(time) * MILLISECOND,
        receive_time=receive_time,
        arrival=arrival,
        sequence=trade_id,
        symbol=name,
        price=float(price) or parse_price(price),
        size=float(size),
        is_buy=is_sale is None,
        trade_id=trade_id,
    )


def _trade(payload: Payload, receive_time: int, arrival: int, id_key: str = "t") -> TradeEvent:
    trade_id = parse_count(payload[id_key])
    return TradeEvent(
        exchange_time=parse_whole_time(payload["T"], MILLISECOND),
        receive_time=receive_time,
        arrival=arrival,
        sequence=trade_id,
        symbol=parse_symbol(payload["s"]),
        price=parse_price(payload["p"]),
        size=parse_size(payload["q"]),
        is_buy=not _flag(payload["m"]),
        trade_id=trade_id,
    )


def _aggregate(payload: Payload, receive_time: int, arrival: int) -> TradeEvent:
    return _trade(payload, receive_time, arrival, "a")


def _quote(payload: Payload, receive_time: int, arrival: int) -> QuoteEvent:
    time = payload.get("T", payload.get("E"))
    return QuoteEvent(
        exchange_time=receive_time if time is None else parse_whole_time(time, MILLISECOND),
        receive_time=receive_time,
        arrival=arrival,
        sequence=parse_count(payload["u"]),
        symbol=parse_symbol(payload["s"]),
        bid=parse_price(payload["b"]),
        bid_size=parse_size(payload["B"]),
        ask=parse_price(payload["a"]),
        ask_size=parse_size(payload["A"]),
    )


def _candle(payload: Payload, receive_time: int, arrival: int) -> CandleEvent | None:
    inner = payload["k"]
    if type(inner) is not dict:
        raise invalid("a candle", inner)
    if not _flag(inner["x"]):
        return None
    first, high, low, last = (parse_price(inner[key]) for key in "ohlc")
    if low > min(first, last) or high < max(first, last):
        raise FeedError(f"candle needs low <= open, close <= high, got low {low}, high {high}")
    begin = parse_whole_time(inner["t"], MILLISECOND)
    end = parse_whole_time(inner["T"], MILLISECOND) + MILLISECOND
    if end <= begin:
        raise FeedError("candle must end after it begins")
    return CandleEvent(
        # The close time of Binance is the last millisecond inside the candle.
        exchange_time=end,
        receive_time=receive_time,
        arrival=arrival,
        symbol=parse_symbol(payload["s"]),
        begin=begin,
        open=first,
        high=high,
        low=low,
        close=last,
        volume=parse_size(inner["v"]),
    )


def _flag(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise invalid("true or false", value)


_PARSERS: dict[str, Callable[[Payload, int, int], FeedEvent | None]] = {
    "trade": _trade,
    "aggTrade": _aggregate,
    "bookTicker": _quote,
    "kline": _candle,
}
