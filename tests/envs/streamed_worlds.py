"""Portfolios on panels with holes, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.data import Bar, MarketData
from sekai.envs import MultiPortfolio, Portfolio
from sekai.market import Costs, Execution, MarginAccount
from tests.data.holed_panels import make_panel

LOOKBACK = 3
DATA = make_panel(rows=40, assets=3, seed=1, holes=0.0)
HALF = np.array([0.2, 0.2, 0.2, 0.4])
FEATURES = ("log_return", "volatility(4)", "rank(momentum(3))", "drawdown", "relative_volume(5)")

margins = st.builds(MarginAccount, leverage=st.sampled_from([1.5, 3.0]))
executions = st.builds(
    Execution,
    fill=st.sampled_from(["next_open", "next_close"]),
    sizing=st.sampled_from(["fill", "decision"]),
    delay=st.integers(0, 2),
    unfilled=st.sampled_from(["drop", "carry"]),
    participation=st.sampled_from([None, 0.5]),
)
costs = st.builds(
    Costs, fixed=st.sampled_from([0.0, 3.0]), impact=st.sampled_from([0.0, 0.3]),
    interest=st.sampled_from([0.0, 0.02]), delisting=st.sampled_from([0.0, 0.3, 1.0]),
)  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Data with halts, late listings and delistings, and ways to trade on it."""
    data = make_panel(
        rows=draw(st.integers(20, 50)), assets=draw(st.integers(1, 9)),
        seed=draw(st.integers(0, 2**32)), holes=draw(st.sampled_from([0.0, 0.05, 0.4])),
    )  # fmt: skip
    settings: dict[str, Any] = {
        "data": data, "lookback": LOOKBACK, "initial_cash": draw(st.sampled_from([1e3, 1e5])),
        "features": draw(st.lists(st.sampled_from(FEATURES), min_size=1, unique=True)),
        "decisions": draw(st.sampled_from(["every_row", "trading_days", "complete"])),
        "benchmark": draw(st.sampled_from(["equal_weight", "asset0", "rate"])),
        "reward": {"log_return": 1.0, "benchmark_relative": 1.0, "differential_sharpe": 0.1},
        "execution": draw(executions), "costs": draw(costs),
    }  # fmt: skip
    if draw(st.booleans()):
        settings["account"] = draw(margins)
    return settings


def wanted(rng: np.random.Generator, assets: int, places: int = 0) -> NDArray[np.float64]:
    """Random weights of assets and cash; nothing of places that are free."""
    weights = rng.dirichlet(np.ones(assets + 1))
    return np.concatenate([weights[:-1], np.zeros(places), weights[-1:]])


def same(left: Any, right: Any) -> bool:
    """Return True if two results are equal bit for bit."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if hasattr(left, "observation"):
        names = ("observation", "info", "reward", "terminated", "truncated")
        return all(same(getattr(left, n, None), getattr(right, n, None)) for n in names)
    left, right = np.asarray(left), np.asarray(right)
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def episode_bytes(env: Portfolio | MultiPortfolio) -> bytes:
    """The state of an env's episode, without the settings in front of it."""
    body = env.batch.state_dict()["native"][16:-8]
    body = body[8 + int.from_bytes(body[:8], "little") + 4 :]
    return bytes(body[8 + int.from_bytes(body[:8], "little") :])


def push_until_ready(env: Portfolio, bars: list[Bar]) -> None:
    """Push bars from the front of the list until the next step can be done."""
    while bars and env.batch.waits():
        env.push(bars.pop(0))


def streamed(data: MarketData, rows: int, **settings: Any) -> tuple[Portfolio, list[Bar]]:
    """A stream that begins after so many rows, and the bars that follow."""
    given = {"lookback": LOOKBACK, "features": FEATURES[:2], **settings}
    return Portfolio(data=data.rows(0, rows), stream=True, **given), list(Bar.each(data, rows))


def a_stream(**options: Any) -> tuple[Portfolio, list[Bar]]:
    """A stream of `DATA` that begins after 20 rows and was reset, and the bars that follow."""
    env, bars = streamed(DATA, 20, **options)
    env.reset(seed=0)
    return env, bars


def steps_together(
    whole: Portfolio, live: Portfolio, bars: list[Bar], rng: np.random.Generator
) -> Iterator[tuple[Any, Any]]:
    """Results of an env on the whole panel, and of one that is pushed bars in random portions."""
    is_done = False
    while not is_done:
        for bar in bars[: rng.integers(0, 3)]:
            live.push(bar)
            bars.remove(bar)
        push_until_ready(live, bars)
        action = wanted(rng, len(whole.data.assets))
        expected, found = whole.step(action), live.step(action)
        yield expected, found
        is_done = expected.done
