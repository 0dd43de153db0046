"""Data of orders: sources of days, their range, and synthetic minutes."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.order import Order
from sekai.config.checked import CheckedConfig
from sekai.data.frame_intraday import FrameIntraday
from sekai.data.intraday import (
    DayTicks,
    IntradayData,
    MarketIntraday,
    TickSpan,
    day_of,
)
from sekai.data.market_data import MarketData
from sekai.data.qlib.intraday import QlibIntraday
from sekai.data.tick_store import TickStore
from sekai.error import DataError
from sekai.storage.names import unknown_name

__all__ = [
    "TRADABLE",
    "OrderData",
    "PanelDays",
    "SessionTicks",
    "SimulatedMinutes",
    "SingleDay",
    "as_intraday",
    "check_asset",
    "day_or_none",
    "earlier_days",
    "frame_days",
    "known_assets",
    "known_dates",
    "order_dates",
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

    def span(self, stock_id: str) -> TickSpan:
        """Range of the ticks of the day."""
        return TickSpan.of(self.ticks.times)


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


def known_assets(days: IntradayData) -> tuple[str, ...] | None:
    """Assets of a source; None if it has any, or does not list them."""
    if isinstance(days, SingleDay):
        return (days.ticks.stock_id,)
    if isinstance(days, MarketIntraday):
        return days.data.assets
    if isinstance(days, TickStore):
        return days.stocks()
    if isinstance(days, QlibIntraday):
        return tuple(days.provider.instruments("all", days.freq))
    return days.assets if isinstance(days, FrameIntraday) and days.is_named else None


def check_asset(days: IntradayData, asset: str) -> None:
    """Raise `DataError` for an asset that is none of a source."""
    if isinstance(days, QlibIntraday):
        days.provider.symbol(asset, days.freq)  # rejects unknown symbols, ignores case
        return
    known = known_assets(days)
    if known is not None and asset not in known:
        raise DataError(unknown_name("asset", asset, known))


def known_dates(days: IntradayData, assets: Sequence[str]) -> NDArray[np.datetime64] | None:
    """Days on which some of the assets have ticks; None if the source does not list them."""
    spans = [] if isinstance(days, SimulatedMinutes) else _spans(days, assets)
    return np.unique(np.concatenate([span.dates for span in spans])) if spans else None


def times_of_day(days: IntradayData, assets: Sequence[str]) -> int | None:
    """Number of different times of day of some assets; None if the source does not list it.

    No day has more ticks, and parts of the data with missing ticks have the same number.
    """
    spans = _spans(days, assets)
    return len(np.unique(np.concatenate([span.clock for span in spans]))) if spans else None


def _spans(days: IntradayData, assets: Sequence[str]) -> list[TickSpan]:
    """Different ranges of the assets, of a frame of all that it has; empty if they are unknown."""
    if isinstance(days, FrameIntraday):
        assets = days.assets
    elif isinstance(days, (MarketIntraday, QlibIntraday)):
        assets = assets[:1]  # the same for all
    return [days.span(asset) for asset in assets] if hasattr(days, "span") else []


def order_ticks(days: IntradayData, order: Order) -> DayTicks:
    """Ticks of the day of an order, or of all days of an order over several days.

    Days without ticks, such as holidays, are left out.
    """
    dates = order_dates(order)
    if len(dates) == 1:
        return days.day(order.stock_id, order.date)
    if isinstance(days, SingleDay):
        raise DataError(
            f"order for {order.stock_id} from {order.start_time} to {order.end_time} spans several "
            "days, but the data has one; pass data with all of its days"
        )
    found = (day_or_none(days, order.stock_id, date) for date in dates)
    parts = [ticks for ticks in found if ticks is not None]
    if not parts:
        raise DataError(
            f"{order.stock_id} has no ticks from {dates[0]} to {dates[-1]}; choose other times"
        )
    return parts[0] if len(parts) == 1 else _joined_days(parts)


def order_dates(order: Order) -> NDArray[np.datetime64]:
    """Days of the window of an order, with or without ticks."""
    # The window ends before `end_time`.
    last = (order.end_time - np.timedelta64(1, "ns")).astype("datetime64[D]")
    return np.arange(order.date, max(order.date, last) + np.timedelta64(1, "D"))


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


def order_window(
    days: IntradayData, ticks: DayTicks, order: Order, *, closed: bool
) -> tuple[int, int]:
    """Window of an order: index of its first tick, and of the one after its last.

    Args:
        days: source of the ticks.
        ticks: the day, or the days.
        order: the order.
        closed: include a tick at the order's end.

    Raises:
        DataError: the order is outside of the session, or partly outside of the data.
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
    span = days.span(order.stock_id) if hasattr(days, "span") else TickSpan.of(times)
    # Bars are stamped at their start or at their end.
    tick = np.diff(times).min() if len(times) > 1 else np.timedelta64(1, "m")
    _check_inside(order, span, tick)
    return first, stop


def _check_inside(order: Order, span: TickSpan, tick: np.timedelta64) -> None:
    """Raise unless an order is within the dates and hours of the data; midnight is any hour."""
    start, end, dates = order.start_time, order.end_time, order_dates(order)
    outside = None
    if end != end.astype("datetime64[D]"):
        is_late = span.last is not None and end > span.last + tick
        if is_late or end - dates[-1] > span.clock[-1] + tick:
            outside = dates[-1]
    elif span.last is not None and dates[-1] > span.last.astype("datetime64[D]"):
        outside = dates[-1]
    if start != order.date:
        is_early = span.first is not None and start < span.first - tick
        if is_early or start - order.date < span.clock[0] - tick:
            outside = order.date
    elif span.first is not None and order.date < span.first.astype("datetime64[D]"):
        outside = order.date
    if outside is None:
        return
    hours = " to ".join(str(order.date + time)[11:16] for time in span.clock[[0, -1]])
    if span.first is not None and span.last is not None:
        hours = f"from {_minute(span.first)} to {_minute(span.last)}, {hours} of a day"
    verb = order.direction.name.lower()
    raise DataError(
        f"order to {verb} {order.amount:g} of {order.stock_id} from {_minute(start)} to "
        f"{_minute(end)} is partly outside of the data on {outside}: it has ticks {hours}; choose "
        "times inside it, or dates alone for whole sessions"
    )


def _minute(time: np.datetime64) -> str:
    return str(time.astype("datetime64[m]"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMinutes(CheckedConfig):
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

    def span(self, stock_id: str) -> TickSpan:
        """Minutes of a day; there are ticks on every day."""
        times = self.times(np.datetime64("2020-01-01"))
        return replace(TickSpan.of(times), first=None, last=None)

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


@lru_cache(maxsize=512)
def _cached_day(source: SimulatedMinutes, stock_id: str, day: np.datetime64) -> DayTicks:
    # An episode reads its day several times, and an env all days of a year.
    return source.make(stock_id, day)


LONGEST_BREAK = 10
"""Days without ticks after which no earlier day is searched."""


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
