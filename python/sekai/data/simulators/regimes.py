"""Simulated prices: geometric Brownian motion and Markov-switching regimes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.config.checked import CheckedConfig
from sekai.data.market_data import MarketData
from sekai.data.simulators.market import (
    FIELDS,
    Disruptions,
    Moves,
    Noise,
    SimulatedMarket,
    bars_of,
    for_each_asset,
    random_stream,
    simulated_market,
)

Floats = NDArray[np.float64]
Path = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regime(CheckedConfig):
    """Parameters of the price process in a regime, per year."""

    drift: ArrayLike = 0.06
    """Growth rate of the expected price: E[price] = price * exp(drift * years)."""

    volatility: ArrayLike = 0.2
    """Standard deviation of log returns, one number or one per asset."""

    correlation: ArrayLike = 0.3
    """Correlation of all pairs of assets, from 0 to 1; or a matrix of assets by assets."""

    sector_correlation: float | None = None
    """Correlation of pairs in the same sector, at least `correlation`; equal to it if None."""


CALM_AND_TURBULENT = (
    Regime(drift=0.12, volatility=0.14, correlation=0.2),
    Regime(drift=-0.20, volatility=0.40, correlation=0.6),
)
"""Long calm regime, and a short turbulent one in which assets fall together."""

SWITCHING = ((0.99, 0.01), (0.04, 0.96))
"""Transition probabilities, from the regime of a row to that of the next."""


def simulate_gbm(
    assets: int | Sequence[str] = 20,
    rows: int = 2520,
    seed: int = 0,
    *,
    drift: ArrayLike = 0.06,
    volatility: ArrayLike = 0.2,
    correlation: ArrayLike = 0.3,
    sector_correlation: float | None = None,
    start: str | None = None,
    frequency: str = "1d",
    calendar: Literal["weekdays", "always"] = "weekdays",
    overnight: float = 0.0,
    price: ArrayLike = 100.0,
    volume: ArrayLike = 1_000_000.0,
    sectors: Sequence[str] | Mapping[str, str] = (),
    disruptions: Disruptions | None = None,
) -> MarketData:
    """Simulate bars of geometric Brownian motions.

    Args:
        assets: number or names of assets; appending an asset does not change the others.
        rows: number of rows; more rows continue the same prices.
        seed: seed; equal seeds give equal bytes.
        drift: annual growth rate of the expected price, one number or one per asset.
        volatility: annual standard deviation of log returns, one number or one per asset.
        correlation: of all pairs of assets, from 0 to 1; or a matrix of assets by assets.
        sector_correlation: of pairs in the same sector, if higher.
        start: first day; by default such that the rows end in the last week of 2024.
        frequency: interval between rows: `1d`, or a part of a day such as `1h` and `5min`.
        calendar: open on `weekdays` from 9:30 to 16:00, or `always`.
        overnight: share of the daily variance between a close and the next open.
        price: initial price, one number or one per asset.
        volume: mean volume per row, one number or one per asset.
        sectors: sectors assigned to the assets in turn, or the sector by asset.
        disruptions: halts, late listings and delistings; none by default.
    """
    market = simulated_market(locals())
    regime = Regime(
        drift=drift,
        volatility=volatility,
        correlation=correlation,
        sector_correlation=sector_correlation,
    )
    return _simulate(market, [regime], np.zeros(rows, np.int64))


def simulate_regimes(
    assets: int | Sequence[str] = 20,
    rows: int = 2520,
    seed: int = 0,
    *,
    regimes: Sequence[Regime] = CALM_AND_TURBULENT,
    switching: ArrayLike = SWITCHING,
    start: str | None = None,
    frequency: str = "1d",
    calendar: Literal["weekdays", "always"] = "weekdays",
    overnight: float = 0.0,
    price: ArrayLike = 100.0,
    volume: ArrayLike = 1_000_000.0,
    sectors: Sequence[str] | Mapping[str, str] = (),
    disruptions: Disruptions | None = None,
) -> MarketData:
    """Simulate a market whose drift, volatility and correlation follow a Markov chain.

    The regime is hidden, as in a real market: it is not a field of the panel. See `regime_path`.

    Args:
        assets: number or names of assets; appending an asset does not change the others.
        rows: number of rows; more rows continue the same prices.
        seed: seed; equal seeds give equal bytes.
        regimes: parameters of each regime.
        switching: transition probabilities, regimes by regimes.
        start: first day; by default such that the rows end in the last week of 2024.
        frequency: interval between rows: `1d`, or a part of a day such as `1h` and `5min`.
        calendar: open on `weekdays` from 9:30 to 16:00, or `always`.
        overnight: share of the daily variance between a close and the next open.
        price: initial price, one number or one per asset.
        volume: mean volume per row, one number or one per asset.
        sectors: sectors assigned to the assets in turn, or the sector by asset.
        disruptions: halts, late listings and delistings; none by default.
    """
    market = simulated_market(locals())
    path = regime_path(rows, seed, switching)
    count = np.shape(switching)[0]
    if len(regimes) != count:
        raise ValueError(f"switching has {count} regimes, but {len(regimes)} regimes were passed")
    return _simulate(market, regimes, path)


def regime_path(rows: int, seed: int = 0, switching: ArrayLike = SWITCHING) -> Path:
    """Regime of each row of `simulate_regimes` with the same arguments.

    The first is drawn from the stationary distribution of the chain.
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    probabilities = _checked(np.asarray(switching, np.float64))
    draws = random_stream(seed, "regimes").random(rows)
    bounds = np.cumsum(probabilities, axis=1)
    bounds[:, -1] = 1.0
    start = np.cumsum(_stationary_distribution(probabilities))
    regime = int(np.searchsorted(start, draws[0], side="right"))
    path = np.empty(rows, np.int64)
    path[0] = regime = min(regime, len(probabilities) - 1)
    for row in range(1, rows):
        regime = int(np.searchsorted(bounds[regime], draws[row], side="right"))
        path[row] = regime
    return path


