"""Whether prices and clocks can be true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sekai.live.events import BarEvent, CandleEvent, FeedEvent, QuoteEvent, TradeEvent
from sekai.live.feeds.feed_rules import FeedRules

__all__ = ["ClockCheck", "PriceCheck", "is_crossed"]

STEP = 10**6
"""Nanoseconds: clocks that are set right all the time go back by less."""


@dataclass(slots=True)
class Level:
    """The last price that was believed, and what was said against it since."""

    price: float
    other: float = 0.0
    agreeing: int = 0


class PriceCheck:
    """Remembers the price of every symbol, and doubts one that is far from it.

    Outliers that agree with each other often enough are believed: prices do change.
    """

    def __init__(self, rules: FeedRules, fields: Sequence[str], assets: Sequence[str]) -> None:
        """Take the rules, and what the values of rows are."""
        self._factor = rules.price_factor
        self._confirmations = rules.confirmations
        self._close = list(fields).index("close") if "close" in fields else None
        self._assets = tuple(assets)
        self._levels: dict[tuple[str, str], Level] = {}

    def outlier(self, event: FeedEvent) -> str | None:
        """What is odd about its price, in words; None if nothing is."""
        if self._factor is None:
            return None
        if isinstance(event, TradeEvent):
            return self._look("trade", event.symbol, event.price)
        if isinstance(event, CandleEvent):
            return self._look("candle", event.symbol, event.close)
        if isinstance(event, QuoteEvent):
            found = (self._look("bid", event.symbol, event.bid),
                     self._look("ask", event.symbol, event.ask))  # fmt: skip
            return found[0] or found[1]
        if isinstance(event, BarEvent) and self._close is not None:
            return self._look_at_row(event)
        return None

    def _look_at_row(self, event: BarEvent) -> str | None:
        values = np.asarray(event.bar.values, np.float64)
        if values.ndim != 2 or len(values) != len(self._assets) or self._close is None:
            return None
        told = None
        for asset, price in zip(self._assets, values[:, self._close].tolist(), strict=True):
            # A hole is no price; whether it may be there is for the env to say.
            if not math.isnan(price):
                told = self._look("bar", asset, price) or told
        return told

    def _look(self, kind: str, symbol: str, price: float) -> str | None:
        if not 0 < price < math.inf:
            return f"{symbol} at {price:.10g}"
        level = self._levels.get((kind, symbol))
        if level is None:
            self._levels[kind, symbol] = Level(price)
            return None
        if self._is_near(price, level.price):
            level.price, level.agreeing = price, 0
            return None
        level.agreeing = level.agreeing + 1 if self._is_near(price, level.other) else 1
        level.other = price
        if level.agreeing >= self._confirmations:
            self._levels[kind, symbol] = Level(price)
            return None
        return f"{symbol} at {price:.10g} after {level.price:.10g}"

    def _is_near(self, price: float, other: float) -> bool:
        assert self._factor is not None
        return other > 0 and other / self._factor <= price <= other * self._factor


class ClockCheck:
    """Looks for steps of the venue's clock and of ours."""

    def __init__(self, rules: FeedRules) -> None:
        """Take the rules."""
        self._limit = None if rules.clock_limit is None else rules.clock_limit * 1e9
        self._is_off = False
        self._receive_time = 0

    def jump(self, event: FeedEvent, before: int) -> str | None:
        """What a clock did, in words; None if it went on.

        Args:
            event: one whose place in the order is known.
            before: the time of the venue at the one before it in its stream.
        """
        told = None
        if event.receive_time < self._receive_time - STEP:
            told = f"ours went back by {_seconds(self._receive_time - event.receive_time)}"
        if event.exchange_time < before - STEP:
            told = f"the venue's went back by {_seconds(before - event.exchange_time)}"
        self._receive_time = event.receive_time
        offset = event.exchange_time - event.receive_time
        is_off = self._limit is not None and abs(offset) > self._limit
        if is_off and not self._is_off:
            told = f"the venue's is {_seconds(offset)} ahead of ours"
        self._is_off = is_off
        return told


def is_crossed(event: FeedEvent) -> bool:
    """Whether somebody bids as much as another one asks."""
    return isinstance(event, QuoteEvent) and event.bid >= event.ask


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.3f} s"
