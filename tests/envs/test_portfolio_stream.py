"""Portfolios whose rows come one by one."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sekai
from sekai.data import Bar, Pipeline
from sekai.envs import Portfolio
from sekai.error import ClosedError, NotReadyError, ResetRequired
from tests.envs.streamed_worlds import (
    DATA,
    HALF,
    LOOKBACK,
    a_stream,
    episode_bytes,
    same,
    steps_together,
    streamed,
    wanted,
    worlds,
)


@given(world=worlds(), draw=st.data(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=150)
def test_bars_that_are_pushed_give_the_same_bytes_as_the_whole_panel(
    world: dict[str, Any], draw: st.DataObject, seed: int
) -> None:
    data = world.pop("data")
    start = draw.draw(st.integers(LOOKBACK, len(data) - 3))
    rows = draw.draw(st.integers(1, len(data) - 1 - start))
    whole = Portfolio(data=data, starts=start, episode_rows=rows, **world)
    live = Portfolio(data=data.rows(0, start + 1), stream=True, episode_rows=rows, **world)
    first = whole.reset(seed=seed)
    assume(first.info["time_index"] == start)
    bars, rng = list(Bar.each(data, start + 1)), np.random.default_rng(seed)

    assert same(first, live.reset(seed=seed))
    for expected, found in steps_together(whole, live, bars, rng):
        assert same(expected, found)
        assert episode_bytes(whole) == episode_bytes(live)


@given(world=worlds(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_a_bar_that_is_refused_changes_nothing(world: dict[str, Any], seed: int) -> None:
    data, rng = world.pop("data"), np.random.default_rng(seed)
    both = [Portfolio(data=data.rows(0, 10), stream=True, **world) for _ in range(2)]
    for env in both:
        env.reset(seed=0)

    for bar in Bar.each(data, 10):
        with pytest.raises(ValueError, match="wanted|must be|is tradable|expected"):
            both[0].push(bad_bar(bar, data.times[9], rng))
        for env in both:
            env.push(bar)
        assert both[0].data == both[1].data
        if not both[0].batch.waits():
            action = wanted(rng, len(data.assets))
            results = [env.step(action) for env in both]
            assert same(*results)
            if results[0].done:
                break


def bad_bar(bar: Bar, past: np.datetime64, rng: np.random.Generator) -> Bar:
    """Bar with one invalid value."""
    values = np.array(bar.values)
    volume = np.full(values.shape, -1.0)
    volume[:, :4] = 10.0
    everywhere = np.ones(len(values), bool)
    bad = [
        Bar(past, values, market=bar.market, **bar.masks()),
        Bar(bar.time, values[:-1], market=bar.market),
        Bar(bar.time, values, market={"other": 1.0}, **bar.masks()),
        Bar(bar.time, values, ~everywhere, ~everywhere, everywhere, bar.market),
        # Features can be computed from this one; only the core refuses it.
        Bar(bar.time, volume, everywhere, everywhere, everywhere, bar.market),
    ]
    return bad[rng.integers(len(bad))]


def test_a_step_before_its_row_says_what_to_do_and_moves_nothing() -> None:
    env, bars = a_stream()
    before = env.batch.state_dict()

    with pytest.raises(NotReadyError, match=r"push\(\) it before step\(\), or await async_step"):
        env.step(HALF)

    assert env.batch.state_dict() == before
    env.push(bars[0])
    assert env.step(HALF).info["time_index"] == 20


def test_a_stream_begins_with_the_last_row_that_is_known() -> None:
    env, bars = a_stream()
    for bar in bars[:5]:
        env.push(bar)

    assert env.reset(seed=0).info["time_index"] == 24
    assert len(env.data) == 25


def test_a_stream_needs_no_more_history_than_it_shows() -> None:
    env, bars = streamed(DATA, LOOKBACK)

    env.reset(seed=0)
    env.push(bars[0])

    assert env.step(HALF).info["time_index"] == LOOKBACK
    with pytest.raises(ValueError, match="data of at least"):
        streamed(DATA, LOOKBACK - 1)


def test_a_stream_begins_even_where_all_history_is_warm_up() -> None:
    history = DATA.rows(0, 20, warm_up=20)
    env = Portfolio(data=history, stream=True, lookback=LOOKBACK, features=("log_return",))

    assert env.reset(seed=0).info["time_index"] == 19


def test_rows_can_be_pushed_ahead() -> None:
    env, bars = a_stream()
    for bar in bars:
        env.push(bar)

    rows = [env.step(HALF).info["time_index"] for _ in bars]

    assert rows == list(range(20, 40))
    with pytest.raises(NotReadyError):
        env.step(HALF)


def test_an_async_step_waits_and_lets_others_run() -> None:
    env, bars = a_stream()

    async def run() -> list[str]:
        happened = []

        async def act() -> None:
            happened.append(f"row {(await env.async_step(HALF)).info['time_index']:.0f}")

        acting = asyncio.create_task(act())
        for _ in range(5):
            await asyncio.sleep(0)
        happened.append("others")
        env.push(bars[0])
        await acting
        return happened

    assert asyncio.run(run()) == ["others", "row 20"]


def test_another_thread_can_push() -> None:
    env, bars = a_stream()

    async def run() -> list[float]:
        feed = threading.Thread(target=lambda: any(map(env.push, bars)))
        acting = asyncio.create_task(env.async_step(HALF))
        await asyncio.sleep(0.01)
        feed.start()
        rows = [(await acting).info["time_index"]]
        rows += [(await env.async_step(HALF)).info["time_index"] for _ in bars[1:]]
        feed.join()
        return rows

    assert asyncio.run(run()) == list(range(20, 40))


def test_a_step_that_is_cancelled_leaves_everything_as_it_was() -> None:
    env, bars = a_stream()
    other, _ = a_stream()

    async def run() -> None:
        acting = asyncio.create_task(env.async_step(np.array([1.0, 0.0, 0.0, 0.0])))
        await asyncio.sleep(0)
        acting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acting

    before = env.batch.state_dict()
    asyncio.run(run())

    assert env.batch.state_dict() == before
    assert vars(env.batch)["_waiters"] == []
    for one in (env, other):
        one.push(bars[0])
    assert same(env.step(HALF), other.step(HALF))


def test_an_async_step_outside_an_episode_does_not_wait_for_ever() -> None:
    env, _ = streamed(DATA, 20)

    with pytest.raises(ResetRequired):
        asyncio.run(asyncio.wait_for(env.async_step(HALF), 5))


def test_an_async_step_after_the_end_does_not_wait_for_ever() -> None:
    env, bars = a_stream(episode_rows=1)
    env.push(bars[0])

    assert env.step(HALF).truncated
    with pytest.raises(ResetRequired):
        asyncio.run(asyncio.wait_for(env.async_step(HALF), 5))


def test_who_waits_hears_of_a_close() -> None:
    env, _ = a_stream()

    async def run() -> None:
        acting = asyncio.create_task(env.async_step(HALF))
        await asyncio.sleep(0)
        env.close()
        await asyncio.wait_for(acting, 5)

    with pytest.raises(ClosedError):
        asyncio.run(run())


def test_rows_without_a_decision_are_waited_through() -> None:
    tradable = DATA.tradable.copy()
    tradable[20:23] = False
    data = DATA.replace(tradable=tradable)
    env, bars = streamed(data, 20, decisions="trading_days")
    env.reset(seed=0)

    for bar in bars[:3]:
        env.push(bar)
        with pytest.raises(NotReadyError):
            env.step(HALF)
    env.push(bars[3])

    assert env.step(HALF).info["time_index"] == 23


def test_many_envs_share_a_stream() -> None:
    env, bars = a_stream()
    vec = sekai.make_vec(
        "Portfolio-v0", num_envs=3, data=DATA.rows(0, 20), stream=True, lookback=LOOKBACK,
        features=("log_return", "volatility(4)"),
    )  # fmt: skip
    vec.reset(seed=[0, 0, 0])
    with pytest.raises(NotReadyError, match="env 0 needs a row"):
        vec.step(np.tile(HALF, (3, 1)))

    for bar in bars:
        env.push(bar)
        vec.batch.push(bar)  # type: ignore[attr-defined]
        one, many = env.step(HALF), vec.step(np.tile(HALF, (3, 1)))
        assert (many.rewards == one.reward).all()
        assert (many.observations["windows"] == one.observation["windows"]).all()
    vec.close()


def test_a_stream_shows_windows_since_indices_would_point_at_nothing() -> None:
    with pytest.raises(ValueError, match="observation must be 'window'"):
        a_stream(observation="index")


def test_what_is_no_stream_takes_no_rows() -> None:
    env = Portfolio(data=DATA, lookback=LOOKBACK)

    with pytest.raises(ValueError, match="stream=True"):
        env.push(next(Bar.each(DATA)))


def test_a_stream_needs_features_that_can_be_computed() -> None:
    shown = Pipeline(["log_return"]).transform(DATA)

    with pytest.raises(ValueError, match="cannot compute features of streamed rows"):
        Portfolio(data=DATA, features=shown, stream=True, lookback=LOOKBACK)


def test_a_stream_takes_no_start() -> None:
    with pytest.raises(ValueError, match="begins with the last known row"):
        Portfolio(data=DATA, stream=True, starts=7)
