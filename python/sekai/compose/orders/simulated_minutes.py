"""Minute bars that are made up: any asset, any day, the same for the same seed."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.intraday import DayTicks
from sekai.data.preloading import day_of

__all__ = ["SimulatedMinutes"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMinutes:
    """Days of minute bars from a seed: a random walk, and volume that is large at both ends.

    Every date of every asset has a day of its own, whatever else was asked for.
    """

    seed: int = 0
    ticks: int = 240
    """Minutes of a day."""

    open_time: str = "09:30"
    price: float = 100.0
    """The price around which days begin."""

    tick_volatility: float = 0.0005
    """The standard deviation of a minute's log return."""

    daily_volume: float = 1e6
    """The mean volume of a day."""

    half_spread: float = 0.0001
    """Half of the distance of bid and ask, as a share of the price."""

    def __post_init__(self) -> None:
        if not 1 <= self.ticks <= 1440 - self._minute_of_open():
            raise ValueError(f"a day from {self.open_time} on has no {self.ticks} minutes")
        for name in ("price", "tick_volatility", "daily_volume"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be finite and above 0, was {value}")
        if not 0 <= self.half_spread < 1:
            raise ValueError(f"half_spread must be a share from 0 to 1, was {self.half_spread}")

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """The minutes of an asset on a day."""
        return _made(self, stock_id, day_of(date))

    def make(self, stock_id: str, day: np.datetime64) -> DayTicks:
        """The same, made anew."""
        rng = np.random.default_rng(self._seed_of(stock_id, day))
        moves = rng.normal(0.0, self.tick_volatility, self.ticks)
        start = self.price * math.exp(rng.normal(0.0, 0.02))
        close = start * np.exp(np.cumsum(moves))
        opened = np.concatenate([[start], close[:-1]])
        noise = rng.gamma(4.0, 0.25, self.ticks)
        columns = {
            "$open": opened, "$close": close,
            "$high": np.maximum(opened, close), "$low": np.minimum(opened, close),
            "$bid": close * (1 - self.half_spread), "$ask": close * (1 + self.half_spread),
            "$volume": np.round(self.volume_profile() * noise),
        }  # fmt: skip
        return DayTicks(stock_id, self.times(day), columns)

    def volume_profile(self) -> Floats:
        """The mean volume of each minute: a U, twice as high at both ends as in the middle."""
        place = np.linspace(-1.0, 1.0, self.ticks)
        shape = 1.0 + np.square(place)
        profile: Floats = shape / shape.sum() * self.daily_volume
        return profile

    def times(self, date: np.datetime64) -> NDArray[np.datetime64]:
        """The beginnings of a day's minutes."""
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
def _made(world: SimulatedMinutes, stock_id: str, day: np.datetime64) -> DayTicks:
    # An episode asks for its day several times.
    return world.make(stock_id, day)
