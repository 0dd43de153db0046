"""`PyTradingEnv` and `PyVecTradingEnv`: shapes, seeds, refusals, and one market behind both."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import gymnasium
import numpy as np
import pytest

from quant_gym_rs import PyTradingEnv, PyVecTradingEnv
from sekai.envs import Trading
from tests.envs.trading_paths import choices

CHOICE = r"must be 0 \(sell\), 1 \(hold\), or 2 \(buy\)"


def test_what_comes_back_has_the_documented_types() -> None:
    env = PyTradingEnv(max_ticks=5, seed=1)
    obs = env.reset()
    assert type(obs) is np.ndarray
    assert obs.shape == (54,)
    assert obs.dtype == np.float64

    obs, reward, terminated, truncated, info = env.step(2)
    assert obs.shape == (54,)
    assert obs.dtype == np.float64
    assert [type(part) for part in (reward, terminated, truncated, info)] == [
        *(float, bool),
        *(bool, dict),
    ]
    assert {"tick", "equity", "realized_pnl"} <= info.keys()
    assert type(info["tick"]) is int


def test_the_vector_class_gives_rows_and_lists() -> None:
    env = PyVecTradingEnv(3, 5, 1)
    assert env.num_envs == 3
    assert env.reset_all().shape == (3, 54)
    obs, rewards, terminated, truncated, infos = env.step_all([0, 1, 2])

    assert obs.shape == (3, 54)
    assert obs.dtype == np.float64
    assert rewards.shape == (3,)
    assert rewards.dtype == np.float64
    assert terminated == truncated == [False] * 3
    assert [info["tick"] for info in infos] == [1, 1, 1]
    assert {"tick", "equity"} <= infos[0].keys()


def test_spaces_are_gymnasiums_own() -> None:
    for env in (PyTradingEnv(), PyVecTradingEnv(2)):
        observations, actions = env.observation_space, env.action_space
        assert type(observations) is gymnasium.spaces.Box
        assert observations.shape == (54,)
        assert observations.dtype == np.float64
        assert np.isinf(observations.low).all()
        assert np.isinf(observations.high).all()
        assert actions == gymnasium.spaces.Discrete(3)
        assert len(env.feature_names()) == 54
    several = PyTradingEnv(num_symbols=2)
    assert several.observation_space.shape == (108,)
    assert several.action_space == gymnasium.spaces.MultiDiscrete([3, 3])


@pytest.mark.parametrize("privileged", [False, True])
def test_it_is_the_market_of_trading_v0(privileged: bool) -> None:
    env = PyTradingEnv(max_ticks=60, privileged=privileged)
    task = Trading(max_ticks=60, privileged=privileged)
    assert np.array_equal(env.reset(seed=8), task.reset(seed=8).observation)
    for action in choices(8, 60):
        obs, reward, terminated, truncated, info = env.step(action)
        result = task.step(action)
        assert np.array_equal(obs, result.observation)
        assert (reward, terminated, truncated) == (
            *(result.reward, result.terminated),
            result.truncated,
        )
        assert info == result.info
    assert truncated


def test_the_fair_value_is_hidden_unless_privileged_features_are_requested() -> None:
    column = PyTradingEnv().feature_names().index("f_price_to_fair")

    assert PyTradingEnv().reset(1)[column] == PyVecTradingEnv(1).reset_all([1])[0, column] == 1.0
    shown = PyTradingEnv(privileged=True).reset(1)
    assert shown[column] != 1.0
    assert np.array_equal(PyVecTradingEnv(1, privileged=True).reset_all([1])[0], shown)


def path(env: PyTradingEnv, seed: int | None) -> list[Any]:
    seen: list[Any] = [env.reset(seed).tobytes()]
    for action in choices(0, 40):
        obs, reward, *_ = env.step(action)
        seen += [obs.tobytes(), reward]
    return seen


def test_seeds_of_the_constructor_and_of_reset_mean_the_same() -> None:
    env = PyTradingEnv(seed=42)
    first = path(env, None)

    assert first == path(PyTradingEnv(), 42) == path(PyTradingEnv(seed=7), 42)
    # Without a seed the next episode of the same stream begins, and can be had again.
    second = path(env, None)
    assert second != first
    other = PyTradingEnv(seed=42)
    other.reset()
    assert path(other, None) == second
    assert path(env, 42) == first
    assert path(PyTradingEnv(), None) != path(PyTradingEnv(), None)


@pytest.mark.parametrize("threads", [1, 2])
def test_env_i_of_a_vector_is_the_env_of_the_base_seed_plus_i(threads: int) -> None:
    vec = PyVecTradingEnv(40, max_ticks=25, base_seed=100, autoreset=False, num_threads=threads)
    singles = [PyTradingEnv(max_ticks=25, seed=100 + env) for env in range(40)]
    shown = vec.reset_all()
    assert np.array_equal(shown, [single.reset() for single in singles])

    draw = np.random.default_rng(0)
    for _ in range(25):
        actions = draw.integers(0, 3, 40).tolist()
        obs, rewards, terminated, truncated, infos = vec.step_all(actions)
        stepped = [single.step(action) for single, action in zip(singles, actions, strict=True)]
        assert np.array_equal(obs, [result[0] for result in stepped])
        assert rewards.tolist() == [result[1] for result in stepped]
        assert terminated == [result[2] for result in stepped]
        assert truncated == [result[3] for result in stepped]
        assert infos == [result[4] for result in stepped]
    assert all(truncated)


def test_seeds_may_be_given_one_by_one() -> None:
    vec = PyVecTradingEnv(3)
    shown = vec.reset_all([5, 6, 5])

    assert np.array_equal(shown[0], shown[2])
    assert np.array_equal(shown[1], PyTradingEnv().reset(6))
    with pytest.raises(ValueError, match="expected 3 seeds, got 2"):
        vec.reset_all([1, 2])
    assert not np.array_equal(vec.reset_all(), shown)


def test_an_episode_that_ends_is_followed_by_the_next_one() -> None:
    # The second of two, so that it cannot be taken for the first.
    vec, single = PyVecTradingEnv(2, 4, 8), PyTradingEnv(4, 9)
    vec.reset_all()
    single.reset()
    for _ in range(3):
        for _ in range(3):
            assert "final_observation" not in vec.step_all([1, 2])[4][1]
            single.step(2)
        obs, rewards, terminated, truncated, infos = vec.step_all([1, 0])
        last, reward, *_, info = single.step(0)
        assert (terminated, truncated) == ([False] * 2, [True] * 2)
        assert rewards[1] == reward
        assert np.array_equal(infos[1].pop("final_observation"), last)
        assert infos[1] == info
        assert np.array_equal(obs[1], single.reset())


def test_without_autoreset_a_finished_episode_is_not_stepped() -> None:
    vec, single = PyVecTradingEnv(2, 1, 9, autoreset=False), PyTradingEnv(1, 9)
    for step in (lambda: vec.step_all([1, 1]), lambda: single.step(1)):
        with pytest.raises(RuntimeError, match="reset"):
            step()
    vec.reset_all()
    single.reset()
    assert vec.step_all([1, 1])[3] == [True, True]
    assert single.step(1)[3]
    with pytest.raises(RuntimeError, match=r"env 0 .* reset_all\(\)"):
        vec.step_all([1, 1])
    with pytest.raises(RuntimeError, match=r"the episode is over: call reset\(\)"):
        single.step(1)


@pytest.mark.parametrize("action", [3, -1, 1.5, True, "buy", None, [1, 1], 2**70, np.nan])
def test_what_is_no_choice_is_refused_and_nothing_moves(action: Any) -> None:
    env, other = PyTradingEnv(seed=1), PyTradingEnv(seed=1)
    env.reset()
    other.reset()

    with pytest.raises(ValueError, match=f"^action {CHOICE}, got "):
        env.step(action)
    assert np.array_equal(env.step(2)[0], other.step(2)[0])


@pytest.mark.parametrize("action", [3, -1, 1.5, True, "buy", None, [1], 2**70])
def test_the_env_whose_choice_is_none_is_named_and_nobody_moves(action: Any) -> None:
    vec, other = PyVecTradingEnv(4, base_seed=1), PyVecTradingEnv(4, base_seed=1)
    vec.reset_all()
    other.reset_all()

    with pytest.raises(ValueError, match=f"^action of env 2 {CHOICE}, got "):
        vec.step_all([2, 0, action, 3])
    assert np.array_equal(vec.step_all([2] * 4)[0], other.step_all([2] * 4)[0])


def test_several_symbols_need_a_choice_each() -> None:
    env = PyTradingEnv(num_symbols=3)
    env.reset(seed=0)
    for action in (1, [1, 1], [1, 1, 1, 1], [1, 1, 1.5]):
        with pytest.raises(ValueError, match=f"{CHOICE} for each of 3 symbols, got"):
            env.step(action)
    with pytest.raises(ValueError, match=f"^action {CHOICE}, got 5"):
        env.step([1, 1, 5])
    assert env.step(np.array([0, 1, 2]))[0].shape == (162,)


def test_the_number_of_actions_must_be_that_of_the_envs() -> None:
    vec = PyVecTradingEnv(8)
    vec.reset_all()
    with pytest.raises(ValueError, match="^expected 8 actions, got 7$"):
        vec.step_all([1] * 7)
    assert vec.step_all(np.ones(8, np.int64))[4][0]["tick"] == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda: PyTradingEnv(max_ticks=0), "max_ticks of at least 1, got 0"),
        (lambda: PyTradingEnv(num_symbols=0), "num_symbols must be from 1 to 1000, got 0"),
        (lambda: PyTradingEnv(num_symbols=1001), "num_symbols must be from 1 to 1000, got 1001"),
        (lambda: PyVecTradingEnv(0), "num_envs must be at least 1, got 0"),
        (lambda: PyVecTradingEnv(2, 0), "max_ticks of at least 1, got 0"),
        (lambda: PyVecTradingEnv(2, num_threads=0), "num_threads must be from 1 to 1024, got 0"),
    ],
)
def test_what_cannot_be_built_says_why(build: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        build()


def test_other_threads_run_while_envs_step() -> None:
    vec = PyVecTradingEnv(500, base_seed=0, num_threads=1)
    vec.reset_all()
    stepping, ran, stop = threading.Event(), threading.Event(), threading.Event()

    def watch() -> None:
        while not stop.wait(0.001):
            if stepping.is_set():
                ran.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    interval, deadline = sys.getswitchinterval(), time.monotonic() + 20
    # Without forced switches the watcher runs only where the native call releases the GIL.
    sys.setswitchinterval(1000)
    try:
        while not ran.is_set() and time.monotonic() < deadline:
            stepping.set()
            vec.step_all([1] * 500)
            stepping.clear()
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        watcher.join()

    assert ran.is_set()
