"""What keeps simulated assets from being traded: late listings, halts, delistings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sekai.data.simulators.streams import stream

__all__ = ["Disruptions"]

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruptions:
    """How often assets are halted, come later, or go.

    Prices move on unseen while an asset is halted, so that the gap is there when it is quoted
    again. Waiting times have no memory: what happens up to a row does not depend on how many rows
    are simulated after it.
    """

    halt_rate: float = 0.0
    """The chance that a row is the last one quoted before a halt."""

    halt_rows: float = 3.0
    """How many rows a halt takes on average, at least 1."""

    late_share: float = 0.0
    """The chance that an asset is not listed from the first row on."""

    listing_rows: float = 250.0
    """How many rows such an asset is awaited on average, at least 1."""

    delisting_rate: float = 0.0
    """The chance that a row is the last one in which an asset is listed."""

    def __post_init__(self) -> None:
        for name in ("halt_rate", "late_share", "delisting_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1, was {getattr(self, name)}")
        for name in ("halt_rows", "listing_rows"):
            if not 1 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be at least 1 row, was {getattr(self, name)}")

    def masks(self, seed: int, asset: str, rows: int) -> tuple[Bools, Bools]:
        """The rows in which an asset is listed, and those in which it is quoted."""
        life = stream(seed, asset, "life")
        is_late = life.random() < self.late_share
        wait = life.geometric(1 / self.listing_rows)
        begins = int(wait) if is_late else 0
        ends = begins + int(life.geometric(self.delisting_rate)) if self.delisting_rate else rows
        row = np.arange(rows)
        listed = (row >= begins) & (row < ends)
        return listed, listed & ~self._halted(stream(seed, asset, "halts"), rows)

    def _halted(self, rng: np.random.Generator, rows: int) -> Bools:
        halted = np.zeros(rows, bool)
        row = 0
        while self.halt_rate and row < rows:
            row += int(rng.geometric(self.halt_rate))
            length = int(rng.geometric(1 / self.halt_rows))
            halted[row : row + length] = True
            row += length
        return halted
