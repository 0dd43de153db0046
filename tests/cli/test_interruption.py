"""Runs that are stopped, in processes of their own, and what becomes of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sekai.experiment import run as runs
from sekai.experiment.run_folder import RunFolder
from sekai.training import Agent, Callback
from tests.cli.commands import (
    LONGEST_SECONDS,
    assert_same_agent,
    call,
    environment,
    experiment,
)

STEPS = 32 * 200
"""Long enough to be stopped on the way."""

WAITING = """
import sys, time
from pathlib import Path
from sekai.cli.command import main
from sekai.experiment import run as runs
from sekai.training import Callback

class Waiting(Callback):
    # However quick the machine is, training goes on only when the test has seen it.
    def on_iteration(self, agent, metrics):
        while agent.iterations >= 25 and not Path("go").exists():
            time.sleep(0.005)
        return False

made = runs._callbacks
runs._callbacks = lambda *given: [*made(*given), Waiting()]
raise SystemExit(main(sys.argv[1:]))
"""

Interrupted = tuple[subprocess.Popen[str], RunFolder]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("uninterrupted")
    file = experiment(folder, steps=STEPS, every=20)
    assert call("train", file, "--runs", folder / "runs", "--quiet").code == 0
    return RunFolder(folder / "runs" / "small")


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Callable[[], Interrupted]]:
    """A run that is under way, with a checkpoint and some iterations after it."""
    processes: list[subprocess.Popen[str]] = []

    def started() -> Interrupted:
        file = experiment(tmp_path, steps=STEPS, every=20)
        process = subprocess.Popen(
            [sys.executable, "-c", WAITING, "train", str(file), "--quiet"], cwd=tmp_path,
            env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
        run = RunFolder(tmp_path / "runs" / "small")
        deadline = time.monotonic() + LONGEST_SECONDS
        while len(run.curve.rows()) < 23:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline, "training has not begun"
            time.sleep(0.01)
        return process, run

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def assert_same_training(one: RunFolder, other: RunFolder) -> None:
    assert_same_agent(one.policy, other.policy)
    assert one.curve.file.read_bytes() == other.curve.file.read_bytes()
    last = [sorted(run.checkpoints.iterdir())[-1] for run in (one, other)]
    assert_same_agent(*last)
    judged = [json.loads(run.evaluation.read_text())["evaluation"] for run in (one, other)]
    assert judged[0]["policies"] == judged[1]["policies"]


@pytest.mark.timeout(180)
def test_an_interrupted_run_says_how_to_go_on_and_ends_as_if_nothing_had_been(
    begun: Callable[[], Interrupted], uninterrupted: RunFolder
) -> None:
    process, run = begun()

    process.send_signal(signal.SIGINT)
    (run.path.parent.parent / "go").touch()
    _, said = process.communicate(timeout=LONGEST_SECONDS)

    assert process.returncode == 130
    assert "Traceback" not in said
    assert "sekai train runs/small --resume" in said
    facts = run.facts
    assert facts["state"] == "interrupted"
    assert 0 < facts["steps"] < STEPS
    kept = sorted(run.checkpoints.iterdir())[-1]
    assert int(kept.stem) * 32 == facts["steps"], "the last iteration is in a checkpoint"

    told = call("train", run.path, "--resume", "--quiet")

    assert told.code == 0, told.err
    assert run.facts["state"] == "finished"
    assert_same_training(run, uninterrupted)


@pytest.mark.timeout(180)
def test_a_killed_run_goes_on_from_its_last_checkpoint(
    begun: Callable[[], Interrupted], uninterrupted: RunFolder
) -> None:
    process, run = begun()
    process.send_signal(signal.SIGSTOP)
    under_way = call("train", run.path, "--resume")
    listed = call("runs", "--runs", run.path.parent).out

    process.kill()
    process.communicate()

    assert under_way.code == 1
    assert "another process is working on" in under_way.err
    assert "running" in listed
    assert json.loads((run.path / "run.json").read_text())["state"] == "running"
    assert "interrupted" in call("runs", "--runs", run.path.parent).out
    with run.curve.file.open("a") as lines:
        lines.write('{"steps": 99')  # As if it had been killed while it wrote.

    told = call("train", "--resume", "--name", run.name, "--runs", run.path.parent)

    assert told.code == 0, told.err
    assert f"resuming from {run.checkpoints}" in told.err
    assert_same_training(run, uninterrupted)


class Interrupting(Callback):
    """Sends signals to its own process while the second iteration is told of."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self.numbers = numbers

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        for number in self.numbers if agent.iterations == 2 else ():
            signal.raise_signal(number)
        return False


@pytest.mark.parametrize(
    ("numbers", "iterations"),
    [
        ((signal.SIGINT,), 2),
        ((signal.SIGTERM,), 2),
        # The second one does not wait until everybody has heard of the iteration.
        ((signal.SIGINT, signal.SIGINT), 1),
        ((signal.SIGINT, signal.SIGTERM), 1),
    ],
)
def test_the_first_interrupt_lets_the_iteration_end_and_the_second_does_not(
    numbers: tuple[int, ...], iterations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = runs._callbacks

    def interrupting(*given: Any) -> list[Callback]:
        return [Interrupting(numbers), *made(*given)]

    monkeypatch.setattr(runs, "_callbacks", interrupting)
    before = signal.getsignal(signal.SIGTERM)

    told = call("train", experiment(tmp_path, steps=32 * 5), "--runs", tmp_path / "runs")

    run = RunFolder(tmp_path / "runs" / "small")
    assert told.code == 130
    assert f"sekai train {run.path} --resume" in told.err
    assert run.facts["state"] == "interrupted"
    assert len(run.curve.rows()) == iterations
    assert signal.getsignal(signal.SIGTERM) is before
