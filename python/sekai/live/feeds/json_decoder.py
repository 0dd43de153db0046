"""Any venue that speaks JSON, by saying where in its frames things are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from sekai.live.events import CandleEvent, FeedEvent, QuoteEvent, TradeEvent
from sekai.live.feeds.frame import bad_frame, count, instant, moment, price, read_json, size, symbol
from sekai.live.feeds.stamps import stamp_of

__all__ = ["JsonDecoder", "JsonMapping"]

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "iso": 1}
Kind = Literal["trade", "quote", "candle"]
NEEDED: Mapping[str, Mapping[str, Callable[[Any], float]]] = {
    "trade": {"price": price, "size": size},
    "quote": {"bid": price, "bid_size": size, "ask": price, "ask_size": size},
    "candle": {"open": price, "high": price, "low": price, "close": price, "volume": size},
}
CLASSES: Mapping[str, Callable[..., FeedEvent]] = {
    "trade": TradeEvent,
    "quote": QuoteEvent,
    "candle": CandleEvent,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JsonMapping:
    """Where in a venue's frames the parts of an event are."""

    kind: Kind
    fields: Mapping[str, str]
    """By the names of the event's fields: a path such as `data.price`. Needed are `symbol`, the
    prices and sizes, and `begin` of candles; `exchange_time` (when it was read if not given),
    `sequence` and `trade_id` may be there."""

    time_unit: Literal["s", "ms", "us", "ns", "iso"] = "ms"
    """What times count since 1970, or `iso` for such as 2020-01-31T16:00:00.123Z, in UTC."""

    items: str = ""
    """The path of a list of events; the frame itself is one if not given."""

    only_if: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Values by path that say that an event is meant for us; others are passed over."""

    symbols: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Our names of the venue's symbols; those that are not here keep their own."""

    subscribe: str = ""
    """What to send for each symbol, with `{symbol}` where its name goes."""

    def __post_init__(self) -> None:
        if self.kind not in NEEDED or self.time_unit not in UNITS:
            raise ValueError(
                f"a kind among {sorted(NEEDED)} and a time unit among {sorted(UNITS)} were wanted, "
                f"found {self.kind!r} and {self.time_unit!r}"
            )
        needed = {"symbol", *NEEDED[self.kind]} | ({"begin"} if self.kind == "candle" else set())
        allowed = needed | {"exchange_time", "sequence"}
        allowed |= {"trade_id"} if self.kind == "trade" else set()
        found = set(self.fields)
        if not needed <= found <= allowed:
            raise ValueError(
                f"fields {sorted(needed)} were wanted and {sorted(allowed - needed)} may be there, "
                f"found {sorted(found)}"
            )


class JsonDecoder:
    """Reads one kind of event where a mapping says it is."""

    def __init__(self, mapping: JsonMapping) -> None:
        """Take the mapping."""
        self.mapping = mapping
        self._paths = {name: tuple(path.split(".")) for name, path in mapping.fields.items()}
        self._items = tuple(mapping.items.split(".")) if mapping.items else ()
        self._only_if = [(tuple(path.split(".")), value) for path, value in mapping.only_if.items()]
        self._venue_names = {ours: theirs for theirs, ours in mapping.symbols.items()}
        self._unit = UNITS[mapping.time_unit]

    def subscription(self, symbols: Collection[str]) -> list[str]:
        """A message a symbol, by the venue's name of it."""
        if not self.mapping.subscribe:
            return []
        names = [self._venue_names.get(name, name) for name in symbols]
        return [self.mapping.subscribe.replace("{symbol}", name) for name in names]

    def decode(self, frame: str | bytes, receive_time: int, arrival: int) -> list[FeedEvent]:
        """See `Decoder`."""
        found = read_json(frame)
        if self._items:
            found = _at(found, self._items)
            if found is None:
                return []
        items = found if isinstance(found, list) else [found]
        times = {"receive_time": receive_time, "arrival": arrival}
        return [self._event(item, times) for item in items if self._is_ours(item)]

    def _is_ours(self, item: Any) -> bool:
        return all(_at(item, path) == value for path, value in self._only_if)

    def _event(self, item: Any, times: Mapping[str, int]) -> FeedEvent:
        found = {name: _at(item, path) for name, path in self._paths.items()}
        made: dict[str, Any] = {"exchange_time": times["receive_time"], **times}
        for name, check in NEEDED[self.mapping.kind].items():
            made[name] = check(found[name])
        name = symbol(found["symbol"])
        made["symbol"] = self.mapping.symbols.get(name, name)
        for name in ("exchange_time", "begin"):
            if name in found:
                made[name] = self._instant(found[name])
        for name in ("sequence", "trade_id"):
            if found.get(name) is not None:
                made[name] = count(found[name])
        self._check(made)
        return CLASSES[self.mapping.kind](**made)

    def _instant(self, found: Any) -> int:
        if self.mapping.time_unit != "iso":
            return moment(found, self._unit)
        return instant(stamp_of(found if isinstance(found, str) else None), 1)

    def _check(self, made: Mapping[str, Any]) -> None:
        if self.mapping.kind != "candle":
            return
        prices = [made[name] for name in ("open", "high", "low", "close")]
        if made["low"] > min(prices) or made["high"] < max(prices):
            raise bad_frame("a candle whose low is lowest and high highest", str(prices))
        if made["begin"] >= made["exchange_time"]:
            raise bad_frame("a candle that ends after it begins", str(made["begin"]))


def _at(found: Any, path: tuple[str, ...]) -> Any:
    """What is at the end of a path through objects and lists; None if there is nothing."""
    for part in path:
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isascii() and part.isdigit():
            found = found[int(part)] if int(part) < len(found) else None
        else:
            return None
    return found
