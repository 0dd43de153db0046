"""Portfolios on a feed: the same env, and its steps wait for rows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sekai
from sekai.data import Bar, BarFeed, MarketData
from sekai.envs import Portfolio
from sekai.error import ClosedError, FeedEndedError, ResetRequired
from tests.data.holed_panels import make_panel
from tests.envs.streamed_worlds import LOOKBACK, episode_bytes, same, streamed, wanted, worlds

DATA = make_panel(rows=40, assets=3, seed=1, holes=0.0)
HALF = np.array([0.2, 0.2, 0.2, 0.4])


class RowsFeed:
    """Rows from a queue; `end` says that there will be no more."""

    def __init__(self, history: MarketData | None, rows: list[Bar] | None = None) -> None:
        self.history = history
        self.rows: deque[Bar] = deque(rows or [])
        self.is_over = False
        self.asked = 0

    async def next_bar(self) -> Bar:
        self.asked += 1
        while not self.rows:
            if self.is_over:
                raise FeedEndedError("no more rows")
            await asyncio.sleep(0.001)
        return self.rows.popleft()


def a_feed(rows: int = 20, **options: Any) -> tuple[Portfolio, RowsFeed]:
    feed = RowsFeed(DATA.rows(0, rows), list(Bar.each(DATA, rows)))
    env = Portfolio(feed, features=["log_return"], lookback=LOOKBACK, **options)
    env.reset(seed=0)
    return env, feed


@given(world=worlds(), draw=st.data(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=25)
def test_a_feed_gives_the_same_bytes_as_the_whole_panel(
    world: dict[str, Any], draw: st.DataObject, seed: int
) -> None:
    data = world.pop("data")
    start = draw.draw(st.integers(LOOKBACK, len(data) - 3))
    rows, is_async = len(data) - 1 - start, draw.draw(st.booleans())
    whole = Portfolio(data=data, starts=start, episode_rows=rows, **world)
    feed = RowsFeed(data.rows(0, start + 1), list(Bar.each(data, start + 1)))
    live = Portfolio(data=feed, episode_rows=rows, **world)
    first = whole.reset(seed=seed)
    assume(first.info["time_index"] == start)
    assert same(first, live.reset(seed=seed))
    rng, is_done = np.random.default_rng(seed), False

    while not is_done:
        action = wanted(rng, len(data.assets))
        expected = whole.step(action)
        found = asyncio.run(live.async_step(action)) if is_async else live.step(action)
        assert same(expected, found)
        assert episode_bytes(whole) == episode_bytes(live)
        is_done = expected.done


def test_an_env_is_made_on_anything_that_has_a_history_and_brings_rows() -> None:
    feed = RowsFeed(DATA.rows(0, 20), list(Bar.each(DATA, 20)))
    assert isinstance(feed, BarFeed)

    env = sekai.make("Portfolio-v0", data=feed, features=["log_return"], lookback=LOOKBACK)
    env.reset(seed=0)

    assert env.unwrapped.feed is feed  # type: ignore[attr-defined]
    assert env.step(HALF).info["time_index"] == 20
    assert "RowsFeed" not in repr(env.unwrapped.state_dict())


def test_a_cancelled_wait_loses_no_row_and_moves_nothing() -> None:
    env, feed = a_feed()
    rows, feed.rows = feed.rows, deque()
    before = env.batch.state_dict()

    async def session() -> list[float]:
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(env.async_step(HALF), 0.01)
        assert env.batch.state_dict() == before
        feed.rows = rows
        return [(await env.async_step(HALF)).info["time_index"] for _ in range(3)]

    assert asyncio.run(session()) == [20.0, 21.0, 22.0]


def test_a_sync_step_waits_for_a_row_that_another_thread_brings() -> None:
    env, feed = a_feed()
    rows, feed.rows = feed.rows, deque()

    def bring() -> None:
        time.sleep(0.05)
        feed.rows.append(rows[0])

    thread = threading.Thread(target=bring)
    thread.start()
    assert env.step(HALF).info["time_index"] == 20
    thread.join()


def test_rows_that_are_there_are_not_asked_for() -> None:
    env, feed = a_feed()
    env.push(feed.rows.popleft())

    assert env.step(HALF).info["time_index"] == 20
    assert asyncio.run(env.async_step(HALF)).info["time_index"] == 21
    assert feed.asked == 1


def test_the_end_of_a_feed_is_said_and_moves_nothing() -> None:
    env, feed = a_feed()
    feed.rows.clear()
    feed.is_over = True
    before = env.batch.state_dict()

    with pytest.raises(FeedEndedError):
        env.step(HALF)
    with pytest.raises(FeedEndedError):
        asyncio.run(env.async_step(HALF))

    assert env.batch.state_dict() == before


def test_an_env_that_is_closed_or_in_no_episode_takes_nothing_from_its_feed() -> None:
    feed = RowsFeed(DATA.rows(0, 20), list(Bar.each(DATA, 20)))
    env = Portfolio(feed, features=["log_return"], lookback=LOOKBACK)

    with pytest.raises(ResetRequired):
        env.step(HALF)
    env.reset(seed=0)
    env.close()
    with pytest.raises(ClosedError):
        env.step(HALF)
    with pytest.raises(ClosedError):
        asyncio.run(env.async_step(HALF))

    assert feed.asked == 0


def test_states_move_between_a_feed_and_a_stream() -> None:
    env, feed = a_feed()
    stream, bars = streamed(DATA, 20, features=["log_return"])
    stream.reset(seed=0)
    env.step(HALF)
    stream.push(bars[0])

    stream.load_state_dict(env.state_dict())
    stream.push(bars[1])
    expected = stream.step(HALF)
    assert same(expected, env.step(HALF))
    env.load_state_dict(stream.state_dict())

    assert env.feed is feed
    assert env.step(HALF).info["time_index"] == 22


def test_assets_come_while_a_feed_runs_and_its_rows_are_wider_from_then_on() -> None:
    old = DATA.select(DATA.assets[:2])
    feed = RowsFeed(old.rows(0, 20), list(Bar.each(old, 20, 21)))
    env = Portfolio(feed, features=["log_return"], lookback=LOOKBACK, slots=1)
    env.reset(seed=0)
    quarter = np.full(4, 0.25)
    env.step(quarter)

    env.add_asset("asset2", DATA.select(DATA.assets[2:]).rows(0, 21))
    env.remove_asset("asset0")
    feed.rows.extend(Bar.each(DATA, 21))
    for _ in range(2):
        weights = env.step(quarter).observation["weights"]

    assert weights[0] == 0.0 < weights[2]


def test_a_feed_without_a_history_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"has no history.*make the feed with history="):
        Portfolio(RowsFeed(None))


def test_an_index_of_rows_to_come_is_refused() -> None:
    with pytest.raises(ValueError, match="observation must be 'window' with stream=True"):
        Portfolio(RowsFeed(DATA.rows(0, 20)), observation="index")
