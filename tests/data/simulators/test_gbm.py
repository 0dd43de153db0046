"""Simulated bars have the laws that were asked for."""

from __future__ import annotations

import inspect
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.data.market_data import MarketData
from sekai.data.simulators import Disruptions, simulate_gbm
from tests.data.statistics import assert_correlation, assert_mean, assert_variance

ROWS = 40_000


def log_returns(data: MarketData) -> NDArray[np.float64]:
    return np.diff(np.log(data.field("close")), axis=0)


def test_log_returns_have_the_mean_and_the_variance_of_the_closed_form() -> None:
    # The last has so much variance that half of it would show in the mean.
    drift, volatility = [0.3, 0.0, 1.125], [0.2, 0.05, 1.5]

    data = simulate_gbm(3, ROWS, 1, drift=drift, volatility=volatility, overnight=0.3)

    year = data.frequency.periods_per_year
    for returns, mu, sigma in zip(log_returns(data).T, drift, volatility, strict=True):
        assert_mean(returns, (mu - sigma**2 / 2) / year, sigma / np.sqrt(year))
        assert_variance(returns, sigma**2 / year)


def test_the_variance_is_shared_between_the_night_and_the_day() -> None:
    data = simulate_gbm(1, ROWS, 2, drift=0.02, volatility=0.2, overnight=0.25)

    opens, closes = np.log(data.field("open")[:, 0]), np.log(data.field("close")[:, 0])
    day = 0.04 / data.frequency.periods_per_year
    assert_variance(opens[1:] - closes[:-1], 0.25 * day)
    assert_variance(closes - opens, 0.75 * day)


def test_without_nights_a_row_opens_where_the_last_one_closed() -> None:
    data = simulate_gbm(2, 500)

    assert np.array_equal(data.field("open")[1:], data.field("close")[:-1])
    assert np.all(data.field("open")[0] == 100.0)


def test_the_first_row_opens_at_the_price_that_was_given() -> None:
    data = simulate_gbm(2, 500, price=[50.0, 7.0], overnight=0.5)

    assert data.field("open")[0].tolist() == [50.0, 7.0]
    assert np.all(data.field("open")[1:] != data.field("close")[:-1])


def test_returns_correlate_as_much_as_asked() -> None:
    data = simulate_gbm(
        4, ROWS, 3, correlation=0.2, sector_correlation=0.7, sectors=["X", "Y"], overnight=0.4
    )

    returns = log_returns(data)
    for one, other in combinations(range(4), 2):
        wanted = 0.7 if one % 2 == other % 2 else 0.2
        assert_correlation(returns[:, one], returns[:, other], wanted)


def test_returns_correlate_as_a_matrix_says() -> None:
    matrix = np.array([[1.0, -0.5, 0.3], [-0.5, 1.0, 0.2], [0.3, 0.2, 1.0]])

    returns = log_returns(simulate_gbm(3, ROWS, 4, correlation=matrix))

    for one, other in combinations(range(3), 2):
        assert_correlation(returns[:, one], returns[:, other], matrix[one, other])


def test_assets_that_are_the_same_move_alike_under_a_matrix_without_full_rank() -> None:
    matrix = np.array([[1.0, 1.0, 0.4], [1.0, 1.0, 0.4], [0.4, 0.4, 1.0]])

    returns = log_returns(simulate_gbm(3, 1000, correlation=matrix))

    assert np.allclose(returns[:, 0], returns[:, 1], rtol=0, atol=1e-12)


def test_the_range_of_a_bar_is_that_of_a_brownian_motion() -> None:
    # Without a trend of the logarithm, E[high - low] = sqrt(8 variance / pi).
    data = simulate_gbm(1, ROWS, 5, drift=0.02, volatility=0.2)

    spread = np.log(data.field("high") / data.field("low"))[:, 0]
    variance = 0.04 / data.frequency.periods_per_year
    assert_mean(spread, np.sqrt(8 * variance / np.pi))


def test_each_extreme_has_the_law_of_a_brownian_bridge() -> None:
    data = simulate_gbm(1, ROWS, 6, volatility=0.3, overnight=0.2)

    opens, high, low, close = np.log(data.values[:, 0, :4]).T
    variance = 0.8 * 0.09 / data.frequency.periods_per_year
    for extreme in (high, low):
        # exp(-2 (m - open) (m - close) / variance) is even between 0 and 1.
        chance = np.exp(-2 * (extreme - opens) * (extreme - close) / variance)
        assert_mean(chance, 0.5, np.sqrt(1 / 12))
        assert_mean(chance**2, 1 / 3, np.sqrt(4 / 45))


def test_volume_is_as_large_as_asked_and_rises_with_the_move() -> None:
    data = simulate_gbm(1, ROWS, 7, volume=5000.0)

    volume, moves = data.field("volume")[1:, 0], np.abs(log_returns(data)[:, 0])
    assert_mean(volume, 5000.0)
    large = moves > np.median(moves)
    assert volume[large].mean() > 1.5 * volume[~large].mean()