def _simulate(market: SimulatedMarket, regimes: Sequence[Regime], path: Path) -> MarketData:
    """Bars of a market in which row t follows regime `path[t]`."""
    values = np.empty((market.rows, len(market.assets), len(FIELDS)))
    listed = np.empty(values.shape[:2], bool)
    quoted = np.empty_like(listed)
    moves = _moves(market, regimes, path)
    for column, (asset, moved) in enumerate(zip(market.assets, moves, strict=True)):
        price, volume = market.price[column], market.volume[column]
        values[:, column] = bars_of(moved, market.seed, asset, price=price, volume=volume)
        masks = market.disruptions.masks(market.seed, asset, market.rows)
        listed[:, column], quoted[:, column] = masks
    values[~quoted] = np.nan
    return MarketData(
        market.schedule.times(market.rows),
        market.assets,
        FIELDS,
        values,
        listed=listed,
        quoted=quoted,
        sectors=market.sectors,
        frequency=market.schedule.panel_frequency,
    )


def _moves(market: SimulatedMarket, regimes: Sequence[Regime], path: Path) -> Iterator[Moves]:
    """Yield the moves of each asset."""
    before, within = market.schedule.years(market.rows)
    volatility = _by_regime("volatility", [regime.volatility for regime in regimes], market)
    if (volatility < 0).any():
        raise ValueError(f"volatility must be at least 0, got {volatility.min()}")
    drift = _by_regime("drift", [regime.drift for regime in regimes], market)
    # The mean over regimes, not over rows: volume must not depend on later rows.
    usual = volatility.mean(axis=0)
    night, day = (_noise(market, part, regimes, path) for part in ("before", "within"))
    for column in range(len(market.assets)):
        sigma = volatility[path, column]
        trend = drift[path, column] - sigma**2 / 2
        overnight = sigma * np.sqrt(before) * night[column]
        intraday = sigma * np.sqrt(within) * day[column]
        scale = usual[column] * np.sqrt(before + within)
        yield Moves(
            before=trend * before + overnight,
            within=trend * within + intraday,
            variance=sigma**2 * within,
            surprise=np.abs(overnight + intraday) / np.where(scale > 0, scale, 1.0),
        )


def _noise(
    market: SimulatedMarket, part: str, regimes: Sequence[Regime], path: Path
) -> list[Floats]:
    noise = Noise(market.seed, part, market.rows, market.assets, market.sectors)
    by_regime = [
        noise.correlated(regime.correlation, regime.sector_correlation) for regime in regimes
    ]
    return [np.choose(path, assets) for assets in zip(*by_regime, strict=True)]


def _by_regime(name: str, values: Sequence[ArrayLike], market: SimulatedMarket) -> Floats:
    return np.stack([for_each_asset(name, value, market.assets) for value in values])


def _checked(switching: Floats) -> Floats:
    if switching.ndim != 2 or switching.shape[0] != switching.shape[1] or not switching.size:
        raise ValueError(f"switching must be regimes by regimes, got shape {switching.shape}")
    if not ((switching >= 0).all() and np.allclose(switching.sum(axis=1), 1.0, atol=1e-9)):
        raise ValueError("rows of switching must be probabilities that add up to 1")
    return switching


def _stationary_distribution(switching: Floats) -> Floats:
    size = len(switching)
    balance = np.vstack([switching.T - np.eye(size), np.ones(size)])
    shares: Floats = np.linalg.lstsq(balance, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.clip(shares, 0.0, 1.0)
