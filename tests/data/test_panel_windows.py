"""Windows of a panel are the rows that end with a row, as NumPy's indexing has them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quant_gym_rs._core import gather_windows
from sekai.data.windows.panel_windows import PanelWindows


def panel_of(rows: int, assets: int = 2, features: int = 3) -> Any:
    return np.random.default_rng(0).standard_normal((rows, assets, features), np.float32)


def windows_of(panel: Any, lookback: int, threads: int = 1) -> PanelWindows:
    rows, assets, features = panel.shape
    return PanelWindows(
        panel, lookback, times=np.datetime64("2020-01-01") + np.arange(rows),
        assets=[f"A{place}" for place in range(assets)],
        features=[f"F{place}" for place in range(features)], threads=threads,
    )  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 60), st.integers(1, 5), st.integers(1, 5)),
    lookback=st.integers(1, 60),
    picks=st.lists(st.integers(0, 59), max_size=200),
    threads=st.integers(1, 3),
)
def test_a_gather_is_numpys_indexing(
    shape: tuple[int, int, int], lookback: int, picks: list[int], threads: int
) -> None:
    panel, lookback = panel_of(*shape), min(lookback, shape[0])
    windows = windows_of(panel, lookback, threads)
    rows = np.array([max(pick % shape[0], windows.first_row) for pick in picks], np.int64)

    found = windows.gather(rows)

    wanted = panel[rows[:, None] + np.arange(1 - lookback, 1)]
    assert found.dtype == np.float32
    assert np.array_equal(found, wanted)


def test_windows_go_into_the_array_that_is_given() -> None:
    windows, out = windows_of(panel_of(10), 4), np.empty((2, 4, 2, 3), np.float32)

    assert windows.gather([5, 9], out) is out
    assert np.array_equal(out[1], windows.panel[6:])


def test_large_gathers_are_the_same_with_more_threads() -> None:
    panel = panel_of(3000, 10, 8)
    rows = np.random.default_rng(1).integers(59, 3000, 2000)

    assert np.array_equal(
        windows_of(panel, 60, 3).gather(rows), windows_of(panel, 60, 1).gather(rows)
    )


@pytest.mark.parametrize("rows", [[3], [10], [-1], [5, 3], [2**62], [-(2**63)]])
def test_rows_without_a_window_are_refused_and_nothing_is_written(rows: list[int]) -> None:
    windows, out = windows_of(panel_of(10), 5), np.full((len(rows), 5, 2, 3), 7.0, np.float32)

    with pytest.raises(ValueError, match="from 4 up to 9 to have 5 rows of history"):
        windows.gather(rows, out)

    assert np.all(out == 7.0)


@pytest.mark.parametrize("rows", [[1.0], [[1]], 1, [True], ["1"]])
def test_rows_that_are_no_list_of_numbers_are_refused(rows: Any) -> None:
    with pytest.raises(ValueError, match="rows must be a list of integers, got"):
        windows_of(panel_of(10), 2).gather(rows)


@pytest.mark.parametrize(
    "out",
    [
        np.empty((1, 5, 2, 3), np.float64),
        np.empty((2, 5, 2, 3), np.float32),
        np.empty((1, 5, 3, 2), np.float32).swapaxes(2, 3),
        [0.0],
    ],
)
def test_an_array_that_does_not_fit_is_refused(out: Any) -> None:
    with pytest.raises(ValueError, match="out needs a C-contiguous array of float32"):
        windows_of(panel_of(10), 5).gather([5], out)


def test_an_array_that_cannot_be_written_into_is_refused() -> None:
    out = np.empty((1, 5, 2, 3), np.float32)
    out.flags.writeable = False

    with pytest.raises(ValueError, match="can be written into"):
        windows_of(panel_of(10), 5).gather([5], out)


def test_the_kernel_refuses_a_panel_that_it_would_write_into() -> None:
    panel = panel_of(10)

    with pytest.raises(ValueError, match="array of its own"):
        gather_windows(panel, np.array([4]), 5, panel[:5].reshape(1, 5, 2, 3))


@pytest.mark.parametrize("panel", [np.zeros((4, 2), np.float32), None, np.zeros((4, 2, 3))])
def test_the_kernel_refuses_what_is_no_panel(panel: Any) -> None:
    with pytest.raises(ValueError, match="panel needs"):
        gather_windows(panel, np.array([1]), 1, np.zeros((1, 1, 2, 3), np.float32))


def test_a_panel_is_kept_as_it_was() -> None:
    panel = panel_of(10)
    windows = windows_of(panel, 3)
    before, digest = windows.gather([5]), windows.digest

    panel[:] = 0.0

    assert np.array_equal(windows.gather([5]), before)
    assert windows.digest == digest
    assert windows_of(panel, 3).digest != digest


def test_a_panel_that_nobody_can_write_into_is_not_copied() -> None:
    panel = panel_of(10)
    panel.flags.writeable = False

    assert np.shares_memory(windows_of(panel, 3).panel, panel)


def test_threads_gather_from_one_panel_at_once() -> None:
    windows = windows_of(panel_of(2000, 10, 8), 50)
    rows = np.random.default_rng(2).integers(49, 2000, 500)
    wanted = windows.gather(rows)
    same: list[bool] = []

    def gather() -> None:
        same.extend(np.array_equal(windows.gather(rows), wanted) for _ in range(10))

    threads = [threading.Thread(target=gather) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert same == [True] * 40


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"panel": np.zeros((4, 1, 1))}, r"panel must be float32 of shape \(4"),
        ({"panel": np.zeros((4, 1), np.float32)}, r"panel must be float32 of shape \(4"),
        ({"assets": ["A", "B"]}, r"panel must be float32 of shape \(4"),
        ({"lookback": 0}, "must be at least 1"),
        ({"threads": 0}, "must be at least 1"),
    ],
)
def test_what_does_not_belong_together_is_refused(change: dict[str, Any], words: str) -> None:
    given_ = {
        "panel": np.zeros((4, 1, 1), np.float32), "lookback": 2,
        "times": np.datetime64("2020-01-01") + np.arange(4), "assets": ["A"], "features": ["F"],
    }  # fmt: skip

    with pytest.raises(ValueError, match=words):
        PanelWindows(**{**given_, **change})