options = st.fixed_dictionaries(
    {
        "volatility": st.floats(0.0, 3.0),
        "drift": st.floats(-2.0, 2.0),
        "overnight": st.sampled_from([0.0, 0.2, 0.9]),
        "frequency": st.sampled_from(["1d", "1h", "13min"]),
        "disruptions": st.builds(
            Disruptions,
            halt_rate=st.sampled_from([0.0, 0.1, 1.0]),
            late_share=st.sampled_from([0.0, 0.5]),
            listing_rows=st.just(30.0),
            delisting_rate=st.sampled_from([0.0, 0.05]),
        ),
    }
)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**64), options=options)
def test_bars_are_coherent_whatever_is_asked(seed: int, options: dict[str, Any]) -> None:
    data = simulate_gbm(3, 120, seed, **options)

    quoted = data.quoted
    opens, high, low, close, volume = (data.field(name)[quoted] for name in data.fields)
    assert np.all(low <= np.minimum(opens, close))
    assert np.all(high >= np.maximum(opens, close))
    assert np.all(volume > 0)
    assert np.isnan(data.values[~quoted]).all()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), options=options, correlation=st.sampled_from([0.4, "matrix"]))
def test_another_asset_and_further_rows_change_nothing(
    seed: int, options: dict[str, Any], correlation: Any
) -> None:
    def matrix(size: int) -> Any:
        return 0.7 * np.eye(size) + 0.3 if correlation == "matrix" else correlation

    options = {"start": "2000-01-03", **options}
    small = simulate_gbm(3, 60, seed, correlation=matrix(3), **options)
    large = simulate_gbm(70, 200, seed, correlation=matrix(70), **options)

    assert large.select(small.assets).rows(0, 60) == small


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others() -> None:
    one, again, other = simulate_gbm(3, 50, 7), simulate_gbm(3, 50, 7), simulate_gbm(3, 50, 8)

    assert one.values.tobytes() == again.values.tobytes()
    assert not np.any(one.field("close") == other.field("close"))


