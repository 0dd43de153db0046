"""What a market charges for trades, and what they move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import Free, OfNotional, PerLot, settle_trades
from sekai.error import OrderError
from sekai.market.columns import columns
from sekai.market.records import Fills

__all__ = ["Free", "OfNotional", "PerLot", "Settled", "settle"]


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Changes of cash (in ticks times lots) and lots, trade by trade.

    In every row the lots add up to zero, and so do both changes of cash and the fees.
    """

    maker_cash: NDArray[np.int64]
    taker_cash: NDArray[np.int64]
    maker_lots: NDArray[np.int64]
    taker_lots: NDArray[np.int64]
    fees: NDArray[np.int64]
    """What the market earns; negative if it pays more rebate than it charges."""


def settle(fills: Fills, fees: Free | PerLot | OfNotional) -> Settled:
    """What trades move between maker, taker and a market that charges `fees`."""
    if not isinstance(fees, Free | PerLot | OfNotional):
        raise OrderError(
            f"fees of Free, PerLot or OfNotional were wanted, found {type(fees).__name__}"
        )
    trades = columns(price=fills.price, size=fills.size, taker_side=fills.taker_side)
    return Settled(*settle_trades(**trades, fees=fees))
