"""Collection after collection, nothing is left behind."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.compose import DataQueue
from sekai.error import WorkerError
from tests.compose.countdowns import ENV_TYPES, Memory, collect, countdowns
from tests.compose.resources import resident_bytes, resources

MEGABYTE = 2**20


@pytest.fixture(params=ENV_TYPES)
def env_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run_to_the_end(env_type: str) -> None:
    """Create, guard, collect all there is, and close."""
    with DataQueue([(number, 2) for number in range(5)]) as queue:
        collect(countdowns(queue, env_type, 2, Memory()))


def break_off(env_type: str) -> None:
    """Create, guard, and leave by an exception: one of a worker."""
    with DataQueue([(0, 2)], repeat=-1) as queue:
        env = countdowns(queue, env_type, 2, harm="raise")
        with pytest.raises(WorkerError):
            collect(env, act=lambda numbers: np.full(len(numbers), 2))


def check_no_leak(env_type: str, cycles: int) -> int:
    """Check that resources do not grow over many cycles; return the growth of memory."""
    for _ in range(3):
        run_to_the_end(env_type)
        break_off(env_type)
    before, memory = resources(), resident_bytes()
    for _ in range(cycles):
        run_to_the_end(env_type)
        break_off(env_type)
    assert resources() == before
    return resident_bytes() - memory


def test_collections_leave_nothing(env_type: str) -> None:
    check_no_leak(env_type, cycles=4)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_fifty_collections_leave_nothing_and_need_no_more_memory(env_type: str) -> None:
    assert check_no_leak(env_type, cycles=50) < 2 * MEGABYTE
