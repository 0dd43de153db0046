"""Draws at the edge of what a generator can give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.spaces.numbers import draw_below, draw_between
from tests.spaces.strategies import FLOATS, law


class Extreme:
    """A generator that always draws the largest number it can."""

    def random(self, size: Any = None) -> Any:
        return np.full(() if size is None else size, 1 - 2.0**-53)

    def standard_exponential(self, size: Any) -> Any:
        return np.full(size, 40.0)


EXTREME: Any = Extreme()


@law
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1e308))
def test_the_largest_draw_never_passes_the_high_bound(low: float, width: float) -> None:
    high = min(low + width, np.finfo(np.float64).max)
    lows, highs = np.array([low, -1e30]), np.array([high, 1e-10])

    values = draw_between(lows, highs)(EXTREME)

    assert (lows <= values).all()
    assert (values <= highs).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_largest_exponential_draw_stays_finite(dtype: Any) -> None:
    largest = np.full(2, np.finfo(dtype).max)
    infinite = np.full(2, np.inf, dtype)

    assert draw_between(largest, infinite)(EXTREME).tolist() == largest.tolist()
    assert draw_between(-infinite, -largest)(EXTREME).tolist() == (-largest).tolist()


@law
@given(st.integers(1, 2**24))
def test_the_largest_draw_below_a_count_is_the_last(count: int) -> None:
    assert draw_below(EXTREME, count) == count - 1
