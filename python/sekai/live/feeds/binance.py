"""The language of Binance: trades, best quotes and candles of its public streams."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from sekai.error import FeedError
from sekai.live.events import CandleEvent, FeedEvent, QuoteEvent, TradeEvent
from sekai.live.feeds.frame import bad_frame, count, instant, price, read_json, size, symbol

__all__ = ["BinanceDecoder"]

MILLISECOND = 10**6
STREAMS_PER_MESSAGE = 100
PASSED_OVER = frozenset({
    "depthUpdate", "24hrTicker", "24hrMiniTicker", "1hTicker", "4hTicker", "1dTicker", "avgPrice",
    "markPriceUpdate", "forceOrder", "executionReport", "outboundAccountPosition",
    "balanceUpdate", "listStatus", "serverShutdown",
})  # fmt: skip
"""Events that are not for us; one that is not named here is an error, since it may be."""

# Updates of the book are most of the bytes: their name is at a fixed place, before the long part.
_is_depth = re.compile(
    r'\{"stream":"[^"@]{1,80}@depth[^"]{0,20}","data":\{|\{"e":"depthUpdate",'
).match

# What Binance sends most, as it writes it: one match reads and checks it. Whatever is written in
# another way goes the long way, and gives the same.
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
    """Reads spot and futures streams, in the envelope of combined streams or without it.

    Quotes of the spot market carry no time of the venue: their `exchange_time` is when they were
    read here. Trades count by one (`sequence` is their id); quotes have ids that only rise.
    """

    def __init__(self, streams: Sequence[str] = ("trade", "bookTicker")) -> None:
        """Say what to read; all else is passed over.

        Args:
            streams: names as Binance has them: `trade` or `aggTrade`, `bookTicker`, `kline_1m`.
        """
        self.streams = tuple(streams)
        kinds = {name.partition("_")[0] for name in self.streams}
        strangers = sorted(kinds - _READERS.keys())
        if strangers or not kinds:
            raise ValueError(f"streams among {sorted(_READERS)} were wanted, found {streams}")
        if {"trade", "aggTrade"} <= kinds:
            raise ValueError(
                "trade or aggTrade was wanted, found both: each trade would come twice"
            )
        self._intervals = [name.partition("_")[2] for name in streams if name.startswith("kline_")]
        if len(self._intervals) > 1:
            raise ValueError(f"candles of one interval were wanted, found {self._intervals}")
        self._readers = {name: _READERS[name] for name in kinds}

    @property
    def candle_seconds(self) -> float | None:
        """The length of the candles that are read; None if there are none, or months of them."""
        if not self._intervals:
            return None
        match = _interval(self._intervals[0])
        return None if match is None else int(match[1]) * INTERVAL_UNITS[match[2]]

    def subscription(self, symbols: Collection[str]) -> list[str]:
        """Messages of at most 100 streams each, as Binance has it."""
        wanted = [f"{name.lower()}@{stream}" for name in symbols for stream in self.streams]
        parts = range(0, len(wanted), STREAMS_PER_MESSAGE)
        return [
            json.dumps({"method": "SUBSCRIBE", "params": wanted[part : part + 100], "id": part + 1})
            for part in parts
        ]

    def decode(self, frame: str | bytes, receive_time: int, arrival: int) -> list[FeedEvent]:
        """See `Decoder`."""
        if type(frame) is str:
            if "bookTicker" in self._readers and (match := _usual_quote(frame)):
                return [_matched_quote(match, receive_time, arrival)]
            if "trade" in self._readers and (match := _usual_trade(frame)):
                return [_matched_trade(match, receive_time, arrival)]
            if _is_depth(frame):
                return []
        return self._decode_any(frame, receive_time, arrival)

    def _decode_any(self, frame: str | bytes, receive_time: int, arrival: int) -> list[FeedEvent]:
        found = read_json(frame)
        if type(found) is dict and "data" in found:
            found = found["data"]
        if type(found) is not dict:
            raise bad_frame("an object of Binance", frame)
        name = _name(found)
        reader = self._readers.get(name)
        if reader is None:
            return self._pass_over(name, found, frame)
        try:
            event = reader(found, receive_time, arrival)
        except KeyError as missing:
            raise bad_frame(f"{name} with {missing.args[0]!r}", frame) from None
        if name == "kline" and found["k"].get("i") not in self._intervals:
            return []
        return [] if event is None else [event]

    def _pass_over(self, name: str, found: Payload, frame: str | bytes) -> list[FeedEvent]:
        if name in PASSED_OVER or name in _READERS:
            return []
        if name == "" and ("lastUpdateId" in found or found.get("result", "") is None):
            return []
        if "error" in found:
            raise bad_frame("an answer without an error", frame)
        raise bad_frame("an event that Binance is known to send", frame)


def _name(found: Payload) -> str:
    name = found.get("e", "")
    if type(name) is not str:
        raise FeedError(f"the name of an event was wanted, found {type(name).__name__}")
    # On the spot market best quotes have no name, and nothing else has their keys.
    return "bookTicker" if not name and "u" in found and "B" in found else name


def _matched_quote(match: re.Match[str], receive_time: int, arrival: int) -> QuoteEvent:
    _, number, name, bid, bid_size, ask, ask_size = match.groups()
    return QuoteEvent(
        exchange_time=receive_time,
        receive_time=receive_time,
        arrival=arrival,
        sequence=int(number),
        symbol=name,
        bid=float(bid) or price(bid),
        bid_size=float(bid_size),
        ask=float(ask) or price(ask),
        ask_size=float(ask_size),
    )


def _matched_trade(match: re.Match[str], receive_time: int, arrival: int) -> TradeEvent:
    _, name, number, paid, amount, told, is_sale = match.groups()
    trade_id = int(number)
    return TradeEvent(
        exchange_time=int(told) * MILLISECOND,
        receive_time=receive_time,
        arrival=arrival,
        sequence=trade_id,
        symbol=name,
        price=float(paid) or price(paid),
        size=float(amount),
        is_buy=is_sale is None,
        trade_id=trade_id,
    )


def _trade(found: Payload, receive_time: int, arrival: int, id_key: str = "t") -> TradeEvent:
    trade_id = count(found[id_key])
    return TradeEvent(
        exchange_time=instant(found["T"], MILLISECOND),
        receive_time=receive_time,
        arrival=arrival,
        sequence=trade_id,
        symbol=symbol(found["s"]),
        price=price(found["p"]),
        size=size(found["q"]),
        is_buy=not _flag(found["m"]),
        trade_id=trade_id,
    )


def _aggregate(found: Payload, receive_time: int, arrival: int) -> TradeEvent:
    return _trade(found, receive_time, arrival, "a")


def _quote(found: Payload, receive_time: int, arrival: int) -> QuoteEvent:
    told = found.get("T", found.get("E"))
    return QuoteEvent(
        exchange_time=receive_time if told is None else instant(told, MILLISECOND),
        receive_time=receive_time,
        arrival=arrival,
        sequence=count(found["u"]),
        symbol=symbol(found["s"]),
        bid=price(found["b"]),
        bid_size=size(found["B"]),
        ask=price(found["a"]),
        ask_size=size(found["A"]),
    )


def _candle(found: Payload, receive_time: int, arrival: int) -> CandleEvent | None:
    inner = found["k"]
    if type(inner) is not dict:
        raise bad_frame("a candle", inner)
    if not _flag(inner["x"]):
        return None
    first, high, low, last = (price(inner[key]) for key in "ohlc")
    if low > min(first, last) or high < max(first, last):
        raise FeedError(
            f"a candle whose low is lowest and high highest was wanted, found {low} and {high}"
        )
    begin = instant(inner["t"], MILLISECOND)
    end = instant(inner["T"], MILLISECOND) + MILLISECOND
    if end <= begin:
        raise FeedError("a candle that ends after it begins was wanted")
    return CandleEvent(
        # Binance names the last millisecond that is still inside.
        exchange_time=end, receive_time=receive_time, arrival=arrival,
        symbol=symbol(found["s"]), begin=begin, open=first, high=high, low=low, close=last,
        volume=size(inner["v"]),
    )  # fmt: skip


def _flag(found: Any) -> bool:
    if type(found) is bool:
        return found
    raise bad_frame("true or false", found)


_READERS: dict[str, Callable[[Payload, int, int], FeedEvent | None]] = {
    "trade": _trade,
    "aggTrade": _aggregate,
    "bookTicker": _quote,
    "kline": _candle,
}
