"""Return metrics: total and annual return, volatility, hit rate; annualization from timestamps."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, YEAR_DAYS

__all__ = [
    "annual_return",
    "hit_rate",
    "periods_per_year",
    "sample_std",
    "total_return",
    "volatility",
]

Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]

UNIT_ROUNDING = 1e-15
RELATIVE_ROUNDING = 1e-12

WEEK = 7 * DAY
SESSION_GAP = DAY // 4
"""Gap after which a new session starts; lunch breaks are shorter."""

SESSIONS_PER_YEAR = 252.0
EXCHANGE_DAYS = (249.0, 262.0)
"""Days with rows in a year of a stock exchange, with or without holidays."""

SURPLUS_HOLIDAYS = 3
"""Holidays that a short episode may have beyond the yearly average."""

LONG_WEEKEND = 4.5 * DAY
ALL_DAYS = 365.0


def total_return(returns: Floats) -> float:
    """Compounded return over all steps; NaN without returns."""
    return _growth(returns) - 1.0


def annual_return(returns: Floats, periods: float) -> float:
    """Annualized compounded return; -1 after ruin, NaN without returns."""
    growth = _growth(returns)
    if math.isnan(growth) or not periods > 0:
        return math.nan
    if growth <= 0:
        return -1.0
    exponent = math.log(growth) * periods / len(returns)
    # A few returns of high frequency can exceed the range of floats.
    return math.expm1(exponent) if exponent < 700 else math.inf


def volatility(returns: Floats, periods: float) -> float:
    """Annualized standard deviation of returns; NaN for fewer than 2 returns."""
    return sample_std(returns) * math.sqrt(periods)


def hit_rate(returns: Floats) -> float:
    """Share of positive returns among the nonzero ones."""
    if np.isnan(returns).any():
        return math.nan
    moved = np.count_nonzero(returns)
    return float(np.count_nonzero(returns > 0) / moved) if moved else math.nan


def sample_std(values: Floats) -> float:
    """Sample standard deviation; exactly 0 where values differ by rounding alone."""
    if len(values) < 2:
        return math.nan
    mean = float(np.add.reduce(values)) / len(values)
    # Several times faster than np.std for the short arrays of a bootstrap.
    centred = values - mean
    deviation = math.sqrt(float(np.dot(centred, centred)) / (len(values) - 1))
    return 0.0 if deviation <= UNIT_ROUNDING + RELATIVE_ROUNDING * abs(mean) else deviation


def periods_per_year(times: Times) -> float:
    """Annualization factor: number of steps in a year, inferred from timestamps.

    Steps are counted over whole weeks, so that the weekday of the first row does not matter. Days
    are then counted as markets count them: 252 a year if rows are on 249 to 262 days a year, with
    a tolerance of three holidays, and 365 if rows are on all days; other counts stay as they are.
    Rows further apart than a long weekend are counted from the first to the last. For less than a
    week, a market with rows on a weekend, or for a day without a gap of six hours, is taken to
    trade continuously; any other has 252 sessions a year with as many rows as the longest
    session.

    Returns:
        NaN for fewer than 3 timestamps, or if no time passes.
    """
    if len(times) < 3:
        return float("nan")
    instants = _nanoseconds(times)
    steps = np.diff(instants)
    elapsed = int(instants[-1] - instants[0])
    if elapsed == 0:
        return float("nan")
    if np.median(steps[steps > 0]) > LONG_WEEKEND:
        return len(steps) / _years(elapsed)
    if elapsed >= WEEK:
        return _over_whole_weeks(instants, elapsed // WEEK)
    return _over_sessions(instants, elapsed)


def _over_whole_weeks(instants: NDArray[np.int64], weeks: int) -> float:
    window = instants[(instants > instants[0]) & (instants <= instants[0] + weeks * WEEK)]
    years = _years(weeks * WEEK)
    # The last date is the weekday of the first: both hold a part of the same day.
    days = len(np.unique((window // DAY - instants[0] // DAY) % (7 * weeks))) / years
    if EXCHANGE_DAYS[0] - SURPLUS_HOLIDAYS / years <= days <= EXCHANGE_DAYS[1]:
        return len(window) / years * SESSIONS_PER_YEAR / days
    if days >= YEAR_DAYS - 1:
        return len(window) / years * ALL_DAYS / YEAR_DAYS
    return len(window) / years


def _over_sessions(instants: NDArray[np.int64], elapsed: int) -> float:
    starts = np.flatnonzero(np.diff(instants) > SESSION_GAP) + 1
    sessions = np.split(instants, starts)
    # 1970-01-01 was a Thursday.
    at_weekend = bool(np.any((instants // DAY + 3) % 7 >= 5))
    if at_weekend or any(session[-1] - session[0] >= DAY for session in sessions):
        return (len(instants) - 1) / _years(elapsed) * ALL_DAYS / YEAR_DAYS
    return max(len(session) for session in sessions) * SESSIONS_PER_YEAR


def _nanoseconds(times: Times) -> NDArray[np.int64]:
    if np.isnat(times).any():
        raise ValueError(f"times must not contain NaT, got {int(np.isnat(times).sum())}")
    instants: NDArray[np.int64] = times.astype("datetime64[ns]").astype(np.int64)
    back = np.flatnonzero(np.diff(instants) < 0)
    if len(back):
        row = int(back[0])
        raise ValueError(
            f"times must not decrease, but {times[row + 1]} follows {times[row]}; sort them"
        )
    return instants


def _years(nanoseconds: int) -> float:
    return nanoseconds / (DAY * YEAR_DAYS)


def _growth(returns: Floats) -> float:
    return float(np.prod(1.0 + returns)) if len(returns) else math.nan
