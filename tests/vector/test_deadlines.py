"""Deadlines: a worker that has stopped costs no more time than `step_timeout`, whatever is sent."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.error import WorkerError
from sekai.spaces import Box
from sekai.vector import PipeVecEnv, ProcVecEnv
from sekai.vector.messages import TimedPipe
from tests.vector.worlds import Scripted

LARGE = bytes(8_000_000)
"""More than any pipe has room for."""

TIMEOUT = 1.0
SLACK = 4.0
"""For a machine that does other things; workers that do not close have CLOSE_SECONDS more."""


class Talking(Scripted):
    """Takes a million numbers for an action."""

    def __init__(self) -> None:
        super().__init__(100)
        self.action_space = Box(-1.0, 1.0, shape=(1_000_000,))


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


CALLS: dict[str, Callable[[ProcVecEnv], object]] = {
    "step": lambda vec: vec.step([0, 0]),
    "reset": lambda vec: vec.reset(seed=1),
    "reset with large options": lambda vec: vec.reset(options={"large": LARGE}),
    "set_attr": lambda vec: vec.set_attr("length", LARGE),
    "get_attr": lambda vec: vec.get_attr("length"),
    "call": lambda vec: vec.call("close", LARGE),
    "state_dict": lambda vec: vec.state_dict(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_stopped_worker_is_an_error_within_the_time_limit(name: str) -> None:
    vec = ProcVecEnv([Scripted] * 2, num_workers=2, step_timeout=TIMEOUT)
    vec.reset(seed=0)
    workers = vec.worker_ids
    os.kill(workers[0], signal.SIGSTOP)

    begun = time.monotonic()
    with pytest.raises(WorkerError, match="no reply within step_timeout"):
        CALLS[name](vec)
    took = time.monotonic() - begun

    assert took < TIMEOUT + SLACK
    assert vec.closed
    assert all(map(is_gone, workers))


def test_a_stopped_worker_is_an_error_when_a_state_is_loaded() -> None:
    vec = ProcVecEnv([Scripted] * 2, num_workers=2, step_timeout=TIMEOUT)
    vec.reset(seed=0)
    state = vec.state_dict()
    os.kill(vec.worker_ids[1], signal.SIGSTOP)

    begun = time.monotonic()
    with pytest.raises(WorkerError, match="no reply within step_timeout"):
        vec.load_state_dict(state)

    assert time.monotonic() - begun < TIMEOUT + SLACK


def test_large_actions_that_a_stopped_worker_does_not_read_are_an_error_in_time() -> None:
    vec = PipeVecEnv([Talking] * 2, num_workers=2, step_timeout=TIMEOUT)
    vec.reset(seed=0)
    workers = vec.worker_ids
    os.kill(workers[0], signal.SIGSTOP)

    begun = time.monotonic()
    with pytest.raises(WorkerError, match="no reply within step_timeout"):
        vec.step(np.zeros((2, 1_000_000), np.float32))

    assert time.monotonic() - begun < TIMEOUT + SLACK
    assert all(map(is_gone, workers))


def test_closing_does_not_wait_for_a_stopped_worker() -> None:
    vec = ProcVecEnv([Scripted] * 2, num_workers=2, step_timeout=TIMEOUT)
    vec.reset(seed=0)
    workers = vec.worker_ids
    os.kill(workers[0], signal.SIGSTOP)

    begun = time.monotonic()
    vec.close()

    assert time.monotonic() - begun < 5.0 + SLACK
    assert all(map(is_gone, workers))


def test_only_the_stopped_worker_is_replaced() -> None:
    with ProcVecEnv([Scripted] * 2, num_workers=2, step_timeout=TIMEOUT, on_error="restart") as vec:
        vec.reset(seed=0)
        before = vec.worker_ids
        os.kill(before[0], signal.SIGSTOP)

        vec.set_attr("length", LARGE)

        assert vec.worker_ids[0] != before[0]
        assert vec.worker_ids[1] == before[1]
        assert [len(value) for value in vec.get_attr("length")] == [len(LARGE)] * 2


def test_large_values_cross_in_both_directions() -> None:
    with ProcVecEnv([Scripted] * 3, num_workers=2, step_timeout=30.0) as vec:
        vec.reset(seed=0)
        values = [np.full(1_000_000, place) for place in range(3)]

        vec.set_attr("length", values, per_env=True)

        found = vec.get_attr("length")
        assert all(np.array_equal(one, other) for one, other in zip(found, values, strict=True))


def test_a_message_that_was_interrupted_is_completed_before_the_next() -> None:
    ours, theirs = Pipe()
    pipe = TimedPipe(ours)
    pipe.post(b"a" * 3_000_000)
    left = pipe.is_sent
    pipe.post(b"b")

    reported: list[Any] = []
    reader = threading.Thread(target=lambda: reported.extend(theirs.recv_bytes() for _ in range(2)))
    reader.start()
    while not pipe.is_sent:
        pipe.push()
    reader.join()

    assert left is False
    assert [(len(message), message[:1]) for message in reported] == [(3_000_000, b"a"), (1, b"b")]
    pipe.close()
    theirs.close()


def test_messages_arrive_whole_however_they_are_cut() -> None:
    ours, theirs = Pipe()
    pipe = TimedPipe(ours)
    for message in (b"", b"x", b"y" * 70_000):
        theirs.send_bytes(message)
    theirs.close()
    found: list[bytes] = []
    while len(found) < 3:
        whole = pipe.message()
        if whole is None:
            pipe.pull()
        else:
            found.append(whole)

    assert found == [b"", b"x", b"y" * 70_000]
    with pytest.raises(EOFError):
        pipe.pull()
    pipe.close()