def test_every_part_of_a_bar_has_numbers_of_its_own() -> None:
    data = simulate_gbm(2, 5000, correlation=0.0)

    opens, high, low, close, volume = (np.log(data.field(name)) for name in data.fields)
    parts = [close - opens, high - np.maximum(opens, close), np.minimum(opens, close) - low]
    columns = [column for part in (*parts, volume) for column in part.T]
    for one, other in combinations(columns, 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.9


def test_stamps_are_the_closes_of_weekdays() -> None:
    data = simulate_gbm(1, 6, start="2024-02-29")

    days = [str(day) for day in data.times.astype("datetime64[D]")]
    assert days == ["2024-02-29", "2024-03-01", "2024-03-04", "2024-03-05", "2024-03-06",
                    "2024-03-07"]  # fmt: skip
    assert np.all(data.times - data.times.astype("datetime64[D]") == np.timedelta64(16, "h"))


def test_rows_within_days_end_with_the_session() -> None:
    data = simulate_gbm(1, 8, frequency="1h", start="2024-03-01", overnight=0.5)

    clock = [str(stamp)[11:16] for stamp in data.times]
    assert clock == ["10:30", "11:30", "12:30", "13:30", "14:30", "15:30", "16:00", "10:30"]
    assert str(data.times[-1])[:10] == "2024-03-04"
    gaps = data.field("open")[1:, 0] != data.field("close")[:-1, 0]
    assert gaps.tolist() == [False] * 6 + [True]


@pytest.mark.parametrize("frequency", ["1d", "1h", "5min"])
@pytest.mark.parametrize("calendar", ["weekdays", "always"])
def test_a_year_of_rows_takes_a_year(frequency: str, calendar: Any) -> None:
    data = simulate_gbm(1, 20_000, frequency=frequency, calendar=calendar)

    counted = data.calendar.frequency
    assert data.frequency.nanoseconds == counted.nanoseconds
    assert data.frequency.periods_per_year == pytest.approx(counted.periods_per_year, rel=0.02)


def test_hourly_returns_have_the_variance_of_a_year_too() -> None:
    data = simulate_gbm(1, ROWS, 9, frequency="30min", overnight=0.2, drift=0.02)

    daily = np.log(data.field("close")[12::13, 0])
    assert_variance(np.diff(daily), 0.04 / (data.frequency.periods_per_year / 13))


def test_disruptions_come_as_often_as_asked() -> None:
    rates = Disruptions(halt_rate=0.02, halt_rows=5, late_share=0.4, listing_rows=50,
                        delisting_rate=0.001)  # fmt: skip
    data = simulate_gbm(600, 3000, disruptions=rates)

    assert_mean(~data.listed[0], 0.4)
    starts = data.listed.argmax(axis=0)
    assert_mean(starts[starts > 0], 50.0)
    lives = data.listed[:, starts == 0].sum(axis=0)
    # Waiting times without memory, cut off by the last row.
    assert_mean(lives, (1 - 0.999**3000) / 0.001)
    halted = ~data.quoted[1:] & data.listed[1:] & data.quoted[:-1]
    assert_mean(halted[data.quoted[:-1] & data.listed[1:]], 0.02)
    still = ~data.quoted[1:] & data.listed[1:]
    after_halt = data.listed[:-1] & ~data.quoted[:-1] & data.listed[1:]
    assert_mean(still[after_halt], 1 - 1 / 5)


def test_prices_move_on_unseen_while_an_asset_is_halted() -> None:
    halts = Disruptions(halt_rate=0.1)

    shown, hidden = simulate_gbm(2, 300, disruptions=halts), simulate_gbm(2, 300)

    assert np.array_equal(shown.values[shown.quoted], hidden.values[shown.quoted])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"volatility": -0.1}, r"volatility must be at least 0, got -0\.1"),
        ({"volatility": [0.1, 0.2]}, "one for each of 3 assets"),
        ({"drift": np.nan}, "drift must be one finite number"),
        ({"correlation": -0.1}, r"between it and 1, got -0\.1 and None; pass a matrix"),
        (
            {"correlation": 0.5, "sector_correlation": 0.4},
            "correlation must be from 0 to 1 and sector_correlation",
        ),
        ({"correlation": np.eye(2)}, r"shape \(3, 3\)"),
        ({"correlation": np.eye(3) * 2}, "ones on its diagonal"),
        (
            {"correlation": np.eye(3), "sector_correlation": 0.4},
            "sector_correlation requires a scalar correlation",
        ),
        (
            {"correlation": [[1, -1, 0.5], [-1, 1, 0.5], [0.5, 0.5, 1]]},
            "correlation must be positive semidefinite, got eigenvalue",
        ),
        ({"correlation": np.full((3, 3), np.nan)}, "symmetric"),
        ({"price": 0.0}, "price must be above 0"),
        ({"volume": -1.0}, "volume must be above 0"),
        ({"overnight": 1.0}, "overnight must be"),
        (
            {"overnight": 0.1, "calendar": "always"},
            "overnight must be 0 for a market that is always",
        ),
        ({"calendar": "holidays"}, "calendar must be"),
        ({"frequency": "2d"}, "frequency must be"),
        ({"frequency": "soon"}, "frequency must be"),
        ({"sectors": "Energy"}, "list of names"),
        ({"sectors": {"other": "X"}}, r"sectors: unknown asset 'other'"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"rows": 0}, "rows must be at least 1"),
        ({"assets": 0}, "assets must be at least 1"),
        ({"assets": ["A", "A"]}, r"assets must be a number or unique names, got \['A'"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        simulate_gbm(**{"assets": 3, "rows": 10, **wrong})


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'overnigth'"):
        simulate_gbm(overnigth=0.1)  # type: ignore[call-arg]


def test_every_option_of_the_world_is_used() -> None:
    changed: dict[str, Any] = {
        "start": "2010-01-04", "frequency": "1h", "calendar": "always", "overnight": 0.2,
        "price": 7.0, "volume": 5.0, "sectors": ["X"],
        "disruptions": Disruptions(halt_rate=0.5),
    }  # fmt: skip
    own = ("assets", "rows", "seed", "drift", "volatility", "correlation", "sector_correlation")
    assert changed.keys() == inspect.signature(simulate_gbm).parameters.keys() - set(own)

    for name, value in changed.items():
        assert simulate_gbm(2, 50, **{name: value}) != simulate_gbm(2, 50)


@pytest.mark.parametrize(
    "wrong", [{"halt_rate": 1.1}, {"late_share": -0.1}, {"delisting_rate": 2}, {"halt_rows": 0.5},
              {"listing_rows": np.inf}],
)  # fmt: skip
def test_impossible_rates_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        Disruptions(**wrong)


def test_rows_that_no_stamp_can_reach_are_refused() -> None:
    with pytest.raises(ValueError, match="after the last timestamp 2262-04-10; use fewer rows"):
        simulate_gbm(assets=1, rows=200_000)


@pytest.mark.parametrize("rows", [1, 4, 100, 2520, 8000])
@pytest.mark.parametrize("calendar", ["weekdays", "always"])
@pytest.mark.parametrize("frequency", ["1d", "1h"])
def test_rows_without_a_start_end_in_the_last_week_of_2024(
    rows: int, calendar: Any, frequency: str
) -> None:
    data = simulate_gbm(1, rows, calendar=calendar, frequency=frequency)

    # A row at midnight ends the day before.
    last = (data.times[-1] - np.timedelta64(1, "ns")).astype("datetime64[D]")
    assert np.datetime64("2024-12-24") < last <= np.datetime64("2024-12-31")
    assert data.times[0] > np.datetime64("1990-01-01")
    assert data == simulate_gbm(1, rows, calendar=calendar, frequency=frequency)


def test_prices_and_weekends_do_not_depend_on_the_dates() -> None:
    recent, early = simulate_gbm(2, 700), simulate_gbm(2, 700, start="2000-01-03")

    assert np.array_equal(recent.values, early.values)
    assert np.array_equal(np.diff(recent.times), np.diff(early.times))
