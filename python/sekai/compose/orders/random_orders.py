"""Orders of episodes: assets, days and ticks that a config draws them from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.component import EnvAware
from sekai.compose.orders.config import OrderExecutionConfig
from sekai.compose.orders.data import (
    SimulatedMinutes,
    as_intraday,
    check_asset,
    day_or_none,
    known_assets,
    known_dates,
    order_dates,
    times_of_day,
)
from sekai.compose.orders.order import Order, OrderDir
from sekai.compose.orders.state import deal_prices
from sekai.data.frame_intraday import FrameIntraday
from sekai.data.intraday import DayTicks, IntradayData, TickSpan, day_of
from sekai.error import DataError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "RandomOrders",
    "days_of",
    "given_orders",
    "has_prices",
    "order_assets",
    "resolve_day_ticks",
    "window_times",
]

SIMULATED_ASSETS = ("SIM",)
SIMULATED_DAYS = np.arange("2020-01-01", "2021-01-01", dtype="datetime64[D]")
ATTEMPTS = 100
"""Attempts to draw a day with enough ticks."""


class RandomOrders(EnvAware):
    """Iterator of random orders, drawn from the env's random stream, which is its state.

    Args:
        config: settings of the orders.
        days: ticks that the orders must fit.
    """

    def __init__(self, config: OrderExecutionConfig, days: IntradayData) -> None:
        self.config = config
        self.days = days
        self.assets = order_assets(config, days)
        if config.orders is None:
            self.dates = _dates(config, days, self.assets)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Order:
        """Next random order, without end."""
        env = self.env
        assert env is not None
        if self.config.orders is not None:
            return self.config.orders[int(env.rng.integers(len(self.config.orders)))]
        return self._draw(env.rng)

    def state_dict(self) -> dict[str, Any]:
        """Empty state: the stream belongs to the env."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Ignore the empty state."""

    def _draw(self, rng: np.random.Generator) -> Order:
        config = self.config
        # Draws come before the data is read, so that it cannot change them.
        amount = float(rng.uniform(*config.amount))
        random_side = OrderDir(int(rng.integers(2)))
        direction = OrderDir[config.direction.upper()] if config.direction else random_side
        for _ in range(ATTEMPTS):
            asset = str(self.assets[int(rng.integers(len(self.assets)))])
            date = self.dates[int(rng.integers(len(self.dates)))]
            position = float(rng.random())
            window = self._window(asset, date, position)
            if window is not None:
                return Order(asset, amount, direction, *window)
        raise self.too_short(ATTEMPTS)

    @property
    def num_days(self) -> int:
        """Number of days of all assets, or of given orders."""
        if self.config.orders is None:
            return len(self.assets) * len(self.dates)
        return sum(len(order_dates(order)) for order in given_orders(self.config))

    def too_short(self, count: int) -> DataError:
        """Error of so many days with too few ticks."""
        return DataError(
            f"none of {count} days has {self.order_ticks} ticks and a price; choose "
            "others by assets= and days=, or fewer steps by order_steps="
        )

    @property
    def order_ticks(self) -> int:
        """Ticks of a random order."""
        return self.config.order_steps * self.config.ticks_per_step

    def _window(self, asset: str, date: Any, position: float) -> tuple[Any, Any] | None:
        """Start and end of whole steps in a day; None if it has too few ticks, or no price."""
        ticks = day_or_none(self.days, asset, date)
        if ticks is None or not has_prices(ticks, self.config.deal_price_type):
            return None
        times = ticks.times
        starts = (len(times) - self.order_ticks) // self.config.ticks_per_step + 1
        if starts < 1:
            return None
        first = int(position * starts) * self.config.ticks_per_step
        return window_times(times, first, first + self.order_ticks)


def window_times(times: NDArray[np.datetime64], first: int, stop: int) -> tuple[Any, Any]:
    """Start and end of an order of the ticks from `first` up to but not including `stop`."""
    end = times[stop] if stop < len(times) else times[-1] + np.timedelta64(1, "s")
    return times[first], end


def days_of(config: OrderExecutionConfig) -> IntradayData:
    """Source of the ticks of a config."""
    return as_intraday(config.simulated if config.data is None else config.data)


def has_prices(ticks: DayTicks, price_type: str) -> bool:
    """Return True if orders of either direction have a price on a day."""
    sides = OrderDir if price_type != "close" else (OrderDir.BUY,)
    prices = (deal_prices(ticks, price_type, side).deal_price for side in sides)
    return all(bool(((price > 0) & np.isfinite(price)).any()) for price in prices)


def _dates(config: OrderExecutionConfig, days: IntradayData, assets: Sequence[str]) -> Any:
    if config.days is not None:
        return [day_of(day) for day in config.days]
    if isinstance(days, SimulatedMinutes):
        return SIMULATED_DAYS[np.is_busday(SIMULATED_DAYS)]
    dates = known_dates(days, assets)
    if dates is None:
        raise ValueError("the days of this kind of data are unknown; pass them by days=")
    return dates


SAMPLED_DAYS = 64
"""Days that are read for the ticks of a day of a source that does not list its days."""


def resolve_day_ticks(config: OrderExecutionConfig, days: IntradayData) -> int:
    """Ticks of a day in observations: those of the config, or the times of day in the data."""
    if config.day_ticks is not None:
        return config.day_ticks
    orders = given_orders(config)
    assets = order_assets(config, days)
    ticks = times_of_day(days, assets)
    if ticks is not None:
        return ticks
    if orders:
        pairs = [(order.stock_id, date) for order in orders for date in order_dates(order)]
    else:
        pairs = [(asset, date) for asset in assets for date in _dates(config, days, assets)]
        chosen = np.unique(np.linspace(0, len(pairs) - 1, SAMPLED_DAYS).astype(np.intp))
        pairs = [pairs[index] for index in chosen]
    found = (day_or_none(days, *pair) for pair in dict.fromkeys(pairs))
    clocks = [TickSpan.of(ticks.times).clock for ticks in found if ticks is not None]
    if not clocks:
        raise DataError(
            f"none of {len(pairs)} days has ticks; choose others by assets= and days=, or pass "
            "day_ticks="
        )
    return len(np.unique(np.concatenate(clocks)))


def given_orders(config: OrderExecutionConfig) -> list[Order]:
    """Orders of a config, also those of its baskets; empty for random ones."""
    baskets = (own if isinstance(own, Sequence) else [own] for own in config.orders or ())
    return [order for basket in baskets for order in basket]


def order_assets(config: OrderExecutionConfig, days: IntradayData) -> Sequence[str]:
    """Assets of the given orders, or of random ones.

    Raises:
        DataError: the data has no such asset.
        ValueError: the data does not list its assets, and the config names none.
    """
    assets: Sequence[str] | None = config.assets
    if config.orders is not None:
        assets = list(dict.fromkeys(order.stock_id for order in given_orders(config)))
    if assets is None:
        assets = known_assets(days)
    if assets is None and isinstance(days, SimulatedMinutes):
        assets = SIMULATED_ASSETS
    if assets is None and isinstance(days, FrameIntraday):
        assets = days.assets  # a placeholder
    if assets is None:
        raise ValueError("the assets of this kind of data are unknown; pass them by assets=")
    for asset in assets:
        check_asset(days, asset)
    return assets
