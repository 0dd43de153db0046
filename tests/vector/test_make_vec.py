"""Vector envs from ids."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.registry import isolated
from sekai.vector import (
    AsyncVecEnv,
    MultiAgentVecEnv,
    NativeVecEnv,
    ProcVecEnv,
    SyncVecEnv,
    make_vec,
)
from sekai.wrappers import TimeLimit
from tests.vector.native_batch import Lottery, lottery_vector
from tests.vector.worlds import Waiter
from tests.worlds import Duel, RandomWalk

FORK: dict[str, Any] = {"vector_kwargs": {"start_method": "fork"}}


class Slow(RandomWalk):
    """Takes its time."""

    def step(self, action: Any) -> Any:
        time.sleep(0.002)
        return super().step(action)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with isolated():
        sekai.register("test/Walk-v0", RandomWalk, max_episode_steps=7)
        sekai.register("test/Slow-v0", Slow)
        sekai.register("test/Waiter-v0", Waiter)
        sekai.register("test/Duel-v0", Duel)
        sekai.register("test/Lottery-v0", Lottery, vector_entry_point=lottery_vector)
        yield


@pytest.mark.parametrize(
    ("mode", "kind"), [("sync", SyncVecEnv), ("async", AsyncVecEnv), ("proc", ProcVecEnv)]
)
def test_the_mode_says_where_the_envs_run(mode: Any, kind: type) -> None:
    more = {"num_workers": 1, **FORK} if mode == "proc" else {}
    with make_vec("test/Walk-v0", 3, mode, noise=0.25, **more) as vec:
        assert type(vec) is kind
        assert vec.get_attr("noise") == [0.25] * 3
        assert vec.get_attr("max_episode_steps") == [7] * 3
        assert vec.reset(seed=0).observations.shape == (3, 2)


def test_the_native_batch_is_taken_where_there_is_one() -> None:
    assert isinstance(make_vec("test/Lottery-v0", 8), NativeVecEnv)
    assert isinstance(make_vec("test/Lottery-v0", 8, "native"), NativeVecEnv)
    assert isinstance(make_vec("test/Lottery-v0", 8, "sync"), SyncVecEnv)
    with pytest.raises(ValueError, match="test/Walk-v0 has no native batch"):
        make_vec("test/Walk-v0", 2, "native")


def test_wrappers_of_single_envs_keep_a_batch_from_being_native() -> None:
    def limited(env: Any) -> TimeLimit[Any, Any]:
        return TimeLimit(env, 3)

    assert isinstance(make_vec("test/Lottery-v0", 2, wrappers=[limited]), SyncVecEnv)
    with pytest.raises(ValueError, match="takes no single-env wrappers"):
        make_vec("test/Lottery-v0", 2, "native", wrappers=[limited])


def test_quick_envs_stay_in_this_process_and_slow_ones_get_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with make_vec("test/Walk-v0", 4, num_workers=2) as vec:
        assert type(vec) is SyncVecEnv
    with make_vec("test/Slow-v0", 8, num_workers=2, **FORK) as vec:
        assert isinstance(vec, ProcVecEnv)
        assert vec.num_workers == 2
    with make_vec("test/Slow-v0", 8, num_workers=1) as vec:
        assert type(vec) is SyncVecEnv
    with make_vec("test/Slow-v0", 1, num_workers=2) as vec:
        assert type(vec) is SyncVecEnv


def test_envs_that_wait_for_the_outside_world_share_an_event_loop() -> None:
    with make_vec("test/Waiter-v0", 4) as vec:
        assert type(vec) is AsyncVecEnv


def test_the_options_of_a_vector_reach_it() -> None:
    vec = make_vec(
        "test/Walk-v0",
        2,
        "sync",
        autoreset="next_step",
        copy=False,
        vector_kwargs={"on_error": "restart"},
    )

    assert isinstance(vec, SyncVecEnv)
    assert (vec.autoreset, vec.copy, vec.on_error) == ("next_step", False, "restart")


def test_several_agents_make_a_multi_agent_vector() -> None:
    vec: Any = make_vec("test/Duel-v0", 3, "sync")

    assert isinstance(vec, MultiAgentVecEnv)
    vec.reset(seed=0)
    result = vec.step({"north": np.zeros((3, 1)), "south": np.zeros(3, np.int64)})
    assert result.rewards["north"].shape == (3,)


def test_a_spec_makes_a_vector_too() -> None:
    vec = make_vec(sekai.spec("test/Walk-v0"), 2, "sync", max_episode_steps=None)

    vec.reset(seed=0)
    assert vec.num_envs == 2


@pytest.mark.parametrize("arguments", [{"num_envs": 0}, {"mode": "quick"}])
def test_what_cannot_be_made_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        make_vec("test/Walk-v0", **arguments)
