"""Markets that change between calm and turbulent times, unseen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.market_data import MarketData
from sekai.data.simulators.bars import FIELDS, Moves, bars_of
from sekai.data.simulators.correlation import Noise
from sekai.data.simulators.streams import stream
from sekai.data.simulators.world import World, WorldOptions, for_each_asset

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["CALM_AND_TURBULENT", "SWITCHING", "Regime", "regime_path", "simulate_regimes"]

Floats = NDArray[np.float64]
Path = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regime:
    """How prices move for as long as it lasts. Numbers are for a year."""

    drift: ArrayLike = 0.06
    """The rate at which a price grows on average: E[price] = price * exp(drift * years)."""

    volatility: ArrayLike = 0.2
    """The standard deviation of log returns, one number or one for each asset."""

    correlation: ArrayLike = 0.3
    """Of all pairs of assets, from 0 to 1; or assets by assets."""

    sector_correlation: float | None = None
    """Of pairs that share a sector, at least as high as the others'; the same if None."""


CALM_AND_TURBULENT = (
    Regime(drift=0.12, volatility=0.14, correlation=0.2),
    Regime(drift=-0.20, volatility=0.40, correlation=0.6),
)
"""Long good times and short bad ones, in which assets fall together."""

SWITCHING = ((0.99, 0.01), (0.04, 0.96))
"""The chance to be in each regime in the next row, by the regime of this one."""


def simulate_regimes(
    assets: int | Sequence[str] = 20,
    rows: int = 2520,
    seed: int = 0,
    *,
    regimes: Sequence[Regime] = CALM_AND_TURBULENT,
    switching: ArrayLike = SWITCHING,
    **world: Unpack[WorldOptions],
) -> MarketData:
    """A market whose drift, volatility and correlation switch by a Markov chain.

    The regime is not a field: nobody sees it in a market. `regime_path` tells it to who asks.

    Args:
        assets: how many, or their names; an asset more at the end changes nothing for the others.
        rows: how many rows; more of them continue the same market.
        seed: the same seed gives the same bytes.
        regimes: how prices move in each.
        switching: regimes by regimes, the chance of the next row's regime.
        **world: prices, volumes, sectors, clock and disruptions, see `WorldOptions`.
    """
    path = regime_path(rows, seed, switching)
    chances = np.shape(switching)[0]
    if len(regimes) != chances:
        raise ValueError(f"switching is between {chances} regimes, there are {len(regimes)}")
    return simulate(World.of(assets, rows, seed, world), regimes, path)


def regime_path(rows: int, seed: int = 0, switching: ArrayLike = SWITCHING) -> Path:
    """The regime of each row of `simulate_regimes` with the same arguments.

    The first is drawn from the shares of time that the chain spends in each.
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, was {rows}")
    chances = _checked(np.asarray(switching, np.float64))
    draws = stream(seed, "regimes").random(rows)
    bounds = np.cumsum(chances, axis=1)
    bounds[:, -1] = 1.0
    regime = int(np.searchsorted(np.cumsum(_shares_of_time(chances)), draws[0], side="right"))
    path = np.empty(rows, np.int64)
    path[0] = regime = min(regime, len(chances) - 1)
    for row in range(1, rows):
        regime = int(np.searchsorted(bounds[regime], draws[row], side="right"))
        path[row] = regime
    return path


def simulate(world: World, regimes: Sequence[Regime], path: Path) -> MarketData:
    """The bars of a world in which row t moves as regime `path[t]` says."""
    values = np.empty((world.rows, len(world.assets), len(FIELDS)))
    listed = np.empty(values.shape[:2], bool)
    quoted = np.empty_like(listed)
    moves = _moves(world, regimes, path)
    for place, (asset, moved) in enumerate(zip(world.assets, moves, strict=True)):
        values[:, place] = bars_of(
            moved, world.seed, asset, price=world.price[place], volume=world.volume[place]
        )
        listed[:, place], quoted[:, place] = world.disruptions.masks(world.seed, asset, world.rows)
    values[~quoted] = np.nan
    return MarketData(
        world.clock.times(world.rows), world.assets, FIELDS, values, listed=listed,
        quoted=quoted, sectors=world.sectors, frequency=world.clock.panel_frequency,
    )  # fmt: skip


def _moves(world: World, regimes: Sequence[Regime], path: Path) -> Iterator[Moves]:
    """How each asset moves, one after the other."""
    before, within = world.clock.years(world.rows)
    volatility = _by_regime("volatility", [regime.volatility for regime in regimes], world)
    if (volatility < 0).any():
        raise ValueError(f"volatility must be 0 or above, was {volatility.min()}")
    drift = _by_regime("drift", [regime.drift for regime in regimes], world)
    # The average of regimes and not of rows: volume must not know of rows to come.
    usual = volatility.mean(axis=0)
    night, day = (_noise(world, part, regimes, path) for part in ("before", "within"))
    for place in range(len(world.assets)):
        sigma = volatility[path, place]
        trend = drift[path, place] - sigma**2 / 2
        overnight, intraday = (
            sigma * np.sqrt(before) * night[place], sigma * np.sqrt(within) * day[place]
        )  # fmt: skip
        scale = usual[place] * np.sqrt(before + within)
        yield Moves(
            before=trend * before + overnight,
            within=trend * within + intraday,
            variance=sigma**2 * within,
            surprise=np.abs(overnight + intraday) / np.where(scale > 0, scale, 1.0),
        )


def _noise(world: World, part: str, regimes: Sequence[Regime], path: Path) -> list[Floats]:
    noise = Noise(world.seed, part, world.rows, world.assets, world.sectors)
    by_regime = [
        noise.correlated(regime.correlation, regime.sector_correlation) for regime in regimes
    ]
    return [np.choose(path, assets) for assets in zip(*by_regime, strict=True)]


def _by_regime(name: str, given: Sequence[ArrayLike], world: World) -> Floats:
    return np.stack([for_each_asset(name, numbers, world.assets) for numbers in given])


def _checked(chances: Floats) -> Floats:
    if chances.ndim != 2 or chances.shape[0] != chances.shape[1] or not chances.size:
        raise ValueError(f"switching must be regimes by regimes, was of shape {chances.shape}")
    if not ((chances >= 0).all() and np.allclose(chances.sum(axis=1), 1.0, atol=1e-9)):
        raise ValueError("switching must have rows of chances that add up to 1")
    return chances


def _shares_of_time(chances: Floats) -> Floats:
    """The shares that stay as they are from row to row: the chain's stationary law."""
    size = len(chances)
    balance = np.vstack([chances.T - np.eye(size), np.ones(size)])
    shares: Floats = np.linalg.lstsq(balance, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.clip(shares, 0.0, 1.0)
