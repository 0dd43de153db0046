"""How many steps a year has, from the stamps themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, YEAR_DAYS

__all__ = ["periods_per_year"]

Times = NDArray[np.datetime64]

WEEK = 7 * DAY
CLOSED = DAY // 4
"""A pause after which another session begins; lunch breaks are shorter."""

SESSIONS = 252.0
WEEKDAYS = (249.0, 262.0)
"""Days with stamps in a year that are those of a stock exchange, holidays counted or not."""

HOLIDAYS = 3
"""Days without a stamp that even a short episode may have more than its share of."""

LONG_WEEKEND = 4.5 * DAY
ALL_DAYS = 365.0


def periods_per_year(times: Times) -> float:
    """Steps in a year, counted over the whole weeks that the stamps cover.

    Whole weeks, so that it does not matter on which day an episode begins: five daily bars of
    stocks are a week, and so are 168 hourly bars of a coin. Days are then counted as markets
    count them: 252 a year where stamps are on 249 to 262 days a year, give or take three holidays
    that an episode may have too many of, and 365 where on all; other counts stay what they are.
    Stamps further apart than a long weekend are counted over the time from the first to the last.
    Within less than a week, a market that is seen at a weekend, or for a day without a pause of
    six hours, never closes; another has 252 sessions a year, each with as many stamps as
    the fullest has here.

    Returns:
        NaN for fewer than 3 stamps, or where no time passes.
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
    seen = instants[(instants > instants[0]) & (instants <= instants[0] + weeks * WEEK)]
    years = _years(weeks * WEEK)
    # The last date is the first again, so many weeks later: each has a part of the same day.
    days = len(np.unique((seen // DAY - instants[0] // DAY) % (7 * weeks))) / years
    if WEEKDAYS[0] - HOLIDAYS / years <= days <= WEEKDAYS[1]:
        return len(seen) / years * SESSIONS / days
    if days >= YEAR_DAYS - 1:
        return len(seen) / years * ALL_DAYS / YEAR_DAYS
    return len(seen) / years


def _over_sessions(instants: NDArray[np.int64], elapsed: int) -> float:
    begins = np.flatnonzero(np.diff(instants) > CLOSED) + 1
    sessions = np.split(instants, begins)
    # The first of 1970 was a Thursday.
    at_weekend = bool(np.any((instants // DAY + 3) % 7 >= 5))
    if at_weekend or any(session[-1] - session[0] >= DAY for session in sessions):
        return (len(instants) - 1) / _years(elapsed) * ALL_DAYS / YEAR_DAYS
    return max(len(session) for session in sessions) * SESSIONS


def _nanoseconds(times: Times) -> NDArray[np.int64]:
    if np.isnat(times).any():
        raise ValueError(f"stamps were wanted, {int(np.isnat(times).sum())} are not a time")
    instants: NDArray[np.int64] = times.astype("datetime64[ns]").astype(np.int64)
    back = np.flatnonzero(np.diff(instants) < 0)
    if len(back):
        place = int(back[0])
        raise ValueError(
            f"stamps must not go back, {times[place + 1]} comes after {times[place]}: sort them"
        )
    return instants


def _years(nanoseconds: int) -> float:
    return nanoseconds / (DAY * YEAR_DAYS)
