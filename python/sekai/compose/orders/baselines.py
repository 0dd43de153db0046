"""Ways to work an order that need no learning: what a learner has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.day_source import OrderData, intraday
from sekai.compose.orders.features import earlier_days
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
    """Decides how much of an order is traded in the next step."""

    def __call__(self, state: SAOEState, /) -> float:
        """The amount, from 0 to what is left."""


class TWAP:
    """The same amount in every tick."""

    def __call__(self, state: SAOEState, /) -> float:
        """The step's share of the ticks that are left."""
        return state.position * state.step_share


class AllAtOnce:
    """Everything in the first step."""

    def __call__(self, state: SAOEState, /) -> float:
        """All that is left."""
        return state.position


class VWAP:
    """As much in every step as its share of the volume that is expected until the end."""

    def __init__(
        self,
        profile: Sequence[float] | Floats | None = None,
        *,
        data: OrderData | None = None,
        days: int = 5,
    ) -> None:
        """Say where the expectation comes from.

        Args:
            profile: the volume that is expected in each tick of a day, in any unit.
            data: or days of ticks, of which those before the order's are averaged.
            days: how many of them; fewer where there are fewer, and TWAP where there is none.
        """
        if (profile is None) == (data is None):
            raise ValueError("either a profile or the data of earlier days was wanted")
        if days < 1:
            raise ValueError(f"days must be at least 1, was {days}")
        self.profile = None if profile is None else _profile(profile)
        self.data = None if data is None else intraday(data)
        self.days = days
        self._kept: tuple[Any, Floats] | None = None

    def __call__(self, state: SAOEState, /) -> float:
        """The step's share of the expected volume that is left."""
        return _by_volume(state, self._expected(state))

    def _expected(self, state: SAOEState) -> Floats:
        if self.profile is not None:
            return self.profile
        key = state.order.key_by_day
        if self._kept is None or self._kept[0] != key:
            earlier = earlier_days(self.data, state.order.stock_id, state.order.date, self.days)
            self._kept = key, volume_profile(earlier, state.ticks_index)
        return self._kept[1]


class OracleVWAP:
    """VWAP that knows the day's volume in advance: a bound, not a strategy."""

    def __call__(self, state: SAOEState, /) -> float:
        """The step's share of the volume that is left."""
        return _by_volume(state, np.nan_to_num(state.backtest_data.volume))


class AlmgrenChrissPolicy:
    """The schedule of Almgren and Chriss: faster at first, the more risk is disliked."""

    def __init__(
        self, *, volatility: float, temporary_impact: float, risk_aversion: float,
        permanent_impact: float = 0.0,
    ) -> None:  # fmt: skip
        """Describe the market; times are in ticks, see `sekai.market.AlmgrenChriss`."""
        self.model = {
            "volatility": volatility, "temporary_impact": temporary_impact,
            "risk_aversion": risk_aversion, "permanent_impact": permanent_impact,
        }  # fmt: skip

    def __call__(self, state: SAOEState, /) -> float:
        """What is optimally traded in the next step of what is left."""
        return float(almgren_chriss_amounts(state, **self.model)[0])


def almgren_chriss_amounts(state: SAOEState, **model: float) -> Floats:
    """What is optimally traded in each step that is left: one trade a tick, summed by step."""
    if state.ticks_left < 1 or state.position <= 0:
        return np.zeros(0)
    ticks = state.ticks_left
    best = AlmgrenChriss(shares=state.position, horizon=float(ticks), steps=ticks, **model)
    bounds = np.arange(state.next_boundary, state.stop_tick, state.ticks_per_step)
    held = best.trajectory()[np.array([0, *(bounds - state.cur_tick), ticks])]
    amounts: Floats = -np.diff(held)
    return amounts


def volume_profile(days: Sequence[DayTicks], times: NDArray[np.datetime64]) -> Floats:
    """The mean volume of days at the times of day of some ticks; all ones without any day."""
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
            f"a profile of {len(state.ticks_index)} ticks was wanted for a day of so many, found "
            f"one of {len(expected)}"
        )
    left = float(expected[state.cur_tick : state.stop_tick].sum())
    now = float(expected[state.cur_tick : state.next_boundary].sum())
    share = now / left if left > 0 else state.step_share
    if state.next_boundary == state.stop_tick:
        share = 1.0
    return min(state.position, state.position * share)


def _profile(given: Any) -> Floats:
    profile = np.asarray(given, np.float64)
    if profile.ndim != 1 or not np.isfinite(profile).all() or (profile < 0).any():
        raise ValueError("profile must be a row of volumes of at least 0, one for each tick")
    return profile
