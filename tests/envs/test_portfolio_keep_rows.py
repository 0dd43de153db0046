"""A stream that keeps few rows is the same stream, in memory that does not grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sekai
from sekai.data import Bar, MarketData, Pipeline, simulate_gbm
from sekai.envs import Portfolio
from sekai.live import PaperAccount
from sekai.market import Costs, Execution

KNOWN, KEPT = 50, 40
DATA = simulate_gbm(assets=3, rows=400, seed=8)


def made(keep_rows: int | None, **settings: Any) -> Portfolio:
    options: dict[str, Any] = {
        "data": DATA.rows(0, KNOWN), "features": ["log_return", "volatility(20)"], "lookback": 6,
        "stream": True, "episode_rows": None, "costs": Costs(impact=0.5),
        "execution": Execution(delay=1, participation=1e-5, unfilled="carry"), **settings,
    }  # fmt: skip
    env = sekai.make("Portfolio-v0", keep_rows=keep_rows, **options).unwrapped
    assert isinstance(env, Portfolio)
    return env


def test_what_is_forgotten_changes_nothing_that_is_seen() -> None:
    whole, short = made(None), made(KEPT)
    rng = np.random.default_rng(0)
    assert whole.reset(seed=1) == short.reset(seed=1)

    for number, bar in enumerate(Bar.each(DATA, KNOWN)):
        whole.push(bar)
        short.push(bar)
        action = rng.dirichlet(np.ones(4))
        assert whole.step(action) == short.step(action)
        if number == 200:
            assert whole.batch.state_dict() == short.batch.state_dict()

    assert len(whole.data) == len(DATA)
    assert KEPT <= len(short.data) < 2 * KEPT
    assert np.array_equal(short.data.values, DATA.values[-len(short.data) :])


def test_a_state_goes_on_where_rows_were_forgotten() -> None:
    first, second = made(KEPT), made(KEPT)
    first.reset(seed=1)
    second.reset(seed=1)
    bars = list(Bar.each(DATA, KNOWN))
    for bar in bars[:150]:
        first.push(bar)
        first.step(np.full(4, 0.25))
    for bar in bars[:150]:
        second.push(bar)

    second.load_state_dict(first.state_dict())

    for bar in bars[150:200]:
        for env in (first, second):
            env.push(bar)
        assert first.step(np.full(4, 0.25)) == second.step(np.full(4, 0.25))


def test_rows_that_an_env_has_yet_to_go_through_are_kept() -> None:
    env = made(KEPT)
    env.reset(seed=1)
    for bar in Bar.each(DATA, KNOWN, KNOWN + 120):
        env.push(bar)
    assert len(env.data) >= 120

    for _ in range(120):
        result = env.step(np.full(4, 0.25))

    assert result.info["time_index"] == KNOWN + 119


def test_rows_that_cannot_be_forgotten_yet_are_not_copied_again_and_again() -> None:
    env = made(KEPT)
    env.reset(seed=1)
    for bar in Bar.each(DATA, KNOWN, KNOWN + 120):
        env.push(bar)
    before = env.data.values

    env.push(next(Bar.each(DATA, KNOWN + 120)))

    assert np.shares_memory(before, env.data.values)


def test_an_account_on_paper_forgets_too() -> None:
    whole, short = (
        PaperAccount(DATA.rows(0, KNOWN), costs=Costs(impact=0.5), keep_rows=keep)
        for keep in (None, KEPT)
    )
    for number, bar in enumerate(Bar.each(DATA, KNOWN)):
        orders = {DATA.assets[number % 3]: (-1.0) ** number * 5.0}
        assert whole.advance(bar, orders) == short.advance(bar, orders)

    assert (whole.cash, whole.units, whole.costs) == (short.cash, short.units, short.costs)
    assert len(short._rows) < 2 * KEPT


def growth(data: MarketData) -> NDArray[np.float64]:
    """Growth since the first row, which needs all of them."""
    closes = data.field("close")
    return np.asarray(closes / closes[0], np.float64)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keep_rows": 8}, "at least 32"),
        ({"keep_rows": 64, "stream": False}, "needs stream=True"),
        ({"keep_rows": 40, "features": ["momentum(60)"]}, "at least 61"),
        ({"keep_rows": 40, "features": Pipeline([growth])}, "bounded lookback"),
    ],
)
def test_what_cannot_be_kept_so_short_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made(**settings)


def test_a_picture_of_what_was_forgotten_is_refused() -> None:
    env = made(KEPT)
    env.reset(seed=1)
    for bar in Bar.each(DATA, KNOWN, KNOWN + 100):
        env.push(bar)
        env.step(np.full(4, 0.25))

    with pytest.raises(ValueError, match="keep_rows has dropped"):
        env.batch.scene()


def test_an_asset_comes_in_with_the_rows_that_are_kept() -> None:
    env = made(KEPT, slots=1)
    env.reset(seed=1)
    for bar in Bar.each(DATA, KNOWN, KNOWN + 100):
        env.push(bar)
        env.step(np.full(5, 0.2))
    kept = env.data
    other = simulate_gbm(assets=1, rows=len(kept), seed=5)
    new = MarketData(
        times=kept.times, assets=("NEW",), fields=other.fields, values=other.values
    ).select(("NEW",), kept.fields)

    env.add_asset("NEW", new)

    assert env.assets == (*DATA.assets, "NEW")
