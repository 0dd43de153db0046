"""Worker errors reach the caller promptly, with their message."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import pytest

from sekai.compose import DataQueue, vectorize_env
from sekai.error import WorkerError
from tests.compose.countdowns import ENV_TYPES, Memory, collect, countdowns
from tests.compose.resources import wait_until_gone
from tests.compose.test_data_queue import Shelf, failing_at

SEEDS = [(number, 3) for number in range(6)]
SOON = 5.0


@pytest.fixture(params=ENV_TYPES)
def env_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def harmful(numbers: Any) -> Any:
    """Inject a fault into the worker with seed 4."""
    return np.where(numbers == 4, 2, 1)


def test_an_exception_in_a_step_says_what_it_was_and_who_raised_it(env_type: str) -> None:
    memory = Memory()
    with DataQueue(SEEDS, shuffle=False) as queue:
        env = countdowns(queue, env_type, 2, memory, harm="raise")
        with pytest.raises(WorkerError, match="LookupError: no data for seed 4") as raised:
            collect(env, act=harmful)

    assert raised.value.env_index == next(worker for worker, seed in memory.begun if seed == 4)
    assert isinstance(raised.value.__cause__, LookupError)
    assert "_suffer" in str(raised.value.remote_traceback)
    assert env.closed
    assert memory.calls == ["all_ready", "flush"]


def test_an_exception_in_a_reset_says_what_it_was(env_type: str) -> None:
    with DataQueue(SEEDS, shuffle=False) as queue:
        env = countdowns(queue, env_type, 3, harm="in_reset")
        with pytest.raises(WorkerError, match="LookupError: no data for this seed") as raised:
            collect(env)

    assert raised.value.env_index in (0, 1, 2)
    assert env.closed


@pytest.mark.parametrize(
    ("harm", "match", "exit_code"),
    [("exit", "ended with exit code 9", 9), ("kill", "killed by SIGKILL", -signal.SIGKILL)],
)
@pytest.mark.parametrize("kind", ["subproc", "shmem"])
def test_a_worker_that_dies_is_noticed_at_once(
    kind: str, harm: str, match: str, exit_code: int
) -> None:
    with DataQueue(SEEDS, shuffle=False) as queue:
        env = countdowns(queue, kind, 2, harm=harm)
        workers = env._vec.worker_ids  # type: ignore[attr-defined]
        began = time.monotonic()
        with pytest.raises(WorkerError, match=match) as raised:
            collect(env, act=harmful)

        assert time.monotonic() - began < SOON
        assert raised.value.exit_code == exit_code
        assert raised.value.last_action == 2
        wait_until_gone(workers)


@pytest.mark.parametrize("kind", ["subproc", "shmem"])
def test_a_worker_that_is_killed_between_steps_is_noticed_by_the_next(kind: str) -> None:
    with DataQueue(SEEDS) as queue:
        env = countdowns(queue, kind, 2)
        with env.collector_guard():
            env.reset()
            os.kill(env._vec.worker_ids[1], signal.SIGKILL)  # type: ignore[attr-defined]
            began = time.monotonic()
            with pytest.raises(WorkerError, match="env 1 .*killed by SIGKILL"):
                env.step(np.ones(2, np.int64))

    assert time.monotonic() - began < SOON


def test_the_seeds_of_other_workers_are_not_lost_with_one() -> None:
    memory, rest = Memory(), []
    with DataQueue([(number, 1) for number in range(20)], shuffle=False) as queue:
        env = countdowns(queue, "subproc", 3, memory, harm="kill")
        with pytest.raises(WorkerError):
            collect(env, act=harmful)
        rest = [number for number, _ in queue]

    begun = [number for _, number in memory.begun]
    assert sorted([*begun, *rest]) == list(range(20))
    assert set(begun) - set(memory.finished) <= {3, 4, 5}


def test_an_error_of_the_data_set_ends_the_collection(env_type: str) -> None:
    shelf: Any = Shelf(9, failing_at(4, LookupError("no such order")))
    with DataQueue(shelf, shuffle=False) as queue:
        pairs = countdowns(Pairs(queue), env_type, 2)
        with pytest.raises(WorkerError, match="LookupError: no such order"):
            collect(pairs)

    assert pairs.closed


class Pairs:
    """The numbers of a queue as seeds of countdowns."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def __iter__(self) -> Any:
        return ((number, 2) for number in self.queue)


def test_a_factory_that_fails_is_told_of_and_leaves_nothing(env_type: str) -> None:
    def factory() -> Any:
        raise FileNotFoundError("orders.parquet")

    with pytest.raises(WorkerError, match="FileNotFoundError: orders.parquet in its factory"):
        vectorize_env(factory, env_type, 2)
