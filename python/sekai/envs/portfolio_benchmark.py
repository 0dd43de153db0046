"""What portfolios are compared with, row after row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.data import MarketData

__all__ = ["Benchmark"]

Floats = NDArray[np.float64]


class Benchmark:
    """The mean of all quoted assets, an asset, or a series of the market that is a level.

    Rows can be given all at once or one by one: a return is made of the row, of what was known
    before it, and of nothing else.
    """

    def __init__(self, name: str, data: MarketData) -> None:
        """Compare with what `name` says, in data like this."""
        self.name = name
        if name != "equal_weight" and name not in data.market and name not in data.assets:
            raise ValueError(
                f"benchmark must be 'equal_weight', an asset or a series of the market, was "
                f"{name!r}"
            )

    def returns(self, rows: MarketData, before: Floats | None = None) -> Floats:
        """What it returned in each row since the one before.

        Args:
            rows: rows that follow each other.
            before: what `known` gave for all rows before them; None if there are none.
        """
        known = _carried(self._levels(rows), before)
        with np.errstate(invalid="ignore", divide="ignore"):
            changes = known[1:] / known[:-1] - 1.0
        there = np.isfinite(changes)
        if self.name == "equal_weight":
            there &= rows.listed
        total = np.ascontiguousarray(np.where(there, changes, 0.0)).sum(axis=1)
        counts = there.sum(axis=1)
        means: Floats = np.divide(total, counts, out=np.zeros(len(total)), where=counts > 0)
        return means

    def levels(self, rows: MarketData) -> Floats:
        """What 1 that was in it from the first row on has become in each row."""
        return np.asarray(np.cumprod(1.0 + self.returns(rows)), np.float64)

    def known(self, rows: MarketData, before: Floats | None = None) -> Floats:
        """The last known levels after these rows, and those `before` them."""
        latest: Floats = _carried(self._levels(rows), before)[-1]
        return latest

    def _levels(self, rows: MarketData) -> Floats:
        if self.name == "equal_weight":
            return np.where(rows.quoted, rows.field("close"), np.nan)
        if self.name in rows.market:
            return rows.market[self.name][:, None]
        return rows.field("close")[:, [rows.asset(self.name)]]


def _carried(levels: Floats, before: Floats | None) -> Floats:
    """The levels, where there is none the last one; the first row is that before them."""
    if before is not None and len(levels) == 1:
        # A stream asks row by row, and a decision waits for the answer.
        return np.stack([before, np.where(np.isfinite(levels[0]), levels[0], before)])
    first = np.full((1, levels.shape[1]), np.nan) if before is None else before[None]
    levels = np.concatenate([first, levels])
    rows = np.where(np.isfinite(levels), np.arange(len(levels))[:, None], 0)
    latest: Floats = np.take_along_axis(levels, np.maximum.accumulate(rows, axis=0), axis=0)
    return latest
