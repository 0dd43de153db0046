import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sekai.evaluation.report.chart import downsample

VALUES = arrays(
    np.float64, st.integers(1, 400), elements=st.floats(-1e6, 1e6) | st.just(float("nan"))
)


@given(values=VALUES, most=st.integers(5, 60))
def test_points_are_few_and_in_order_and_reach_from_end_to_end(
    values: np.ndarray, most: int
) -> None:
    kept = downsample(values, most)

    assert len(kept) <= max(most, 5)
    assert (np.diff(kept) > 0).all()
    assert kept[0] == 0
    assert kept[-1] == len(values) - 1


@given(values=VALUES, most=st.integers(5, 60))
def test_no_peak_and_no_trough_is_lost(values: np.ndarray, most: int) -> None:
    kept = values[downsample(values, most)]

    assert np.array_equal(np.fmax.reduce(kept), np.fmax.reduce(values), equal_nan=True)
    assert np.array_equal(np.fmin.reduce(kept), np.fmin.reduce(values), equal_nan=True)


@given(place=st.integers(0, 9_999), value=st.sampled_from([5.0, -5.0, float("nan")]))
def test_a_single_spike_or_hole_is_seen_wherever_it_is(place: int, value: float) -> None:
    values = np.sin(np.arange(10_000) / 700)
    values[place] = value

    assert place in downsample(values, 300)


def test_each_stretch_keeps_its_own_extremes() -> None:
    values = np.random.default_rng(0).normal(size=30_000)
    kept = downsample(values, 1500)

    # Two stretches are surely inside any window of three.
    for first in range(0, 29_000, 500):
        window = (kept >= first) & (kept < first + 500)
        assert values[kept[window]].max() == values[first : first + 500].max()


def test_short_series_are_left_alone() -> None:
    assert downsample(np.zeros(7), 7).tolist() == list(range(7))


def test_too_few_points_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 5, got 4"):
        downsample(np.zeros(9), 4)
