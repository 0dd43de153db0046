"""Further operators over windows: orders, lines through values, and pairs of columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sekai.data.qlib.expressions.operator import Array, Window
from sekai.data.qlib.expressions.rolling import clean, windows_of

__all__ = ["PAIRS", "STATISTICS", "paired", "quantile", "statistic"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STILL = 2e-5
"""Deviations up to here count as none where Qlib divides by them."""


def statistic(name: str, _: Window, values: Array, size: int) -> Floats:
    """A statistic of the last `size` slots, missing values left out."""
    function, before = STATISTICS[name], {"IdxMax": -np.inf, "IdxMin": np.inf}.get(name, np.nan)
    numbers = clean(values)
    result = np.full(len(numbers), np.nan)
    for part, windows in windows_of(numbers, size, before):
        counts = np.isfinite(windows).sum(axis=1)
        lengths = np.minimum(np.arange(part.start, part.stop) + 1, size)
        with np.errstate(all="ignore"):
            found = function(windows, counts, lengths)
        result[part] = np.where(counts > 0, found, np.nan)
    return result


def quantile(_: Window, values: Array, size: int, fraction: float) -> Floats:
    """The value below which a fraction of the values is, between two of them if need be."""
    numbers = clean(values)
    result = np.full(len(numbers), np.nan)
    for part, windows in windows_of(numbers, size):
        result[part] = _quantiles(windows, np.isfinite(windows).sum(axis=1), fraction)
    return result


def paired(name: str, _: Window, left: Array, right: Array, size: int) -> Floats:
    """A statistic of two columns, of the slots in which both have a value."""
    one, other = clean(left), clean(right)
    result = np.full(len(one), np.nan)
    for (part, ones), (_part, others) in zip(
        windows_of(one, size), windows_of(other, size), strict=True
    ):
        with np.errstate(all="ignore"):
            result[part] = PAIRS[name](ones, others)
    return result


def _quantiles(windows: Floats, counts: Ints, fraction: float) -> Floats:
    ordered = np.sort(windows, axis=1)
    place = fraction * np.maximum(counts - 1, 0)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(counts - 1, 0))
    rows = np.arange(len(windows))
    below, above = ordered[rows, low], ordered[rows, high]
    between: Floats = below + (above - below) * (place - low)
    return between


def _count(_: Floats, counts: Ints, __: Ints) -> Floats:
    return counts.astype(np.float64)


def _median(windows: Floats, counts: Ints, _: Ints) -> Floats:
    return _quantiles(windows, counts, 0.5)


def _absolute_deviation(windows: Floats, counts: Ints, _: Ints) -> Floats:
    mean = np.nansum(windows, axis=1) / counts
    away: Floats = np.nansum(np.abs(windows - mean[:, None]), axis=1) / counts
    return away


def _weighted_mean(windows: Floats, counts: Ints, lengths: Ints) -> Floats:
    weights = np.arange(1, windows.shape[1] + 1) - (windows.shape[1] - lengths)[:, None]
    shares = weights / (lengths * (lengths + 1) / 2)[:, None]
    mean: Floats = np.nansum(shares * windows, axis=1) / counts
    return mean


def _rank(windows: Floats, counts: Ints, _: Ints) -> Floats:
    last = windows[:, -1:]
    below, alike = (windows < last).sum(axis=1), (windows == last).sum(axis=1)
    return np.where(np.isnan(last[:, 0]), np.nan, (below + (alike + 1) / 2) / counts)


def _place_of_highest(windows: Floats, _: Ints, lengths: Ints) -> Floats:
    place: Floats = np.argmax(windows, axis=1) + 1.0 - (windows.shape[1] - lengths)
    return place


def _place_of_lowest(windows: Floats, _: Ints, lengths: Ints) -> Floats:
    place: Floats = np.argmin(windows, axis=1) + 1.0 - (windows.shape[1] - lengths)
    return place


def _line(windows: Floats, counts: Ints) -> tuple[Floats, Floats, Floats]:
    """The slope of the line through the values, its height at the last slot, and its fit."""
    there = np.isfinite(windows)
    slots = np.where(there, np.arange(1.0, windows.shape[1] + 1), np.nan)
    middle, mean = np.nansum(slots, axis=1) / counts, np.nansum(windows, axis=1) / counts
    across, up = slots - middle[:, None], windows - mean[:, None]
    both = np.nansum(across * up, axis=1)
    wide, high = np.nansum(across * across, axis=1), np.nansum(up * up, axis=1)
    slope = both / wide
    still = np.sqrt(high / (counts - 1)) <= STILL
    fit = np.where(still, np.nan, both * both / (wide * high))
    return slope, mean + slope * (windows.shape[1] - middle), fit


def _slope(windows: Floats, counts: Ints, _: Ints) -> Floats:
    return _line(windows, counts)[0]


def _residual(windows: Floats, counts: Ints, _: Ints) -> Floats:
    residual: Floats = windows[:, -1] - _line(windows, counts)[1]
    return residual


def _fit(windows: Floats, counts: Ints, _: Ints) -> Floats:
    return _line(windows, counts)[2]


STATISTICS: dict[str, Callable[[Floats, Ints, Ints], Floats]] = {
    "Count": _count,
    "Med": _median,
    "Mad": _absolute_deviation,
    "WMA": _weighted_mean,
    "Rank": _rank,
    "IdxMax": _place_of_highest,
    "IdxMin": _place_of_lowest,
    "Slope": _slope,
    "Resi": _residual,
    "Rsquare": _fit,
}
"""Of windows by slots, how many values each has, and how many slots of it there are."""


def _covariance(one: Floats, other: Floats) -> Floats:
    both = np.isfinite(one) & np.isfinite(other)
    counts = both.sum(axis=1)
    away = []
    for windows in (one, other):
        shared = np.where(both, windows, np.nan)
        away.append(shared - (np.nansum(shared, axis=1) / counts)[:, None])
    covariance = np.nansum(away[0] * away[1], axis=1) / (counts - 1)
    return np.where(counts > 1, covariance, np.nan)


def _correlation(one: Floats, other: Floats) -> Floats:
    both = np.isfinite(one) & np.isfinite(other)
    shared = [np.where(both, windows, np.nan) for windows in (one, other)]
    spread = np.sqrt(_covariance(shared[0], shared[0]) * _covariance(shared[1], shared[1]))
    moves = [np.sqrt(_covariance(windows, windows)) for windows in (one, other)]
    still = (moves[0] <= STILL) | (moves[1] <= STILL)
    return np.where(still, np.nan, _covariance(*shared) / spread)


PAIRS: dict[str, Callable[[Floats, Floats], Floats]] = {"Cov": _covariance, "Corr": _correlation}
