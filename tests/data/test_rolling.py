"""Windows against pandas, and the law that a window is all a row depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from quant_gym_rs._core import logarithms, rolling_windows
from sekai.data.features.library import lag, rolling_deviation, rolling_mean, stable_elementwise
from tests.data.holed_panels import same_numbers

Rolling = Callable[[NDArray[np.float64], int], NDArray[np.float64]]


def folded(fold: str) -> Rolling:
    return lambda values, rows: rolling_windows(values, rows, fold)


ORACLES: dict[str, tuple[Rolling, Callable[[Any], Any]]] = {
    "sum": (folded("sum"), lambda windows: windows.sum()),
    "mean": (rolling_mean, lambda windows: windows.mean()),
    "maximum": (folded("maximum"), lambda windows: windows.max()),
    "minimum": (folded("minimum"), lambda windows: windows.min()),
    "deviation": (rolling_deviation, lambda windows: windows.std()),
}


def series(rows: int, holes: float, seed: int = 0) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    values = rng.normal(3, 1, (rows, 4))
    values[rng.random(values.shape) < holes] = np.nan
    return values


@pytest.mark.parametrize("rows", [2, 3, 7, 8, 20, 31, 64])
@pytest.mark.parametrize("holes", [0.0, 0.02])
@pytest.mark.parametrize("name", ORACLES)
def test_a_window_gives_what_pandas_gives(name: str, holes: float, rows: int) -> None:
    values = series(200, holes)
    ours, theirs = ORACLES[name]

    found, wanted = ours(values, rows), theirs(pd.DataFrame(values).rolling(rows)).to_numpy()

    assert np.isfinite(found).any()
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@given(
    name=st.sampled_from(sorted(ORACLES)),
    rows=st.integers(2, 20),
    before=st.integers(0, 40),
    seed=st.integers(0, 999),
)
def test_what_came_before_a_window_changes_none_of_its_bits(
    name: str, rows: int, before: int, seed: int
) -> None:
    window = series(rows, 0.0, seed)
    history = 1e9 * series(before, 0.1, seed + 1)
    roll, _ = ORACLES[name]

    assert same_numbers(roll(np.concatenate([history, window]), rows)[-1], roll(window, rows)[-1])


def test_the_deviation_of_large_numbers_that_differ_little_is_exact() -> None:
    values = 1e9 + np.arange(64.0)[:, None] % 2

    assert np.allclose(rolling_deviation(values, 8)[7:], np.std([0, 1] * 4, ddof=1), rtol=1e-12)


def test_a_window_longer_than_the_data_has_no_value() -> None:
    assert np.isnan(rolling_windows(series(5, 0.0), 6, "sum")).all()
    assert np.isnan(lag(series(5, 0.0), 5)).all()


def test_windows_without_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 row, got 0"):
        rolling_windows(series(5, 0.0), 0, "sum")
    with pytest.raises(ValueError, match="rows must be at least 2 for a standard deviation, got 1"):
        rolling_deviation(series(5, 0.0), 1)


def test_there_is_no_logarithm_of_nothing_and_of_less() -> None:
    found = logarithms(np.array([1.0, 0.0, -1.0, np.nan, np.inf]))

    assert found[0] == 0
    assert np.isnan(found[1:]).all()


@given(seed=st.integers(0, 999), count=st.integers(1, 40), step=st.integers(1, 3))
def test_a_number_alone_has_the_bits_it_has_among_many(seed: int, count: int, step: int) -> None:
    values = np.random.default_rng(seed).lognormal(0, 3, count * step)[::step]

    together = stable_elementwise(np.log, values)

    assert same_numbers(
        together, np.array([stable_elementwise(np.log, v[None])[0] for v in values])
    )


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_function_is_given_many_numbers_without_gaps(count: int) -> None:
    given_sizes = []

    def spy(values: NDArray[np.float64]) -> NDArray[np.float64]:
        given_sizes.append(values.size)
        assert values.flags.c_contiguous
        return values

    found = stable_elementwise(spy, np.arange(2.0 * count)[::2])

    assert found.tolist() == np.arange(0.0, 2 * count, 2).tolist()
    assert given_sizes[0] >= 16
