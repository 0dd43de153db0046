"""One row of market data, as a feed brings it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sekai.data.market_data import MarketData

__all__ = ["Bar"]


@dataclass(frozen=True, slots=True, eq=False)
class Bar:
    """What is known of all assets at one time; it is checked by whoever takes it in."""

    time: np.datetime64 | str
    """When all of it was known, in UTC."""

    values: ArrayLike
    """Assets by fields; NaN where there is none."""

    listed: ArrayLike | None = None
    """Which assets exist; if not given, those with a value in the last rows."""

    quoted: ArrayLike | None = None
    """Which have prices; those whose prices are all there if not given."""

    tradable: ArrayLike | None = None
    """In which orders can be filled; those quoted if not given."""

    market: Mapping[str, float] = field(default_factory=dict)
    """The values of the series of the whole market, all of them."""

    @classmethod
    def each(cls, data: MarketData, start: int = 0, stop: int | None = None) -> Iterator[Bar]:
        """The rows of a panel one after the other, to replay them."""
        for row in range(start, len(data) if stop is None else stop):
            yield cls(
                data.times[row], data.values[row], data.listed[row], data.quoted[row],
                data.tradable[row], {name: series[row] for name, series in data.market.items()},
            )  # fmt: skip

    def masks(self) -> dict[str, Any]:
        """What was said about the assets, by name."""
        return {"listed": self.listed, "quoted": self.quoted, "tradable": self.tradable}
