"""Geometric Brownian motion: the textbook's market."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sekai.data.market_data import MarketData
from sekai.data.simulators.regimes import Regime, simulate
from sekai.data.simulators.world import World, WorldOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["simulate_gbm"]


def simulate_gbm(
    assets: int | Sequence[str] = 20,
    rows: int = 2520,
    seed: int = 0,
    *,
    drift: ArrayLike = 0.06,
    volatility: ArrayLike = 0.2,
    correlation: ArrayLike = 0.3,
    sector_correlation: float | None = None,
    **world: Unpack[WorldOptions],
) -> MarketData:
    """Bars of prices that follow geometric Brownian motions.

    Args:
        assets: how many, or their names; an asset more at the end changes nothing for the others.
        rows: how many rows; more of them continue the same market.
        seed: the same seed gives the same bytes.
        drift: the yearly rate at which prices grow on average, one number or one for each asset.
        volatility: the yearly standard deviation of log returns, one or one for each asset.
        correlation: of all pairs of assets, from 0 to 1; or assets by assets.
        sector_correlation: of pairs that share a sector, if it is higher.
        **world: prices, volumes, sectors, clock and disruptions, see `WorldOptions`.
    """
    steady = Regime(
        drift=drift, volatility=volatility, correlation=correlation,
        sector_correlation=sector_correlation,
    )  # fmt: skip
    made = World.of(assets, rows, seed, world)
    return simulate(made, [steady], np.zeros(rows, np.int64))
