"""Benchmark returns of portfolios, against a loop and in parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.envs.portfolio.panel import Benchmark
from tests.data.holed_panels import make_panel, panels


def mean_returns(data: MarketData) -> list[float]:
    """The mean return of listed assets that had a price before and have one, row by row."""
    known: dict[str, float] = {}
    means = []
    for row in range(len(data)):
        before, returns = dict(known), []
        for place, asset in enumerate(data.assets):
            if data.quoted[row, place]:
                known[asset] = data.field("close")[row, place]
            if asset in before and data.listed[row, place]:
                returns.append(known[asset] / before[asset] - 1.0)
        means.append(sum(returns) / len(returns) if returns else 0.0)
    return means


@given(data=panels())
@settings(deadline=None)
def test_equal_weights_are_the_mean_of_what_is_listed(data: MarketData) -> None:
    found, _ = Benchmark("equal_weight", data).returns(data)

    np.testing.assert_allclose(found, mean_returns(data), rtol=1e-9, atol=1e-15)


@given(data=panels(), name=st.sampled_from(["equal_weight", "asset0", "rate"]), draw=st.data())
@settings(deadline=None)
def test_rows_in_parts_give_the_same_bytes(
    data: MarketData, name: str, draw: st.DataObject
) -> None:
    benchmark, cut = Benchmark(name, data), draw.draw(st.integers(1, len(data)))
    first, rest = data.rows(0, cut), data.rows(cut, len(data))

    begun, known = benchmark.returns(first)
    going_on, _ = benchmark.returns(rest, known)

    whole, _ = benchmark.returns(data)
    assert np.concatenate([begun, going_on]).tobytes() == whole.tobytes()


def test_what_is_no_benchmark_is_named() -> None:
    with pytest.raises(ValueError, match="unknown benchmark 'gold'"):
        Benchmark("gold", make_panel(rows=5))
