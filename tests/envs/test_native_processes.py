"""Native batches beside threads and forks: no hang, no panic, no half-done step."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.spaces import Box
from sekai.vector import ProcVecEnv, SyncVecEnv
from tests.envs.native_tasks import CROWDS, TASKS, native, plan

LONG = {"MarketMaking-v0": 200_000, "OptimalExecution-v0": 500_000, "Trading-v0": 2000}
"""So many envs that a step takes long enough for another thread to come in."""


def spread(task: str, num_envs: int) -> Any:
    """Actions for many envs, quickly."""
    few = plan(native(task, 4), 1)[0]
    return np.resize(few, (num_envs, *few.shape[1:]))


class Desk(Env[Any, Any]):
    """An env that holds a native batch, as a worker of a vector env might.

    Observation: the sum of the batch's rewards.
    Action: ignored.
    Reward: the same sum.
    Terminates: never.
    Truncates: never.
    """

    def __init__(self, task: str) -> None:
        self.observation_space = Box(-np.inf, np.inf, (1,), np.float64)
        self.action_space = Box(0.0, 1.0, (1,), np.float64)
        self.vec = native(task, CROWDS[task], num_threads=2)
        self.actions = plan(self.vec, 1)[0]

    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        self.vec.reset(seed=seed)
        return ResetResult(np.zeros(1), {})

    def step(self, action: Any) -> StepResult[Any]:
        total = float(self.vec.step(self.actions).rewards.sum())
        return StepResult(np.array([total]), total, False, False, {})


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Shorten the switch interval of threads."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(usual)


def test_forked_workers_use_threads_of_their_own(task: str) -> None:
    factories = [partial(Desk, task)] * 2
    sync = SyncVecEnv(factories)
    sync.reset(seed=0)
    expected = [sync.step(np.zeros((2, 1))).rewards for _ in range(5)]

    # The pool of this process has been used, and is no use to the workers.
    with ProcVecEnv(factories, num_workers=2, start_method="fork", step_timeout=30) as proc:
        proc.reset(seed=0)
        found = [proc.step(np.zeros((2, 1))).rewards for _ in range(5)]

    assert np.array_equal(found, expected)


def _go_on(vec: Any, actions: Any, answers: Any) -> None:
    answers.put([vec.step(actions).rewards.sum() for _ in range(5)])


def test_a_forked_child_goes_on_with_a_batch_of_its_parent(task: str) -> None:
    vec = native(task, CROWDS[task], num_threads=2)
    vec.reset(seed=0)
    actions = plan(vec, 1)[0]
    vec.step(actions)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_go_on, args=(vec, actions, answers))
    child.start()

    found = answers.get(timeout=30)
    child.join(timeout=30)
    assert child.exitcode == 0
    assert found == [vec.step(actions).rewards.sum() for _ in range(5)]


def test_two_threads_in_one_batch_get_an_error_or_their_turn(task: str) -> None:
    count = LONG[task] // 10
    vec = native(task, count, num_threads=2)
    batch: Any = vec.batch
    shown = vec.reset(seed=0).observations
    actions = spread(task, count)
    errors: list[str] = []
    together = threading.Barrier(2)

    def step(*arrays: Any) -> None:
        try:
            batch.step(actions, *arrays, None)
        except RuntimeError as error:
            errors.append(str(error))

    def use() -> None:
        rows = np.zeros((2, *shown.shape), shown.dtype)
        flags = np.zeros((2, count), np.bool_)
        together.wait()
        for _ in range(200):
            step(rows[0], np.zeros(count), flags[0], flags[1], rows[1])

    users = [threading.Thread(target=use) for _ in range(2)]
    for user in users:
        user.start()
    for user in users:
        user.join()

    assert errors, "400 long steps of two threads never met"
    assert set(errors) == {
        "another thread is using this batch: give each thread a batch of its own, or take turns "
        "with a lock"
    }
    vec.step(actions)


def test_other_threads_run_while_a_batch_steps(task: str, quick_switches: None) -> None:
    vec = native(task, LONG[task], num_threads=1)
    vec.reset(seed=0)
    actions = spread(task, LONG[task])
    stamps: list[float] = []
    calls: list[tuple[float, float]] = []
    stop = threading.Event()

    def stamp() -> None:
        while not stop.is_set():
            stamps.append(time.perf_counter())

    other = threading.Thread(target=stamp)
    other.start()
    for _ in range(10):
        begin = time.perf_counter()
        vec.step(actions)
        calls.append((begin, time.perf_counter()))
    stop.set()
    other.join()

    # The middle of a call, since Python may switch threads just before and after it.
    seen = np.array(stamps)
    middles = [(0.7 * begin + 0.3 * end, 0.3 * begin + 0.7 * end) for begin, end in calls]
    assert sum(bool(((low < seen) & (seen < high)).any()) for low, high in middles) >= 2


def test_importing_sekai_loads_no_task() -> None:
    tasks = {"market_making", "optimal_execution", "trading"}
    modules = {*(f"sekai.envs.{name}" for name in tasks), "sekai.market"}
    script = f"import sys, sekai; sys.exit(len({modules} & set(sys.modules)))"
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=exec, args=(script,))
    child.start()
    child.join()

    assert child.exitcode == 0
    assert {*TASKS} <= {spec.id for spec in sekai.all_specs()}
