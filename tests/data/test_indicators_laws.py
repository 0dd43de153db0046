"""Laws of the features of any series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from quant_gym_rs._core import FeatureState
from sekai.data import FEATURES, Indicators, compute, feature_names
from tests.data.reference_features import Bar
from tests.data.strategies import bar_columns, bar_series, view_columns, view_series

OPTIONS: list[dict[str, Any]] = [
    {},
    {"normalize": True},
    {"privileged": False, "full55": True},
]
SCALED = np.array([feature.price_level for feature in FEATURES[:54]])


def same_bits(left: NDArray[np.float64], right: NDArray[np.float64]) -> bool:
    return left.tobytes() == right.tobytes()


@given(data=st.data(), bars=bar_series(min_size=2), options=st.sampled_from(OPTIONS))
@settings(deadline=None, max_examples=40)
def test_what_comes_later_changes_no_earlier_row(
    data: st.DataObject, bars: list[Bar], options: dict[str, Any]
) -> None:
    seen = data.draw(view_series(bars))
    cut = data.draw(st.integers(1, len(bars) - 1))
    columns = bar_columns(bars) | view_columns(seen)
    changed = {name: values.copy() for name, values in columns.items()}
    for name in ("high", "low", "close"):
        changed[name][cut:] *= 3.7
    changed["volume"][cut:] += 11.0
    changed["bid"][cut:] = np.nan

    before, after = compute(**columns, **options), compute(**changed, **options)

    assert same_bits(before[:cut], after[:cut])
    assert not same_bits(before, after)
    shorter = {name: values[:cut] for name, values in columns.items()}
    assert same_bits(compute(**shorter, **options), before[:cut])


@given(data=st.data(), bars=bar_series(), options=st.sampled_from(OPTIONS))
@settings(deadline=None, max_examples=40)
def test_a_stream_saved_at_every_bar_equals_the_series(
    data: st.DataObject, bars: list[Bar], options: dict[str, Any]
) -> None:
    seen = data.draw(view_series(bars))
    columns = bar_columns(bars) | view_columns(seen)
    rows = compute(**columns, **options)
    stream = Indicators(**options)

    for now, bar in enumerate(bars):
        continued = Indicators(**options)
        continued.load_state_dict(stream.state_dict())
        assert continued.state_dict() == stream.state_dict()
        stream = continued
        stream.push(bar.high, bar.low, bar.close, bar.volume, bar.trades)
        view: Any = {name: values[now] for name, values in view_columns(seen).items()}
        assert same_bits(stream.row(**view), rows[now])


@given(data=st.data(), bars=bar_series(), power=st.integers(-8, 20))
@settings(deadline=None, max_examples=40)
def test_a_power_of_two_scales_prices_and_changes_nothing_else(
    data: st.DataObject, bars: list[Bar], power: int
) -> None:
    columns = bar_columns(bars) | view_columns(data.draw(view_series(bars)))
    prices = ("high", "low", "close", "bid", "ask", "last", "fair")
    factor = 2.0**power
    scaled = {name: values * (factor if name in prices else 1) for name, values in columns.items()}

    rows, others = compute(**columns), compute(**scaled)

    wanted = np.where(SCALED, rows * factor, rows)
    # The least width of bands is a price, and the one limit that does not scale.
    rows_without = feature_names().index("f_bb_percent_b")
    assert np.array_equal(np.delete(others, rows_without, 1), np.delete(wanted, rows_without, 1))
    close = columns["close"]
    if np.ptp(close) > 1e-3 * close.max() and close.min() > 0.01:
        assert np.array_equal(others[11:, rows_without], rows[11:, rows_without])


@given(data=st.data(), bars=bar_series(), options=st.sampled_from(OPTIONS))
@settings(deadline=None, max_examples=40)
def test_every_value_shown_is_a_number_in_its_range(
    data: st.DataObject, bars: list[Bar], options: dict[str, Any]
) -> None:
    columns = bar_columns(bars) | view_columns(data.draw(view_series(bars)))

    rows = compute(**columns, **options)

    assert np.isfinite(rows).all()
    for feature, values in zip(FEATURES, rows.T, strict=False):
        assert (feature.low <= values).all(), feature.name
        assert (values <= feature.high).all(), feature.name


@pytest.mark.parametrize(("start", "deviation"), [(100.0, 1e-2), (1e6, 1e-9)])
def test_after_a_million_bars_nothing_has_drifted(start: float, deviation: float) -> None:
    rng = np.random.default_rng(0)
    early = FeatureState()
    for _ in range(100):
        close = start * np.exp(rng.normal(0, deviation, 10_000))
        early.series(_flat_bars(close))
    late = FeatureState()
    late.series(_flat_bars(close[-2_000:]))

    after = start * np.exp(rng.normal(0, deviation, 64))
    old, new = early.series(_flat_bars(after)), late.series(_flat_bars(after))

    # Averages forget: two thousand bars are as good as a million, but for the last digits. The
    # difference of two averages has those of the price.
    allowed = np.full(54, 1e-24)
    for name in ("f_macd_line", "f_macd_signal", "f_macd_histogram"):
        allowed[feature_names().index(name)] = 1e-15 * start
    allowed[feature_names().index("f_trend_strength")] = 1e-15 / deviation
    assert (abs(old - new) <= 1e-12 * abs(new) + allowed).all()


def _flat_bars(close: NDArray[np.float64]) -> NDArray[np.float64]:
    one = np.ones_like(close)
    return np.column_stack([close, close, close, one, one])
