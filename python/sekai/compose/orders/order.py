"""What is to be traded, which way, and when."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sekai.compose.orders.moments import Moment, moment
from sekai.error import SekaiError

__all__ = ["DirectionError", "Order", "OrderDir"]


class DirectionError(SekaiError, NotImplementedError, ValueError):
    """A direction that is neither to sell nor to buy."""


class OrderDir(enum.IntEnum):
    """Which way an order goes."""

    SELL = 0
    BUY = 1

    @property
    def sign(self) -> int:
        """What a fill does to what is held: 1 if it adds to it, -1 if it takes away."""
        return 1 if self is OrderDir.BUY else -1


@dataclass(frozen=True, slots=True, init=False)
class Order:
    """An amount of one asset to be traded within one window of time.

    Simulators take orders of one day. Times are as the market's clocks show them and may be given
    as strings, datetimes, or stamps of NumPy or pandas; the direction also as `"buy"` or `"sell"`.
    """

    stock_id: str
    amount: float
    direction: OrderDir
    start_time: np.datetime64
    end_time: np.datetime64
    deal_amount: float = 0.0
    """What has been filled of it."""
    factor: float | None = None
    """Adjusted shares times this are real ones."""

    def __init__(
        self,
        stock_id: str,
        amount: float,
        direction: OrderDir | int | str,
        start_time: Moment,
        end_time: Moment,
        deal_amount: float = 0.0,
        factor: float | None = None,
    ) -> None:
        """Check and convert."""
        start, end = moment(start_time), moment(end_time)
        if start > end:
            raise ValueError(f"an order must not end before it starts, found {start} to {end}")
        values = {
            "stock_id": stock_id, "amount": _amount("amount", amount),
            "direction": _direction(direction), "start_time": start, "end_time": end,
            "deal_amount": _amount("deal_amount", deal_amount), "factor": factor,
        }  # fmt: skip
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def date(self) -> np.datetime64:
        """The day on which the order starts."""
        day: np.datetime64 = self.start_time.astype("datetime64[D]")
        return day

    @property
    def key_by_day(self) -> tuple[str, np.datetime64, OrderDir]:
        """Asset, day and direction: what orders that may share a day's data have in common."""
        return self.stock_id, self.date, self.direction

    @property
    def key(self) -> tuple[str, np.datetime64, np.datetime64, OrderDir]:
        """Asset, window and direction."""
        return self.stock_id, self.start_time, self.end_time, self.direction

    @property
    def sign(self) -> int:
        """1 to buy, -1 to sell."""
        return self.direction.sign


def _direction(given: Any) -> OrderDir:
    try:
        return OrderDir[given.upper()] if isinstance(given, str) else OrderDir(given)
    except (KeyError, ValueError) as error:
        wanted = "OrderDir.SELL (0, 'sell') or OrderDir.BUY (1, 'buy')"
        raise DirectionError(f"direction must be {wanted}, was {given!r}") from error


def _amount(name: str, given: Any) -> float:
    amount = float(given)
    if not (math.isfinite(amount) and amount >= 0):
        raise ValueError(f"{name} must be finite and at least 0, was {given!r}")
    return amount
