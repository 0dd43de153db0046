"""Random series of bars for indicators, with a market view after each bar."""

from __future__ import annotations

from dataclasses import astuple, fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.data.reference_features import NONE, Bar, View

VIEW_NAMES = tuple(field.name for field in fields(View))

small = st.floats(-0.02, 0.02)
tiny = st.floats(-1e-9, 1e-9)
jump = st.sampled_from([-0.9, -0.5, 1.0, 9.0])
moves = st.one_of(st.just(0.0), small, small, tiny, jump)
starts = st.sampled_from([1e-6, 0.37, 100.0, 1e6, 1e12])
volumes = st.one_of(st.just(0.0), st.floats(0.0, 1e6, allow_subnormal=False))


@st.composite
def bar_series(draw: st.DrawFn, min_size: int = 1, max_size: int = 90) -> list[Bar]:
    """Bars from a random start; prices stay, creep, move and jump."""
    close = draw(starts)
    steps = st.tuples(moves, st.floats(0, 0.05), st.floats(0, 0.05), volumes, st.integers(0, 900))
    bars = []
    for change, above, below, volume, trades in draw(
        st.lists(steps, min_size=min_size, max_size=max_size)
    ):
        close = close * (1 + change) if 1e-9 < close * (1 + change) < 1e15 else close
        bars.append(Bar(close * (1 + above), close * (1 - below), close, volume, trades))
    return bars


@st.composite
def view_series(draw: st.DrawFn, bars: list[Bar]) -> list[View]:
    """Market views after each bar: a few, cycled through."""
    turns = draw(st.lists(views, min_size=1, max_size=5))
    return [at_price(turns[now % len(turns)], bar.close) for now, bar in enumerate(bars)]


@st.composite
def views_of_one(draw: st.DrawFn) -> View:
    """A view at a price of one: quotes of two sides, one or none, news or no news."""
    seen = {name: draw(strategy) for name, strategy in PARTS.items()}
    if draw(st.booleans()):
        seen["news_duration"] = draw(ticks)
        seen["news_elapsed"] = min(draw(ticks), seen["news_duration"])
        seen["news_sentiment"] = draw(st.floats(-1, 1))
        seen["news_magnitude"] = draw(st.floats(0, 12))
    return View(**seen)


unknown = st.just(NONE)
ticks = st.integers(1, 3000)
PARTS: dict[str, st.SearchStrategy[float]] = {
    "bid": unknown | st.floats(0.99, 1),
    "ask": unknown | st.floats(1, 1.01),
    "bid_volume": unknown | volumes,
    "ask_volume": unknown | volumes,
    "last": unknown | st.floats(0.98, 1.02),
    "buy_volume": unknown | volumes,
    "sell_volume": unknown | volumes,
    "sentiment": unknown | st.floats(-3, 3),
    "fair": unknown | st.floats(0.1, 10),
}
views = views_of_one()


def at_price(view: View, price: float) -> View:
    """The same view with every price so many times as high."""
    prices = {name: getattr(view, name) * price for name in ("bid", "ask", "last", "fair")}
    return replace(view, **prices)


def bar_columns(bars: list[Bar]) -> dict[str, Any]:
    names = ("high", "low", "close", "volume", "trades")
    table = np.array([astuple(bar) for bar in bars], dtype=np.float64).reshape(-1, 5)
    return dict(zip(names, table.T, strict=True))


def view_columns(seen: list[View]) -> dict[str, Any]:
    table = np.array([astuple(view) for view in seen], dtype=np.float64).reshape(-1, 13)
    return dict(zip(VIEW_NAMES, table.T, strict=True))
