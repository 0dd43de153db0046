"""Panels with halts, listings, delistings and missing volumes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.data import MarketData

FIELDS = ("open", "high", "low", "close", "volume")

NAMED = (
    "simple_return",
    "simple_return(3)",
    "log_return",
    "log_return(5, price=open)",
    "volatility(4)",
    "momentum(5)",
    "momentum(3, skip=2)",
    "rank(momentum(3))",
    "zscore(log_return)",
    "distance_to_high(6)",
    "distance_to_low(7)",
    "relative_volume(5)",
    "dollar_volume(3)",
    "gap",
    "drawdown",
    "market_series(rate)",
    "day_of_week",
    "time_of_day",
    "indicators(f_rsi_8, f_atr_8, f_volume_surge)",
    "rank(indicators(f_sma_8))",
)
"""Every feature of the library, some of them twice."""


def make_panel(
    rows: int = 120, assets: int = 5, seed: int = 0, holes: float = 0.05, **options: Any
) -> MarketData:
    """Daily bars; with holes, some rows are halted and assets come and go."""
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.02, (rows, assets)), axis=0))
    begin = close * (1 + rng.normal(0, 0.005, close.shape))
    high = np.maximum(begin, close) * (1 + rng.uniform(0, 0.01, close.shape))
    low = np.minimum(begin, close) * (1 - rng.uniform(0, 0.01, close.shape))
    volume = np.where(rng.random(close.shape) < holes, np.nan, rng.integers(0, 9, close.shape))
    values = np.stack([begin, high, low, close, volume], axis=2)
    listed = lives(rng, rows, assets) if holes else np.ones(close.shape, bool)
    quoted = listed & (rng.random(close.shape) >= holes)
    values[~quoted] = np.nan
    times = np.datetime64("2020-01-01T21:00", "ns") + np.arange(rows) * np.timedelta64(1, "D")
    given: dict[str, Any] = {
        "listed": listed, "quoted": quoted, "market": {"rate": rng.normal(0, 1, rows)},
        "timezone": "America/New_York",
    }  # fmt: skip
    names = [f"asset{place}" for place in range(assets)]
    return MarketData(times, names, FIELDS, values, **{**given, **options})


def lives(rng: np.random.Generator, rows: int, assets: int) -> NDArray[np.bool_]:
    """One life for each asset; about half last from the first row to the last."""
    places = np.arange(rows)[:, None]
    first = np.where(rng.random(assets) < 0.5, 0, rng.integers(0, rows, assets))
    last = np.where(rng.random(assets) < 0.5, rows, rng.integers(0, rows + 1, assets))
    return (places >= first) & (places < last)


@st.composite
def panels(draw: st.DrawFn, min_rows: int = 1, max_rows: int = 60) -> MarketData:
    """Panels of any size down to one row of one asset, with few holes or many."""
    return make_panel(
        rows=draw(st.integers(min_rows, max_rows)),
        assets=draw(st.integers(1, 6)),
        seed=draw(st.integers(0, 2**32)),
        holes=draw(st.sampled_from([0.0, 0.05, 0.4])),
    )


def same_numbers(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Return True if all numbers are equal bit for bit; all NaN are equal."""
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    clean = [np.where(np.isnan(values), np.nan, values) for values in (left, right)]
    return clean[0].shape == clean[1].shape and clean[0].tobytes() == clean[1].tobytes()
