"""The guard of a collection ends it well, whatever ends it, and leaves no worker."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.compose import DataQueue, EnvWrapper, ExhaustedError, FiniteVectorEnv, vectorize_env
from sekai.error import ClosedError
from tests.compose.countdowns import (
    ENV_TYPES,
    Countdown,
    Memory,
    Plain,
    Shown,
    collect,
    countdown_env,
    countdowns,
)
from tests.compose.resources import started, wait_until_gone


@pytest.fixture(params=ENV_TYPES)
def env_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def queue() -> Iterator[DataQueue[Any]]:
    with DataQueue([(0, 3), (1, 2)], repeat=-1) as queue:
        yield queue


def workers_of(env: FiniteVectorEnv) -> list[int]:
    """The processes of the workers, if they have any."""
    return list(getattr(env._vec, "worker_ids", []))


def check_closed(env: FiniteVectorEnv, workers: list[int]) -> None:
    wait_until_gone(workers)
    assert env.closed
    for use in (env.reset, env.collector_guard().__enter__):
        with pytest.raises(ClosedError, match="make a new one"):
            use()
    env.close()


def collect_some(env: FiniteVectorEnv, episodes: int) -> None:
    """Collect at least as many episodes, and leave the others where they are."""
    with env.collector_guard():
        env.reset()
        finished = 0
        while finished < episodes:
            over = np.flatnonzero(env.step(np.ones(len(env), np.int64)).dones)
            finished += len(over)
            if over.size:
                env.reset(over)


def test_a_block_that_ends_by_itself_closes_the_workers(
    queue: DataQueue[Any], env_type: str
) -> None:
    memory = Memory()
    env = countdowns(queue, env_type, 2, memory)
    with env.collector_guard() as inside:
        workers = workers_of(env)
        env.reset()

    assert inside is env
    wait_until_gone(workers)
    assert env.closed
    with pytest.raises(ClosedError, match="enter collector_guard\\(\\) again, or make a new one"):
        env.reset()
    assert memory.calls == ["all_ready", "all_done"]
    env.close()
    check_closed(env, workers)


def test_a_guard_can_be_entered_again_after_an_orderly_end(env_type: str) -> None:
    memory = Memory()
    seeds = [(number, 2) for number in range(20)]
    with DataQueue(seeds, shuffle=False) as queue:
        env = countdowns(queue, env_type, 2, memory)
        collect_some(env, 4)
        first = list(memory.begun)
        collect_some(env, 4)
        second = memory.begun[len(first) :]
        collect(env)

    numbers = [number for _, number in memory.begun]
    assert sorted(numbers) == list(range(20)), "every seed exactly once, over all collections"
    assert first
    assert second
    assert memory.calls == ["all_ready", "all_done"] * 3
    assert env.closed


@pytest.mark.parametrize("kind", ["subproc", "shmem"])
def test_each_collection_has_workers_of_its_own(queue: DataQueue[Any], kind: str) -> None:
    env = countdowns(queue, kind, 2)
    ids: list[list[int]] = []
    for _ in range(2):
        with env.collector_guard():
            ids.append(workers_of(env))
            env.reset()
        wait_until_gone(ids[-1])

    assert not set(ids[0]) & set(ids[1])


def test_seeds_in_a_list_go_on_where_the_last_collection_ended(env_type: str) -> None:
    memory = Memory()
    env = countdowns([(number, 1) for number in range(6)], env_type, 1, memory)

    collect_some(env, 2)
    collect(env)

    assert [number for _, number in memory.begun] == list(range(6))


class Random(Countdown):
    """An episode as long as the env's stream says."""

    def get_state(self) -> tuple[int, int]:
        assert self.env is not None
        return int(self.env.rng.integers(1000)), self.left


def random_env() -> Any:
    return EnvWrapper(Random, Shown(), Plain(), [(0, 1)] * 50)


def test_the_streams_of_workers_go_on_in_the_next_collection(env_type: str) -> None:
    def drawn(blocks: list[int]) -> list[float]:
        memory = Memory()
        env = vectorize_env(random_env, env_type, 1, memory)
        seed: int | None = 7
        for resets in blocks:
            with env.collector_guard():
                for _ in range(resets):
                    env.reset(seed=seed)
                    seed = None
        return [number for _, number in memory.begun]

    assert drawn([3, 3]) == drawn([6])


def test_seeds_that_cannot_go_on_are_an_error_that_says_how() -> None:
    env = vectorize_env(lambda: countdown_env(seed for seed in [(0, 1), (1, 1)]), "dummy", 1)
    with env.collector_guard():
        env.reset()

    with pytest.raises(ClosedError, match="generator.*DataQueue or a list"):
        env.collector_guard().__enter__()


def test_a_guard_of_exhausted_seeds_says_what_to_do(env_type: str) -> None:
    memory = Memory()
    with DataQueue([(0, 1)]) as queue:
        env = countdowns(queue, env_type, 2, memory)
        collect(env)

    with pytest.raises(ExhaustedError, match="make a new vector env"):
        env.collector_guard().__enter__()
    assert memory.calls == ["all_ready", "all_done"]


def test_workers_that_cannot_be_built_again_leave_the_env_closed(queue: DataQueue[Any]) -> None:
    built = []

    def factory() -> Any:
        built.append(1)
        if len(built) > 1:
            raise LookupError("no licence left")
        return countdown_env(queue)

    env = vectorize_env(factory, "dummy", 1)
    with env.collector_guard():
        env.reset()
    with pytest.raises(Exception, match="no licence left"):
        env.collector_guard().__enter__()

    assert env.closed


