"""Steps of a year, from stamps alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.evaluation.metrics import periods_per_year

Times = NDArray[np.datetime64]

HOLIDAYS = np.array(
    [
        f"{year}-{day}"
        for year in range(2018, 2026)
        for day in ("01-01", "01-15", "02-19", "04-15", "05-28", "07-04", "09-03", "11-25", "12-25")
    ],
    "datetime64[D]",
)


def weekdays(count: int, first: str = "2020-01-01", holidays: Times | None = None) -> Times:
    free = np.zeros(0, "datetime64[D]") if holidays is None else holidays
    days: Times = np.busday_offset(first, np.arange(count), roll="forward", holidays=free)
    return days


def minutes(days: int) -> Times:
    """Sessions of 390 minutes, as in New York in winter."""
    within = (14 * 60 + 31 + np.arange(390)).astype("timedelta64[m]")
    stamps: Times = (weekdays(days)[:, None].astype("datetime64[m]") + within).ravel()
    return stamps


WEEKDAYS = weekdays(700)
TRADING_DAYS = weekdays(1800, "2018-01-02", HOLIDAYS)
MINUTES = minutes(70)


@settings(deadline=None)
@given(first=st.integers(0, 250), count=st.integers(3, 400))
def test_weekdays_are_252_a_year_wherever_an_episode_begins(first: int, count: int) -> None:
    assert periods_per_year(WEEKDAYS[first : first + count]) == pytest.approx(252)


@settings(deadline=None)
@given(first=st.integers(0, 1500), count=st.integers(3, 1500))
def test_trading_days_are_252_a_year_wherever_holidays_fall(first: int, count: int) -> None:
    times = TRADING_DAYS[first : first + count]
    assume(len(times) > 2)

    assert periods_per_year(times) == pytest.approx(252)


@settings(deadline=None)
@given(first=st.integers(0, 200), count=st.integers(25, 9000))
def test_hours_of_a_market_that_never_closes_are_8760_a_year(first: int, count: int) -> None:
    hours = np.datetime64("2020-01-01T00", "h") + np.arange(10_000).astype("timedelta64[h]")

    assert periods_per_year(hours[first : first + count]) == pytest.approx(8760)


@settings(deadline=None)
@given(count=st.integers(8, 800))
def test_every_day_is_365_a_year(count: int) -> None:
    days = np.datetime64("2020-02-20", "D") + np.arange(count).astype("timedelta64[D]")

    assert periods_per_year(days) == pytest.approx(365)


@settings(deadline=None)
@given(first=st.integers(0, 2000), count=st.integers(2400, 20_000))
def test_minutes_of_sessions_are_390_times_252_wherever_an_episode_begins(
    first: int, count: int
) -> None:
    assert periods_per_year(MINUTES[first : first + count]) == pytest.approx(390 * 252)


@pytest.mark.parametrize("days", [1, 2, 4])
def test_whole_sessions_of_less_than_a_week_are_taken_for_every_session(days: int) -> None:
    assert periods_per_year(minutes(days)) == 390 * 252


def test_a_market_of_five_days_and_nights_is_counted_as_it_is() -> None:
    hours = np.datetime64("2020-01-05T22", "h") + np.arange(24 * 7 * 20).astype("timedelta64[h]")
    open_hours = hours[np.arange(len(hours)) % 168 < 120]

    assert periods_per_year(open_hours) == pytest.approx(120 * 365.2425 / 7)


def test_an_exchange_with_many_holidays_keeps_its_own_number() -> None:
    few = np.concatenate([weekdays(243, f"{year}-01-01") for year in range(2010, 2020)])

    assert periods_per_year(few) == pytest.approx(243, rel=0.01)


def test_two_pauses_in_a_row_do_not_make_days_of_stocks_rare() -> None:
    times = np.array(["2018-12-21", "2018-12-24", "2018-12-26"], "datetime64[D]")

    assert periods_per_year(times) == 252


def test_weeks_and_months_are_counted_from_the_first_to_the_last() -> None:
    weeks = np.datetime64("2020-01-03", "D") + (7 * np.arange(300)).astype("timedelta64[D]")
    months = np.arange("2016-01", "2024-02", dtype="datetime64[M]")

    assert periods_per_year(weeks) == pytest.approx(365.2425 / 7)
    assert periods_per_year(months) == pytest.approx(12, rel=1e-3)


def test_several_stamps_of_one_instant_are_several_steps() -> None:
    twice = np.repeat(weekdays(500), 2)

    assert periods_per_year(twice) == pytest.approx(504, rel=0.005)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_stamps_say_nothing(count: int) -> None:
    assert np.isnan(periods_per_year(weekdays(count)))


def test_stamps_between_which_no_time_passes_say_nothing() -> None:
    assert np.isnan(periods_per_year(np.full(5, np.datetime64("2020-01-01", "ns"))))


def test_the_unit_of_stamps_does_not_matter() -> None:
    times = minutes(30)

    assert periods_per_year(times.astype("datetime64[ns]")) == periods_per_year(times)


def test_stamps_that_go_back_are_refused_with_the_two_that_do() -> None:
    with pytest.raises(ValueError, match="2020-01-01 follows 2020-01-06"):
        periods_per_year(weekdays(4)[[1, 2, 3, 0]])


def test_stamps_that_are_no_time_are_refused() -> None:
    with pytest.raises(ValueError, match="must not contain NaT, got 1"):
        periods_per_year(np.append(weekdays(4), np.datetime64("NaT")))
