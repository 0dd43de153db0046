"""The command as tests call it: in this process where that is enough, else in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.cli.command import main

ROOT = Path(__file__).parent.parent.parent

LONGEST_SECONDS = 120.0
"""A loaded machine may take a minute to import torch; a test has a time limit of its own."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def call(*arguments: str | os.PathLike[str]) -> Outcome:
    """Run a command in this process; no traceback may ever be shown."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([os.fspath(one) for one in arguments])
    found = Outcome(code, out.getvalue(), err.getvalue())
    assert "Traceback" not in found.out + found.err
    return found


def begin(*arguments: str | os.PathLike[str], folder: Path) -> subprocess.Popen[str]:
    """Begin a command in a process of its own, as a user at a terminal would."""
    words = [sys.executable, "-m", "sekai", *(os.fspath(one) for one in arguments)]
    return subprocess.Popen(
        words, cwd=folder, env=environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def until(
    is_so: Callable[[], bool],
    process: subprocess.Popen[str] | None = None,
    seconds: float = LONGEST_SECONDS,
) -> None:
    """Wait until something holds; fail at once, with its output, if the process ends before."""
    end = time.monotonic() + seconds
    while not is_so():
        if process is not None and process.poll() is not None and not is_so():
            out, err = process.communicate()
            raise AssertionError(f"the process ended with {process.returncode}: {out}{err}")
        assert time.monotonic() < end, f"it never came about in {seconds:g} s"
        time.sleep(0.02)


def skip_evaluation(patch: pytest.MonkeyPatch) -> None:
    """Train without an evaluation, which is tested elsewhere and takes longer than training."""
    patch.setattr("sekai.experiment.run.evaluate_run", lambda *arguments: None)
    patch.setattr("sekai.experiment.run.write_run_report", lambda *arguments: None)
    patch.setattr("sekai.cli.summary.show_summary", lambda *arguments: None)


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of this process, which finds the package where this one does."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **(changes or {})}


def assert_same_agent(one: Path, other: Path) -> None:
    """Two files hold the same agent, bit for bit; in which order they do is not said."""
    from sekai.training.checkpoint import read_file

    assert one.name == other.name
    assert _plain(read_file(one)) == _plain(read_file(other))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    # As text, because NaN is not equal to itself.
    return repr(value)


EXPERIMENT = """\
[run]
seed = 3

[env]
id = "MarketMaking-v0"
episode_steps = 20

[train]
algorithm = "ppo"
steps = {steps}
n_envs = 4
n_steps = 8
n_epochs = 1
batch_size = 32
checkpoint_every = {every}

[policy]
net_arch = [8]

[evaluate]
seeds = 2
sensitivity = false
"""


def experiment(folder: Path, *, steps: int = 64, every: int = 1, name: str = "small") -> Path:
    """The file of an experiment that takes a moment."""
    file = folder / f"{name}.toml"
    file.write_text(EXPERIMENT.format(steps=steps, every=every), encoding="utf-8")
    return file
