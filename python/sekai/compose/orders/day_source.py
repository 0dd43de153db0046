"""The day of an order, out of whatever has ticks."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np

from sekai.compose.orders.order import Order
from sekai.data.frame_intraday import FrameIntraday
from sekai.data.intraday import DayTicks, IntradayData
from sekai.data.market_data import MarketData
from sekai.data.market_intraday import MarketIntraday
from sekai.data.preloading import day_of
from sekai.error import DataError

__all__ = ["TRADABLE", "OneDay", "OrderData", "PanelDays", "frame_days", "intraday", "window"]

OrderData: TypeAlias = DayTicks | IntradayData | MarketData | str | os.PathLike[str] | Any
"""A day, anything that has days, a panel, a frame of ticks, or the folder of a `TickStore`."""

TRADABLE = "$tradable"
"""The column that is 0 in ticks in which nothing can be filled although there is a price."""


class OneDay:
    """One day of one asset, as something that has days."""

    def __init__(self, ticks: DayTicks) -> None:
        """Take the day."""
        self.ticks = ticks

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """The day, if it is the one that is asked for."""
        have = self.ticks.times[0].astype("datetime64[D]")
        if stock_id != self.ticks.stock_id or date != have:
            raise DataError(
                f"ticks of {stock_id} on {date} were wanted, found those of "
                f"{self.ticks.stock_id} on {have}"
            )
        return self.ticks


class PanelDays(MarketIntraday):
    """The days of a panel: a tick for each of its rows, whether the asset is listed or not.

    How many ticks a day has must not depend on what becomes of an asset later in the day; where
    it cannot be traded it has no price, or a 0 in the column `$tradable`.
    """

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """All rows of a day; a `DataError` where there are none, or the asset is in none."""
        day = day_of(date)
        found = super().day(stock_id, day)
        begin, stop = np.searchsorted(self._beginnings, [day, day + np.timedelta64(1, "D")])
        place = self.data.asset(stock_id)
        values = self.data.values[begin:stop, place]
        tradable = self.data.tradable[begin:stop, place]
        columns = {name: values[:, column] for column, name in enumerate(found.columns)}
        if not tradable.all():
            columns[TRADABLE] = tradable.astype(np.float64)
        return DayTicks(stock_id, self._beginnings[begin:stop], columns)


def intraday(data: OrderData) -> IntradayData:
    """Something that has days, of whatever was given."""
    if isinstance(data, DayTicks):
        return OneDay(data)
    if isinstance(data, MarketData):
        return PanelDays(data)
    if isinstance(data, (str, os.PathLike)):
        from sekai.data.tick_store import TickStore

        return TickStore(data)
    # A frame may have a column of that name.
    if callable(getattr(data, "day", None)) and isinstance(data, IntradayData):
        return data
    try:
        return frame_days(data)
    except TypeError as error:
        raise TypeError(
            f"data must be DayTicks, IntradayData, MarketData, a frame of pandas, polars or "
            f"pyarrow, or the folder of a TickStore, was {type(data).__name__}"
        ) from error


def frame_days(data: Any) -> FrameIntraday:
    """The days of a frame, which is read now unless it was before."""
    return data if isinstance(data, FrameIntraday) else FrameIntraday(data)


def window(ticks: DayTicks, order: Order, *, closed: bool) -> tuple[int, int]:
    """The ticks of an order: the first, and the one after the last.

    Args:
        ticks: the day.
        order: what is to be traded.
        closed: whether a tick at the order's end belongs to it.
    """
    times: Any = ticks.times
    first = int(np.searchsorted(times, order.start_time))
    stop = int(np.searchsorted(times, order.end_time, side="right" if closed else "left"))
    if first >= stop:
        end = "included" if closed else "excluded"
        raise DataError(
            f"the order for {order.stock_id} from {order.start_time} to {order.end_time} (its "
            f"end {end}) has no tick in the session, which goes from {times[0]} to {times[-1]}: "
            f"choose times inside of it"
        )
    return first, stop
