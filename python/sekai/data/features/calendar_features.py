"""Features of the stamps: where in the day and in the week a row is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.data.features.registry import register_feature
from sekai.data.features.rolling import pathless
from sekai.data.market_data import MarketData

__all__ = ["day_of_week", "time_of_day"]

Floats = NDArray[np.float64]

SECOND = 10**9
DAY = 86_400 * SECOND
QUARTER = 900 * SECOND
"""Clocks are set forward and back at a full quarter of an hour."""


@register_feature("day_of_week", lookback=1, channels=("sin", "cos"))
def day_of_week(data: MarketData) -> Floats:
    """The day where the market is, Monday first, as an angle of the week."""
    # 1970 began with a Thursday.
    return _angle(data, (_local(data) // DAY + 3) % 7 / 7)


@register_feature("time_of_day", lookback=1, channels=("sin", "cos"))
def time_of_day(data: MarketData) -> Floats:
    """The time where the market is, as an angle of the day: midnight is 0."""
    return _angle(data, _local(data) % DAY / DAY)


def _angle(data: MarketData, turns: Floats) -> Floats:
    angle = 2 * np.pi * turns
    channels = np.stack([pathless(np.sin, angle), pathless(np.cos, angle)], axis=1)
    return np.broadcast_to(channels[:, None, :], (len(data), len(data.assets), 2))


def _local(data: MarketData) -> NDArray[np.int64]:
    """Nanoseconds since 1970 by the clock on the wall where the market is."""
    stamps = data.calendar.nanoseconds
    if data.timezone is None:
        return stamps
    from datetime import datetime
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(data.timezone)
    quarters, places = np.unique(stamps // QUARTER, return_inverse=True)
    moments = (datetime.fromtimestamp(quarter * QUARTER // SECOND, zone) for quarter in quarters)
    offsets = [moment.utcoffset() for moment in moments]
    seconds = np.array([offset.total_seconds() if offset else 0 for offset in offsets], np.int64)
    return stamps + seconds[places] * SECOND
