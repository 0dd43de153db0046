"""Scenes of portfolios for rendering, which leave the state unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.envs import Portfolio
from sekai.error import ResetRequired
from tests.data.holed_panels import make_panel
from tests.envs.streamed_worlds import streamed, wanted, worlds


def portfolio(**options: Any) -> Any:
    return sekai.make("Portfolio-v0", **{"lookback": 3, "episode_rows": 60, **options})


def play(env: Any, steps: int, seed: int | None = 3, *, is_watched: bool = False) -> list[Any]:
    """All results of an episode with actions that are always the same."""
    rng = np.random.default_rng(0)
    results = [env.reset(seed=seed)]
    for _ in range(steps):
        if is_watched:
            env.unwrapped.batch.scene()
        results.append(env.step(rng.dirichlet(np.ones(21))))
    if is_watched:
        env.unwrapped.batch.scene()
    return results


def assert_told(env: Any, result: Any) -> None:
    """A scene has the equity and the weights that the result of the last step has."""
    scene = env.batch.scene()
    assert scene["tick"] == result.info["time_index"]
    assert scene["equities"] == pytest.approx([result.info["equity"]], rel=1e-9, abs=1e-9)
    assert scene["weights"][0] == pytest.approx(result.observation["weights"], rel=1e-5, abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(worlds(), st.integers(0, 99))
def test_a_scene_tells_what_the_agent_sees_on_any_data(world: dict[str, Any], seed: int) -> None:
    env, rng = Portfolio(**world), np.random.default_rng(seed)
    result: Any = env.reset(seed=seed)
    assert_told(env, result)
    while not getattr(result, "done", False):
        before = env.state_dict()
        assert_told(env, result)
        assert env.state_dict() == before
        result = env.step(wanted(rng, len(env.assets)))
    if result.info["equity"] > 0:
        assert_told(env, result)


def test_a_stream_tells_of_rows_that_were_pushed() -> None:
    env, bars = streamed(make_panel(rows=40, assets=4, seed=1), 20)
    env.reset(seed=0)

    for bar in bars[:8]:
        env.push(bar)
        assert_told(env, env.step(np.full(5, 0.2)))


def test_one_env_of_a_batch_is_told_of() -> None:
    vec: Any = sekai.make_vec("Portfolio-v0", 3, "native", lookback=3)
    vec.reset(seed=[4, 5, 6])
    single = portfolio(episode_rows=252)
    single.reset(seed=6)

    assert vec.batch.scene(2)["time"] == single.unwrapped.batch.scene()["time"]
    assert vec.batch.scene(2)["seed"] == 6
    with pytest.raises(ValueError, match="an env from 0 to 2, got 3"):
        vec.batch.scene(3)


def test_an_env_before_its_first_episode_tells_nothing() -> None:
    with pytest.raises(ResetRequired, match="env 0 is in no episode"):
        portfolio().unwrapped.batch.scene()


def test_looking_leaves_the_log_as_it_would_have_been() -> None:
    plain, watched = portfolio(record=True), portfolio(record=True)
    for env in (plain, watched):
        play(env, 7, is_watched=env is watched)
        play(env, 4, seed=None, is_watched=env is watched)

    logs = [env.unwrapped.take_log() for env in (plain, watched)]
    assert [len(log.steps) for log in logs[0]] == [len(log.steps) for log in logs[1]] == [7, 4]
    for first, second in zip(*logs, strict=True):
        for name in ("seed", "episode", "opening_row"):
            assert getattr(first, name) == getattr(second, name)
        assert np.array_equal(first.opening_units, second.opening_units)
        assert np.array_equal(first.steps.weights, second.steps.weights)
        assert np.array_equal(first.trades.units, second.trades.units)
    assert watched.unwrapped.take_log() == []


def test_a_log_that_was_taken_goes_on_where_it_was_taken() -> None:
    env = portfolio(record=True)
    play(env, 3, is_watched=True)
    (first,) = env.unwrapped.take_log()
    env.unwrapped.batch.scene()
    env.step(np.full(21, 1 / 21))

    (second,) = env.unwrapped.take_log()
    assert (len(first.steps), len(second.steps)) == (3, 1)
    assert second.opening_row == first.steps.row[-1]


def test_logs_of_the_same_episode_played_twice_stay_two() -> None:
    env = portfolio(record=True)
    play(env, 3, seed=8, is_watched=True)
    play(env, 2, seed=8, is_watched=True)

    assert [len(log.steps) for log in env.unwrapped.take_log()] == [3, 2]


def test_rewards_of_a_function_stay_with_their_steps() -> None:
    env = portfolio(record=True, reward=lambda state: state.time_index.astype(float))
    results = play(env, 6, is_watched=True)

    (log,) = env.unwrapped.take_log()
    assert log.steps.reward.tolist() == [result.reward for result in results[1:]]


def test_an_env_that_keeps_no_log_keeps_none_after_it_was_looked_at() -> None:
    env = portfolio()
    play(env, 3, is_watched=True)

    assert env.unwrapped.batch.take_log() == []
