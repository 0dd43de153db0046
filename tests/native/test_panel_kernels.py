"""Kernels of panels: what they are given in other shapes is refused, however it lies it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quant_gym_rs._core import (
    benchmark_returns,
    join_features,
    log_changes,
    logarithms,
    panel_flaw,
    priced_places,
    rolling_windows,
    row_masks,
    seen_places,
    show_features,
)
from sekai.data.market_data import frozen

ONES = np.ones((3, 2))
TRUE = np.ones((3, 2), np.bool_)
WIDE = np.ones((3, 4), np.bool_)

REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "a fold": (lambda: rolling_windows(ONES, 2, "mode"), "unknown window reduction .mode"),
    "no rows": (lambda: rolling_windows(ONES, 0, "sum"), "at least 1 row"),
    "changes": (lambda: log_changes(ONES, WIDE, 1), "one shape"),
    "blocks": (lambda: join_features([np.ones((2, 2, 1))], TRUE), "3 rows and 2 assets"),
    "firsts": (lambda: show_features(np.ones((3, 2, 2)), None, [1, 0]), "that rise"),
    "no channel": (lambda: show_features(np.ones((3, 2, 2)), None, [0, 2]), "that rise"),
    "masks": (lambda: panel_flaw(np.ones((3, 2, 1)), TRUE, WIDE, TRUE, [0]), "3 rows and 2"),
    "no field": (lambda: panel_flaw(np.ones((3, 2, 1)), TRUE, TRUE, TRUE, [1]), "got index 1"),
    "no price": (lambda: priced_places(np.ones((3, 2, 1)), [1]), "got index 1"),
    "shown": (lambda: seen_places(np.ones((3, 2, 1)), WIDE), "3 rows and 2 assets"),
    "seen": (lambda: row_masks(ONES[:, :1], [0], TRUE), "a mask of 3 listed assets"),
    "listed": (lambda: row_masks(ONES, [0], np.ones((1, 3), np.bool_), TRUE[0]), "3 assets"),
    "quotes": (lambda: benchmark_returns(ONES, WIDE), "one shape"),
    "before": (lambda: benchmark_returns(ONES, None, None, np.ones(3)), "2 known levels"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_does_not_fit_together_is_refused(name: str) -> None:
    call, words = REFUSALS[name]

    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("fold", ["sum", "maximum", "minimum", "deviation"])
def test_numbers_that_lie_apart_are_read_as_those_that_do_not(fold: str) -> None:
    values = np.random.default_rng(0).normal(5, 1, (20, 3, 4))
    apart, together = values[:, :, 1], values[:, :, 1].copy()
    there = np.ones(apart.shape, np.bool_)

    assert not apart.flags.c_contiguous
    assert np.array_equal(
        rolling_windows(apart, 5, fold), rolling_windows(together, 5, fold), equal_nan=True
    )
    assert np.array_equal(
        log_changes(apart, there, 2), log_changes(together, there, 2), equal_nan=True
    )
    assert np.array_equal(benchmark_returns(apart)[0], benchmark_returns(together)[0])


@given(seed=st.integers(0, 999), rows=st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_logarithms_are_those_of_numpy_to_the_last_bit_or_the_one_before(
    seed: int, rows: int
) -> None:
    values = np.random.default_rng(seed).lognormal(0, 20, (rows, 3))

    found = logarithms(values)

    assert np.all(np.abs(found - np.log(values)) <= np.spacing(np.abs(np.log(values))))


def test_what_is_shown_cannot_be_written_into() -> None:
    for array in show_features(np.ones((3, 2, 2))):
        with pytest.raises(ValueError, match="cannot set WRITEABLE|read-only"):
            array[0] = 0
        assert frozen(array) is array
