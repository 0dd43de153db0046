"""States of portfolios: they belong to their history, and to nothing that came after it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.data import Bar, MarketData, Pipeline
from sekai.envs import Portfolio
from sekai.error import ResetRequired, StateError
from tests.data.holed_panels import make_panel
from tests.envs.streamed_worlds import LOOKBACK, same, streamed, wanted, worlds

DATA = make_panel(rows=50, assets=3, seed=5, holes=0.0)
SETTINGS: dict[str, Any] = {"lookback": LOOKBACK, "features": ("log_return",), "starts": 10}
EQUAL = np.full(4, 0.25)


def stepped(data: MarketData = DATA, steps: int = 10, **options: Any) -> Portfolio:
    env = Portfolio(data=data, **{**SETTINGS, **options})
    env.reset(seed=0)
    for _ in range(steps):
        env.step(EQUAL)
    return env


def changed(data: MarketData, row: int) -> MarketData:
    """The data with another volume in one row."""
    values = data.values.copy()
    values[row, 0, -1] += 1.0
    return data.replace(values=values)


@given(world=worlds(), count=st.integers(0, 8), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_a_restored_portfolio_goes_on_as_the_saved_one(
    world: dict[str, Any], count: int, seed: int
) -> None:
    assets, rng = len(world["data"].assets), np.random.default_rng(seed)
    env, other = (Portfolio(**world, starts=LOOKBACK, episode_rows=99) for _ in range(2))
    env.reset(seed=seed)
    if any(env.step(wanted(rng, assets)).done for _ in range(count)):
        return

    other.load_state_dict(env.state_dict())

    is_done = False
    while not is_done:
        action = wanted(rng, assets)
        expected = env.step(action)
        assert same(expected, other.step(action))
        is_done = expected.done


@pytest.mark.parametrize("row", [0, 10, 20])
def test_a_state_is_refused_on_another_past(row: int) -> None:
    env, other = stepped(), stepped(changed(DATA, row), 3)
    before = other.batch.state_dict()

    with pytest.raises(StateError, match="a portfolio on other data"):
        other.load_state_dict(env.state_dict())

    assert other.batch.state_dict() == before


def test_a_state_is_refused_with_other_features() -> None:
    env, other = stepped(), stepped(features=("simple_return",))

    with pytest.raises(StateError, match="on other data"):
        other.load_state_dict(env.state_dict())


def test_a_state_is_taken_on_another_future() -> None:
    env, other = stepped(), stepped(changed(DATA, 21), 0)

    other.load_state_dict(env.state_dict())

    assert same(env.step(EQUAL).observation["weights"], other.step(EQUAL).observation["weights"])


def test_an_episode_ends_with_the_data_that_it_is_restored_on() -> None:
    env, other = stepped(), stepped(DATA.rows(0, 24), 0)
    other.load_state_dict(env.state_dict())

    ends = [other.step(EQUAL).truncated for _ in range(3)]

    assert ends == [False, False, True]


@pytest.mark.parametrize(("rows", "found"), [(21, "at the end of this data"), (20, "other data")])
def test_a_state_needs_a_row_to_go_on_with(rows: int, found: str) -> None:
    env, other = stepped(), stepped(DATA.rows(0, rows), 0)

    with pytest.raises(StateError, match=found):
        other.load_state_dict(env.state_dict())


def test_a_state_is_refused_with_other_settings() -> None:
    env, other = stepped(), stepped(initial_cash=5.0)

    with pytest.raises(StateError, match="with these settings, got"):
        other.load_state_dict(env.state_dict())


def test_a_stream_is_restored_after_the_same_bars() -> None:
    env, bars = streamed(DATA, 20)
    env.reset(seed=0)
    for bar in bars[:8]:
        env.push(bar)
        env.step(EQUAL)
    again, _ = streamed(DATA, 20)
    state = env.state_dict()

    with pytest.raises(StateError, match="on other data"):
        again.load_state_dict(state)
    for bar in bars[:8]:
        again.push(bar)
    again.load_state_dict(state)

    for bar in bars[8:]:
        for one in (env, again):
            one.push(bar)
        assert same(env.step(EQUAL), again.step(EQUAL))


@given(world=worlds(), known=st.integers(LOOKBACK + 2, 12), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_a_back_test_that_ended_with_the_data_continues_on_a_stream(
    world: dict[str, Any], known: int, seed: int
) -> None:
    data, rng = world["data"], np.random.default_rng(seed)
    # A live session decides on every row.
    options = {**world, "episode_rows": None, "decisions": "every_row"}
    known = min(known, len(data) - 1)
    whole = Portfolio(**options, starts=LOOKBACK)
    back_test = Portfolio(**{**options, "data": data.rows(0, known)}, starts=LOOKBACK)
    for env in (whole, back_test):
        env.reset(seed=seed)
    while True:
        action = wanted(rng, len(data.assets))
        results = [env.step(action) for env in (whole, back_test)]
        if results[1].done:
            break
    if results[1].terminated:
        return
    assert results[1].truncated

    live = Portfolio(**{**options, "data": data.rows(0, known)}, stream=True)
    live.load_state_dict(back_test.state_dict())

    for bar in Bar.each(data, known):
        action = wanted(rng, len(data.assets))
        live.push(bar)
        expected, result = whole.step(action), live.step(action)
        assert same(expected.observation, result.observation)
        assert (expected.reward, expected.info) == (result.reward, result.info)
        if expected.done:
            break


def test_a_back_test_continues_on_a_longer_panel_and_stays_over_on_its_own() -> None:
    data, starts = DATA.rows(0, 30, warm_up=12), {"starts": "sequential", "episode_rows": None}
    ended = Portfolio(data=data, **{**SETTINGS, **starts})
    ended.reset(seed=0)
    while not ended.step(EQUAL).done:
        pass
    same_rows = Portfolio(data=data, **{**SETTINGS, **starts})
    more_rows = Portfolio(data=DATA, **{**SETTINGS, "episode_rows": None})

    for env in (same_rows, more_rows):
        env.load_state_dict(ended.state_dict())

    with pytest.raises(ResetRequired):
        same_rows.step(EQUAL)
    results = [more_rows.step(EQUAL) for _ in range(20)]
    assert results[0].info["time_index"] == 30
    assert [result.truncated for result in results] == [False] * 19 + [True]


def test_an_episode_that_reached_its_rows_is_over_on_a_stream_too() -> None:
    env = Portfolio(data=DATA.rows(0, 30), **{**SETTINGS, "episode_rows": 5})
    env.reset(seed=0)
    while not env.step(EQUAL).done:
        pass
    live = Portfolio(
        data=DATA.rows(0, 30), features=("log_return",), lookback=LOOKBACK, episode_rows=5,
        stream=True,
    )  # fmt: skip

    live.load_state_dict(env.state_dict())

    with pytest.raises(ResetRequired):
        live.step(EQUAL)


def test_a_stream_is_restored_on_a_longer_history() -> None:
    env, bars = streamed(DATA, 20)
    env.reset(seed=0)
    for bar in bars[:8]:
        env.push(bar)
        env.step(EQUAL)

    again, later = streamed(DATA, 30)
    again.load_state_dict(env.state_dict())

    for bar in bars[8:]:
        env.push(bar)
    for bar in later:
        again.push(bar)
    for _ in bars[8:]:
        assert same(env.step(EQUAL), again.step(EQUAL))


def test_a_pipeline_and_its_env_are_restored_together() -> None:
    named: Any = (["log_return", "volatility(4)"],)
    pipeline = Pipeline(*named, scaling="zscore").fit(DATA.rows(0, 30))
    env = stepped(features=pipeline)
    saved = json.loads(json.dumps(pipeline.state_dict())), env.state_dict()

    again = Pipeline(*named, scaling="zscore")
    again.load_state_dict(saved[0])
    other = stepped(features=again, steps=0)
    other.load_state_dict(saved[1])

    assert same(env.step(EQUAL), other.step(EQUAL))
    refitted = Pipeline(*named, scaling="zscore").fit(DATA.rows(0, 31))
    with pytest.raises(StateError, match="on other data"):
        stepped(features=refitted).load_state_dict(saved[1])


def test_vectors_are_restored_on_the_same_data_alone() -> None:
    def made(data: MarketData) -> Any:
        vec = sekai.make_vec("Portfolio-v0", num_envs=2, data=data, **SETTINGS)
        vec.reset(seed=[0, 1])
        return vec

    vec, again, other = made(DATA), made(DATA), made(changed(DATA, 3))
    actions = np.tile(EQUAL, (2, 1))
    vec.step(actions)

    again.load_state_dict(vec.state_dict())
    with pytest.raises(StateError, match="on other data"):
        other.load_state_dict(vec.state_dict())

    assert (again.step(actions).rewards == vec.step(actions).rewards).all()
    for one in (vec, again, other):
        one.close()
