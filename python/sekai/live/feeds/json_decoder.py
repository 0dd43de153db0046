"""JsonDecoder: decoder of JSON frames by a declarative mapping of fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from sekai.live.events import CandleEvent, FeedEvent, QuoteEvent, TradeEvent
from sekai.live.feeds.decoder import (
    invalid,
    parse_count,
    parse_price,
    parse_size,
    parse_symbol,
    parse_time,
    parse_timestamp,
    parse_whole_time,
    read_json,
)
from sekai.live.secret import Secret, revealed

__all__ = ["JsonDecoder", "JsonMapping"]

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "iso": 1}
Kind = Literal["trade", "quote", "candle"]
PARSERS: Mapping[str, Mapping[str, Callable[[Any], float]]] = {
    "trade": {"price": parse_price, "size": parse_size},
    "quote": {
        "bid": parse_price,
        "bid_size": parse_size,
        "ask": parse_price,
        "ask_size": parse_size,
    },
    "candle": {
        **dict.fromkeys(("open", "high", "low", "close"), parse_price),
        "volume": parse_size,
    },
}
CLASSES: Mapping[str, Callable[..., FeedEvent]] = {
    "trade": TradeEvent,
    "quote": QuoteEvent,
    "candle": CandleEvent,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JsonMapping:
    """Mapping from the frames of a venue to the fields of an event."""

    kind: Kind
    fields: Mapping[str, str]
    """Paths such as `data.price` by field of the event. Required are `symbol`, prices and sizes,
    and `begin` of candles; optional are `exchange_time` (default: the receive time), `sequence`
    and `trade_id`."""

    time_unit: Literal["s", "ms", "us", "ns", "iso"] = "ms"
    """Unit of times since 1970, or `iso` for ISO 8601 in UTC such as 2020-01-31T16:00:00.123Z."""

    items: str = ""
    """Path of a list of events; by default the frame is one event or a list."""

    only_if: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Required values by path; events with other values are ignored."""

    symbols: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Asset names by symbol of the venue; other symbols keep their name."""

    subscribe: str | Secret = ""
    """Subscription message per symbol, with `{symbol}` in place of its name; a `Secret` if it
    holds a key."""

    def __post_init__(self) -> None:
        if self.kind not in PARSERS:
            raise ValueError(f"unknown kind {self.kind!r}; expected one of {sorted(PARSERS)}")
        if self.time_unit not in UNITS:
            raise ValueError(
                f"unknown time_unit {self.time_unit!r}; expected one of {sorted(UNITS)}"
            )
        required = {"symbol", *PARSERS[self.kind]} | ({"begin"} if self.kind == "candle" else set())
        optional = {"exchange_time", "sequence"} | ({"trade_id"} if self.kind == "trade" else set())
        if not required <= set(self.fields) <= required | optional:
            raise ValueError(
                f"invalid fields {sorted(self.fields)}; required are {sorted(required)}, optional "
                f"{sorted(optional)}"
            )


class JsonDecoder:
    """Decoder of one kind of event by a `JsonMapping`."""

    def __init__(self, mapping: JsonMapping) -> None:
        self.mapping = mapping
        self._paths = {name: tuple(path.split(".")) for name, path in mapping.fields.items()}
        self._items = tuple(mapping.items.split(".")) if mapping.items else ()
        self._only_if = [(tuple(path.split(".")), value) for path, value in mapping.only_if.items()]
        self._venue_names = {ours: theirs for theirs, ours in mapping.symbols.items()}
        self._unit = UNITS[mapping.time_unit]

    def subscription(self, symbols: Collection[str]) -> list[str]:
        """Subscription messages, one per symbol."""
        if not self.mapping.subscribe:
            return []
        names = [self._venue_names.get(name, name) for name in symbols]
        message = revealed(self.mapping.subscribe)
        return [message.replace("{symbol}", name) for name in names]

    def decode(self, frame: str | bytes, receive_time: int, arrival: int) -> list[FeedEvent]:
        """Decode a frame; see `Decoder`."""
        content = read_json(frame)
        if self._items:
            content = _value_at(content, self._items)
            if content is None:
                return []
        items = content if isinstance(content, list) else [content]
        times = {"receive_time": receive_time, "arrival": arrival}
        return [self._event(item, times) for item in items if self._is_required(item)]

    def _is_required(self, item: Any) -> bool:
        return all(_value_at(item, path) == value for path, value in self._only_if)

    def _event(self, item: Any, times: Mapping[str, int]) -> FeedEvent:
        raw = {name: _value_at(item, path) for name, path in self._paths.items()}
        values: dict[str, Any] = {"exchange_time": times["receive_time"], **times}
        for name, parse in PARSERS[self.mapping.kind].items():
            values[name] = parse(raw[name])
        name = parse_symbol(raw["symbol"])
        values["symbol"] = self.mapping.symbols.get(name, name)
        for name in ("exchange_time", "begin"):
            if name in raw:
                values[name] = self._time(raw[name])
        for name in ("sequence", "trade_id"):
            if raw.get(name) is not None:
                values[name] = parse_count(raw[name])
        if self.mapping.kind == "candle":
            _check_candle(values)
        return CLASSES[self.mapping.kind](**values)

    def _time(self, value: Any) -> int:
        if self.mapping.time_unit != "iso":
            return parse_time(value, self._unit)
        return parse_whole_time(parse_timestamp(value if isinstance(value, str) else None), 1)


def _check_candle(values: Mapping[str, Any]) -> None:
    prices = [values[name] for name in ("open", "high", "low", "close")]
    if values["low"] > min(prices) or values["high"] < max(prices):
        raise invalid("a candle with low <= open, close <= high", str(prices))
    if values["begin"] >= values["exchange_time"]:
        raise invalid("a candle that ends after it begins", str(values["begin"]))


def _value_at(value: Any, path: tuple[str, ...]) -> Any:
    """Value at a path through objects and lists; None if it does not exist."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isascii() and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            return None
    return value
