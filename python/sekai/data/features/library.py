"""Built-in features: prices and volumes, cross-section, calendar, indicators; rolling kernels.

A price counts in rows where the asset is quoted. A return over k rows needs a quote in the row and
one exactly k rows before; a window needs a value in each of its rows. Where one is missing, because
of a halt or a new listing, the feature is NaN: nothing is filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import FeatureState, log_changes, logarithms, rolling_windows
from sekai.data.features.feature import as_feature, register_feature
from sekai.data.indicators import BAR_COLUMNS, FEATURES, feature_names
from sekai.data.market_data import MarketData
from sekai.storage.names import unknown_name

Floats = NDArray[np.float64]

DAY = 86_400 * 10**9
FLAT = 1e-12
"""Standard deviation, relative to the largest value, below which values count as equal."""
MIN_SIZE = 16
"""Least number of values passed to a NumPy function, see `stable_elementwise`."""

_GROUPS = ("price", "technical", "volatility")
_SINGLE = ("f_trend_strength", "f_volume_surge")
BAR_INDICATORS = tuple(f.name for f in FEATURES if f.group in _GROUPS or f.name in _SINGLE)
"""Indicators computed from bars only; the others need quotes, news or a fair value."""


@register_feature("simple_return", lookback=lambda rows, price: _at_least(rows, 1) + 1)
def simple_return(data: MarketData, rows: int = 1, price: str = "close") -> Floats:
    """Simple return of a price over `rows` rows."""
    prices = quoted(data, price)
    return prices / lag(prices, _at_least(rows, 1)) - 1


@register_feature("log_return", lookback=lambda rows, price: _at_least(rows, 1) + 1)
def log_return(data: MarketData, rows: int = 1, price: str = "close") -> Floats:
    """Log return of a price over `rows` rows."""
    return log_changes(data.field(price), data.quoted, _at_least(rows, 1))


@register_feature("volatility", lookback=lambda rows, price: _at_least(rows, 2) + 1)
def volatility(data: MarketData, rows: int = 20, price: str = "close") -> Floats:
    """Standard deviation of the last `rows` log returns, not annualized."""
    return rolling_deviation(log_return(data, 1, price), _at_least(rows, 2))


@register_feature(
    "momentum", lookback=lambda rows, skip, price: _at_least(rows, 1) + _at_least(skip, 0) + 1
)
def momentum(data: MarketData, rows: int = 20, skip: int = 0, price: str = "close") -> Floats:
    """Momentum: return over `rows` rows that ended `skip` rows ago."""
    return lag(simple_return(data, rows, price), _at_least(skip, 0))


@register_feature("distance_to_high", lookback=lambda rows, price: _at_least(rows, 1))
def distance_to_high(data: MarketData, rows: int = 20, price: str = "close") -> Floats:
    """Distance of a price below the maximum of the last `rows` rows, its own included."""
    prices = quoted(data, price)
    return prices / rolling_windows(prices, _at_least(rows, 1), "maximum") - 1


@register_feature("distance_to_low", lookback=lambda rows, price: _at_least(rows, 1))
def distance_to_low(data: MarketData, rows: int = 20, price: str = "close") -> Floats:
    """Distance of a price above the minimum of the last `rows` rows, its own included."""
    prices = quoted(data, price)
    return prices / rolling_windows(prices, _at_least(rows, 1), "minimum") - 1


@register_feature("relative_volume", lookback=lambda rows: _at_least(rows, 1))
def relative_volume(data: MarketData, rows: int = 20) -> Floats:
    """Volume over the mean of the last `rows` rows, its own included; NaN without volume."""
    volumes = quoted(data, "volume")
    means = rolling_mean(volumes, _at_least(rows, 1))
    return np.divide(volumes, means, out=np.full_like(means, np.nan), where=means > 0)


@register_feature("dollar_volume", lookback=lambda rows, price: _at_least(rows, 1))
def dollar_volume(data: MarketData, rows: int = 20, price: str = "close") -> Floats:
    """Log of the mean traded value of the last `rows` rows; NaN if it is 0."""
    traded = quoted(data, price) * quoted(data, "volume")
    return logarithms(rolling_mean(traded, _at_least(rows, 1)))


@register_feature("gap", lookback=2)
def gap(data: MarketData) -> Floats:
    """Gap: open over the close of the previous row."""
    return quoted(data, "open") / lag(quoted(data, "close"), 1) - 1


@register_feature("drawdown")
def drawdown(data: MarketData, price: str = "close") -> Floats:
    """Drawdown: distance of a price below its maximum since the first row."""
    prices = quoted(data, price)
    return prices / np.fmax.accumulate(prices, axis=0) - 1


@register_feature("market_series", lookback=1)
def market_series(data: MarketData, name: str) -> Floats:
    """Market-wide series, the same for each asset."""
    if name not in data.market:
        raise KeyError(unknown_name("market series", name, sorted(data.market)))
    return data.market[name]


def quoted(data: MarketData, field: str) -> Floats:
    """Values of a field where the asset is quoted, NaN elsewhere."""
    return np.where(data.quoted, data.field(field), np.nan)


def _at_least(rows: int, least: int) -> int:
    if not isinstance(rows, (int, np.integer)) or isinstance(rows, bool) or rows < least:
        raise ValueError(f"rows must be an integer of at least {least}, got {rows!r}")
    return int(rows)


@register_feature("day_of_week", lookback=1, channels=("sin", "cos"))
def day_of_week(data: MarketData) -> Floats:
    """Day of the week in the time zone of the market, as sine and cosine; Monday is 0."""
    # 1970 began with a Thursday.
    return _angle(data, (_local(data) // DAY + 3) % 7 / 7)


@register_feature("time_of_day", lookback=1, channels=("sin", "cos"))
def time_of_day(data: MarketData) -> Floats:
    """Time of the day in the time zone of the market, as sine and cosine; midnight is 0."""
    return _angle(data, _local(data) % DAY / DAY)


def _angle(data: MarketData, turns: Floats) -> Floats:
    angle = 2 * np.pi * turns
    channels = np.stack(
        [stable_elementwise(np.sin, angle), stable_elementwise(np.cos, angle)], axis=1
    )
    return np.broadcast_to(channels[:, None, :], (len(data), len(data.assets), 2))


def _local(data: MarketData) -> NDArray[np.int64]:
    return data.calendar.local.astype(np.int64)


def _lookback(of: Any) -> int | None:
    return as_feature(of).lookback


@register_feature("rank", lookback=_lookback)
def rank(data: MarketData, of: Any = "simple_return") -> Floats:
    """Cross-sectional rank of a feature: -1 lowest, 1 highest, ties share their mean.

    A single asset in a row has rank 0.
    """
    return np.stack([rank_rows(channel) for channel in _channels(data, of)], axis=2)


@register_feature("zscore", lookback=_lookback)
def zscore(data: MarketData, of: Any = "simple_return") -> Floats:
    """Cross-sectional z-score of a feature; 0 where all assets have the same value."""
    return np.stack([_standardized(channel) for channel in _channels(data, of)], axis=2)


def _channels(data: MarketData, of: Any) -> list[Floats]:
    valid = (data.listed & data.quoted)[:, :, None]
    values = np.where(valid, as_feature(of)(data), np.nan)
    return [np.ascontiguousarray(values[:, :, channel]) for channel in range(values.shape[2])]


def rank_rows(values: Floats) -> Floats:
    """Rank of each value in its row from -1 to 1, ignoring NaN."""
    order = np.argsort(values, axis=1, kind="stable")
    ascending = np.take_along_axis(values, order, axis=1)
    positions = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    begins = np.ones(values.shape, bool)
    begins[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    first = np.maximum.accumulate(np.where(begins, positions, 0), axis=1)
    ends = np.ones(values.shape, bool)
    ends[:, :-1] = begins[:, 1:]
    last = np.where(ends, positions, values.shape[1])[:, ::-1]
    last = np.minimum.accumulate(last, axis=1)[:, ::-1]
    middle = np.empty(values.shape)
    np.put_along_axis(middle, order, (first + last) / 2, axis=1)
    others = np.isfinite(values).sum(axis=1, keepdims=True) - 1
    ranks = np.where(others > 0, 2 * middle / np.maximum(others, 1) - 1, 0.0)
    return np.where(np.isfinite(values), ranks, np.nan)


def _standardized(values: Floats) -> Floats:
    valid = np.isfinite(values)
    count = np.maximum(valid.sum(axis=1, keepdims=True), 1)
    mean = np.where(valid, values, 0.0).sum(axis=1, keepdims=True) / count
    distance = np.where(valid, values - mean, 0.0)
    deviation = np.sqrt((distance * distance).sum(axis=1, keepdims=True) / count)
    size = np.where(valid, np.abs(values), 0.0).max(axis=1, keepdims=True)
    # The computed mean of equal numbers may differ from them in the last bit.
    varies = deviation > FLAT * size
    scores = np.divide(distance, deviation, out=np.zeros(values.shape), where=varies)
    return np.where(valid, scores, np.nan)


class IndicatorStream:
    """Indicators of each asset, row by row; rows without a bar are skipped.

    The parameters are those of `indicators`.
    """

    def __init__(self, *names: str, normalize: bool = False) -> None:
        self._columns = [feature_names().index(name) for name in _checked(names)]
        self._with_volume = "f_volume_surge" in names
        self._normalize = normalize
        self._states: list[FeatureState] = []

    def push(self, data: MarketData) -> Floats:
        """Compute the rows that follow those pushed before: rows by assets by indicators."""
        if not self._states:
            self._states = [FeatureState(self._normalize, False, False) for _ in data.assets]
        bars, valid = self._bars(data)
        result = np.full((len(data), len(data.assets), len(self._columns)), np.nan)
        for asset, state in enumerate(self._states):
            rows = np.flatnonzero(valid[:, asset])
            if rows.size:
                series = state.series(np.ascontiguousarray(bars[rows, asset]), None, True)
                result[rows, asset] = series[:, self._columns]
        return result

    def state_dict(self) -> dict[str, Any]:
        """State of each asset as bytes."""
        return {"assets": [state.encode() for state in self._states]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        states = [FeatureState(self._normalize, False, False) for _ in state["assets"]]
        for new, saved in zip(states, state["assets"], strict=True):
            new.decode(saved)
        self._states = states

    def _bars(self, data: MarketData) -> tuple[Floats, NDArray[np.bool_]]:
        bars = np.zeros((len(data), len(data.assets), len(BAR_COLUMNS)))
        names = ("high", "low", "close", "volume") if self._with_volume else BAR_COLUMNS[:3]
        for name in names:
            bars[:, :, BAR_COLUMNS.index(name)] = data.field(name)
        return bars, data.quoted & np.isfinite(bars).all(axis=2)


@register_feature(
    "indicators",
    channels=lambda *names, normalize: tuple(_checked(names)),
    stream=IndicatorStream,
)
def indicators(data: MarketData, *names: str, normalize: bool = False) -> Floats:
    """Indicators among `BAR_INDICATORS`, over the rows in which an asset has a bar.

    Args:
        data: panel with high, low, close, and volume if an indicator needs it.
        *names: indicator names.
        normalize: divide indicators in units of price by the close.
    """
    return IndicatorStream(*names, normalize=normalize).push(data)


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError(f"no indicators; expected one or more of {list(BAR_INDICATORS)}")
    for name in names:
        if name not in BAR_INDICATORS:
            raise ValueError(unknown_name("indicator", name, BAR_INDICATORS))
    return names


def lag(values: Floats, rows: int) -> Floats:
    """Values of `rows` rows ago; NaN in the first rows."""
    result = np.full_like(values, np.nan)
    if rows < len(values):
        result[rows:] = values[: len(values) - rows]
    return result


def rolling_mean(values: Floats, rows: int) -> Floats:
    """Rolling mean; NaN where a value is missing."""
    return rolling_windows(values, rows, "sum") / rows


def rolling_deviation(values: Floats, rows: int) -> Floats:
    """Rolling sample standard deviation; NaN where a value is missing."""
    if rows < 2:
        raise ValueError(f"rows must be at least 2 for a standard deviation, got {rows}")
    return rolling_windows(values, rows, "deviation")


def stable_elementwise(function: Any, values: Floats) -> Floats:
    """Apply `function` elementwise, with bits that do not depend on the number of values.

    NumPy may compute a single or a strided value by another path than a contiguous array, with
    another last bit.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    padded = np.ones(max(flat.size, MIN_SIZE))
    padded[: flat.size] = flat
    result: Floats = function(padded)[: flat.size].reshape(values.shape)
    return result
