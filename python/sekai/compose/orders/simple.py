"""Work one order over the ticks of a day, spread equally within each step."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from typing import Any

import numpy as np

from sekai.compose.orders.backtest_data import BacktestData, of_ticks
from sekai.compose.orders.costs import OrderCosts
from sekai.compose.orders.day_source import TRADABLE, OrderData, intraday, window
from sekai.compose.orders.order import Order
from sekai.compose.orders.order_simulator import OrderSimulator

__all__ = ["SingleAssetOrderExecutionSimple"]


class SingleAssetOrderExecutionSimple(OrderSimulator):
    """The simulator to train with: any ticks will do.

    The amount of a step is spread equally over its ticks, each of which fills at most
    `vol_threshold` times its volume; what a cap refuses is given up, what a tick without a price
    could not do falls to the next. The last tick of the order's window asks for all that is left.
    The window has the ticks from the order's start up to but not including its end.
    """

    def __init__(
        self,
        order: Order,
        data: OrderData | None = None,
        ticks_per_step: int = 30,
        deal_price_type: str = "close",
        data_granularity: int = 1,
        vol_threshold: float | None = None,
        *,
        costs: OrderCosts | None = None,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Begin with nothing traded.

        Args:
            order: what is to be traded.
            data: a day, anything that has days, a panel, a frame of minutes (see
                `sekai.data.FrameIntraday`), or the folder of a `TickStore`.
            ticks_per_step: how many minutes a step has.
            deal_price_type: `close`, `bid_or_ask` or `bid_or_ask_fill`.
            data_granularity: how many minutes a tick has; divides `ticks_per_step`.
            vol_threshold: the most that is filled in a tick, as a share of its volume.
            costs: what fills cost; nothing by default.
            data_dir: the folder of a `TickStore` by the name that Qlib has for it, in the place
                of `data`.

        Raises:
            DataError: there are no such ticks, or the order is outside of the session.
        """
        if data_granularity < 1 or ticks_per_step < 1 or ticks_per_step % data_granularity:
            raise ValueError(
                f"ticks_per_step must be a multiple of data_granularity, and both at least 1; "
                f"found {ticks_per_step} and {data_granularity}"
            )
        if (data is None) == (data_dir is None):
            raise TypeError("one of data and data_dir is needed, found both or neither")
        ticks = intraday(data_dir if data is None else data).day(order.stock_id, order.date)
        chosen = of_ticks(ticks, deal_price_type, order.direction)
        super().__init__(
            order, chosen, window(ticks, order, closed=False), ticks_per_step // data_granularity,
            **_limits(chosen, vol_threshold), **asdict(costs or OrderCosts()),
        )  # fmt: skip


def _limits(data: BacktestData, threshold: float | None) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if TRADABLE in data.ticks.columns:
        limits["tradable"] = data.ticks.columns[TRADABLE] > 0
    if threshold is not None:
        if not (math.isfinite(threshold) and threshold >= 0):
            raise ValueError(f"vol_threshold must be a share of at least 0, was {threshold}")
        limits["current_cap"] = np.asarray(threshold * data.volume, np.float64)
    return limits
