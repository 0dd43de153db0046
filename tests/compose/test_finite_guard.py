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

from sekai.compose import DataQueue, FiniteVectorEnv, vectorize_env
from sekai.error import ClosedError
from tests.compose.countdowns import ENV_TYPES, Memory, collect, countdown_env, countdowns
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


def test_a_block_that_ends_by_itself_closes_the_workers(
    queue: DataQueue[Any], env_type: str
) -> None:
    memory = Memory()
    env = countdowns(queue, env_type, 2, memory)
    with env.collector_guard() as inside:
        workers = workers_of(env)
        env.reset()

    assert inside is env
    check_closed(env, workers)
    assert memory.calls == ["all_ready", "all_done"]


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
        pytest.warns(RuntimeWarning, match="Broken could not keep what it knew: OSError"),
        pytest.raises(KeyError, match="user"),
        env.collector_guard(),
    ):
        raise KeyError("user")

    assert env.closed
    assert env.listeners.writers[1].calls == ["all_ready", "flush"]  # type: ignore[attr-defined]


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
