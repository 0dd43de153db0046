"""Mutated data files import nothing, call nothing, stay within bounds, and raise typed errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def fuzzed(folder: Path, seed: int, count: int, timeout: float) -> dict[str, Any]:
    """Report of reading mutated files in a new process."""
    command = [sys.executable, "-m", "tests.storage.fuzzing", str(folder), str(seed), str(count)]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=timeout,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def check(found: dict[str, Any], count: int) -> None:
    assert found["faults"] == []
    assert found["loaded"] + found["refused"] == count
    # Mutations that are all refused, or all harmless, would show nothing.
    assert found["loaded"] > count / 50
    assert found["refused"] > count / 4
    assert found["megabytes"] < 512


@pytest.mark.timeout(600)
def test_mutated_files_do_no_harm(tmp_path: Path) -> None:
    check(fuzzed(tmp_path, seed=0, count=2_000, timeout=590), 2_000)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_mutated_files_do_no_harm(tmp_path: Path) -> None:
    def half(seed: int) -> None:
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(fuzzed(folder, seed, count=50_000, timeout=7100), 50_000)

    with ThreadPoolExecutor(2) as both:
        list(both.map(half, [1, 2]))


@pytest.mark.parametrize(
    "harm",
    [
        "os.system('true')",
        "import antigravity",
        "__import__('this')",
        "exec('1')",
        "eval('1')",
        "compile('1', 'x', 'eval')",
        "open(os.devnull, 'w')",
        "os.open(os.devnull, os.O_WRONLY)",
        "import subprocess; subprocess.run(['true'])",
        "socket.socket()",
        "pickle.loads(pickle.dumps(os.getcwd))",
    ],
)
def test_the_guard_notices_harm(harm: str) -> None:
    script = (
        "import os, pickle, socket, subprocess, sys\nfrom tests.storage.fuzzing import Guard\n"
        f"def harm():\n    {harm}\n"
        "guard = Guard()\nsys.addaudithook(guard)\nguard.is_armed = True\nharm()\n"
        "guard.is_armed = False\nassert guard.seen, 'nothing was noticed'"
    )

    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=100)
