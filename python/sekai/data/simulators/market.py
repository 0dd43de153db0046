"""Simulated market without a price process: bars, volumes, correlated noise, disruptions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.config.checked import CheckedConfig
from sekai.data.simulators.schedule import Schedule

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

FIELDS = ("open", "high", "low", "close", "volume")
SCHEDULE_OPTIONS = ("start", "frequency", "calendar", "overnight")
MEAN_ABSOLUTE_NORMAL = float(np.sqrt(2 / np.pi))
VOLUME_NOISE = 0.4
"""Standard deviation of the part of log volume that is independent of the price."""
MIN_VARIANCE = 1e-12
"""Residual variance of an asset below which it counts as 0."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedMarket:
    """Validated options of a simulated market."""

    assets: tuple[str, ...]
    rows: int
    seed: int
    schedule: Schedule
    price: Floats
    volume: Floats
    sectors: Mapping[str, str]
    disruptions: Disruptions


def simulated_market(arguments: Mapping[str, Any]) -> SimulatedMarket:
    """Validate the arguments of a simulator that do not belong to its price process."""
    names = _names(arguments["assets"])
    rows = arguments["rows"]
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    return SimulatedMarket(
        assets=names,
        rows=rows,
        seed=arguments["seed"],
        schedule=Schedule(**{name: arguments[name] for name in SCHEDULE_OPTIONS}),
        price=_positive("price", arguments["price"], names),
        volume=_positive("volume", arguments["volume"], names),
        sectors=_sectors(arguments["sectors"], names),
        disruptions=arguments["disruptions"] or Disruptions(),
    )


def for_each_asset(name: str, value: ArrayLike, assets: Sequence[str]) -> Floats:
    """Broadcast one number, or one per asset, to all assets."""
    numbers = np.asarray(value, np.float64)
    if numbers.shape not in ((), (len(assets),)) or not np.isfinite(numbers).all():
        raise ValueError(
            f"{name} must be one finite number, or one for each of {len(assets)} assets, "
            f"got {value!r}"
        )
    return np.broadcast_to(numbers, len(assets))


