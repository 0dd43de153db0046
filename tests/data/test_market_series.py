"""Market-wide series of another frame: each row shows the last value stamped at or before it."""

from __future__ import annotations

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData, Policies, inspect
from sekai.error import DataError
from tests.data.panels import bars

FILL = Policies(market="forward_fill", gaps="allow")
stamps = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), min_size=1, max_size=25)


def moments(minutes: list[int]) -> pd.DatetimeIndex:
    return pd.to_datetime("2024-01-02") + pd.to_timedelta(minutes, unit="min")


def prices(minutes: list[int]) -> pd.DataFrame:
    frame = bars(len(minutes), ("AAA",))
    frame["time"] = moments(minutes)
    return frame


def series_at(minutes: list[int], pairs: list[tuple[int, int]], policies: Policies) -> MarketData:
    times, values = zip(*pairs, strict=True)
    market = pd.DataFrame({"time": moments(list(times)), "rate": np.array(values, float)})
    return MarketData.from_frame(prices(minutes), market=market, timezone="UTC", policies=policies)


def agreed(pairs: list[tuple[int, int]]) -> dict[int, int]:
    """Values by stamp, without stamps that have several."""
    by_time: dict[int, set[int]] = {}
    for time, value in pairs:
        by_time.setdefault(time, set()).add(value)
    return {time: min(found) for time, found in sorted(by_time.items()) if len(found) == 1}


@given(rows=st.lists(st.integers(0, 40), min_size=2, max_size=15, unique=True), pairs=stamps)
@settings(max_examples=150, deadline=None)
def test_a_row_shows_the_last_value_stamped_at_or_before_it(
    rows: list[int], pairs: list[tuple[int, int]]
) -> None:
    rows = sorted(rows)
    data = series_at(rows, pairs, FILL)

    known = agreed(pairs)
    expected = [
        max(((time, value) for time, value in known.items() if time <= row), default=(0, np.nan))[1]
        for row in rows
    ]
    assert np.array_equal(data.market["rate"], expected, equal_nan=True)


@given(rows=st.lists(st.integers(0, 40), min_size=2, max_size=15, unique=True), pairs=stamps)
@settings(max_examples=100, deadline=None)
def test_every_value_is_shown_or_reported_as_dropped(
    rows: list[int], pairs: list[tuple[int, int]]
) -> None:
    rows = sorted(rows)
    known = agreed(pairs)
    shown = {max((time for time in known if time <= row), default=None) for row in rows} - {None}
    for policy, count in (("forward_fill", len(shown)), ("keep", len(known.keys() & set(rows)))):
        data = series_at(rows, pairs, Policies(market=policy, gaps="allow"))

        dropped = sum(problem.count for problem in data.repairs if problem.policy == "drop")
        assert count + dropped == len(known), policy


def test_month_ends_on_weekends_arrive_with_the_next_business_day() -> None:
    days = pd.bdate_range("2019-01-01", "2024-02-01")
    frame = bars(len(days), ("AAA",))
    frame["time"] = days
    ends = pd.date_range("2019-01-31", periods=61, freq="ME")
    market = pd.DataFrame({"time": ends, "rate": np.arange(61.0)})
    data = MarketData.from_frame(frame, market=market, policies=FILL)

    weekends = ends[ends.day_of_week >= 5]
    assert len(weekends) == 17
    assert set(np.unique(data.market["rate"][~np.isnan(data.market["rate"])])) == set(range(61))
    for end in weekends:
        row = int(np.searchsorted(data.times, end.to_datetime64()))
        assert data.market["rate"][row] == list(ends).index(end)
        assert data.market["rate"][row - 1] == list(ends).index(end) - 1


def test_values_between_rows_without_a_fill_are_reported() -> None:
    frame = bars(3, ("AAA",))
    market = pd.DataFrame(
        {"time": np.array(["2020-01-01", "2020-01-01T12", "2020-01-02", "2020-01-03"], "M8[ns]"),
         "rate": [1.0, 2.0, 3.0, 4.0]}
    )  # fmt: skip
    data = MarketData.from_frame(frame, market=market, timezone="UTC")

    (dropped,) = data.repairs
    assert (dropped.kind, dropped.field, dropped.count) == ("market", "rate", 1)
    assert "value at a time without a row" in str(inspect(frame, market=market, timezone="UTC"))
    assert list(data.market["rate"]) == [1, 3, 4]


def test_malformed_times_and_numbers_of_a_series_are_problems() -> None:
    frame = bars(3, ("AAA",))
    market = pd.DataFrame(
        {"time": ["2020-01-01", "2020-13-45", "2020-01-03"], "rate": ["1", "2", "many"]}
    )
    with pytest.raises(DataError) as caught:
        MarketData.from_frame(frame, market=market)
    assert "malformed time '2020-13-45'" in str(caught.value)
    assert "text such as 'many'" in str(caught.value)

    data = MarketData.from_frame(
        frame, market=market, policies=Policies(market="forward_fill", keys="drop_row")
    )
    assert list(data.market["rate"]) == [1, 1, 1]
