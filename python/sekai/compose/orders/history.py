"""What has been done for an order up to some step: made into tables when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import OrderMatcher
from sekai.compose.orders.metrics import (
    FILLS,
    SAOEMetrics,
    metrics_dtype,
    metrics_table,
    price_advantage,
)
from sekai.compose.orders.order import Order

__all__ = ["OrderHistory"]


@dataclass(frozen=True, slots=True, eq=False)
class OrderHistory:
    """The first `worked` ticks and all steps so far.

    The matcher only ever adds ticks, so that a history says the same whenever it is asked.
    """

    order: Order
    twap_price: float
    times: NDArray[np.datetime64]
    """The ticks of the order."""
    matcher: OrderMatcher
    worked: int
    step_metrics: tuple[SAOEMetrics, ...]

    def fills(self) -> NDArray[Any]:
        """One row a tick: time, wanted, filled, price, value, cost."""
        wanted, filled, value, cost, price, _ = self.matcher.fills(0, self.worked)
        table = np.empty(self.worked, FILLS)
        columns = (self.times[: self.worked], wanted, filled, price, value, cost)
        for name, column in zip(FILLS.names or (), columns, strict=True):
            table[name] = column
        return table

    def filled(self, begin: int = 0) -> NDArray[np.float64]:
        """What the ticks from the `begin`th on filled."""
        amounts: NDArray[np.float64] = self.matcher.fills(begin, self.worked)[1]
        return amounts

    def ticks(self) -> NDArray[Any]:
        """One row of metrics a tick."""
        wanted, filled, value, _, price, volume = self.matcher.fills(0, self.worked)
        table = np.empty(self.worked, metrics_dtype(len(self.order.stock_id)))
        traded = np.where(filled > 0, price, 0.0)
        columns = {
            "stock_id": self.order.stock_id, "datetime": self.times[: self.worked],
            "direction": int(self.order.direction), "market_volume": volume,
            "market_price": price, "amount": wanted, "inner_amount": wanted,
            "deal_amount": filled, "trade_price": traded, "trade_value": value,
            "position": self.order.amount - np.cumsum(filled),
            "ffr": filled / self.order.amount,
            "pa": price_advantage(traded, self.twap_price, self.order.direction),
        }  # fmt: skip
        for name, column in columns.items():
            table[name] = column
        return table

    def steps(self) -> NDArray[Any]:
        """One row of metrics a step."""
        return metrics_table(self.step_metrics)