def _names(assets: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(assets, int):
        if assets < 1:
            raise ValueError(f"assets must be at least 1, got {assets}")
        return tuple(f"A{index:03d}" for index in range(assets))
    if isinstance(assets, str) or len(set(assets)) != len(assets) or not assets:
        raise ValueError(f"assets must be a number or unique names, got {assets!r}")
    return tuple(assets)


def _positive(name: str, value: ArrayLike, assets: Sequence[str]) -> Floats:
    numbers = for_each_asset(name, value, assets)
    if not (numbers > 0).all():
        raise ValueError(f"{name} must be above 0, got {value!r}")
    return numbers


def _sectors(sectors: Sequence[str] | Mapping[str, str], assets: Sequence[str]) -> dict[str, str]:
    if isinstance(sectors, str):
        raise ValueError(f"sectors must be a list of names or a mapping, got {sectors!r}")
    if isinstance(sectors, Mapping):
        return dict(sectors)
    if not sectors:
        return {}
    return {name: sectors[index % len(sectors)] for index, name in enumerate(assets)}


@dataclass(frozen=True, slots=True)
class Moves:
    """Log price moves of one asset, row by row."""

    before: Floats
    """Previous close to open."""

    within: Floats
    """Open to close."""

    variance: Floats
    """Variance of the move within each row."""

    surprise: Floats
    """Absolute move of each row in usual standard deviations, which drives the volume."""


def bars_of(moves: Moves, seed: int, asset: str, *, price: float, volume: float) -> Floats:
    """Bars of one asset, one row of `FIELDS` per time.

    High and low each have the distribution of the extreme of a Brownian bridge between open and
    close, and are drawn independently. The volume has mean `volume` and rises with the size of the
    move.
    """
    ends = np.cumsum(moves.before + moves.within)
    begins = np.concatenate([[0.0], ends[:-1]]) + moves.before
    opens, closes = price * np.exp(begins), price * np.exp(ends)
    above = _excursion(moves, random_stream(seed, asset, "high"))
    below = _excursion(moves, random_stream(seed, asset, "low"))
    return np.stack(
        [
            opens,
            np.maximum(opens, closes) * np.exp(above),
            np.minimum(opens, closes) * np.exp(-below),
            closes,
            _volumes(moves.surprise, random_stream(seed, asset, "volume"), volume),
        ],
        axis=1,
    )


def _excursion(moves: Moves, rng: np.random.Generator) -> Floats:
    """Distance of the extreme log price beyond open and close, on one side.

    P(maximum > m) = exp(-2 (m - open) (m - close) / variance) for a Brownian bridge, solved for m.
    """
    exponential = rng.standard_exponential(len(moves.within))
    distance = np.abs(moves.within)
    reach = np.sqrt(distance * distance + 2 * moves.variance * exponential)
    excursion: Floats = (reach - distance) / 2
    return excursion


def _volumes(surprise: Floats, rng: np.random.Generator, mean: float) -> Floats:
    noise = np.exp(VOLUME_NOISE * rng.standard_normal(len(surprise)) - VOLUME_NOISE**2 / 2)
    volumes: Floats = mean * noise * (1 + surprise) / (1 + MEAN_ABSOLUTE_NORMAL)
    return volumes


def random_stream(seed: int, *names: str) -> np.random.Generator:
    """Independent random generator identified by a seed and names.

    Args:
        seed: seed of the simulation, at least 0.
        names: purpose of the numbers, such as an asset and one of its parts.
    """
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")
    # Each name is hashed separately, so that ("ab", "c") and ("a", "bc") differ.
    key = b"".join(hashlib.sha256(name.encode()).digest()[:8] for name in names)
    words = np.frombuffer(key, "<u4")
    sequence = np.random.SeedSequence(seed, spawn_key=[int(word) for word in words])
    return np.random.Generator(np.random.PCG64DXSM(sequence))


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruptions(CheckedConfig):
    """Rates of halts, late listings and delistings.

    Prices move on while an asset is halted, so that the first quote after the halt shows the gap.
    Waiting times are memoryless: events up to a row do not depend on the number of rows.
    """

    halt_rate: float = 0.0
    """Probability that a row is the last quoted one before a halt."""

    halt_rows: float = 3.0
    """Mean length of a halt in rows, at least 1."""

    late_share: float = 0.0
    """Probability that an asset is listed after the first row."""

    listing_rows: float = 250.0
    """Mean number of rows before a late listing, at least 1."""

    delisting_rate: float = 0.0
    """Probability that a row is the last listed one of an asset."""

    def __post_init__(self) -> None:
        for name in ("halt_rate", "late_share", "delisting_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1, got {getattr(self, name)}")
        for name in ("halt_rows", "listing_rows"):
            if not 1 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be at least 1 row, got {getattr(self, name)}")

    def masks(self, seed: int, asset: str, rows: int) -> tuple[Bools, Bools]:
        """Masks of listed and of quoted rows of an asset."""
        life = random_stream(seed, asset, "life")
        is_late = life.random() < self.late_share
        wait = life.geometric(1 / self.listing_rows)
        begins = int(wait) if is_late else 0
        ends = begins + int(life.geometric(self.delisting_rate)) if self.delisting_rate else rows
        row = np.arange(rows)
        listed = (row >= begins) & (row < ends)
        return listed, listed & ~self._halted(random_stream(seed, asset, "halts"), rows)

    def _halted(self, rng: np.random.Generator, rows: int) -> Bools:
        halted = np.zeros(rows, bool)
        row = 0
        while self.halt_rate and row < rows:
            row += int(rng.geometric(self.halt_rate))
            length = int(rng.geometric(1 / self.halt_rows))
            halted[row : row + length] = True
            row += length
        return halted


@dataclass(frozen=True, slots=True)
class Noise:
    """Correlated standard normal numbers, one per row and asset.

    The numbers of an asset depend on its name, and on the assets before it only if the
    correlation is a matrix: appending an asset does not change the others.
    """

    seed: int
    part: str
    """Purpose of the numbers."""

    rows: int
    assets: Sequence[str]
    sectors: Mapping[str, str]

    def correlated(self, correlation: ArrayLike, in_sector: float | None) -> list[Floats]:
        """Draw the numbers of each asset.

        Args:
            correlation: of all pairs, from 0 to 1; or a matrix of assets by assets.
            in_sector: of pairs in the same sector, at least `correlation`; equal to it if None.
        """
        matrix = np.asarray(correlation, np.float64)
        if matrix.ndim == 0:
            return self._by_factors(float(matrix), in_sector)
        if in_sector is not None:
            raise ValueError("sector_correlation requires a scalar correlation, got a matrix")
        return self._by_matrix(matrix)

    def _draw(self, *names: str) -> Floats:
        return random_stream(self.seed, self.part, *names).standard_normal(self.rows)

    def _by_factors(self, common: float, in_sector: float | None) -> list[Floats]:
        if not 0 <= common <= (common if in_sector is None else in_sector) <= 1:
            raise ValueError(
                "correlation must be from 0 to 1 and sector_correlation between it and 1, got "
                f"{common} and {in_sector}; pass a matrix for negative correlations"
            )
        market = self._draw("market")
        loading = {
            name: 0.0 if in_sector is None or name not in self.sectors else in_sector - common
            for name in self.assets
        }
        factors = {name: self._draw("sector", name) for name in set(self.sectors.values())}
        numbers = []
        for name in self.assets:
            mixed = np.sqrt(common) * market
            if loading[name]:
                mixed += np.sqrt(loading[name]) * factors[self.sectors[name]]
            residual = np.sqrt(max(0.0, 1 - common - loading[name]))
            numbers.append(mixed + residual * self._draw("asset", name))
        return numbers

    def _by_matrix(self, matrix: Floats) -> list[Floats]:
        lower = _cholesky_by_rows(_checked(matrix, len(self.assets)))
        own = [self._draw("asset", name) for name in self.assets]
        numbers = []
        for row in range(len(self.assets)):
            mixed = np.zeros(self.rows)
            # Summed in order, so that later assets do not change a bit.
            for column in range(row + 1):
                mixed += lower[row, column] * own[column]
            numbers.append(mixed)
        return numbers


def _cholesky_by_rows(matrix: Floats) -> Floats:
    """Lower Cholesky factor, computed row by row.

    LAPACK works in blocks that depend on the size, and so do its last bits; a row of this factor
    depends only on the rows above it.
    """
    lower = np.zeros_like(matrix)
    for row in range(len(matrix)):
        for column in range(row):
            rest = matrix[row, column] - lower[row, :column] @ lower[column, :column]
            pivot = lower[column, column]
            lower[row, column] = rest / pivot if pivot > 0 else 0.0
        variance = matrix[row, row] - lower[row, :row] @ lower[row, :row]
        # Rounding residues must not become divisors.
        lower[row, row] = np.sqrt(variance) if variance > MIN_VARIANCE else 0.0
    return lower


def _checked(matrix: Floats, size: int) -> Floats:
    if matrix.shape != (size, size):
        raise ValueError(f"correlation must have shape {(size, size)}, got {matrix.shape}")
    # Estimates are symmetric up to rounding.
    if not np.allclose(matrix, matrix.T, 0, 1e-9) or not np.allclose(np.diag(matrix), 1, 0, 1e-9):
        raise ValueError("correlation must be symmetric with ones on its diagonal")
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -1e-10 * size:
        raise ValueError(f"correlation must be positive semidefinite, got eigenvalue {least:.3g}")
    return matrix
