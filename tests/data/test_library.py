"""The library of features against pandas and TA-Lib, and what halts do to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import talib
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData, compute, feature_names
from sekai.data.features.feature import make_feature
from tests.data.holed_panels import NAMED, make_panel, panels, same_numbers

WHOLE = make_panel(rows=150, assets=6, holes=0.0)
HOLED = make_panel(rows=150, assets=6, seed=1)


def frame(data: MarketData, field: str) -> Any:
    return pd.DataFrame(np.where(data.quoted, data.field(field), np.nan))


def among(ranks: Any) -> Any:
    count = ranks.notna().sum(axis=1)
    return (2 * (ranks.sub(1)).div((count - 1).where(count > 1), axis=0) - 1).where(
        (count > 1), ranks * 0, axis=0
    )


def change(data: MarketData, rows: int) -> Any:
    return frame(data, "close").pct_change(rows, fill_method=None)


ORACLES: dict[str, Callable[[MarketData], Any]] = {
    "simple_return": lambda data: change(data, 1),
    "simple_return(rows=7)": lambda data: change(data, 7),
    "log_return(3)": lambda data: np.log(frame(data, "close")).diff(3),
    "volatility(10)": lambda data: np.log(frame(data, "close")).diff().rolling(10).std(),
    "momentum(12, skip=4)": lambda data: change(data, 12).shift(4),
    "rank(simple_return)": lambda data: among(change(data, 1).rank(axis=1)),
    "zscore(momentum(5))": lambda data: (
        change(data, 5).where(pd.DataFrame(data.quoted)).pipe(
            lambda x: x.sub(x.mean(axis=1), axis=0).div(x.std(axis=1, ddof=0), axis=0)
        )
    ),
    "distance_to_high(9)": lambda data: (
        frame(data, "close") / frame(data, "close").rolling(9).max() - 1
    ),
    "distance_to_low(9)": lambda data: (
        frame(data, "close") / frame(data, "close").rolling(9).min() - 1
    ),
    "relative_volume(8)": lambda data: (
        frame(data, "volume") / frame(data, "volume").rolling(8).mean()
    ),
    "dollar_volume(8)": lambda data: np.log(
        (frame(data, "volume") * frame(data, "close")).rolling(8).mean()
    ),
    "gap": lambda data: frame(data, "open") / frame(data, "close").shift() - 1,
    "drawdown": lambda data: frame(data, "close") / frame(data, "close").cummax().ffill() - 1,
}  # fmt: skip


@pytest.mark.parametrize("data", [WHOLE, HOLED], ids=["whole", "holed"])
@pytest.mark.parametrize("spec", ORACLES)
def test_a_feature_is_what_pandas_makes_of_it(spec: str, data: MarketData) -> None:
    found = make_feature(spec)(data)[:, :, 0]

    wanted = ORACLES[spec](data).to_numpy()

    if spec.startswith("zscore"):  # pandas divides one asset alone by 0, and has no number
        wanted = np.where(np.isnan(wanted) & np.isfinite(found), 0.0, wanted)
    assert np.isfinite(found).sum() > 50
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("asset", range(3))
def test_a_feature_is_what_talib_makes_of_it(asset: int) -> None:
    close = np.ascontiguousarray(WHOLE.field("close")[:, asset])
    volume = np.nan_to_num(WHOLE.field("volume")[:, asset])
    data = WHOLE.select(fields=["close"])

    def found(spec: str) -> Any:
        return make_feature(spec)(data)[:, asset, 0]

    np.testing.assert_allclose(found("momentum(10)"), talib.ROCP(close, 10), rtol=1e-9, atol=1e-14)
    highest, lowest = talib.MAX(close, 9), talib.MIN(close, 9)
    np.testing.assert_allclose(found("distance_to_high(9)"), close / highest - 1, atol=1e-14)
    np.testing.assert_allclose(found("distance_to_low(9)"), close / lowest - 1, atol=1e-14)
    data = WHOLE.replace(values=np.nan_to_num(WHOLE.values))
    wanted = volume / talib.SMA(volume, 8)
    np.testing.assert_allclose(found("relative_volume(8)"), wanted, rtol=1e-12)


def test_an_indicator_of_an_asset_is_that_of_the_bars_it_has() -> None:
    names = ("f_rsi_8", "f_macd_line", "f_volume_surge")
    data = make_panel(rows=150, assets=3, seed=4)
    found = make_feature("indicators", *names)(data)

    for place in range(3):
        bars = np.isfinite(data.values[:, place]).all(axis=1)
        _, high, low, close, volume = data.values[bars, place].T
        rows = compute(high, low, close, volume, raw=True)
        wanted = rows[:, [feature_names().index(name) for name in names]]
        assert same_numbers(found[bars, place], wanted)
        assert np.isnan(found[~bars, place]).all()


def halted(rows: int, *halts: int) -> MarketData:
    quoted = np.ones((rows, 1), bool)
    quoted[list(halts)] = False
    values = np.where(quoted[:, :, None], 100.0 + np.arange(rows)[:, None, None], np.nan)
    times = np.datetime64("2024-01-01", "ns") + np.arange(rows) * np.timedelta64(1, "D")
    return MarketData(times, ["A"], ["close"], values, quoted=quoted, listed=quoted | True)


def test_a_return_needs_a_quote_now_and_one_exactly_so_many_rows_before() -> None:
    data = halted(10, 4)

    missing = {
        spec: np.flatnonzero(np.isnan(make_feature(spec)(data)[:, 0, 0])).tolist()
        for spec in ("simple_return", "log_return(2)", "momentum(2, skip=1)")
    }

    assert missing == {
        "simple_return": [0, 4, 5],
        "log_return(2)": [0, 1, 4, 6],
        "momentum(2, skip=1)": [0, 1, 2, 5, 7],
    }


def test_a_window_with_a_halt_in_it_has_no_value() -> None:
    data = halted(12, 5)

    found = np.isnan(make_feature("volatility(3)")(data)[:, 0, 0])

    assert np.flatnonzero(found).tolist() == [0, 1, 2, 5, 6, 7, 8]


def test_a_price_that_nobody_quotes_does_not_count() -> None:
    data = halted(6).replace(quoted=np.arange(6)[:, None] != 3, tradable=np.zeros((6, 1), bool))

    assert np.isnan(make_feature("simple_return")(data)[3:5]).all()


def test_ranks_are_among_those_quoted_now() -> None:
    data = make_panel(rows=2, assets=4, holes=0.0)
    quoted = np.array([[True] * 4, [True, True, False, True]])
    data = data.replace(quoted=quoted, tradable=quoted)

    ranks = make_feature("rank", of=lambda panel: panel.field("close"))

    assert np.isnan(make_feature("rank(simple_return)")(data)[1, 2, 0])
    with pytest.raises(TypeError):
        make_feature("rank(nothing=1)")
    assert sorted(ranks(data)[1, [0, 1, 3], 0]) == [-1.0, 0.0, 1.0]


def test_ties_share_their_places_and_one_alone_is_in_the_middle() -> None:
    from sekai.data.features.library import rank_rows

    found = rank_rows(np.array([[1.0, 2.0, 2.0, 3.0], [np.nan, 5.0, np.nan, np.nan]]))

    assert found[0].tolist() == [-1.0, 0.0, 0.0, 1.0]
    assert found[1, 1] == 0.0
    assert np.isnan(found[1, [0, 2, 3]]).all()


def test_nobody_stands_out_where_all_are_the_same() -> None:
    data = make_panel(rows=3, assets=7, holes=0.0)

    scores = make_feature("zscore", of=lambda panel: np.full((3, 7), 0.1))(data)

    assert (scores == 0).all()


def test_days_and_times_are_those_where_the_market_is() -> None:
    # Two in the morning on a Tuesday in UTC is nine in the evening on Monday in New York.
    times = np.array(["2024-01-02T02:00", "2024-07-02T01:00"], "datetime64[ns]")
    data = make_panel(rows=2, holes=0.0).replace(times=times)

    day, time = make_feature("day_of_week")(data), make_feature("time_of_day")(data)

    assert np.allclose(day[:, 0], [[0, 1], [0, 1]], atol=1e-12)
    assert np.allclose(time[:, 0], [[np.sin(2 * np.pi * 21 / 24), np.cos(2 * np.pi * 21 / 24)]] * 2)
    utc = make_feature("day_of_week")(data.replace(timezone=None))
    assert np.allclose(utc[:, 0, 0], np.sin(2 * np.pi / 7))


@given(data=panels(min_rows=2), spec=st.sampled_from(NAMED), part=st.floats(0, 1))
@settings(deadline=None, max_examples=150)
def test_the_lookback_of_a_row_gives_all_its_bits(data: MarketData, spec: str, part: float) -> None:
    feature = make_feature(spec)
    row = int(part * (len(data) - 1))
    rows = row + 1 if feature.lookback is None else min(row + 1, feature.lookback)

    window = feature(data.rows(row + 1 - rows, row + 1))

    assert same_numbers(window[-1], feature(data)[row])


@pytest.mark.parametrize("spec", ["momentum(0)", "volatility(1)", "momentum(5, skip=-1)"])
def test_rows_that_cannot_be_are_refused_before_there_is_data(spec: str) -> None:
    with pytest.raises(ValueError, match="rows must be an integer of at least"):
        make_feature(spec)


def test_an_indicator_that_needs_more_than_bars_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown indicator 'f_spread_bps'; expected"):
        make_feature("indicators(f_spread_bps)")


def test_a_series_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(KeyError, match="unknown market series 'vix'"):
        make_feature("market_series(vix)")(WHOLE)
