"""The indicators of `sekai.data.compute`, of each asset of a panel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import FeatureState
from sekai.data.features.registry import register_feature
from sekai.data.indicators import BAR_COLUMNS, FEATURES, feature_names
from sekai.data.market_data import MarketData

__all__ = ["BAR_INDICATORS", "IndicatorStream", "indicators"]

Floats = NDArray[np.float64]

_GROUPS = ("price", "technical", "volatility")
_ALONE = ("f_trend_strength", "f_volume_surge")
BAR_INDICATORS = tuple(f.name for f in FEATURES if f.group in _GROUPS or f.name in _ALONE)
"""The indicators that are made of bars alone; the others need quotes, news or a fair value."""


class IndicatorStream:
    """The indicators of each asset, row by row: rows in which it has no bar are passed over."""

    def __init__(self, *names: str, normalize: bool = False) -> None:
        """Begin without a row; the parameters are those of `indicators`."""
        self._places = [feature_names().index(name) for name in _checked(names)]
        self._with_volume = "f_volume_surge" in names
        self._normalize = normalize
        self._states: list[FeatureState] = []

    def push(self, data: MarketData) -> Floats:
        """The rows that follow those pushed before: rows by assets by indicators."""
        if not self._states:
            self._states = [FeatureState(self._normalize, False, False) for _ in data.assets]
        bars, there = self._bars(data)
        shown = np.full((len(data), len(data.assets), len(self._places)), np.nan)
        for place, state in enumerate(self._states):
            rows = np.flatnonzero(there[:, place])
            if rows.size:
                found = state.series(np.ascontiguousarray(bars[rows, place]), None, True)
                shown[rows, place] = found[:, self._places]
        return shown

    def _bars(self, data: MarketData) -> tuple[Floats, NDArray[np.bool_]]:
        bars = np.zeros((len(data), len(data.assets), len(BAR_COLUMNS)))
        wanted = ("high", "low", "close", "volume") if self._with_volume else BAR_COLUMNS[:3]
        for name in wanted:
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
        data: a panel with high, low, close, and volume if an indicator needs it.
        *names: which ones.
        normalize: divide those in units of price by the close.
    """
    return IndicatorStream(*names, normalize=normalize).push(data)


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in BAR_INDICATORS]
    if unknown or not names:
        raise ValueError(f"some of {', '.join(BAR_INDICATORS)} were wanted, found {list(names)}")
    return names
