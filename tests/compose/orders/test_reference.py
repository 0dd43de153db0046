"""The native matching against a plain one that was written from the rules alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quant_gym_rs._core import OrderMatcher
from tests.compose.orders.reference import Reference
from tests.spaces.strategies import law

RATES = st.just(0.0) | st.floats(0, 0.01)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Random settings of the matching."""
    ticks = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    first = draw(st.integers(0, ticks - 1))
    price = rng.uniform(5, 50, ticks)
    price[rng.random(ticks) < 0.1] = np.nan
    maybe: Any = lambda values: draw(st.sampled_from([None, values]))  # noqa: E731
    return {
        "price": price,
        "volume": rng.uniform(0, 500, ticks),
        "is_buy": draw(st.booleans()),
        "amount": draw(st.floats(1, 5000)),
        "window": (first, draw(st.integers(first + 1, ticks))),
        "ticks_per_step": draw(st.integers(1, 15)),
        "twap": draw(st.booleans()),
        "tradable": maybe(rng.random(ticks) < 0.8),
        "current_cap": maybe(rng.uniform(0, 200, ticks)),
        "cumulative_cap": maybe(np.cumsum(rng.uniform(0, 200, ticks))),
        "factor": maybe(np.full(ticks, rng.uniform(0.5, 3))),
        "trade_unit": maybe(float(rng.choice([1, 10, 100]))),
        "open_cost": draw(RATES),
        "close_cost": draw(RATES),
        "min_cost": draw(st.sampled_from([0.0, 5.0])),
        "impact_cost": draw(RATES),
        "cash": draw(st.none() | st.floats(0, 1e5)),
    }


def native(case: dict[str, Any]) -> OrderMatcher:
    rest = {name: case[name] for name in case if name not in POSITIONAL}
    price, volume, is_buy, amount = (case[name] for name in POSITIONAL[:4])
    return OrderMatcher(
        price, volume, is_buy, amount, *case["window"],
        carries=case["twap"], finishes=not case["twap"], **rest,
    )  # fmt: skip


POSITIONAL = ("price", "volume", "is_buy", "amount", "window", "twap")


def plain(case: dict[str, Any]) -> Reference:
    listed = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in case.items()
    }
    return Reference(**listed)


@settings(law, max_examples=300)
@given(case=cases(), shares=st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_the_native_matching_is_the_plain_one(case: dict[str, Any], shares: list[float]) -> None:
    matcher, reference = native(case), plain(case)
    amounts: list[float] = []
    while not matcher.done:
        amounts.append(matcher.position * shares[len(amounts) % len(shares)])
        matcher.step(amounts[-1])

    reference.run(amounts)

    wanted, filled, value, cost, _, _ = matcher.fills()
    for name, row in (("wanted", wanted), ("filled", filled), ("value", value), ("cost", cost)):
        expected = [tick[name] for tick in reference.rows]
        assert row == pytest.approx(expected, rel=1e-9, abs=1e-9), name
    assert matcher.position == pytest.approx(reference.position, abs=1e-6)
    if case["cash"] is not None:
        assert matcher.cash == pytest.approx(reference.cash, rel=1e-9, abs=1e-6)
        assert not case["is_buy"] or (matcher.cash or 0) >= -1e-6
