"""Resampled bars equal those of pandas, and appear when they are complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import Disruptions, MarketData, simulate_gbm

RULES = {"open": "first", "high": "max", "low": "min", "close": "last", "volume": "sum"}
PARTS = ("values", "listed", "quoted", "tradable", "times")
LONG = ["1d", "1w", "1mo", "1q", "1y"]


def minutes(rows: int = 900, **options: Any) -> MarketData:
    return simulate_gbm(assets=3, rows=rows, seed=3, **{"frequency": "1min", **options})


def halted(rows: int = 900, **options: Any) -> MarketData:
    rates = Disruptions(halt_rate=0.2, halt_rows=4, late_share=0.5, listing_rows=40)
    return minutes(rows, disruptions=rates, **options)


def by_pandas(data: MarketData, asset: str, key: Any) -> pd.DataFrame:
    """Bars of the quoted rows of one asset."""
    column = data.asset(asset)
    values = np.where(data.quoted[:, [column]], data.values[:, column], np.nan)
    return key(pd.DataFrame(values, columns=list(data.fields), index=data.times)).agg(RULES)


def same(bars: MarketData, expected: pd.DataFrame, asset: str) -> None:
    """Compare the bars in which the asset is quoted, and that there are no others."""
    column = bars.asset(asset)
    expected = expected[expected["close"].notna()]
    shown = bars.quoted[:, column]
    assert np.array_equal(bars.times[shown], expected.index.to_numpy().astype("M8[ns]"))
    np.testing.assert_allclose(bars.values[shown, column], expected.to_numpy(), rtol=1e-12)


@pytest.mark.parametrize("rule", ["1min", "5min", "15min", "1h", "6h"])
@pytest.mark.parametrize("make", [minutes, halted])
@pytest.mark.parametrize("calendar", ["weekdays", "always"])
def test_parts_of_a_day_equal_those_of_pandas(rule: str, make: Any, calendar: str) -> None:
    data = make(calendar=calendar)
    bars = data.resample(rule, keep_incomplete=True)

    options = {"closed": "right", "label": "right", "origin": "epoch"}
    for asset in data.assets:
        expected = by_pandas(data, asset, lambda frame: frame.resample(rule, **options))
        same(bars, expected, asset)
    assert set(bars.times) <= set(bars.times.astype("M8[m]"))


@pytest.mark.parametrize(("rule", "period"), [("1d", "D"), ("1w", "W"), ("1mo", "M"), ("1q", "Q")])
def test_days_and_longer_bars_equal_those_of_pandas(rule: str, period: str) -> None:
    data = halted(400, frequency="1h")
    bars = data.resample(rule, keep_incomplete=True)

    labels = pd.DatetimeIndex(data.times).to_period(period)
    ends = pd.Series(data.times, labels).groupby(level=0).max()
    assert np.array_equal(bars.times, ends.to_numpy())
    for asset in data.assets:
        expected = by_pandas(data, asset, lambda frame: frame.groupby(labels))
        expected.index = ends.to_numpy()
        same(bars, expected, asset)


@given(stop=st.integers(2, 500), rule=st.sampled_from(["5min", "1h", *LONG]), hours=st.booleans())
@settings(max_examples=60, deadline=None)
def test_bars_known_at_a_time_are_the_first_bars_of_all(stop: int, rule: str, hours: bool) -> None:
    frequency = "1h" if hours and rule != "5min" else "1min"
    data = halted(500, frequency=frequency)
    whole, known = data.resample(rule), data.rows(0, stop).resample(rule)

    assert len(known) <= len(whole)
    for part in PARTS:
        assert np.array_equal(
            getattr(known, part), getattr(whole, part)[: len(known)], equal_nan=part == "values"
        )
    assert (known.times <= data.times[stop - 1]).all(), "a bar is not shown before its end"


@given(row=st.integers(0, 498), rule=st.sampled_from(["5min", "1h", "1d"]))
@settings(max_examples=40, deadline=None)
def test_bars_do_not_depend_on_later_rows(row: int, rule: str) -> None:
    data = halted(500)
    other = data.perturb_after(data.times[row], np.random.default_rng(row))
    bars, others = (panel.resample(rule, keep_incomplete=True) for panel in (data, other))

    known = bars.times <= data.times[row]
    assert np.array_equal(bars.values[known], others.values[: known.sum()], equal_nan=True)


def test_an_incomplete_bar_is_left_out() -> None:
    data = minutes(12)

    assert len(data.resample("5min")) == 2
    assert len(data.resample("5min", keep_incomplete=True)) == 3
    assert len(minutes(10).resample("5min")) == 2
    assert len(minutes(390).resample("1d")) == 0
    assert len(minutes(391).resample("1d")) == 1, "the next session has begun"
    assert len(minutes(1440, calendar="always").resample("1d")) == 1, "the day is over at midnight"


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.parametrize("rule", ["30min", "1h", "2h", "4h", "12h"])
def test_bars_follow_the_local_clock_over_its_changes(zone: str, rule: str) -> None:
    for month in ("2023-03-10", "2023-10-27", "2023-11-03", "2023-04-01", "2023-09-30"):
        times = np.datetime64(month, "ns") + np.arange(1, 400) * np.timedelta64(15, "m")
        close = np.arange(1.0, 400.0)
        data = MarketData(times, ["A"], ["close"], close[:, None, None], timezone=zone)
        bars = data.resample(rule, keep_incomplete=True)

        ends = bars.times.searchsorted(times)
        assert (ends < len(bars)).all(), "every row is in a bar that ends at it or later"
        last = [int(np.flatnonzero(ends == bar)[-1]) for bar in range(len(bars))]
        assert np.array_equal(bars.field("close")[:, 0], close[last])
        local = pd.DatetimeIndex(bars.times).tz_localize("UTC").tz_convert(zone)
        step = pd.Timedelta(rule)
        on_grid = (local.tz_localize(None) - local.tz_localize(None).normalize()) % step
        # A bar that ends when clocks change ends at a time that they skip or repeat.
        assert (on_grid == pd.Timedelta(0)).mean() > 0.9


def test_daily_rows_at_midnight_belong_to_their_own_day() -> None:
    days = np.arange("2024-01-01", "2024-01-22", dtype="datetime64[D]")
    data = MarketData(days, ["A"], ["close"], np.arange(1.0, 22.0)[:, None, None])
    weeks = data.resample("1w")

    assert [str(time)[:10] for time in weeks.times] == ["2024-01-07", "2024-01-14"]
    assert weeks.field("close")[:, 0].tolist() == [7, 14]
    assert len(data.resample("1d")) == 21


def test_other_fields_series_and_warm_up_are_carried_over() -> None:
    times = np.datetime64("2024-01-02T10:00", "ns") + np.arange(1, 7) * np.timedelta64(1, "m")
    rows = [  # close, volume, vwap, trades, rating
        [10, 1, 10, 2, 1],
        [11, 3, 11, 2, np.nan],
        [12, 0, 12, 2, np.nan],
        [13, 0, 13, 1, 5],
        [14, 0, 14, 1, 6],
        [15, 0, 15, 1, np.nan],
    ]
    values = np.array(rows, float)[:, None]
    data = MarketData(
        times, ["A"], ["close", "volume", "vwap", "trades", "rating"], values,
        quoted=np.ones((6, 1), bool), market={"rate": [1, 2, np.nan, 3, 4, 5]},
        sectors={"A": "Energy"}, warm_up=4,
    )  # fmt: skip
    bars = data.resample("3min", keep_incomplete=True)

    assert bars.values[:, 0].tolist() == [[12, 4, 10.75, 6, 1], [15, 0, 15, 3, 6]]
    assert bars.market["rate"].tolist() == [2, 5]
    assert (dict(bars.sectors), bars.warm_up) == ({"A": "Energy"}, 1)


def test_dividends_and_splits_of_a_bar_are_in_units_after_its_last_split() -> None:
    none = np.nan
    closes, volumes = [100.0, 102.0, 51.0, 25.0, 26.0], [10.0, 10.0, 20.0, 40.0, 40.0]
    splits, dividends = [none, none, 2.0, 2.0, none], [none, 1.0, 0.5, none, none]
    table = np.stack([closes, volumes, dividends, splits], axis=1)[:, None, :]
    times = np.arange(5).astype("timedelta64[D]") + np.datetime64("2024-01-01", "ns")
    data = MarketData(times, ("A",), ("close", "volume", "dividend", "split"), table)

    week = data.resample("1w", keep_incomplete=True)

    # Four units after both splits for each unit before; 1.0 + 2 * 0.5 of dividends for it.
    assert week.values[0, 0].tolist() == [26.0, 40 + 40 + 40 + 40 + 40, 0.5, 4.0]
    assert 4.0 * week.field("dividend")[0, 0] == 1.0 + 2 * 0.5


@given(seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_total_returns_of_bars_are_those_of_their_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = 30
    closes = 100 * np.exp(rng.normal(0.0, 0.02, rows).cumsum())
    splits = np.where(rng.random(rows) < 0.2, rng.choice([0.5, 2.0, 3.0], rows), np.nan)
    dividends = np.where(rng.random(rows) < 0.3, rng.uniform(0.0, 2.0, rows), np.nan)
    table = np.stack([closes, dividends, splits], axis=1)[:, None, :]
    times = np.arange(rows).astype("timedelta64[D]") + np.datetime64("2024-01-01", "ns")
    data = MarketData(times, ("A",), ("close", "dividend", "split"), table)
    bars = data.resample("1w", keep_incomplete=True)

    def worth(panel: MarketData) -> float:
        units, cash = 1.0, 0.0
        for row in range(len(panel)):
            units *= np.nan_to_num(panel.field("split")[row, 0]) or 1.0
            cash += units * np.nan_to_num(panel.field("dividend")[row, 0])
        return float(cash + units * panel.field("close")[-1, 0])

    assert worth(bars) == pytest.approx(worth(data), rel=1e-12)


def test_a_bar_without_a_quote_repeats_no_volume() -> None:
    times = np.datetime64("2024-01-02T10:00", "ns") + np.arange(1, 5) * np.timedelta64(1, "m")
    values = np.array([[10, 5], [11, 5], [11, 5], [11, 5]], float)[:, None]
    quoted = np.array([[True], [True], [False], [False]])
    bars = MarketData(times, ["A"], ["close", "volume"], values, quoted=quoted).resample("2min")

    assert np.array_equal(bars.values[:, 0], np.array([[11, 10], [11, np.nan]]), equal_nan=True)
    assert bars.quoted.tolist() == [[True], [False]]


@pytest.mark.parametrize(
    ("rule", "message"),
    [("7min", "part of a day"), ("2d", "part of a day"), ("1s", "at least the frequency")],
)
def test_rules_without_a_meaning_are_refused(rule: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        minutes(10).resample(rule)


def test_rows_between_two_times_include_both() -> None:
    data = minutes(1000)
    day = str(data.times[500])[:10]
    times = data.times

    assert np.array_equal(data.between(times[3], times[7]).times, times[3:8])
    assert {str(time)[:10] for time in data.between(day, day).times} == {day}
    assert data.between() == data
    assert data.between(end=times[9]) == data.rows(0, 10)
    assert data.rows(0, 50, warm_up=20).between(times[5]).warm_up == 15
    with pytest.raises(ValueError, match="no rows between 2100-01-01 and None; the panel has rows"):
        data.between("2100-01-01")


def test_rows_between_days_follow_the_time_zone_of_the_panel() -> None:
    times = np.datetime64("2024-01-02T00:00", "ns") + np.arange(48) * np.timedelta64(1, "h")
    data = MarketData(times, ["A"], ["close"], np.ones((48, 1, 1)), timezone="America/New_York")

    assert np.array_equal(data.between("2024-01-02", "2024-01-02").times, times[5:29])


def test_the_head_of_a_panel_is_its_first_rows() -> None:
    data = minutes(30)

    assert data.head() == data.rows(0, 5)
    assert data.head(100) == data
