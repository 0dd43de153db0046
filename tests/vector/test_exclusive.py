"""Two threads and one vector env: the second caller is refused, the first one is not disturbed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sekai.compose.vectorize import FiniteDummyVectorEnv
from sekai.core.result import StepResult
from sekai.error import BusyError, InvalidActionError, SekaiError, WorkerError
from sekai.vector import AsyncVecEnv, MultiAgentVecEnv, SyncVecEnv, VecEnv
from tests.vector.native_batch import LotteryBatch, lottery_vector
from tests.vector.worlds import Faulty, Scripted, build
from tests.worlds import Duel


class Slow(Scripted):
    """Takes half a second for a step."""

    def step(self, action: Any) -> StepResult[Any]:
        time.sleep(0.5)
        return super().step(action)


def slow_native() -> VecEnv:
    class SlowBatch(LotteryBatch):
        def step(self, *args: Any) -> None:
            time.sleep(0.5)
            super().step(*args)

    vec = lottery_vector(2)
    vec.batch = SlowBatch(2)
    return vec


class SlowDuel(Duel):
    """Takes half a second for a step of all agents."""

    def step(self, actions: Any) -> Any:
        time.sleep(0.5)
        return super().step(actions)


class SlowAsync(Scripted):
    """Waits half a second for a step, without blocking the event loop."""

    async def async_step(self, action: Any) -> StepResult[Any]:
        await asyncio.sleep(0.5)
        return Scripted.step(self, action)


VECTORS: dict[str, Callable[[], VecEnv]] = {
    "sync": lambda: SyncVecEnv([Slow] * 2),
    "async": lambda: AsyncVecEnv([SlowAsync] * 2),
    "proc": lambda: build("proc", [Slow] * 2),
    "native": slow_native,
}
CALLS: dict[str, Callable[[VecEnv], object]] = {
    "step": lambda vec: vec.step([1, 1]),
    "reset": lambda vec: vec.reset(seed=1),
    "state_dict": lambda vec: vec.state_dict(),
    "load_state_dict": lambda vec: vec.load_state_dict({}),
    "close": lambda vec: vec.close(),
}
WORKER_CALLS: dict[str, Callable[[VecEnv], object]] = {
    "get_attr": lambda vec: vec.get_attr("length"),
    "set_attr": lambda vec: vec.set_attr("length", 1),
    "call": lambda vec: vec.call("close"),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_call_during_a_step_is_refused_and_the_step_goes_on(name: str) -> None:
    with VECTORS[name]() as vec, VECTORS[name]() as calm:
        calm.reset(seed=0)
        expected = [calm.step([0, 0]), calm.step([1, 1])]
        vec.reset(seed=0)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(vec.step([0, 0])))
        thread.start()
        while not vec._is_busy:  # type: ignore[attr-defined]
            time.sleep(0.001)
        for call in {**CALLS, **(WORKER_CALLS if name == "proc" else {})}.values():
            with pytest.raises(BusyError, match=f"this {type(vec).__name__} is running"):
                call(vec)
        thread.join()

        assert [*found, vec.step([1, 1])] == expected
    assert vec.closed


def test_a_market_of_several_agents_is_not_closed_in_the_middle_of_a_step() -> None:
    vec = MultiAgentVecEnv([SlowDuel] * 2)
    vec.reset(seed=0)
    actions = {"north": np.zeros((2, 1)), "south": np.zeros(2, np.int64)}
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(vec.step(actions)))
    thread.start()
    while not vec.vec._is_busy:  # type: ignore[attr-defined]
        time.sleep(0.001)

    with pytest.raises(BusyError):
        vec.close()
    thread.join()

    assert len(found) == 1
    assert not vec.closed
    vec.close()
    assert vec.closed


def test_a_finite_vector_that_was_busy_is_closed_by_the_next_attempt() -> None:
    vec = FiniteDummyVectorEnv([Slow] * 2)
    with vec.collector_guard():
        vec.reset(seed=0)
        thread = threading.Thread(target=lambda: vec.step([0, 0]))
        thread.start()
        while not vec._vec._is_busy:  # type: ignore[attr-defined]
            time.sleep(0.001)
        with pytest.raises(BusyError):
            vec.close()
        thread.join()
        assert not vec.closed

    assert vec.closed


def test_an_env_that_fails_still_closes_its_vector() -> None:
    vec = SyncVecEnv([Faulty] * 2)
    vec.reset(seed=0)

    with pytest.raises(WorkerError):
        vec.step([1, 1])

    assert vec.closed


def test_a_call_that_failed_leaves_the_vector_free() -> None:
    vec = SyncVecEnv([Scripted] * 2)
    vec.reset(seed=0)
    with pytest.raises(InvalidActionError):
        vec.step([0])

    assert vec.step([0, 0]).rewards.tolist() == [1, 1]


def test_threads_that_step_at_once_never_mix_their_steps() -> None:
    vec = SyncVecEnv([lambda: Scripted(10**6)] * 4)
    vec.reset(seed=0)
    rows: list[list[float]] = []

    def work() -> None:
        for _ in range(300):
            with contextlib.suppress(BusyError):
                rows.append(vec.step([0] * 4).rewards.tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # The envs count their steps: every step gave all of them the same number, and none is missing.
    assert sorted(rows) == [[float(number)] * 4 for number in range(1, len(rows) + 1)]


def test_the_error_is_one_of_the_packages_own() -> None:
    assert issubclass(BusyError, SekaiError)
    assert issubclass(BusyError, RuntimeError)
