"""Puts lines of single assets together to rows of all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sekai.data import Bar, MarketData
from sekai.data.panel_checks import PRICE_FIELDS
from sekai.data.reading.stored import MARKET_PREFIX
from sekai.error import FeedError
from sekai.live.feeds.frame import bad_frame, number, shown
from sekai.live.feeds.stamps import stamp_of

__all__ = ["RowAssembler"]

MASKS = ("listed", "quoted", "tradable")
FARTHEST = 366 * 24 * 3600 * 10**9
"""Nanoseconds: a time so far after the last row, and after now, is a mistake of who wrote it. As a
row it would make all that follow it late."""


class RowAssembler:
    """Gathers the lines of one time; a row is whole when every asset has a line.

    A line of a later time ends a row too: assets that have none in it are holes.
    """

    def __init__(self, history: MarketData) -> None:
        """Begin after the history, with its assets, fields and series."""
        self.last = int(history.calendar.nanoseconds[-1]) if len(history) else 0
        """The time of the last row that was given."""
        self.late = 0
        """Lines of rows that were given without them; those of the history do not count."""
        self._begin = self.last
        self.duplicates = 0
        self._places = {name: place for place, name in enumerate(history.assets)}
        self._fields = history.fields
        self._market = tuple(history.market)
        self._time: int | None = None
        self._lines: dict[int, Mapping[str, Any]] = {}

    def add(self, line: Any) -> Iterator[Bar]:
        """Take in a line; the rows that it makes whole.

        Raises:
            FeedError: the line is not of an asset of the history, or has no time or no numbers.
        """
        if not isinstance(line, dict):
            raise bad_frame("an object with time, asset and fields", line)
        stamp = stamp_of(line.get("time"))
        place = self._places.get(line["asset"]) if isinstance(line.get("asset"), str) else None
        if place is None:
            raise FeedError(f"an asset of the history was wanted, found {shown(line.get('asset'))}")
        checked = self._checked(line)
        if stamp <= self.last or (self._time is not None and stamp < self._time):
            self.late += stamp > self._begin
            return
        if stamp > max(self.last, time.time_ns()) + FARTHEST:
            raise bad_frame("a time that is not a year ahead", str(line.get("time")))
        if self._time is not None and stamp > self._time:
            yield from self.flush()
        if place in self._lines:
            self.duplicates += 1
            return
        self._time = stamp
        self._lines[place] = checked
        if len(self._lines) == len(self._places):
            yield from self.flush()

    def flush(self) -> Iterator[Bar]:
        """The row as it is, if there is the beginning of one."""
        if self._time is None:
            return
        stamp, lines = self._time, self._lines
        self.last, self._time, self._lines = stamp, None, {}
        yield self._bar(stamp, lines)

    def _bar(self, stamp: int, lines: Mapping[int, Mapping[str, Any]]) -> Bar:
        values = np.full((len(self._places), len(self._fields)), np.nan)
        market = dict.fromkeys(self._market, math.nan)
        masks: dict[str, Any] = {}
        for place, line in lines.items():
            values[place] = [line.get(name, math.nan) for name in self._fields]
            market.update({name: line[name] for name in self._market if name in line})
        for name in MASKS:
            if any(name in line for line in lines.values()):
                masks[name] = np.array(
                    [lines.get(place, {}).get(name, False) for place in range(len(values))]
                )
        return Bar(np.datetime64(stamp, "ns"), values, **masks, market=market)

    def _checked(self, line: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self._fields:
            value = _number(line.get(name))
            if name in PRICE_FIELDS and value <= 0:
                raise FeedError(f"a {name} above 0 was wanted, found {value}")
            found[name] = value
        for name in self._market:
            if MARKET_PREFIX + name in line:
                found[name] = _number(line[MARKET_PREFIX + name])
        for name in MASKS:
            if name in line:
                if not isinstance(line[name], bool):
                    raise bad_frame(f"true or false for {name}", line[name])
                found[name] = line[name]
        return found


def _number(found: Any) -> float:
    # Parquet has NaN where JSON has null.
    if found is None or (isinstance(found, float) and math.isnan(found)):
        return math.nan
    return number(found)
