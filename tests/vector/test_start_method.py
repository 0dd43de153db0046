"""Workers start by forkserver, whatever start method the program has set for itself."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from sekai.vector import PipeVecEnv, ProcVecEnv
from sekai.vector.worker_pool import start_context
from tests.worlds import RandomWalk

needs_forkserver = pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods(), reason="no forkserver here"
)


@pytest.fixture(params=["fork", "spawn"])
def program_method(request: pytest.FixtureRequest) -> Iterator[str]:
    """A start method that the program has set, and set back afterwards."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method(request.param, force=True)
    yield str(request.param)
    multiprocessing.set_start_method(before, force=True)


@needs_forkserver
def test_the_programs_setting_does_not_choose_for_our_workers(program_method: str) -> None:
    assert start_context(None).get_start_method() == "forkserver"
    assert start_context("spawn").get_start_method() == "spawn"
    assert multiprocessing.get_start_method() == program_method


@needs_forkserver
@pytest.mark.parametrize("kind", [ProcVecEnv, PipeVecEnv])
def test_envs_in_processes_start_by_forkserver(program_method: str, kind: Any) -> None:
    with kind([RandomWalk] * 2, num_workers=1) as vec:
        server: Any = forkserver._forkserver
        parents = {_parent_of(worker) for worker in vec.worker_ids}

        assert parents == {server._forkserver_pid}


def _parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
