"""Features of orders: columns of ticks, or features stored beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.data import OrderData, as_intraday, earlier_days
from sekai.data.intraday import DayCache, DayTicks
from sekai.data.tick_store import TickStore
from sekai.error import DataError

__all__ = ["DayFeatures", "FeatureProvider", "StoredFeatures", "TickFeatures"]


class DayFeatures(NamedTuple):
    """Features of a day and of the day before."""

    times: NDArray[np.datetime64]
    """Start times of today's ticks."""
    today: NDArray[Any]
    """Ticks by features."""
    yesterday: NDArray[Any]
    """Ticks by features; no rows without a day before."""


class FeatureProvider(Protocol):
    """Provider of the features of days."""

    def features(self, stock_id: str, date: np.datetime64) -> DayFeatures:
        """Features of an asset on a day; `DataError` if there are none."""


class _CachedDay(NamedTuple):
    ticks: DayTicks
    before: list[DayTicks]
    features: DayFeatures


class TickFeatures:
    """Features that are columns of ticks, absolute or relative to the day's first value.

    Args:
        data: source of ticks.
        columns: columns of the ticks.
        relative: divide each column by its first value of the day, and subtract 1.
    """

    def __init__(
        self,
        data: OrderData,
        columns: Sequence[str] = ("$close", "$volume"),
        *,
        relative: bool = True,
    ) -> None:
        self.data = as_intraday(data)
        self.columns = tuple(columns)
        self.relative = relative
        self._cache = DayCache()

    def features(self, stock_id: str, date: np.datetime64) -> DayFeatures:
        """Features of an asset on a day; missing values are 0."""
        ticks = self.data.day(stock_id, date)
        before = earlier_days(self.data, stock_id, date, 1)
        key = (stock_id, str(date))
        cached = self._cache.get(key)
        # Days that were read again are other objects, so that rewritten files are not served stale.
        if cached is None or cached.ticks is not ticks or cached.before != before:
            empty = np.zeros((0, len(self.columns)), np.float32)
            yesterday = self.rows(before[0]) if before else empty
            features = DayFeatures(ticks.times, self.rows(ticks), yesterday)
            cached = _CachedDay(ticks, before, features)
            self._cache.put(key, cached, sum(part.nbytes for part in features))
        result: DayFeatures = cached.features
        return result

    def rows(self, ticks: DayTicks) -> NDArray[np.float32]:
        """Features of ticks, ticks by columns."""
        values = np.stack([ticks.column(name) for name in self.columns], axis=1)
        if self.relative:
            # The first value is known in every row that is shown.
            first = _first_known(values)
            values = np.where(first > 0, values / np.where(first > 0, first, 1.0) - 1.0, 0.0)
        rows = np.nan_to_num(values).astype(np.float32)
        rows.flags.writeable = False
        return rows


class StoredFeatures:
    """Features stored in a `TickStore`, of a day and of the day before.

    Args:
        store: the store.
        columns_today: such as `$close`.
        columns_yesterday: such as `$close_1`, as many as of today.
    """

    def __init__(
        self, store: TickStore, columns_today: Sequence[str], columns_yesterday: Sequence[str]
    ) -> None:
        self.store = store
        self.columns_today, self.columns_yesterday = tuple(columns_today), tuple(columns_yesterday)

    def features(self, stock_id: str, date: np.datetime64) -> DayFeatures:
        """Features of an asset on a day; missing values are 0."""
        rows = self.store.processed(stock_id, date, self.columns_today, self.columns_yesterday)
        times = self.store.day(stock_id, date).times
        if len(times) != len(rows[0]):
            raise DataError(
                f"features of {stock_id} on {date} must have {len(times)} ticks, got {len(rows[0])}"
            )
        return DayFeatures(times, *(np.nan_to_num(part) for part in rows))


def _first_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    is_known = np.isfinite(values) & (values > 0)
    first = values[np.argmax(is_known, axis=0), np.arange(values.shape[1])]
    return np.where(is_known.any(axis=0), first, 0.0)
