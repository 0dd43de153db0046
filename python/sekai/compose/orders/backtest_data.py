"""What a day offers to orders of one direction: deal prices and volumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.order import OrderDir
from sekai.data.intraday import DayTicks, named
from sekai.error import DataError

__all__ = ["BacktestData", "DealPriceType", "of_ticks"]

DealPriceType = Literal["close", "bid_or_ask", "bid_or_ask_fill"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class BacktestData:
    """A day's ticks, and the price at which an order of one direction is filled in each."""

    ticks: DayTicks
    deal_price: Floats
    """NaN or 0 where nothing can be traded."""
    volume: Floats

    def get_deal_price(self) -> Floats:
        """The deal price of each tick."""
        return self.deal_price

    def get_volume(self) -> Floats:
        """What the market traded in each tick."""
        return self.volume

    def get_time_index(self) -> NDArray[np.datetime64]:
        """The beginning of each tick."""
        return self.ticks.times


def of_ticks(ticks: DayTicks, price_type: str, direction: OrderDir) -> BacktestData:
    """Choose the deal price of a day by its type.

    `close` trades at the tick's close; `bid_or_ask` sells at the bid and buys at the ask;
    `bid_or_ask_fill` takes the other side where one is missing.
    """
    if price_type not in get_args(DealPriceType):
        raise ValueError(
            f"deal_price_type must be one of {list(get_args(DealPriceType))}, was {price_type!r}"
        )
    return BacktestData(ticks, _price(ticks, price_type, direction), _column(ticks, "volume"))


def _price(ticks: DayTicks, price_type: str, direction: OrderDir) -> Floats:
    if price_type == "close":
        return _column(ticks, "close")
    sides = ("ask", "bid") if direction is OrderDir.BUY else ("bid", "ask")
    own = _column(ticks, sides[0])
    if price_type == "bid_or_ask":
        return own
    return np.where(own > 0, own, _column(ticks, sides[1]))


def _column(ticks: DayTicks, name: str) -> Floats:
    found = named(ticks.columns, f"${name}")
    if found is None:
        raise DataError(
            f"{ticks.stock_id}: orders need a column '${name}', found "
            f"{', '.join(sorted(ticks.columns)) or 'none'}"
        )
    return ticks.columns[found]
