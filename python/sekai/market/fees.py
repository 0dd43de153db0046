"""Fees of a venue, and settlement of trades between maker, taker and venue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import Free, OfNotional, PerLot, settle_trades
from sekai.error import OrderError
from sekai.market.order_book import Fills, integer_columns
from sekai.storage.display import brief_repr

__all__ = ["Free", "OfNotional", "PerLot", "Settled", "settle"]


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Settlement of trades: changes of cash (in ticks times lots) and lots, trade by trade.

    In every row the lots sum to zero, and so do both changes of cash and the fees.
    """

    maker_cash: NDArray[np.int64]
    taker_cash: NDArray[np.int64]
    maker_lots: NDArray[np.int64]
    taker_lots: NDArray[np.int64]
    fees: NDArray[np.int64]
    """Fees earned by the venue; negative if rebates exceed charges."""

    __repr__ = brief_repr


def settle(fills: Fills, fees: Free | PerLot | OfNotional) -> Settled:
    """Settle trades between maker, taker and a venue that charges `fees`."""
    if not isinstance(fees, Free | PerLot | OfNotional):
        raise OrderError(f"fees must be Free, PerLot or OfNotional, got {type(fees).__name__}")
    trades = integer_columns(price=fills.price, size=fills.size, taker_side=fills.taker_side)
    return Settled(*settle_trades(**trades, fees=fees))
