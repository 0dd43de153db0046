"""Order of one asset: amount, direction and time window."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sekai.data.calendar import Moment, local_time
from sekai.error import SekaiError

__all__ = ["DirectionError", "Order", "OrderDir", "is_number"]


class DirectionError(SekaiError, NotImplementedError, ValueError):
    """Direction that is neither sell nor buy."""


class OrderDir(enum.IntEnum):
    """Direction of an order."""

    SELL = 0
    BUY = 1

    @property
    def sign(self) -> int:
        """Sign of a fill: 1 to buy, -1 to sell."""
        return 1 if self is OrderDir.BUY else -1


@dataclass(frozen=True, slots=True, init=False)
class Order:
    """Order for an amount of one asset within one time window.

    The window may span several days, see `SingleAssetOrderExecutionSimple`. Times are local times
    of the market without a time zone, as strings, datetimes, or timestamps of NumPy or pandas; the
    direction also as `"buy"` or `"sell"`.
    """

    stock_id: str
    amount: float
    direction: OrderDir
    start_time: np.datetime64
    end_time: np.datetime64
    deal_amount: float = 0.0
    """Amount filled."""
    factor: float | None = None
    """Adjustment factor: adjusted shares times this are real shares."""

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
        start, end = _nanoseconds(start_time), _nanoseconds(end_time)
        if start > end:
            raise ValueError(f"an order must not end before it starts, got {start} to {end}")
        values = {
            "stock_id": stock_id,
            "amount": _amount("amount", amount),
            "direction": _direction(direction),
            "start_time": start,
            "end_time": end,
            "deal_amount": _amount("deal_amount", deal_amount),
            "factor": factor,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def date(self) -> np.datetime64:
        """Day on which the order starts."""
        day: np.datetime64 = self.start_time.astype("datetime64[D]")
        return day

    @property
    def key_by_day(self) -> tuple[str, np.datetime64, OrderDir]:
        """Key of orders that may share a day's data: asset, day and direction."""
        return self.stock_id, self.date, self.direction

    @property
    def key(self) -> tuple[str, np.datetime64, np.datetime64, OrderDir]:
        """Key of the order: asset, window and direction."""
        return self.stock_id, self.start_time, self.end_time, self.direction

    @property
    def sign(self) -> int:
        """1 to buy, -1 to sell."""
        return self.direction.sign


def _nanoseconds(moment: Moment) -> np.datetime64:
    time: np.datetime64 = local_time(moment).astype("datetime64[ns]")
    return time


def _direction(value: Any) -> OrderDir:
    try:
        return OrderDir[value.upper()] if isinstance(value, str) else OrderDir(value)
    except (KeyError, ValueError) as error:
        expected = "OrderDir.SELL (0, 'sell') or OrderDir.BUY (1, 'buy')"
        raise DirectionError(f"direction must be {expected}, got {value!r}") from error


def _amount(name: str, value: Any) -> float:
    amount = float(value)
    if not (math.isfinite(amount) and amount >= 0):
        raise ValueError(f"{name} must be finite and at least 0, got {value!r}")
    return amount


def is_number(value: Any) -> bool:
    """Return True for a finite real number."""
    is_real = isinstance(value, (int, float, np.integer, np.floating))
    return is_real and not isinstance(value, bool) and math.isfinite(value)
