"""Features of prices and volumes, asset by asset.

A price counts in rows where the asset is quoted. A return over k rows needs a quote in the row
and one exactly k rows before; a window needs a value in each of its rows. Where one is missing,
by a halt or because the asset is new, the feature is NaN: nothing is carried across a halt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import log_changes
from sekai.data.features.registry import register_feature
from sekai.data.features.rolling import (
    lagged,
    logarithm,
    rolling_deviation,
    rolling_maximum,
    rolling_mean,
    rolling_minimum,
)
from sekai.data.market_data import MarketData

__all__ = [
    "distance_to_high",
    "distance_to_low",
    "dollar_volume",
    "drawdown",
    "gap",
    "log_return",
    "market_series",
    "momentum",
    "relative_volume",
    "simple_return",
    "volatility",
]

Floats = NDArray[np.float64]


@register_feature("simple_return", lookback=lambda rows, price: _least(rows, 1) + 1)
def simple_return(data: MarketData, rows: int = 1, price: str = "close") -> Floats:
    """What a price has gained over `rows` rows, as a share of what it was."""
    prices = quoted(data, price)
    return prices / lagged(prices, _least(rows, 1)) - 1


@register_feature("log_return", lookback=lambda rows, price: _least(rows, 1) + 1)
def log_return(data: MarketData, rows: int = 1, price: str = "close") -> Floats:
    """The logarithm of a price over what it was `rows` rows before."""
    return log_changes(data.field(price), data.quoted, _least(rows, 1))


@register_feature("volatility", lookback=lambda rows, price: _least(rows, 2) + 1)
def volatility(data: MarketData, rows: int = 20, price: str = "close") -> Floats:
    """The standard deviation of the last `rows` log returns, of a row and not of a year."""
    return rolling_deviation(log_return(data, 1, price), _least(rows, 2))


@register_feature(
    "momentum", lookback=lambda rows, skip, price: _least(rows, 1) + _least(skip, 0) + 1
)
def momentum(data: MarketData, rows: int = 20, skip: int = 0, price: str = "close") -> Floats:
    """The return over `rows` rows that ended `skip` rows ago."""
    return lagged(simple_return(data, rows, price), _least(skip, 0))


@register_feature("distance_to_high", lookback=lambda rows, price: _least(rows, 1))
def distance_to_high(data: MarketData, rows: int = 20, price: str = "close") -> Floats:
    """How far a price is below the highest of the last `rows` rows, its own included."""
    prices = quoted(data, price)
    return prices / rolling_maximum(prices, _least(rows, 1)) - 1


@register_feature("distance_to_low", lookback=lambda rows, price: _least(rows, 1))
def distance_to_low(data: MarketData, rows: int = 20, price: str = "close") -> Floats:
    """How far a price is above the lowest of the last `rows` rows, its own included."""
    prices = quoted(data, price)
    return prices / rolling_minimum(prices, _least(rows, 1)) - 1


@register_feature("relative_volume", lookback=lambda rows: _least(rows, 1))
def relative_volume(data: MarketData, rows: int = 20) -> Floats:
    """The volume over the mean of the last `rows` rows, its own included; NaN without volume."""
    volumes = quoted(data, "volume")
    means = rolling_mean(volumes, _least(rows, 1))
    return np.divide(volumes, means, out=np.full_like(means, np.nan), where=means > 0)


@register_feature("dollar_volume", lookback=lambda rows, price: _least(rows, 1))
def dollar_volume(data: MarketData, rows: int = 20, price: str = "close") -> Floats:
    """The logarithm of the mean worth traded in a row; NaN where nothing was."""
    return logarithm(rolling_mean(quoted(data, price) * quoted(data, "volume"), _least(rows, 1)))


@register_feature("gap", lookback=2)
def gap(data: MarketData) -> Floats:
    """The open over the close of the row before: of daily bars, what happened overnight."""
    return quoted(data, "open") / lagged(quoted(data, "close"), 1) - 1


@register_feature("drawdown")
def drawdown(data: MarketData, price: str = "close") -> Floats:
    """How far a price is below its highest since the data began: all history is needed."""
    prices = quoted(data, price)
    return prices / np.fmax.accumulate(prices, axis=0) - 1


@register_feature("market_series", lookback=1)
def market_series(data: MarketData, name: str) -> Floats:
    """A series of the whole market, the same for each asset."""
    if name not in data.market:
        raise KeyError(f"a series among {sorted(data.market)} was wanted, found {name!r}")
    return data.market[name]


def quoted(data: MarketData, field: str) -> Floats:
    """A field where the asset is quoted, and NaN where it is not."""
    return np.where(data.quoted, data.field(field), np.nan)


def _least(rows: int, least: int) -> int:
    if not isinstance(rows, (int, np.integer)) or isinstance(rows, bool) or rows < least:
        raise ValueError(f"a whole number of rows from {least} was wanted, found {rows!r}")
    return int(rows)
