"""Features of the ticks of a day, and of the day before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.day_source import OrderData, intraday
from sekai.data.day_cache import DayCache
from sekai.data.intraday import DayTicks
from sekai.data.tick_store import TickStore
from sekai.error import DataError

__all__ = ["DayFeatures", "FeatureProvider", "StoredFeatures", "TickFeatures", "earlier_days"]

LONGEST_BREAK = 10
"""Days without ticks after which there counts as no day before."""


class DayFeatures(NamedTuple):
    """Rows of features."""

    times: NDArray[np.datetime64]
    """The beginnings of today's ticks."""
    today: NDArray[Any]
    """Ticks by features."""
    yesterday: NDArray[Any]
    """Ticks by features; no rows where there is no day before."""


class FeatureProvider(Protocol):
    """Anything that knows the features of days."""

    def features(self, stock_id: str, date: np.datetime64) -> DayFeatures:
        """The features of an asset on a day; a `DataError` where there are none."""


class _Kept(NamedTuple):
    ticks: DayTicks
    before: list[DayTicks]
    features: DayFeatures


class TickFeatures:
    """Columns of the ticks themselves, as they are or as changes since the day's beginning."""

    def __init__(
        self,
        data: OrderData,
        columns: Sequence[str] = ("$close", "$volume"),
        *,
        relative: bool = True,
    ) -> None:
        """Choose what is shown.

        Args:
            data: where ticks come from.
            columns: which of their columns.
            relative: divide each column by its first value of the day, and take 1 away.
        """
        self.data = intraday(data)
        self.columns = tuple(columns)
        self.relative = relative
        self._cache = DayCache()

    def features(self, stock_id: str, date: np.datetime64) -> DayFeatures:
        """The features of an asset on a day; what is missing is 0."""
        ticks = self.data.day(stock_id, date)
        before = earlier_days(self.data, stock_id, date, 1)
        key = (stock_id, str(date))
        kept = self._cache.get(key)
        # Days that were read anew are other objects: what was rewritten is never shown as it was.
        if kept is None or kept.ticks is not ticks or kept.before != before:
            nothing = np.zeros((0, len(self.columns)), np.float32)
            yesterday = self._rows(before[0]) if before else nothing
            made = DayFeatures(ticks.times, self._rows(ticks), yesterday)
            kept = _Kept(ticks, before, made)
            self._cache.put(key, kept, sum(part.nbytes for part in made))
        found: DayFeatures = kept.features
        return found

    def _rows(self, ticks: DayTicks) -> NDArray[np.float32]:
        values = np.stack([ticks.column(name) for name in self.columns], axis=1)
        if self.relative:
            # The first value is known in all rows that are ever shown.
            first = _first_known(values)
            values = np.where(first > 0, values / np.where(first > 0, first, 1.0) - 1.0, 0.0)
        rows = np.nan_to_num(values).astype(np.float32)
        rows.flags.writeable = False
        return rows


class StoredFeatures:
    """Features that a `TickStore` keeps ready, today's beside those of the day before."""

    def __init__(
        self, store: TickStore, columns_today: Sequence[str], columns_yesterday: Sequence[str]
    ) -> None:
        """Choose what is shown.

        Args:
            store: where features are kept.
            columns_today: such as `$close`.
            columns_yesterday: such as `$close_1`, as many as of today.
        """
        self.store = store
        self.columns_today, self.columns_yesterday = tuple(columns_today), tuple(columns_yesterday)

    def features(self, stock_id: str, date: np.datetime64) -> DayFeatures:
        """The features of an asset on a day; what is missing is 0."""
        rows = self.store.processed(stock_id, date, self.columns_today, self.columns_yesterday)
        times = self.store.day(stock_id, date).times
        if len(times) != len(rows[0]):
            raise DataError(
                f"{stock_id} on {date}: features of {len(times)} ticks were wanted, found those "
                f"of {len(rows[0])}"
            )
        return DayFeatures(times, *(np.nan_to_num(part) for part in rows))


def _first_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    is_known = np.isfinite(values) & (values > 0)
    first = values[np.argmax(is_known, axis=0), np.arange(values.shape[1])]
    return np.where(is_known.any(axis=0), first, 0.0)


def earlier_days(data: Any, stock_id: str, date: np.datetime64, count: int) -> list[DayTicks]:
    """The last `count` days before a day that have ticks, the latest first."""
    found: list[DayTicks] = []
    day, missed = date, 0
    while len(found) < count and missed < LONGEST_BREAK:
        day = day - np.timedelta64(1, "D")
        ticks = _day_or_none(data, stock_id, day)
        missed = missed + 1 if ticks is None else 0
        if ticks is not None:
            found.append(ticks)
    return found


def _day_or_none(data: Any, stock_id: str, day: np.datetime64) -> DayTicks | None:
    if hasattr(data, "has"):
        found: DayTicks | None = data.day(stock_id, day) if data.has(stock_id, day) else None
        return found
    try:
        found = data.day(stock_id, day)
    except DataError:  # the protocol's answer where there are no ticks
        return None
    return found
