"""Falls of an account: how deep, how long, and whether it came back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from sekai.evaluation.metrics import DrawdownPeriod, drawdowns, longest_drawdown, max_drawdown

Floats = NDArray[np.float64]
accounts = arrays(np.float64, st.integers(2, 60), elements=st.integers(1, 20).map(float))


def test_falls_have_a_start_a_trough_and_a_recovery() -> None:
    equity = np.array([100.0, 75.0, 95.0, 100.0, 120.0, 120.0, 60.0, 90.0])

    first, second = drawdowns(equity)

    assert first == DrawdownPeriod(depth=-0.25, start=0, trough=1, recovery=3, length=3)
    assert second == DrawdownPeriod(depth=-0.5, start=5, trough=6, recovery=None, length=2)


def test_an_account_that_only_grows_never_falls() -> None:
    assert drawdowns(np.array([1.0, 1.0, 2.0, 3.0])) == []
    assert longest_drawdown(np.array([0.0, 0.1])) == 0.0
    assert max_drawdown(np.array([0.0, 0.1])) == 0.0


@settings(deadline=None)
@given(accounts)
def test_the_deepest_fall_is_that_of_all_falls(equity: Floats) -> None:
    returns = np.diff(equity) / equity[:-1]
    falls = drawdowns(equity)

    assert max_drawdown(returns) == pytest.approx(min((f.depth for f in falls), default=0.0))


@settings(deadline=None)
@given(accounts)
def test_every_value_below_a_peak_is_in_exactly_one_fall(equity: Floats) -> None:
    inside = np.zeros(len(equity), int)

    for fall in drawdowns(equity):
        inside[fall.start + 1 : fall.recovery] += 1
        assert fall.start < fall.trough <= fall.start + fall.length
        assert equity[fall.trough] == equity[fall.start + 1 : fall.recovery].min()
        assert fall.recovery is None or equity[fall.recovery] >= equity[fall.start]

    assert np.array_equal(inside, equity < np.maximum.accumulate(equity))


def test_the_longest_fall_counts_while_it_is_under_water() -> None:
    assert longest_drawdown(np.array([-0.1, 0.2, -0.5, 0.1, 0.1, 0.1])) == 4.0
