"""Order of one asset: amount, direction and time window."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from sekai.error import SekaiError

__all__ = ["DirectionError", "Order", "OrderDir"]


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
    of the market, as strings, datetimes, or timestamps of NumPy or pandas; the direction also as
    `"buy"` or `"sell"`.
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
        start_time: DatetimeLike,
        end_time: DatetimeLike,
        deal_amount: float = 0.0,
        factor: float | None = None,
    ) -> None:
        start, end = to_datetime64(start_time), to_datetime64(end_time)
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


DatetimeLike = str | date | np.datetime64
"""Times as users write them; a Timestamp of pandas is a date."""


def to_datetime64(value: Any) -> np.datetime64:
    """Convert a string, a date, or a timestamp of NumPy or pandas to nanoseconds.

    Orders and ticks are in local times of the market, so a time has no time zone.
    """
    if getattr(value, "tzinfo", None) is not None:
        raise ValueError(
            f"time {value!r} has a time zone; convert it to local time of the market and drop it"
        )
    if not isinstance(value, (str, date, np.datetime64)):
        raise TypeError(f"time must be a string, datetime or datetime64, got {value!r}")
    try:
        # First: a Timestamp of pandas has nanoseconds, which a datetime has not.
        convert = getattr(value, "to_datetime64", None)
        time = np.datetime64(value) if convert is None else convert()
        result: np.datetime64 = time.astype("datetime64[ns]")
    except ValueError as error:
        raise ValueError(f"time must be like '2020-01-31 09:30', got {value!r}") from error
    if np.isnat(result):
        raise ValueError(f"time must not be NaT, got {value!r}")
    return result
