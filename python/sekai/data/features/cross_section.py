"""Features of an asset among the others of its row: those that are listed and quoted then."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.features.feature import as_feature
from sekai.data.features.registry import register_feature
from sekai.data.market_data import MarketData

__all__ = ["rank", "ranked", "zscore"]

Floats = NDArray[np.float64]

FLAT = 1e-12
"""The deviation, as a share of the largest value, below which all values count as the same."""


def _lookback(of: Any) -> int | None:
    return as_feature(of).lookback


@register_feature("rank", lookback=_lookback)
def rank(data: MarketData, of: Any = "simple_return") -> Floats:
    """The place of a feature among the assets: -1 the lowest, 1 the highest, ties their mean.

    An asset that is alone in its row is in the middle, 0.
    """
    return np.stack([ranked(channel) for channel in _channels(data, of)], axis=2)


@register_feature("zscore", lookback=_lookback)
def zscore(data: MarketData, of: Any = "simple_return") -> Floats:
    """The distance of a feature from the mean of the assets, in standard deviations.

    It is 0 where all assets have the same value.
    """
    return np.stack([_standardised(channel) for channel in _channels(data, of)], axis=2)


def _channels(data: MarketData, of: Any) -> list[Floats]:
    there = (data.listed & data.quoted)[:, :, None]
    values = np.where(there, as_feature(of)(data), np.nan)
    return [np.ascontiguousarray(values[:, :, place]) for place in range(values.shape[2])]


def ranked(values: Floats) -> Floats:
    """The rank of each value in its row from -1 to 1; NaN stays NaN and takes no part."""
    order = np.argsort(values, axis=1, kind="stable")
    ascending = np.take_along_axis(values, order, axis=1)
    places = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    begins = np.ones(values.shape, bool)
    begins[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    ends = np.ones(values.shape, bool)
    ends[:, :-1] = begins[:, 1:]
    last = np.where(ends, places, values.shape[1])[:, ::-1]
    last = np.minimum.accumulate(last, axis=1)[:, ::-1]
    middle = np.empty(values.shape)
    np.put_along_axis(middle, order, (first + last) / 2, axis=1)
    others = np.isfinite(values).sum(axis=1, keepdims=True) - 1
    ranks = np.where(others > 0, 2 * middle / np.maximum(others, 1) - 1, 0.0)
    return np.where(np.isfinite(values), ranks, np.nan)


def _standardised(values: Floats) -> Floats:
    there = np.isfinite(values)
    count = np.maximum(there.sum(axis=1, keepdims=True), 1)
    mean = np.where(there, values, 0.0).sum(axis=1, keepdims=True) / count
    distance = np.where(there, values - mean, 0.0)
    deviation = np.sqrt((distance * distance).sum(axis=1, keepdims=True) / count)
    size = np.where(there, np.abs(values), 0.0).max(axis=1, keepdims=True)
    # The mean of equal numbers need not be that number, to the last bit.
    spread = deviation > FLAT * size
    scores = np.divide(distance, deviation, out=np.zeros(values.shape), where=spread)
    return np.where(there, scores, np.nan)
