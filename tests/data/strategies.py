"""Series of bars that are hard on indicators, and what is seen after each of them."""

from __future__ import annotations

from dataclasses import astuple, fields
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
    """What is seen after each bar: quotes of two sides, one or none, news or no news."""
    return [draw(views(bar.close)) for bar in bars]


@st.composite
def views(draw: st.DrawFn, price: float) -> View:
    quote = draw(st.sampled_from(["both", "bid", "ask", "none"]))
    bid = price * (1 - draw(st.floats(0, 0.01))) if quote in ("both", "bid") else NONE
    ask = price * (1 + draw(st.floats(0, 0.01))) if quote in ("both", "ask") else NONE
    seen = {"bid": bid, "ask": ask}
    for name in ("bid_volume", "ask_volume", "buy_volume", "sell_volume"):
        seen[name] = draw(st.one_of(st.just(NONE), volumes))
    if draw(st.booleans()):
        seen["news_duration"] = draw(st.integers(1, 3000))
        seen["news_elapsed"] = draw(st.integers(0, int(seen["news_duration"])))
        seen["news_sentiment"] = draw(st.floats(-1, 1))
        seen["news_magnitude"] = draw(st.floats(0, 12))
    seen["sentiment"] = draw(st.one_of(st.just(NONE), st.floats(-3, 3)))
    seen["fair"] = draw(st.one_of(st.just(NONE), st.floats(0.1, 10.0).map(lambda f: f * price)))
    return View(**seen)


def bar_columns(bars: list[Bar]) -> dict[str, Any]:
    names = ("high", "low", "close", "volume", "trades")
    table = np.array([astuple(bar) for bar in bars], dtype=np.float64).reshape(-1, 5)
    return dict(zip(names, table.T, strict=True))


def view_columns(seen: list[View]) -> dict[str, Any]:
    table = np.array([astuple(view) for view in seen], dtype=np.float64).reshape(-1, 13)
    return dict(zip(VIEW_NAMES, table.T, strict=True))
