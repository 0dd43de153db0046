"""Corporate actions: dividends and splits as fields of a panel, and adjustment for them.

A `dividend` is an amount in currency per unit, a `split` the units after it for each unit before;
NaN or 0 is none. Both apply in the row of the ex-date, before trading: its prices, volume and
dividend are in units after the split.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import adjustment_factors

if TYPE_CHECKING:
    from sekai.data.market_data import MarketData

Floats = NDArray[np.float64]

ACTION_FIELDS = ("dividend", "split")
"""Fields that are events: missing values are none."""
ADJUSTED_PRICES = ("open", "high", "low", "close", "vwap", "bid", "ask")
ADJUSTED_VOLUMES = ("volume", "bid_volume", "ask_volume")


def action_columns(data: MarketData) -> dict[str, Floats]:
    """Dividends and splits of a panel by name: those of `ACTION_FIELDS` that it has."""
    return {name: data.field(name) for name in ACTION_FIELDS if name in data.fields}


def check_actions(data: MarketData) -> None:
    """Raise `ValueError` for a dividend or split that is negative or infinite."""
    for name, column in action_columns(data).items():
        wrong = (column < 0.0) | np.isinf(column)
        if wrong.any():
            row, asset = np.argwhere(wrong)[0]
            raise ValueError(
                f"{name} of {data.assets[asset]} must be finite and at least 0, or NaN for none, "
                f"got {column[row, asset]} at {data.times[row]}"
            )


class PriceAdjustment:
    """Point-in-time adjustment of prices and volumes for dividends and splits.

    Rows can be passed all at once or one by one, with the same bits. A factor follows from its row
    and earlier ones: prices are comparable with those of earlier rows, a dividend counts as
    reinvested, and later dividends and splits change nothing.
    """

    def __init__(self) -> None:
        self._state: Floats | None = None
        self._before: Floats | None = None

    def push(self, rows: MarketData) -> Floats:
        """Adjusted values of the next rows: times by assets by fields."""
        self._before = self._state
        actions = action_columns(rows)
        factors, units, self._state = adjustment_factors(
            rows.field("close"), rows.quoted, before=self._before, **actions
        )
        values: Floats = rows.values.copy()
        for index, name in enumerate(rows.fields):
            if name in ADJUSTED_PRICES:
                values[:, :, index] *= factors
            elif name in ADJUSTED_VOLUMES:
                values[:, :, index] /= units
        return values

    def take_back(self) -> None:
        """Undo the last `push`."""
        self._state = self._before

    def state_dict(self) -> dict[str, Any]:
        """State from which later rows are adjusted bit for bit."""
        return {"factors": self._state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._state = self._before = state["factors"]


def adjusted(data: MarketData) -> MarketData:
    """Panel with prices and volumes adjusted point in time; itself if it has no actions."""
    if not action_columns(data) or "close" not in data.fields:
        return data
    return data.replace(values=PriceAdjustment().push(data))
