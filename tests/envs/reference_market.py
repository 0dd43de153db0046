"""Derived panel columns in plain NumPy: marks, fill prices and impact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.envs.portfolio.config import PortfolioConfig

Floats = NDArray[np.float64]

TRAILING = 20


class ReferenceMarket:
    """A panel as orders meet it; arrays are rows by assets."""

    def __init__(self, data: MarketData, config: PortfolioConfig) -> None:
        self.data = data
        self.rows, self.assets = data.listed.shape
        stamps = data.times.astype(np.int64)
        self.days = np.append(0.0, np.diff(stamps) / 86_400e9)
        self.marks = self._marks(data)
        self.prices = self._fill_prices(data, config.execution.fill)
        self.volumes = self._volumes(data)
        self.volatility, self.mean_volume = self._trailing()
        self.decides = self._decisions(data, config.decisions)
        self.benchmark = self._benchmark(data)

    def _marks(self, data: MarketData) -> Floats:
        """The last close that was quoted; 1 before there was any, which nobody ever pays."""
        marks = np.ones(data.listed.shape)
        for row in range(self.rows):
            before = marks[row - 1] if row else np.ones(self.assets)
            marks[row] = np.where(data.quoted[row], data.field("close")[row], before)
        return marks

    def _fill_prices(self, data: MarketData, fill: str) -> Floats:
        """Fill prices of tradable assets, last marks of the others."""
        before = np.vstack([self.marks[:1], self.marks[:-1]])
        column = data.field({"next_open": "open", "next_close": "close"}[fill])
        return np.where(data.tradable, column, before)

    def _volumes(self, data: MarketData) -> Floats:
        if "volume" not in data.fields:
            return np.zeros(data.listed.shape)
        return np.nan_to_num(data.field("volume"), nan=0.0)

    def _trailing(self) -> tuple[Floats, Floats]:
        """Of the last rows, each included: the standard deviation of returns, the mean volume."""
        known = np.maximum.accumulate(self.data.quoted, axis=0)
        returns = np.zeros_like(self.marks)
        moves = np.log(self.marks[1:] / self.marks[:-1])
        returns[1:] = np.where(known[:-1], moves, 0.0)
        volatility, volume = np.zeros_like(returns), np.zeros_like(returns)
        for row in range(self.rows):
            recent = slice(max(0, row - TRAILING + 1), row + 1)
            if row:
                volatility[row] = returns[recent].std(axis=0, ddof=1)
            volume[row] = self.volumes[recent].mean(axis=0)
        return volatility, volume

    def impact(self, row: int, asset: int, size: float, strength: float) -> float:
        """Market impact of all orders as a share, from data of the previous row."""
        if strength == 0.0 or size == 0.0:
            return 0.0
        volume = self.mean_volume[row - 1, asset]
        if volume == 0.0:
            return 0.5
        return float(min(0.5, strength * self.volatility[row - 1, asset] * np.sqrt(size / volume)))

    def _decisions(self, data: MarketData, decisions: str) -> NDArray[np.bool_]:
        """The feature that is shown is missing in the row of an asset's first close."""
        if decisions == "every_row":
            return np.ones(self.rows, np.bool_)
        if decisions == "trading_days":
            return np.asarray(data.tradable.any(axis=1))
        close = np.where(data.quoted, data.field("close"), np.nan)
        shown = np.isfinite(np.vstack([np.full((1, self.assets), np.nan), np.diff(close, axis=0)]))
        complete = (shown & data.tradable) | ~data.listed
        return np.asarray(complete.all(axis=1) & data.listed.any(axis=1))

    def _benchmark(self, data: MarketData) -> Floats:
        """The mean return of the listed assets that have had a price before."""
        known = np.maximum.accumulate(data.quoted, axis=0)
        returns = np.zeros(self.rows)
        for row in range(1, self.rows):
            there = known[row - 1] & data.listed[row]
            if there.any():
                returns[row] = (self.marks[row, there] / self.marks[row - 1, there] - 1.0).mean()
        return returns
