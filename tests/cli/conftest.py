"""A small run of `Portfolio-v0`, trained once for all tests of a process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.commands import call, skip_evaluation

PORTFOLIO = """\
[run]
seed = 1

[env]
id = "Portfolio-v0"
lookback = 2

[data]
source = "simulate_gbm"
assets = 3
rows = 700
seed = 1
features = ["log_return"]

[train]
algorithm = "ppo"
steps = 256
n_envs = 8
n_steps = 8

[evaluate]
seeds = 3
sensitivity = false
"""


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with one that is finished."""
    folder = tmp_path_factory.mktemp("trained")
    file = folder / "small.toml"
    file.write_text(PORTFOLIO, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        skip_evaluation(patch)
        found = call("train", file, "--runs", folder / "runs", "--quiet")
    assert found.code == 0, found.err
    return folder / "runs"


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """The same, for one test alone."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))
