"""Days of ticks out of a panel."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.intraday import DayTicks
from sekai.data.market_data import MarketData
from sekai.data.near_names import near
from sekai.data.preloading import day_of
from sekai.error import DataError

__all__ = ["MarketIntraday"]


class MarketIntraday:
    """The ticks of a panel's assets, a day at a time: its field `close` is the column `$close`.

    Ticks are stamped as the clocks of the panel's time zone show their beginning. In rows in
    which an asset is not listed it has no tick. Nothing is copied beforehand, so that there is
    nothing to be kept in a cache either.
    """

    def __init__(self, data: MarketData, *, known_after: timedelta = timedelta(0)) -> None:
        """Take a panel.

        Args:
            data: minutes, as a rule.
            known_after: how long after its beginning a row is known: what was given to the reader
                that stamped the rows.
        """
        self.data = data
        self.known_after = known_after

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """The ticks of an asset on a day; a `DataError` where there are none."""
        if stock_id not in self._places:
            raise DataError(f"no asset {stock_id!r}{near(stock_id, self._places)}")
        place, day = self._places[stock_id], day_of(date)
        begin, stop = np.searchsorted(self._beginnings, [day, day + np.timedelta64(1, "D")])
        rows = begin + np.flatnonzero(self.data.listed[begin:stop, place])
        if not len(rows):
            raise DataError(f"{stock_id} has no ticks on {day}: {self._told(place)}")
        values = self.data.values[rows, place]
        columns = {f"${name}": values[:, column] for column, name in enumerate(self.data.fields)}
        return DayTicks(stock_id, self._beginnings[rows], columns)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.data.assets)}

    @cached_property
    def _beginnings(self) -> NDArray[np.datetime64]:
        local = self.data.calendar.local
        beginnings: NDArray[np.datetime64] = local - np.timedelta64(self.known_after)
        return beginnings

    def _told(self, place: int) -> str:
        listed: Any = self._beginnings[self.data.listed[:, place]]
        return f"it is listed from {listed[0]} to {listed[-1]}" if len(listed) else "it never is"
