"""Several agents whose rows come one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sekai
from sekai.core.result import equal_values
from sekai.data import Bar
from sekai.envs import MemberConfig, MultiPortfolio
from sekai.error import ClosedError, FeedEndedError, NotReadyError, ResetRequired
from sekai.utils.checker import check_env
from tests.data.holed_panels import make_panel
from tests.envs.agents_apart import AGENTS, alike, many, together, weights
from tests.envs.shared_markets import market
from tests.envs.streamed_worlds import LOOKBACK, episode_bytes, worlds
from tests.envs.test_portfolio_feed import RowsFeed

DATA = make_panel(rows=40, assets=3, seed=1, holes=0.0)
NAMES = ["a", "b", "c"]
FEATURES = ("log_return", "volatility(4)")


def a_stream(rows: int = 20, **options: Any) -> tuple[MultiPortfolio, list[Bar]]:
    """A stream that begins after so many rows, and the bars that follow."""
    env = together(DATA.rows(0, rows), stream=True, **{"features": FEATURES, **options})
    env.reset(seed=0)
    return env, list(Bar.each(DATA, rows))


def a_feed(rows: int = 20, **options: Any) -> tuple[MultiPortfolio, RowsFeed]:
    feed = RowsFeed(DATA.rows(0, rows), list(Bar.each(DATA, rows)))
    env = together(feed, **{"features": FEATURES, **options})
    env.reset(seed=0)
    return env, feed


def wanted(env: MultiPortfolio, seed: int = 0) -> dict[str, Any]:
    drawn = weights(np.random.default_rng(seed), len(env.possible_agents))
    return {name: row for name, row in zip(env.possible_agents, drawn, strict=True)
            if name in env.agents}  # fmt: skip


@given(world=worlds(), draw=st.data(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_bars_that_are_pushed_give_the_same_bytes_as_the_whole_panel(
    world: dict[str, Any], draw: st.DataObject, seed: int
) -> None:
    data = world.pop("data")
    world |= {"agents": NAMES, "ruin": draw.draw(st.sampled_from([0.0, 0.98]))}
    world["reward_mode"] = draw.draw(st.sampled_from(["own", "cooperative", "competitive"]))
    start = draw.draw(st.integers(LOOKBACK, len(data) - 3))
    rows, is_fed = len(data) - 1 - start, draw.draw(st.booleans())
    whole = MultiPortfolio(data=data, starts=start, episode_rows=rows, **world)
    history, bars = data.rows(0, start + 1), list(Bar.each(data, start + 1))
    live = (
        MultiPortfolio(data=RowsFeed(history, bars), episode_rows=rows, **world)
        if is_fed
        else MultiPortfolio(data=history, stream=True, episode_rows=rows, **world)
    )
    first, rng = whole.reset(seed=seed), np.random.default_rng(seed)
    assume(first.info["a"]["time_index"] == start)
    assert alike(first, live.reset(seed=seed))

    while whole.agents:
        while not is_fed and bars and live.batch.waits():
            live.push(bars.pop(0))
        drawn = weights(rng, 3, assets=len(data.assets))
        actions = {name: drawn[NAMES.index(name)] for name in whole.agents}
        assert alike(whole.step(actions), live.step(actions))
        assert episode_bytes(whole) == episode_bytes(live)
        assert whole.agents == live.agents


def test_a_step_before_its_row_says_what_to_do_and_moves_nothing() -> None:
    env, bars = a_stream()
    before = env.batch.state_dict()

    with pytest.raises(NotReadyError, match=r"push\(\) it before step\(\), or await async_step"):
        env.step(wanted(env))

    assert env.batch.state_dict() == before
    env.push(bars[0])
    assert env.step(wanted(env)).info["plain"]["time_index"] == 20


def test_an_async_step_waits_and_lets_others_run() -> None:
    env, bars = a_stream()

    async def run() -> list[str]:
        happened = []

        async def act() -> None:
            result = await env.async_step(wanted(env))
            happened.append(f"row {result.info['rich']['time_index']:.0f}")

        acting = asyncio.create_task(act())
        for _ in range(5):
            await asyncio.sleep(0)
        happened.append("others")
        env.push(bars[0])
        await acting
        return happened

    assert asyncio.run(run()) == ["others", "row 20"]


def test_a_step_that_is_cancelled_leaves_everything_as_it_was() -> None:
    env, bars = a_stream()
    other, _ = a_stream()

    async def run() -> None:
        acting = asyncio.create_task(env.async_step(wanted(env)))
        await asyncio.sleep(0)
        acting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acting

    asyncio.run(run())

    for one in (env, other):
        one.push(bars[0])
    assert alike(env.step(wanted(env)), other.step(wanted(other)))


def test_a_feed_is_waited_for_and_its_end_is_an_error_that_moves_nothing() -> None:
    env, feed = a_feed(38)
    feed.is_over = True

    first = env.step(wanted(env))
    second = asyncio.run(env.async_step(wanted(env)))
    before = env.batch.state_dict()

    assert [first.info["plain"]["time_index"], second.info["plain"]["time_index"]] == [38, 39]
    with pytest.raises(FeedEndedError, match="no more rows"):
        env.step(wanted(env))
    with pytest.raises(FeedEndedError):
        asyncio.run(env.async_step(wanted(env)))
    assert env.batch.state_dict() == before


def test_an_env_of_a_feed_is_made_by_its_name_and_keeps_the_feed_out_of_its_state() -> None:
    feed = RowsFeed(DATA.rows(0, 20), list(Bar.each(DATA, 20)))
    env: Any = sekai.make("MultiPortfolio-v0", data=feed, features=FEATURES, lookback=LOOKBACK)
    env.reset(seed=0)

    assert env.unwrapped.feed is feed
    assert env.unwrapped.config.stream
    assert "RowsFeed" not in repr(env.unwrapped.state_dict())


def test_who_waits_hears_of_a_close_and_steps_outside_an_episode_do_not_wait() -> None:
    env, _ = a_stream()
    waiting, _ = a_stream()
    fresh = together(DATA.rows(0, 20), stream=True, features=FEATURES)

    async def run() -> None:
        acting = asyncio.create_task(waiting.async_step(wanted(env)))
        await asyncio.sleep(0)
        waiting.close()
        await asyncio.wait_for(acting, 5)

    with pytest.raises(ClosedError):
        asyncio.run(run())
    with pytest.raises(ResetRequired):
        asyncio.run(asyncio.wait_for(fresh.async_step(wanted(env)), 5))
    closed, _ = a_feed()
    closed.close()
    with pytest.raises(ClosedError):
        closed.step(wanted(env))


def test_agents_that_are_shown_less_are_shown_less_of_a_stream() -> None:
    agents = {"all": MemberConfig(), "less": MemberConfig(lookback=2, features=("log_return",))}
    env, bars = a_stream(agents=agents)
    whole = together(DATA, features=FEATURES, agents=agents, starts=19)

    assert alike(whole.reset(seed=0), env.reset(seed=0))
    for bar in bars[:6]:
        env.push(bar)
        assert alike(whole.step(wanted(whole)), env.step(wanted(env)))


def test_what_was_shown_stays_as_it_was_when_rows_come() -> None:
    env, bars = a_stream(keep_rows=32)
    shown = []
    for bar in bars:
        env.push(bar)
        observation = env.step(wanted(env)).observations["plain"]["windows"]
        shown.append((observation, observation.copy()))

    assert all(np.array_equal(one, copy) for one, copy in shown)


def test_a_stream_that_forgets_shows_the_same_to_all() -> None:
    data = market(rows=140)
    agents = {"all": MemberConfig(), "less": MemberConfig(lookback=2, features=("log_return",))}
    given: dict[str, Any] = {"stream": True, "features": FEATURES, "agents": agents}
    whole, short = (
        together(data.rows(0, 30), keep_rows=rows, episode_rows=None, **given)
        for rows in (None, 32)
    )
    assert alike(whole.reset(seed=0), short.reset(seed=0))

    for bar in Bar.each(data, 30):
        whole.push(bar)
        short.push(bar)
        assert alike(whole.step(wanted(whole)), short.step(wanted(short)))
    with pytest.raises(ValueError, match="keep_rows has dropped rows"):
        short.scene()


def test_a_restored_stream_goes_on_bit_for_bit() -> None:
    env, bars = a_stream()
    other, _ = a_stream()
    for bar in bars[:4]:
        env.push(bar)
        env.step(wanted(env))
    state = env.state_dict()
    for bar in bars[:4]:
        other.push(bar)

    other.load_state_dict(state)

    for one in (env, other):
        one.push(bars[4])
    assert alike(env.step(wanted(env)), other.step(wanted(other)))


def test_many_markets_share_a_stream() -> None:
    env, bars = a_stream()
    vec = many(3, data=DATA.rows(0, 20), stream=True, features=FEATURES)
    vec.reset(seed=[0, 0, 0])
    with pytest.raises(NotReadyError, match="env 0 needs a row"):
        vec.step({name: np.tile(row, (3, 1)) for name, row in wanted(env).items()})

    for bar in bars[:8]:
        env.push(bar)
        vec.batch.push(bar)
        actions = wanted(env)
        one = env.step(actions)
        result = vec.step({name: np.tile(actions.get(name, np.zeros(4)), (3, 1))
                           for name in AGENTS})  # fmt: skip
        for name in actions:
            assert (result.rewards[name] == one.rewards[name]).all()
            assert equal_values(result.infos[2][name], one.info[name])
            seen = result.observations[name]["windows"]
            assert (seen == one.observations[name]["windows"]).all()


def test_an_asset_comes_into_a_stream() -> None:
    wide = make_panel(rows=40, assets=4, seed=1, holes=0.0)
    env = together(wide.select(wide.assets[:3]).rows(0, 20), stream=True, slots=1,
                   features=FEATURES)  # fmt: skip
    env.reset(seed=0)

    env.add_asset("asset3", wide.select(("asset3",)).rows(0, 20))
    env.push(next(iter(Bar.each(wide, 20))))
    result = env.step({name: np.full(5, 0.2) for name in env.agents})

    assert result.observations["plain"]["weights"][3] > 0.1


def test_the_checker_finds_nothing_wrong_with_a_stream_that_is_ahead() -> None:
    env = together(DATA.rows(0, 10), stream=True, features=FEATURES, episode_rows=5)
    for bar in Bar.each(DATA, 10):
        env.push(bar)

    env.reset(seed=0)
    with pytest.raises(NotReadyError):
        env.step(wanted(env))
    assert check_env(together(DATA, features=FEATURES, slots=1, episode_rows=10)) == []
