"""Baselines of order execution: TWAP, VWAP, all at once, Almgren-Chriss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.data import OrderData, as_intraday, earlier_days
from sekai.compose.orders.state import SAOEState
from sekai.data.intraday import DayTicks
from sekai.error import DataError
from sekai.market.almgren_chriss import AlmgrenChriss

__all__ = [
    "TWAP",
    "VWAP",
    "AllAtOnce",
    "AlmgrenChrissPolicy",
    "OracleVWAP",
    "OrderPolicy",
    "almgren_chriss_amounts",
    "volume_profile",
]

Floats = NDArray[np.float64]


class OrderPolicy(Protocol):
    """Policy of order execution: amount of the next step."""

    def __call__(self, state: SAOEState, /) -> float:
        """Amount, from 0 to what is left."""


class TWAP:
    """TWAP: equal amounts in every tick."""

    def __call__(self, state: SAOEState, /) -> float:
        """Share of the step in the ticks left."""
        return state.position * state.step_share


class AllAtOnce:
    """Policy that trades the whole amount in the first step."""

    def __call__(self, state: SAOEState, /) -> float:
        """Amount left."""
        return state.position


class VWAP:
    """VWAP: amounts in proportion to the expected volume.

    Args:
        profile: expected volume of each tick of the order's day or days, in any unit.
        data: or days of ticks, of which those before the order's are averaged.
        days: number of days to average; fewer if there are fewer, and TWAP if there is none.
    """

    def __init__(
        self,
        profile: Sequence[float] | Floats | None = None,
        *,
        data: OrderData | None = None,
        days: int = 5,
    ) -> None:
        if (profile is None) == (data is None):
            raise ValueError("pass either a profile or the data of earlier days")
        if days < 1:
            raise ValueError(f"days must be at least 1, got {days}")
        self.profile = None if profile is None else _profile(profile)
        self.data = None if data is None else as_intraday(data)
        self.days = days
        self._cached: tuple[Any, Floats] | None = None

    def __call__(self, state: SAOEState, /) -> float:
        """Share of the step in the expected volume left."""
        return _by_volume(state, self._expected(state))

    def _expected(self, state: SAOEState) -> Floats:
        if self.profile is not None:
            return self.profile
        key = (*state.order.key_by_day, len(state.ticks_index))
        if self._cached is None or self._cached[0] != key:
            earlier = earlier_days(self.data, state.order.stock_id, state.order.date, self.days)
            self._cached = key, volume_profile(earlier, state.ticks_index)
        return self._cached[1]


class OracleVWAP:
    """VWAP with the day's volume known in advance: a bound, not a strategy."""

    def __call__(self, state: SAOEState, /) -> float:
        """Share of the step in the volume left."""
        return _by_volume(state, np.nan_to_num(state.backtest_data.volume))


class AlmgrenChrissPolicy:
    """Almgren-Chriss schedule: faster at first with more risk aversion.

    Times are in ticks, see `sekai.market.AlmgrenChriss`.
    """

    def __init__(
        self,
        *,
        volatility: float,
        temporary_impact: float,
        risk_aversion: float,
        permanent_impact: float = 0.0,
    ) -> None:
        self.model = {
            "volatility": volatility,
            "temporary_impact": temporary_impact,
            "risk_aversion": risk_aversion,
            "permanent_impact": permanent_impact,
        }

    def __call__(self, state: SAOEState, /) -> float:
        """Optimal amount of the next step."""
        return float(almgren_chriss_amounts(state, **self.model)[0])


def almgren_chriss_amounts(state: SAOEState, **model: float) -> Floats:
    """Optimal amount of each step left: one trade per tick, summed by step."""
    if state.ticks_left < 1 or state.position <= 0:
        return np.zeros(0)
    ticks = state.ticks_left
    optimum = AlmgrenChriss(shares=state.position, horizon=float(ticks), steps=ticks, **model)
    ends = np.array([state.cur_tick, *state.boundaries(state.cur_tick)])
    held = optimum.trajectory()[ends - state.cur_tick]
    amounts: Floats = -np.diff(held)
    return amounts


def volume_profile(days: Sequence[DayTicks], times: NDArray[np.datetime64]) -> Floats:
    """Mean volume profile of days at given times of day; ones without any day."""
    if not days:
        return np.ones(len(times))
    clock = _time_of_day(times)
    total = np.zeros(len(times))
    for ticks in days:
        volume = np.nan_to_num(ticks.column("$volume"))
        total += np.interp(clock, _time_of_day(ticks.times), volume)
    return total / len(days)


def _time_of_day(times: NDArray[np.datetime64]) -> Floats:
    elapsed = times - times.astype("datetime64[D]")
    nanoseconds: Floats = elapsed.astype("timedelta64[ns]").astype(np.float64)
    return nanoseconds


def _by_volume(state: SAOEState, expected: Floats) -> float:
    if len(expected) < state.stop_tick:
        raise DataError(
            f"volume profile must have {len(state.ticks_index)} ticks like the day, got "
            f"{len(expected)}"
        )
    left = float(expected[state.cur_tick : state.stop_tick].sum())
    now = float(expected[state.cur_tick : state.next_boundary].sum())
    share = now / left if left > 0 else state.step_share
    if state.next_boundary == state.stop_tick:
        share = 1.0
    return min(state.position, state.position * share)


def _profile(values: Any) -> Floats:
    profile = np.asarray(values, np.float64)
    if profile.ndim != 1 or not np.isfinite(profile).all() or (profile < 0).any():
        raise ValueError("profile must be finite volumes of at least 0, one for each tick")
    return profile
