"""Normal numbers that go together: by a common factor and sectors, or by any matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.simulators.streams import stream

__all__ = ["Noise", "cholesky_by_rows"]

Floats = NDArray[np.float64]

NOTHING = 1e-12
"""Variance of its own that an asset is held to have none below."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard normal numbers of assets, one for each row, with a correlation that is asked for.

    What an asset is given depends on its name, and on the assets before it only if the correlation
    is a matrix: an asset that is added at the end changes nothing for the others.
    """

    seed: int
    part: str
    """What the numbers are for."""

    rows: int
    assets: Sequence[str]
    sectors: Mapping[str, str]

    def correlated(self, correlation: ArrayLike, in_sector: float | None) -> list[Floats]:
        """The numbers of each asset.

        Args:
            correlation: of all pairs, from 0 to 1; or assets by assets.
            in_sector: of pairs that share a sector, at least as high; as all pairs if None.
        """
        matrix = np.asarray(correlation, np.float64)
        if matrix.ndim == 0:
            return self._by_factors(float(matrix), in_sector)
        if in_sector is not None:
            raise ValueError("sector_correlation needs a correlation that is one number")
        return self._by_matrix(matrix)

    def _draw(self, *names: str) -> Floats:
        return stream(self.seed, self.part, *names).standard_normal(self.rows)

    def _by_factors(self, common: float, in_sector: float | None) -> list[Floats]:
        if not 0 <= common <= (common if in_sector is None else in_sector) <= 1:
            raise ValueError(
                "correlation must be from 0 to 1 and sector_correlation from there to 1, were "
                f"{common} and {in_sector}; give a matrix for negative correlations"
            )
        market = self._draw("market")
        held = {
            name: 0.0 if in_sector is None or name not in self.sectors else in_sector - common
            for name in self.assets
        }
        factors = {name: self._draw("sector", name) for name in set(self.sectors.values())}
        numbers = []
        for name in self.assets:
            mixed = np.sqrt(common) * market
            if held[name]:
                mixed += np.sqrt(held[name]) * factors[self.sectors[name]]
            own = np.sqrt(max(0.0, 1 - common - held[name]))
            numbers.append(mixed + own * self._draw("asset", name))
        return numbers

    def _by_matrix(self, matrix: Floats) -> list[Floats]:
        lower = cholesky_by_rows(_checked(matrix, len(self.assets)))
        own = [self._draw("asset", name) for name in self.assets]
        numbers = []
        for place in range(len(self.assets)):
            mixed = np.zeros(self.rows)
            # One after the other, so that assets which come later cannot change a bit.
            for earlier in range(place + 1):
                mixed += lower[place, earlier] * own[earlier]
            numbers.append(mixed)
        return numbers


def cholesky_by_rows(matrix: Floats) -> Floats:
    """The lower triangle whose square is `matrix`, row by row.

    LAPACK's goes by blocks that depend on the size, and so do its last bits; a row of this one
    depends on the rows above it alone.
    """
    lower = np.zeros_like(matrix)
    for row in range(len(matrix)):
        for column in range(row):
            left = matrix[row, column] - lower[row, :column] @ lower[column, :column]
            pivot = lower[column, column]
            lower[row, column] = left / pivot if pivot > 0 else 0.0
        rest = matrix[row, row] - lower[row, :row] @ lower[row, :row]
        # What rounding leaves of nothing would be divided by below.
        lower[row, row] = np.sqrt(rest) if rest > NOTHING else 0.0
    return lower


def _checked(matrix: Floats, size: int) -> Floats:
    if matrix.shape != (size, size):
        raise ValueError(f"correlation must be of shape {(size, size)}, was {matrix.shape}")
    # Estimates are symmetric up to rounding.
    if not np.allclose(matrix, matrix.T, 0, 1e-9) or not np.allclose(np.diag(matrix), 1, 0, 1e-9):
        raise ValueError("correlation must be symmetric with ones on its diagonal")
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -1e-10 * size:
        raise ValueError(f"correlation must have no eigenvalue below 0, had {least:.3g}")
    return matrix
