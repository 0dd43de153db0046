"""Walk-forward evaluation of an experiment by the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sekai.evaluation import load_evaluation
from tests.cli.commands import call

pytestmark = pytest.mark.timeout(300)  # torch takes long to import on a busy machine

EXPERIMENT = """\
[env]
id = "Portfolio-v0"
lookback = 2
episode_rows = 20

[data]
source = "simulate_gbm"
rows = 800
assets = 2
features = ["log_return", "volatility(5)"]
scaling = "zscore"

[train]
steps = 32
n_envs = 4
n_steps = 8
n_epochs = 1
batch_size = 32

[policy]
net_arch = [4]

[evaluate]
seeds = 2
sensitivity = false
baselines = ["equal_weight"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with an experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(EXPERIMENT, encoding="utf-8")
    return tmp_path


def test_an_experiment_asks_for_a_walk_forward_evaluation(folder: Path) -> None:
    file = folder / "small.toml"
    file.write_text(
        f"{EXPERIMENT}walk_forward = {{ folds = 3, train_rows = 100, test_rows = 120 }}\n",
        encoding="utf-8",
    )

    trained = call("train", file)

    assert trained.code == 0, trained.err
    assert "training fold 3 of 3" in trained.err
    joined = load_evaluation("runs/small/walk_forward.json")
    times = joined.agent.episodes[0].times
    assert times is not None
    assert len(np.unique(times)) == len(times) == 3 * 119 + 1
    assert Path("runs/small/walk_forward.html").is_file()
    config = Path("runs/small/config.toml").read_text(encoding="utf-8")
    assert "[evaluate.walk_forward]" in config


def test_the_command_evaluates_a_run_fold_by_fold() -> None:
    assert call("train", "small.toml", "--quiet").code == 0
    before = Path("runs/small/evaluation.json").read_bytes()

    judged = call("evaluate", "small", "--walk-forward", "--folds", "2", "--quiet")

    assert judged.code == 0, judged.err
    assert "test period" in judged.out
    assert load_evaluation("runs/small/walk_forward.json").provenance.settings["folds"] == "2"
    assert Path("runs/small/evaluation.json").read_bytes() == before


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("{ folds = 0 }", "27:26: folds must be at least 1"),
        ("{ fold = 2 }", "did you mean 'folds'?"),
        ("{ test_rows = 0 }", "test_rows must be rows from 1"),
    ],
)
def test_invalid_folds_are_shown_at_their_place(folder: Path, table: str, message: str) -> None:
    file = folder / "small.toml"
    file.write_text(f"{EXPERIMENT}walk_forward = {table}\n", encoding="utf-8")

    refused = call("train", file)

    assert refused.code == 2
    assert message in refused.err
    assert "small.toml:27:" in refused.err
    assert not Path("runs").exists()


def test_folds_need_an_env_with_dates(folder: Path) -> None:
    file = folder / "maker.toml"
    file.write_text(
        '[env]\nid = "MarketMaking-v0"\n[train]\nsteps = 8\n[evaluate]\nwalk_forward = {}\n',
        encoding="utf-8",
    )

    refused = call("train", file)

    assert refused.code == 2
    assert "maker.toml:6:1: walk_forward needs Portfolio-v0" in refused.err
