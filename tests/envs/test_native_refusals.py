"""Refusals of native batches leave the state unchanged: every task in Rust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.error import ClosedError, InvalidActionError, ResetRequired, StateError
from tests.envs.native_tasks import TASKS, native, plan

ARRAYS = ["observations", "rewards", "terminated", "truncated", "final_observations"]


def begun(task: str, num_envs: int = 3, **options: Any) -> Any:
    vec = native(task, num_envs, **options)
    vec.reset(seed=0)
    vec.step(plan(vec, 1)[0])
    return vec


def arrays_of(vec: Any) -> dict[str, Any]:
    count, space = vec.num_envs, vec.observation_space
    return {
        "actions": plan(vec, 1)[0],
        "observations": np.zeros((count, *space.shape), space.dtype),
        "rewards": np.zeros(count),
        "terminated": np.zeros(count, np.bool_),
        "truncated": np.zeros(count, np.bool_),
        "final_observations": np.zeros((count, *space.shape), space.dtype),
        "skip": None,
    }


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


MISFITS: dict[str, Callable[[Any], Any]] = {
    "dtype": lambda array: array.astype(np.int16),
    "shape": lambda array: array[:-1].copy(),
    "strided": lambda array: np.repeat(array, 2, axis=0)[::2],
    "list": lambda array: array.tolist(),
    "read-only": read_only,
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("misfit", sorted(MISFITS))
def test_an_array_that_does_not_fit_is_named_and_nothing_moves(
    task: str, name: str, misfit: str
) -> None:
    vec = begun(task)
    before = vec.batch.state_dict()
    arrays = arrays_of(vec)
    arrays[name] = MISFITS[misfit](arrays[name])

    with pytest.raises(ValueError, match=f"^{name} "):
        vec.batch.step(*arrays.values())
    assert vec.batch.state_dict() == before


@pytest.mark.parametrize("misfit", ["shape", "strided", "list"])
def test_actions_that_do_not_fit_are_refused_by_name(task: str, misfit: str) -> None:
    vec = begun(task)
    before = vec.batch.state_dict()
    arrays = arrays_of(vec)
    arrays["actions"] = MISFITS[misfit](arrays["actions"])

    with pytest.raises(InvalidActionError, match="^actions needs a C-contiguous array"):
        vec.batch.step(*arrays.values())
    assert vec.batch.state_dict() == before


def test_one_array_cannot_stand_in_for_two(task: str) -> None:
    vec = begun(task)
    arrays = arrays_of(vec)
    arrays["truncated"] = arrays["terminated"]

    with pytest.raises(ValueError, match="truncated must be an array of its own"):
        vec.batch.step(*arrays.values())


def test_ids_and_seeds_of_a_reset_are_checked(task: str) -> None:
    vec = begun(task)
    before = vec.batch.state_dict()
    rows = np.zeros((3, *vec.observation_space.shape), vec.observation_space.dtype)
    ids = np.array([0, 1])

    with pytest.raises(ValueError, match="an env from 0 to 2, got 3"):
        vec.batch.reset(np.array([0, 3]), None, rows, None)
    with pytest.raises(ValueError, match="seeds needs .* uint64 and shape"):
        vec.batch.reset(ids, np.array([1], np.uint64), rows, None)
    with pytest.raises(ValueError, match="observations needs"):
        vec.batch.reset(ids, None, rows[:2], None)
    with pytest.raises(ValueError, match="takes no options"):
        vec.batch.reset(ids, None, rows, [{"mid": 3}, None])
    assert vec.batch.state_dict() == before


def test_a_step_outside_an_episode_is_refused_and_nobody_moves(task: str) -> None:
    vec = native(task, 3)
    arrays = arrays_of(vec)
    with pytest.raises(ResetRequired, match="env 0 is in no episode: call reset"):
        vec.batch.step(*arrays.values())
    vec.reset(seed=0)
    ended = np.zeros(3, np.bool_)
    while not ended.any():
        vec.batch.step(*{**arrays, "final_observations": None}.values())
        ended = arrays["terminated"] | arrays["truncated"]
    before = vec.batch.state_dict()

    with pytest.raises(ResetRequired, match=f"env {np.flatnonzero(ended)[0]} .* is over"):
        vec.batch.step(*arrays.values())
    assert vec.batch.state_dict() == before


def test_a_single_env_refuses_what_comes_out_of_order(task: str) -> None:
    env = sekai.make(task, **TASKS[task])
    env.action_space.seed(0)
    action = env.action_space.sample()
    with pytest.raises(ResetRequired, match="before reset"):
        env.step(action)
    env.reset(seed=0)
    while not env.step(action).done:
        pass
    with pytest.raises(ResetRequired, match="the episode is over"):
        env.step(action)
    with pytest.raises(ValueError, match="takes no options for reset"):
        env.reset(options={"mid": 3})
    for seed in (-1, 2**64, True, "one", 1.5):
        with pytest.raises(ValueError, match="seed must be a whole number"):
            env.reset(seed=seed)  # type: ignore[arg-type]
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step(action)):
        with pytest.raises(ClosedError):
            call()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_states_are_refused_and_change_nothing(task: str, data: st.DataObject) -> None:
    batch = begun(task).batch
    good = batch.state_dict()
    damaged = bytearray(good["native"])
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del damaged[data.draw(st.integers(0, len(damaged) - 1)) :]

    with pytest.raises(StateError):
        batch.load_state_dict({"native": bytes(damaged)})
    assert batch.state_dict() == good


def test_states_of_something_else_are_refused_and_change_nothing(task: str) -> None:
    batch = begun(task).batch
    good = batch.state_dict()
    newer = bytearray(good["native"])
    newer[4] = 200

    with pytest.raises(StateError, match="got version 200"):
        batch.load_state_dict({"native": bytes(newer)})
    with pytest.raises(StateError, match="the state of 3 envs, got that of 4"):
        batch.load_state_dict(begun(task, 4).batch.state_dict())
    for other in ({}, {"native": 3}, {"native": good["native"], "more": 1}, None, 5):
        with pytest.raises(StateError, match="has the key"):
            batch.load_state_dict(other)
    assert batch.state_dict() == good


@pytest.mark.parametrize("name", ["num_envs", "num_threads", "max_episode_steps"])
def test_nothing_is_made_of_nothing(task: str, name: str) -> None:
    make_batch = type(sekai.make(task).unwrapped).make_batch  # type: ignore[attr-defined]

    for value in (0, -1):
        with pytest.raises(
            ValueError, match=f"{name} must be (at least 1|from 1 to 1024), got {value}"
        ):
            make_batch(**{"num_envs": 2, **TASKS[task], name: value})


def test_only_a_batch_of_one_takes_single_steps(task: str) -> None:
    with pytest.raises(ValueError, match="a batch of one env"):
        begun(task).batch.reset_one()
