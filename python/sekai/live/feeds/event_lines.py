"""Events as lines of JSON, and back."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

import numpy as np

from sekai.data import Bar
from sekai.error import FeedError
from sekai.live.bar_records import bar_time
from sekai.live.events import (
    BarEvent,
    CandleEvent,
    FeedEvent,
    FeedNotice,
    NoticeKind,
    QuoteEvent,
    TradeEvent,
)
from sekai.live.feeds.frame import bad_frame, read_json

__all__ = ["event_from_json", "event_to_json"]

CLASSES: Mapping[str, type[FeedEvent]] = {
    "trade": TradeEvent,
    "quote": QuoteEvent,
    "candle": CandleEvent,
    "bar": BarEvent,
    "notice": FeedNotice,
}
DECLARED = {kind: {one.name: str(one.type) for one in fields(kind)} for kind in CLASSES.values()}
NAMES = {kind: name for name, kind in CLASSES.items()}
LEFT_OUT = ("arrival", "is_late", "bar", "kind")
"""`arrival` is by a clock that means nothing to another process, and what was late then need not be
late when it is replayed."""
TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,), "int | None": (int, type(None)), "float": (float, int), "str": (str,),
    "bool | None": (bool, type(None)), "NoticeKind": (str,),
}  # fmt: skip
MASKS = ("listed", "quoted", "tradable")


def event_to_json(event: FeedEvent) -> str:
    """A line for `event_from_json`, without its end.

    Raises:
        FeedError: a number in it is infinite.
    """
    found: dict[str, Any] = {"event": NAMES[type(event)]}
    for one in fields(event):
        if one.name not in LEFT_OUT:
            found[one.name] = getattr(event, one.name)
    if isinstance(event, FeedNotice):
        found["kind"] = event.kind
    if isinstance(event, BarEvent):
        found["bar"] = _bar_to_dict(event.bar)
    try:
        return json.dumps(found, allow_nan=False)
    except ValueError as error:
        raise FeedError(
            f"numbers that are finite or NaN were wanted in {NAMES[type(event)]}"
        ) from error


def event_from_json(line: str | bytes) -> FeedEvent:
    """The event that `event_to_json` wrote, which arrives now.

    Raises:
        FeedError: the line is none that it writes.
    """
    found = read_json(line)
    kind = CLASSES.get(found.pop("event", "")) if isinstance(found, dict) and isinstance(
        found.get("event"), str
    ) else None  # fmt: skip
    if kind is None:
        raise bad_frame("a recorded event", line)
    try:
        made = {name: _checked(name, value, kind) for name, value in found.items()}
        return kind(**made, arrival=time.perf_counter_ns())
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        error = bad_frame(f"a recorded {NAMES[kind]}", line)
    raise error


def _checked(name: str, value: Any, kind: type[FeedEvent]) -> Any:
    if name == "bar":
        return _bar_from_dict(value)
    declared = DECLARED[kind][name]
    wanted = TYPES[declared]
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise TypeError(name)
    if isinstance(value, (int, float)) and declared == "float":
        return _finite(value)
    if declared == "NoticeKind" and value not in get_args(NoticeKind):
        raise ValueError(name)
    if type(value) is int and abs(value) >= 2**63:
        raise ValueError(name)
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("a number that is not finite")
    return float(value)


def _bar_to_dict(bar: Bar) -> dict[str, Any]:
    values = np.asarray(bar.values, np.float64)
    holed = [[None if math.isnan(one) else one for one in row] for row in values.tolist()]
    masks = {
        name: np.asarray(mask).tolist() for name, mask in bar.masks().items() if mask is not None
    }
    market = {
        name: None if math.isnan(value) else float(value) for name, value in bar.market.items()
    }
    return {"time": bar_time(bar), "values": holed, **masks, "market": market}


def _bar_from_dict(found: Any) -> Bar:
    if type(found["time"]) is not int or not isinstance(found["values"], list):
        raise TypeError("bar")
    values = np.array([[_hole(one) for one in row] for row in found["values"]], np.float64)
    if values.ndim != 2:
        raise ValueError("assets by fields")
    masks: dict[str, Any] = {}
    for name in MASKS:
        if name in found:
            masks[name] = np.array(found[name])
            if masks[name].dtype != np.bool_ or masks[name].shape != values.shape[:1]:
                raise ValueError(name)
    market = {name: _hole(value) for name, value in found["market"].items()}
    return Bar(np.datetime64(found["time"], "ns"), values, **masks, market=market)


def _hole(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("a number")
    return _finite(value)
