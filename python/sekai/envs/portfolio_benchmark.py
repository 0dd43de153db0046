"""What portfolios are compared with, row after row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import benchmark_returns
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

    def returns(self, rows: MarketData, before: Floats | None = None) -> tuple[Floats, Floats]:
        """What it returned in each row since the one before, and the levels known after them.

        Args:
            rows: rows that follow each other.
            before: the levels known after all rows before them; None if there are none.
        """
        if self.name == "equal_weight":
            return benchmark_returns(rows.field("close"), rows.quoted, rows.listed, before)
        if self.name in rows.market:
            return benchmark_returns(rows.market[self.name][:, None], before=before)
        place = rows.asset(self.name)
        return benchmark_returns(rows.field("close")[:, place : place + 1], before=before)

    def levels(self, rows: MarketData) -> Floats:
        """What 1 that was in it from the first row on has become in each row."""
        return np.asarray(np.cumprod(1.0 + self.returns(rows)[0]), np.float64)
