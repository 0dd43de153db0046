"""Worker processes: start, end and release of resources."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.error import ResetRequired, SpaceError
from sekai.spaces import Space
from sekai.vector import ProcVecEnv, SyncVecEnv, worker_pool
from tests.compose.resources import wait_until_gone
from tests.vector.worlds import START_METHODS, Drifter, Faulty, Scripted
from tests.worlds import RandomWalk

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(params=START_METHODS)
def start_method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_closures_and_local_classes_cross_to_other_processes(start_method: str) -> None:
    class Local(RandomWalk):
        pass

    noise = 0.25
    with ProcVecEnv([lambda: Local(noise)] * 2, num_workers=2, start_method=start_method) as vec:
        vec.reset(seed=0)
        assert vec.get_attr("noise") == [0.25, 0.25]
        assert len(set(vec.worker_ids)) == 2


def test_few_workers_share_many_envs() -> None:
    with ProcVecEnv([RandomWalk] * 7, num_workers=3, start_method="fork") as vec:
        assert vec.num_workers == len(vec.worker_ids) == 3
        assert vec.reset(seed=0).observations.shape == (7, 2)
    with ProcVecEnv([RandomWalk] * 2, num_workers=9, start_method="fork") as vec:
        assert vec.num_workers == 2
    with pytest.raises(ValueError, match="num_workers must be at least 1, got 0"):
        ProcVecEnv([RandomWalk], num_workers=0)


def test_workers_sleep_between_steps() -> None:
    with ProcVecEnv([RandomWalk] * 2, num_workers=2, start_method="fork") as vec:
        vec.reset(seed=0)
        before = [_cpu_ticks(worker) for worker in vec.worker_ids]
        time.sleep(0.5)
        assert [_cpu_ticks(worker) for worker in vec.worker_ids] == pytest.approx(before, abs=2)


def _cpu_ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_closing_ends_the_workers(start_method: str) -> None:
    vec = ProcVecEnv([Scripted] * 2, num_workers=2, start_method=start_method)
    workers = vec.worker_ids
    vec.close()

    wait_until_gone(workers, 0.5)


def test_a_vector_that_is_forgotten_ends_its_workers(start_method: str) -> None:
    vec = ProcVecEnv([Scripted] * 2, num_workers=2, start_method=start_method)
    vec.reset(seed=0)
    workers = vec.worker_ids
    del vec
    gc.collect()

    wait_until_gone(workers)


def test_a_hung_worker_does_not_keep_close_waiting_for_ever(
    start_method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "CLOSE_SECONDS", 0.5)
    vec = ProcVecEnv([partial(Faulty, "stop")], start_method=start_method)
    workers = vec.worker_ids
    os.kill(workers[0], signal.SIGSTOP)

    begun = time.monotonic()
    vec.close()

    assert time.monotonic() - begun < 3.0
    wait_until_gone(workers, 0.5)


def test_an_interrupt_in_a_step_leaves_a_vector_that_can_be_reset(start_method: str) -> None:
    with ProcVecEnv([Sleeper] * 2, num_workers=2, start_method=start_method) as vec:
        vec.reset(seed=0)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            vec.step([1, 1])
        timer.join()

        with pytest.raises(ResetRequired):
            vec.step([0, 0])
        alone = SyncVecEnv([Sleeper] * 2)
        assert vec.reset(seed=3) == alone.reset(seed=3)
        assert vec.step([0, 0]) == alone.step([0, 0])


class Sleeper(Drifter):
    """Sleeps for a while when it is given the action 1."""

    def step(self, action: Any) -> Any:
        if action == 1:
            time.sleep(0.6)
        return super().step(action)


def test_an_interrupt_of_the_whole_process_group_spares_the_workers(start_method: str) -> None:
    with ProcVecEnv([Scripted] * 2, num_workers=2, start_method=start_method) as vec:
        vec.reset(seed=0)
        for worker in vec.worker_ids:
            os.kill(worker, signal.SIGINT)
        assert vec.step([0, 0]).rewards.tolist() == [1, 1]


ORPHANS = """
    import os, sys, time
    from tests.vector.worlds import Faulty
    from sekai.vector import ProcVecEnv

    if __name__ == "__main__":
        vec = ProcVecEnv([lambda: Faulty("hang")] * 3, num_workers=3, start_method=sys.argv[1])
        vec.reset(seed=0)
        print(*vec.worker_ids, flush=True)
        vec.step([0, 1, 0])
"""


def script(path: Path, text: str) -> str:
    file = path / "script.py"
    file.write_text(textwrap.dedent(text))
    return str(file)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_workers_end_themselves_when_their_parent_is_killed(
    start_method: str, tmp_path: Path
) -> None:
    parent = subprocess.Popen(
        [sys.executable, script(tmp_path, ORPHANS), start_method],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    with parent:
        assert parent.stdout is not None
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert len(workers) == 3
        time.sleep(0.2)
        parent.kill()

        wait_until_gone(workers, 6.0)


WITHOUT_GUARD = """
    import sys
    from tests.vector.worlds import Scripted
    from sekai.vector import ProcVecEnv

    vec = ProcVecEnv([Scripted] * 2, num_workers=2, start_method=sys.argv[1])
    print(vec.reset(seed=0).observations.shape)
    vec.close()
