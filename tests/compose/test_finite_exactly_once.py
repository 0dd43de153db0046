"""Every seed gives exactly one whole episode, in any number of workers."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.compose import DataQueue
from tests.compose.countdowns import ENV_TYPES, Memory, Seed, collect, countdowns


def collected(
    seeds: list[Seed], env_type: str, concurrency: int, **options: Any
) -> tuple[Memory, Any]:
    """Records of a writer after a complete collection."""
    memory = Memory()
    with DataQueue(seeds, **options) as queue:
        env = countdowns(queue, env_type, concurrency, memory)
        collect(env)
    return memory, env


def check(memory: Memory, seeds: list[Seed], concurrency: int) -> None:
    """Each seed began once, was stepped as often as it lasts, and ended once, in one worker."""
    numbers = sorted(number for number, _ in seeds)
    assert sorted(number for _, number in memory.begun) == numbers
    assert sorted(memory.finished) == numbers
    steps = Counter((worker, number) for worker, number, _, _ in memory.steps)
    assert steps == Counter(
        {(worker, number): dict(seeds)[number] for worker, number in memory.begun}
    )
    assert all(reward == number for _, number, reward, _ in memory.steps)
    assert {worker for worker, _ in memory.begun} <= set(range(concurrency))
    assert memory.episode_count == len(seeds)
    assert memory.calls == ["all_ready", "all_done"]


LENGTHS = st.lists(st.integers(1, 7), max_size=25)


@given(lengths=LENGTHS, concurrency=st.integers(1, 9), maxsize=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_every_seed_makes_one_episode_in_one_process(
    lengths: list[int], concurrency: int, maxsize: int
) -> None:
    seeds = list(enumerate(lengths))

    memory, env = collected(seeds, "dummy", concurrency, queue_maxsize=maxsize)

    check(memory, seeds, concurrency)
    assert env.closed


@pytest.mark.parametrize("env_type", ["subproc", "shmem"])
@given(lengths=LENGTHS, concurrency=st.integers(1, 5))
@settings(max_examples=5, deadline=None)
def test_every_seed_makes_one_episode_in_many_processes(
    env_type: str, lengths: list[int], concurrency: int
) -> None:
    seeds = list(enumerate(lengths))

    memory, _ = collected(seeds, env_type, concurrency)

    check(memory, seeds, concurrency)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("env_type", ["subproc", "shmem"])
@given(lengths=st.lists(st.integers(1, 40), max_size=200), concurrency=st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_every_seed_makes_one_episode_in_the_long_run(
    env_type: str, lengths: list[int], concurrency: int
) -> None:
    seeds = list(enumerate(lengths))

    memory, _ = collected(seeds, env_type, concurrency)

    check(memory, seeds, concurrency)


@pytest.mark.parametrize("env_type", ENV_TYPES)
def test_more_workers_than_seeds_are_no_harm(env_type: str) -> None:
    seeds = [(0, 3), (1, 1)]

    memory, env = collected(seeds, env_type, 4)

    check(memory, seeds, 4)
    assert env.alive == frozenset()


@pytest.mark.parametrize("env_type", ENV_TYPES)
def test_without_seeds_the_first_reset_ends_the_collection(env_type: str) -> None:
    memory, env = collected([], env_type, 2)

    assert not memory.begun
    assert not memory.steps
    assert memory.calls == ["all_ready", "all_done"]
    assert env.closed


@pytest.mark.parametrize("env_type", ENV_TYPES)
def test_an_endless_queue_is_worked_on_for_as_long_as_one_likes(env_type: str) -> None:
    memory = Memory()
    with DataQueue([(0, 2), (1, 3), (2, 1)], repeat=-1) as queue:
        env = countdowns(queue, env_type, 2, memory)
        collect(env, steps=30)

    assert len(memory.steps) == 60
    assert len(memory.finished) >= 20
    assert env.closed


def test_seeds_come_in_their_order_to_a_single_worker() -> None:
    seeds = [(number, 1 + number % 3) for number in range(12)]

    memory, _ = collected(seeds, "dummy", 1, shuffle=False)

    assert memory.finished == list(range(12))


def test_one_worker_at_a_time_may_be_stepped() -> None:
    seeds = [(number, 2) for number in range(9)]
    memory = Memory()
    with DataQueue(seeds) as queue:
        env = countdowns(queue, "dummy", 3, memory)
        with env.collector_guard():
            env.reset()
            for worker in itertools.cycle([2, 0, 1]):
                if env.step([1], worker).dones[0]:
                    env.reset(worker)

    check(memory, seeds, 3)


def test_what_workers_share_shows_in_no_result() -> None:
    with DataQueue([(number, 4) for number in range(6)], shuffle=False) as queue:
        env = countdowns(queue, "shmem", 2)
        with env.collector_guard():
            shown = [env.reset().observations]
            kept = [{key: part.copy() for key, part in shown[0].items()}]
            for _ in range(3):
                shown.append(env.step(np.ones(2, np.int64)).observations)
                kept.append({key: part.copy() for key, part in shown[-1].items()})

    for one, copy in zip(shown, kept, strict=True):
        assert all(np.array_equal(one[key], copy[key]) for key in one)
    assert [one["left"].tolist() for one in shown] == [[4, 4], [3, 3], [2, 2], [1, 1]]
