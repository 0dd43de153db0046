"""Batch = single = restored, whatever the number of envs and threads: every task in Rust."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.utils.checker import check_env
from sekai.vector import NativeBatch
from tests.envs.native_tasks import CROWDS, TASKS, composed, native, parts, plain, plan, record

MODES = ["same_step", "next_step", "disabled"]


def test_its_batch_fulfils_the_protocol(task: str) -> None:
    assert isinstance(native(task, 2).batch, NativeBatch)


def test_the_checker_finds_nothing_to_report(task: str) -> None:
    assert check_env(sekai.make(task)) == []
    assert check_env(sekai.make(task, **TASKS[task])) == []


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_equals_its_single_envs_bit_for_bit(task: str, mode: Any, copy: bool) -> None:
    options = {"autoreset": mode, "copy": copy}

    assert record(native(task, 5, **options)) == record(composed(task, 5, "sync", **options))


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_a_batch_equals_envs_in_worker_processes_bit_for_bit(task: str, start_method: str) -> None:
    how = {"start_method": start_method}
    with composed(task, 4, "proc", num_workers=2, vector_kwargs=how) as workers:
        assert record(native(task, 4)) == record(workers)


def test_a_step_limit_is_the_same_for_a_batch_and_for_single_envs(task: str) -> None:
    limited = {"max_episode_steps": 3}

    assert record(native(task, 4, **limited)) == record(composed(task, 4, "sync", **limited))


@pytest.mark.parametrize("threads", [2, 7])
def test_the_number_of_threads_changes_nothing(task: str, threads: int) -> None:
    one, many = (native(task, CROWDS[task], num_threads=count) for count in (1, threads))
    assert many.get_attr("num_threads")[0] == threads

    first = one.reset(seed=0), many.reset(seed=0)
    assert parts(first[0]) == parts(first[1])
    for actions in plan(one, 12):
        one_result, many_result = one.step(actions), many.step(actions)
        assert one_result.observations.tobytes() == many_result.observations.tobytes()
        assert one_result.rewards.tobytes() == many_result.rewards.tobytes()
        assert np.array_equal(one_result.dones, many_result.dones)
    assert one_result.infos == many_result.infos


def test_env_3_of_4_equals_env_3_of_4096(task: str) -> None:
    few, many = native(task, 4), native(task, 4096)
    few.reset(seed=1)
    many.reset(seed=1)
    for actions in plan(few, 20):
        everyone = np.resize(actions, (4096, *actions.shape[1:]))
        some, all_of_them = few.step(actions), many.step(everyone)
        assert some.observations[3].tobytes() == all_of_them.observations[3].tobytes()
        assert some.rewards[3] == all_of_them.rewards[3]
        assert plain(some.infos[3]) == plain(all_of_them.infos[3])


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=10, deadline=None)
@given(steps=st.integers(0, 25), seed=st.integers(0, 2**62))
def test_a_restored_batch_continues_bit_for_bit(
    task: str, mode: Any, steps: int, seed: int
) -> None:
    vec = native(task, 3, autoreset=mode)
    vec.reset(seed=seed)
    for actions in plan(vec, steps):
        if vec.step(actions).dones.any() and mode == "disabled":
            vec.reset()
    state = vec.state_dict()
    other = native(task, 3, autoreset=mode, num_threads=2)
    other.load_state_dict(state)

    assert record(vec, seed=None) == record(other, seed=None)


def test_a_single_env_restored_after_any_step_continues_bit_for_bit(task: str) -> None:
    env, other = sekai.make(task, **TASKS[task]), sekai.make(task, **TASKS[task])
    env.reset(seed=4)
    env.action_space.seed(0)
    for _ in range(40):
        other.load_state_dict(env.state_dict())
        action = env.action_space.sample()
        result = env.step(action)

        assert other.step(action) == result
        if result.done:
            env.reset()


def test_a_cloned_env_goes_on_as_its_source(task: str) -> None:
    vec, untouched = native(task, 4), native(task, 4)
    plans = plan(vec, 30)
    for each in (vec, untouched):
        each.reset(seed=0)
        each.step(plans[0])
    vec.clone(1, 3)
    for actions in plans:
        actions[3] = actions[1]
        result, expected = vec.step(actions), untouched.step(actions)
        assert result.observations.tobytes() == expected.observations[[0, 1, 2, 1]].tobytes()
        assert result.rewards.tolist() == expected.rewards[[0, 1, 2, 1]].tolist()
        assert result.dones.tolist() == expected.dones[[0, 1, 2, 1]].tolist()


def test_episodes_without_a_seed_differ_between_envs_and_batches(task: str) -> None:
    def path(vec: Any) -> Any:
        vec.reset()
        return [vec.step(actions).observations for actions in plan(vec, 5)][-1]

    one, other = path(native(task, 2)), path(native(task, 2))

    assert not np.array_equal(one, other)
    assert not np.array_equal(one[0], one[1])


def test_results_never_change_afterwards(task: str) -> None:
    env = sekai.make(task, **TASKS[task])
    first = env.reset(seed=0)
    shown = first.observation.copy()
    env.action_space.seed(0)
    result = env.step(env.action_space.sample())
    kept = result.observation.copy()
    while not env.step(env.action_space.sample()).done:
        pass

    assert np.array_equal(first.observation, shown)
    assert np.array_equal(result.observation, kept)