"""


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_script_without_a_main_guard_is_told_what_to_do(
    start_method: str, tmp_path: Path
) -> None:
    ran = subprocess.run(
        [sys.executable, script(tmp_path, WITHOUT_GUARD), start_method],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=50,
    )

    assert ran.returncode == 1
    assert "if __name__ == '__main__':" in ran.stderr.splitlines()[-1]


def test_a_forked_script_needs_no_main_guard(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, script(tmp_path, WITHOUT_GUARD), "fork"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=50,
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "(2, 2)\n", "")


def test_a_program_that_ends_without_closing_leaves_nothing(
    start_method: str, tmp_path: Path
) -> None:
    text = """
        import sys
        from tests.vector.worlds import Scripted
        from sekai.vector import ProcVecEnv

        if __name__ == "__main__":
            vec = ProcVecEnv([Scripted] * 2, num_workers=2, start_method=sys.argv[1])
            vec.reset(seed=0)
            print(*vec.worker_ids)
    """
    ran = subprocess.run(
        [sys.executable, script(tmp_path, text), start_method],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=50,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    wait_until_gone([int(word) for word in ran.stdout.split()], 2.0)


def test_a_fork_of_the_program_does_not_end_the_workers() -> None:
    with ProcVecEnv([Scripted] * 2, num_workers=2, start_method="fork") as vec:
        vec.reset(seed=0)
        child = os.fork()
        if child == 0:
            vec._finalizer()
            os._exit(0)
        os.waitpid(child, 0)

        assert vec.step([0, 0]).rewards.tolist() == [1, 1]


def resources() -> dict[str, int]:
    """Resources of this process: descriptors, threads, children and shared memory."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "children": len(children),
        "segments": len(os.listdir("/dev/shm")),
        "mappings": Path("/proc/self/maps").read_text().count("memfd:sekai"),
    }


def leaked(before: dict[str, int]) -> dict[str, int]:
    """Resources that this process holds more of; a thread of an earlier test may have ended."""
    return {name: count for name, count in resources().items() if count > before[name]}


@pytest.fixture
def quiet() -> Iterator[None]:
    gc.collect()
    yield
    gc.collect()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("start_method", "cycles"), [("fork", 100), ("forkserver", 10)])
@pytest.mark.usefixtures("quiet")
def test_creating_and_closing_leaks_nothing(start_method: str, cycles: int) -> None:
    def cycle() -> None:
        with ProcVecEnv([Scripted] * 2, num_workers=2, start_method=start_method) as vec:
            vec.reset(seed=0)
            vec.step([0, 0])

    cycle()
    before = resources()
    for _ in range(cycles):
        cycle()
    gc.collect()

    assert leaked(before) == {}


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_creating_and_closing_leaks_nothing_in_the_long_run(start_method: str) -> None:
    test_creating_and_closing_leaks_nothing(start_method, 200)


@pytest.mark.usefixtures("quiet")
def test_failing_leaks_nothing_either() -> None:
    def cycle() -> None:
        vec = ProcVecEnv(
            [partial(Faulty, "kill")] * 2, num_workers=2, start_method="fork", on_error="restart"
        )
        with vec:
            vec.reset(seed=0)
            vec.step([0, 1])
        with pytest.raises(SpaceError):
            ProcVecEnv([Scripted, RandomWalk], num_workers=2, start_method="fork")

    cycle()
    before = resources()
    for _ in range(20):
        cycle()
    gc.collect()

    assert leaked(before) == {}


class Words(Space[str]):
    """Words: a space whose values are not arrays."""

    def sample(self, mask: Any = None) -> str:
        return "word"

    def mismatch(self, value: object) -> str | None:
        return None if isinstance(value, str) else "expected a word"


class Speaker(Scripted):
    """Shows words."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Words()

    def reset(self, **arguments: Any) -> Any:
        first = super().reset(**arguments)
        return type(first)("hello", {})

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return type(result)("bye", result.reward, False, False, {})


def test_values_that_are_not_arrays_stay_in_one_process() -> None:
    with pytest.raises(SpaceError, match="cannot be placed in shared memory; use SyncVecEnv"):
        ProcVecEnv([Speaker], start_method="fork")

    vec = SyncVecEnv([Speaker] * 2)
    assert vec.reset(seed=0).observations == ("hello", "hello")
    assert vec.step([0, 0]).observations == ("bye", "bye")


def test_large_observations_and_infos_cross(start_method: str) -> None:
    class Large(Scripted):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            info = {"book": np.full(300_000, float(action))}
            return type(result)(result.observation, 1.0, False, False, info)

    with ProcVecEnv([Large] * 2, num_workers=2, start_method=start_method) as vec:
        vec.reset(seed=0)
        result = vec.step([0, 1])

    assert [info["book"].mean() for info in result.infos] == [0.0, 1.0]
