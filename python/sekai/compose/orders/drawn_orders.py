"""Orders drawn at random, one for each episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.compose.attached import Attached
from sekai.compose.orders.order import Order, OrderDir
from sekai.compose.orders.order_execution_config import OrderExecutionConfig
from sekai.data.frame_intraday import FrameIntraday
from sekai.data.intraday import IntradayData
from sekai.data.market_data import MarketData
from sekai.error import DataError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DrawnOrders"]

SIMULATED_ASSETS = ("SIM",)
SIMULATED_DAYS = np.arange("2020-01-01", "2021-01-01", dtype="datetime64[D]")
ATTEMPTS = 100
"""How often a day without enough ticks is drawn anew."""


class DrawnOrders(Attached):
    """Draws orders from the stream of the env it is attached to, which is therefore its state."""

    def __init__(self, config: OrderExecutionConfig, days: IntradayData) -> None:
        """Choose what there is to draw from.

        Args:
            config: which orders.
            days: the ticks that they must fit into.
        """
        self.config = config
        self.days = days
        if config.orders is None:
            self.assets, self.dates = _assets(config, days), _dates(config, days)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Order:
        """An order; there is always another."""
        env = self.env
        assert env is not None
        if self.config.orders is not None:
            return self.config.orders[int(env.rng.integers(len(self.config.orders)))]
        return self._draw(env.rng)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the stream belongs to the env."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Nothing."""

    def _draw(self, rng: np.random.Generator) -> Order:
        config = self.config
        # All draws are made before the data is looked at, so that it cannot change them.
        amount = float(rng.uniform(*config.amount))
        drawn = OrderDir(int(rng.integers(2)))
        direction = OrderDir[config.direction.upper()] if config.direction else drawn
        for _ in range(ATTEMPTS):
            asset = str(self.assets[int(rng.integers(len(self.assets)))])
            date = self.dates[int(rng.integers(len(self.dates)))]
            place = float(rng.random())
            window = self._window(asset, date, place)
            if window is not None:
                return Order(asset, amount, direction, *window)
        raise DataError(
            f"none of {ATTEMPTS} days that were drawn has {self._ticks} ticks: choose others by "
            f"assets= and days=, or fewer steps by order_steps="
        )

    @property
    def _ticks(self) -> int:
        return self.config.order_steps * self.config.ticks_per_step

    def _window(self, asset: str, date: Any, place: float) -> tuple[Any, Any] | None:
        """Start and end of whole steps somewhere in a day; None if it has too few ticks."""
        try:
            times = self.days.day(asset, date).times
        except DataError:  # the protocol's answer where there are no ticks
            return None
        starts = (len(times) - self._ticks) // self.config.ticks_per_step + 1
        if starts < 1:
            return None
        first = int(place * starts) * self.config.ticks_per_step
        stop = first + self._ticks
        end = times[stop] if stop < len(times) else times[-1] + np.timedelta64(1, "s")
        return times[first], end


def _assets(config: OrderExecutionConfig, days: IntradayData) -> Sequence[str]:
    if config.assets is not None:
        return list(config.assets)
    if config.data is None:
        return SIMULATED_ASSETS
    if isinstance(config.data, MarketData):
        return config.data.assets
    if isinstance(days, FrameIntraday):
        return days.assets
    raise ValueError("data of this kind does not say which assets it has: name them by assets=")


def _dates(config: OrderExecutionConfig, days: IntradayData) -> Any:
    if config.days is not None:
        return [np.datetime64(day, "D") for day in config.days]
    if config.data is None:
        return SIMULATED_DAYS[np.is_busday(SIMULATED_DAYS)]
    if isinstance(config.data, MarketData):
        return config.data.calendar.sessions
    if isinstance(days, FrameIntraday):
        return days.dates
    raise ValueError("data of this kind does not say which days it has: name them by days=")
