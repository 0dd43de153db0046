"""Data of orders: sources of days, synthetic minutes and tick features."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.order import Order
from sekai.data.frame_intraday import FrameIntraday
from sekai.data.intraday import DayCache, DayTicks, IntradayData, MarketIntraday, day_of
from sekai.data.market_data import MarketData
from sekai.data.tick_store import TickStore
from sekai.error import DataError

__all__ = [
    "TRADABLE",
    "DayFeatures",
    "FeatureProvider",
    "OrderData",
    "PanelDays",
    "SessionTicks",
    "SimulatedMinutes",
    "SingleDay",
    "StoredFeatures",
    "TickFeatures",
    "as_intraday",
    "clock_times",
    "day_or_none",
    "earlier_days",
    "frame_days",
    "order_ticks",
    "order_window",
    "times_of_day",
]

OrderData: TypeAlias = DayTicks | IntradayData | MarketData | str | os.PathLike[str] | Any
"""Source of ticks: a day, anything that has days, a panel, a frame, or the folder of a
`TickStore`."""

Floats = NDArray[np.float64]

TRADABLE = "$tradable"
"""Column that is 0 in ticks with a price but without trading."""


class SingleDay:
    """Source of one day of one asset."""

    def __init__(self, ticks: DayTicks) -> None:
        self.ticks = ticks

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """Ticks of the day; `DataError` for any other."""
        own_date = self.ticks.times[0].astype("datetime64[D]")
        if stock_id != self.ticks.stock_id or date != own_date:
            raise DataError(
                f"no ticks of {stock_id} on {date}; the data has {self.ticks.stock_id} on "
                f"{own_date}"
            )
        return self.ticks


@dataclass(frozen=True, slots=True, eq=False)
class SessionTicks(DayTicks):
    """Ticks of one asset on several days, one session after another."""

    sessions: tuple[int, ...] = ()
    """First tick of each session after the first."""

    def __post_init__(self) -> None:
        # Joined from days that have been validated.
        pass

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.stock_id, self.times, dict(self.columns), self.sessions)


class PanelDays(MarketIntraday):
    """Source of the days of a panel: a tick for each row, whether the asset is listed or not.

    The number of ticks of a day must not depend on the asset's later fate; where it cannot be
    traded it has no price, or a 0 in the column `$tradable`.
    """

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """All rows of a day; `DataError` where there are none, or the asset is in none."""
        day = day_of(date)
        listed = super().day(stock_id, day)
        begin, stop = np.searchsorted(self._beginnings, [day, day + np.timedelta64(1, "D")])
        asset = self.data.asset(stock_id)
        values = self.data.values[begin:stop, asset]
        tradable = self.data.tradable[begin:stop, asset]
        columns = {name: values[:, column] for column, name in enumerate(listed.columns)}
        if not tradable.all():
            columns[TRADABLE] = tradable.astype(np.float64)
        return DayTicks(stock_id, self._beginnings[begin:stop], columns)


def as_intraday(data: OrderData) -> IntradayData:
    """Source of days from any `OrderData`."""
    if isinstance(data, DayTicks):
        return SingleDay(data)
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
            f"pyarrow, or the folder of a TickStore, got {type(data).__name__}"
        ) from error


def frame_days(data: Any) -> FrameIntraday:
    """Source of the days of a frame, read once."""
    return data if isinstance(data, FrameIntraday) else FrameIntraday(data)


def clock_times(times: NDArray[np.datetime64]) -> NDArray[np.timedelta64]:
    """Different times of day among timestamps, ascending."""
    elapsed: NDArray[np.timedelta64] = np.unique(times - times.astype("datetime64[D]"))
    return elapsed


def times_of_day(days: IntradayData) -> int | None:
    """Number of different times of day in the data; None for a source that does not list it.

    No day has more ticks, and parts of the data with missing ticks have the same number.
    """
    if isinstance(days, SimulatedMinutes):
        return days.ticks
    if isinstance(days, SingleDay):
        return len(days.ticks)
    if isinstance(days, MarketIntraday):
        return len(clock_times(days.data.calendar.local))
    if isinstance(days, FrameIntraday):
        clocks = [clock_times(days.ticks(asset).times) for asset in days.assets]
        return len(np.unique(np.concatenate(clocks)))
    return None


def order_ticks(days: IntradayData, order: Order) -> DayTicks:
    """Ticks of the day of an order, or of all days of an order over several days.

    Days without ticks, such as holidays, are left out.
    """
    # The window ends before `end_time`.
    last = (order.end_time - np.timedelta64(1, "ns")).astype("datetime64[D]")
    if last <= order.date:
        return days.day(order.stock_id, order.date)
    if isinstance(days, SingleDay):
        raise DataError(
            f"order for {order.stock_id} from {order.start_time} to {order.end_time} spans several "
            "days, but the data has one; pass data with all of its days"
        )
    dates = np.arange(order.date, last + np.timedelta64(1, "D"))
    found = (day_or_none(days, order.stock_id, date) for date in dates)
    parts = [ticks for ticks in found if ticks is not None]
    if not parts:
        raise DataError(
            f"{order.stock_id} has no ticks from {order.date} to {last}; choose other times"
        )
    return parts[0] if len(parts) == 1 else _joined_days(parts)


def _joined_days(parts: Sequence[DayTicks]) -> SessionTicks:
    # A column such as `$tradable` is there only on days that need it.
    names = dict.fromkeys(name for ticks in parts for name in ticks.columns)
    absent = {name: 1.0 if name == TRADABLE else np.nan for name in names}
    columns = {
        name: np.concatenate(
            [ticks.columns.get(name, np.full(len(ticks), absent[name])) for ticks in parts]
        )
        for name in names
    }
    lengths = [len(ticks) for ticks in parts]
    times = np.concatenate([ticks.times for ticks in parts])
    sessions = tuple(np.cumsum(lengths[:-1]).tolist())
    return SessionTicks(parts[0].stock_id, times, columns, sessions)


def order_window(ticks: DayTicks, order: Order, *, closed: bool) -> tuple[int, int]:
    """Window of an order: index of its first tick, and of the one after its last.

    Args:
        ticks: the day, or the days.
        order: the order.
        closed: include a tick at the order's end.
    """
    times: Any = ticks.times
    first = int(np.searchsorted(times, order.start_time))
    stop = int(np.searchsorted(times, order.end_time, side="right" if closed else "left"))
    if first >= stop:
        end = "included" if closed else "excluded"
        raise DataError(
            f"order for {order.stock_id} from {order.start_time} to {order.end_time} (end {end}) "
            f"has no tick in the session from {times[0]} to {times[-1]}; choose times inside it"
        )
    return first, stop


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMinutes:
    """Synthetic minute bars from a seed: a random walk with U-shaped volume.

    Every date of every asset has its own day, independent of other calls.
    """

    seed: int = 0
    ticks: int = 240
    """Minutes in a day."""

    open_time: str = "09:30"
    price: float = 100.0
    """Price around which days begin."""

    tick_volatility: float = 0.0005
    """Standard deviation of the log return of a minute."""

    daily_volume: float = 1e6
    """Mean volume of a day."""

    half_spread: float = 0.0001
    """Half of the bid-ask spread, as a share of the price."""

    def __post_init__(self) -> None:
        if not 1 <= self.ticks <= 1440 - self._minute_of_open():
            raise ValueError(
                f"ticks must fit a day from {self.open_time} on, got {self.ticks} minutes"
            )
        for name in ("price", "tick_volatility", "daily_volume"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be finite and above 0, got {value}")
        if not 0 <= self.half_spread < 1:
            raise ValueError(f"half_spread must be from 0 to below 1, got {self.half_spread}")

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """Minutes of an asset on a day."""
        return _cached_day(self, stock_id, day_of(date))

    def make(self, stock_id: str, day: np.datetime64) -> DayTicks:
        """Generate the minutes of a day, without the cache."""
        rng = np.random.default_rng(self._seed_of(stock_id, day))
        moves = rng.normal(0.0, self.tick_volatility, self.ticks)
        start = self.price * math.exp(rng.normal(0.0, 0.02))
        close = start * np.exp(np.cumsum(moves))
        opened = np.concatenate([[start], close[:-1]])
        noise = rng.gamma(4.0, 0.25, self.ticks)
        columns = {
            "$open": opened,
            "$close": close,
            "$high": np.maximum(opened, close),
            "$low": np.minimum(opened, close),
            "$bid": close * (1 - self.half_spread),
            "$ask": close * (1 + self.half_spread),
            "$volume": np.round(self.volume_profile() * noise),
        }
        return DayTicks(stock_id, self.times(day), columns)

    def volume_profile(self) -> Floats:
        """Mean volume of each minute: U-shaped, twice as high at both ends as in the middle."""
        shape = 1.0 + np.square(np.linspace(-1.0, 1.0, self.ticks))
        profile: Floats = shape / shape.sum() * self.daily_volume
        return profile

    def times(self, date: np.datetime64) -> NDArray[np.datetime64]:
        """Start times of a day's minutes."""
        begin = np.datetime64(f"{date}T{self.open_time}", "ns")
        minutes: NDArray[np.datetime64] = begin + np.arange(self.ticks, dtype="timedelta64[m]")
        return minutes

    def _minute_of_open(self) -> int:
        hours, _, rest = self.open_time.partition(":")
        return 60 * int(hours) + int(rest or 0)

    def _seed_of(self, *parts: Any) -> int:
        text = repr((self.seed, self.ticks, *map(str, parts))).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


@lru_cache(maxsize=256)
def _cached_day(source: SimulatedMinutes, stock_id: str, day: np.datetime64) -> DayTicks:
    # An episode reads its day several times.
    return source.make(stock_id, day)


LONGEST_BREAK = 10
"""Days without ticks after which no earlier day is searched."""


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


def earlier_days(data: Any, stock_id: str, date: np.datetime64, count: int) -> list[DayTicks]:
    """Last `count` days with ticks before a day, latest first."""
    days: list[DayTicks] = []
    day, missed = date, 0
    while len(days) < count and missed < LONGEST_BREAK:
        day = day - np.timedelta64(1, "D")
        ticks = day_or_none(data, stock_id, day)
        missed = missed + 1 if ticks is None else 0
        if ticks is not None:
            days.append(ticks)
    return days


def day_or_none(data: Any, stock_id: str, day: np.datetime64) -> DayTicks | None:
    """Ticks of an asset on a day; None if there are none."""
    if hasattr(data, "has"):
        ticks: DayTicks | None = data.day(stock_id, day) if data.has(stock_id, day) else None
        return ticks
    try:
        ticks = data.day(stock_id, day)
    except DataError:  # there are no ticks
        return None
    return ticks