@pytest.mark.parametrize("error", [KeyError("user"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_passes_through_and_closes_the_workers(
    queue: DataQueue[Any], env_type: str, error: BaseException
) -> None:
    memory = Memory()
    env = countdowns(queue, env_type, 2, memory)
    workers = workers_of(env)

    def collect_and_fail() -> None:
        with env.collector_guard():
            env.reset()
            raise error

    with pytest.raises(type(error)) as raised:
        collect_and_fail()

    assert raised.value is error
    check_closed(env, workers)
    assert memory.calls == ["all_ready", "flush"]


def test_only_the_end_of_the_seeds_is_kept_inside(queue: DataQueue[Any]) -> None:
    with countdowns(queue, "dummy", 1).collector_guard():
        raise StopIteration

    with pytest.raises(StopAsyncIteration), countdowns(queue, "dummy", 1).collector_guard():
        raise StopAsyncIteration


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_a_step_closes_the_workers(queue: DataQueue[Any], env_type: str) -> None:
    env = countdowns(queue, env_type, 2)
    workers = workers_of(env)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        collect(env)

    check_closed(env, workers)


class Broken(Memory):
    """Fails in the call that it is told to fail in."""

    def __init__(self, call: str) -> None:
        super().__init__()
        self.call = call

    def _fail(self, call: str) -> None:
        if call == self.call:
            raise OSError(f"the disk is full in {call}")

    def on_env_all_ready(self) -> None:
        self._fail("all_ready")

    def on_env_all_done(self) -> None:
        self._fail("all_done")

    def flush(self) -> None:
        self._fail("flush")


@pytest.mark.parametrize("call", ["all_ready", "all_done"])
def test_a_writer_that_fails_does_not_keep_workers_alive(
    queue: DataQueue[Any], env_type: str, call: str
) -> None:
    env = countdowns(queue, env_type, 2, Broken(call))
    workers = workers_of(env)

    with pytest.raises(OSError, match=f"the disk is full in {call}"), env.collector_guard():
        env.reset()

    check_closed(env, workers)


def test_a_writer_that_fails_does_not_hide_why_the_collection_ended(
    queue: DataQueue[Any],
) -> None:
    env = countdowns(queue, "dummy", 2, [Broken("flush"), Memory()])

    with (
        pytest.warns(RuntimeWarning, match="Broken.flush.* failed: OSError"),
        pytest.raises(KeyError, match="user"),
        env.collector_guard(),
    ):
        raise KeyError("user")

    assert env.closed
    assert env.writers.writers[1].calls == ["all_ready", "flush"]  # type: ignore[attr-defined]


def test_a_reset_without_a_guard_is_warned_of(queue: DataQueue[Any], env_type: str) -> None:
    with countdowns(queue, env_type, 2) as env:
        workers = workers_of(env)
        with pytest.warns(RuntimeWarning, match="collector_guard"):
            env.reset()
        env.step(np.ones(2, np.int64))

    check_closed(env, workers)


@pytest.mark.parametrize("kind", ["subproc", "shmem"])
def test_a_vector_that_is_forgotten_ends_its_workers(queue: DataQueue[Any], kind: str) -> None:
    env = countdowns(queue, kind, 2)
    workers = workers_of(env)
    env.collector_guard().__enter__().reset()

    del env
    gc.collect()

    wait_until_gone(workers)


def test_envs_are_closed_with_the_vector_that_is_forgotten(queue: DataQueue[Any]) -> None:
    made: list[Any] = []

    def factory() -> Any:
        made.append(countdown_env(queue))
        return made[-1]

    env = vectorize_env(factory, "dummy", 2)
    del env
    gc.collect()

    assert [one._closed for one in made] == [True, True]


@pytest.mark.parametrize(("kind", "ending"), [("subproc", ""), ("shmem", "sys.exit(0)")])
def test_a_program_that_ends_in_a_collection_leaves_no_process(
    tmp_path: Path, kind: str, ending: str
) -> None:
    program = started(
        tmp_path,
        f"""
        import sys
        from sekai.compose import DataQueue
        from tests.compose.countdowns import countdowns

        if __name__ == "__main__":
            queue = DataQueue([(0, 3)], repeat=-1).activate()
            env = countdowns(queue, {kind!r}, 2)
            guard = env.collector_guard()
            guard.__enter__().reset()
            print(*env._vec.worker_ids, flush=True)
            {ending}
        """,
    )

    output, errors = program.communicate(timeout=50)

    wait_until_gone([int(process) for process in output.split()])
    assert (errors, program.returncode) == ("", 0)


@pytest.mark.parametrize("kind", ["subproc", "shmem"])
def test_workers_end_when_their_program_is_killed(tmp_path: Path, kind: str) -> None:
    program = started(
        tmp_path,
        f"""
        import time
        from sekai.compose import DataQueue
        from tests.compose.countdowns import countdowns

        if __name__ == "__main__":
            with DataQueue([(0, 3)], repeat=-1) as queue:
                env = countdowns(queue, {kind!r}, 2)
                with env.collector_guard():
                    env.reset()
                    print(*env._vec.worker_ids, flush=True)
                    time.sleep(60)
        """,
    )
    assert program.stdout is not None
    workers = [int(process) for process in program.stdout.readline().split()]

    program.kill()
    program.communicate()

    assert len(workers) == 2
    wait_until_gone(workers)
