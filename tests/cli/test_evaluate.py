"""`sekai evaluate --set`: an evaluation under other settings, which it states."""

from __future__ import annotations

from pathlib import Path

import pytest

from sekai.evaluation import load_evaluation
from tests.cli.commands import call

pytestmark = pytest.mark.timeout(300)  # torch takes long to import on a busy machine

FEW = ("--seeds", "2", "--baseline", "equal_weight", "--quiet")


def files_of(folder: Path) -> dict[Path, bytes]:
    """All files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_evaluation_with_other_costs_differs_and_says_so(runs: Path) -> None:
    again = call("evaluate", "small", "--runs", runs, *FEW)
    plain = load_evaluation(runs / "small" / "evaluation.json")
    told = call("evaluate", "small", "--runs", runs, "--set", "env.costs.proportional=0.02", *FEW)
    costly = load_evaluation(runs / "small" / "evaluation.json")

    assert (again.code, told.code) == (0, 0), told.err
    assert costly.agent.metrics["total_return"].value < plain.agent.metrics["total_return"].value
    assert not [flag for flag in plain.flags if flag.name == "changed_settings"]
    (flag,) = [flag for flag in costly.flags if flag.name == "changed_settings"]
    assert "env.costs.proportional=0.02" in flag.message
    assert "env.costs.proportional=0.02" in " ".join(told.out.split())
    assert "0.02" not in (runs / "small" / "config.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("data.split=0.2", "--set data.split: an evaluation can change [env], [evaluate], not"),
        ("data.split=0.2", "--walk-forward trains anew and can change it"),
        ("train.steps=9", "`sekai train` starts another run with --set train.steps=9"),
        ("run.seed=9", "not [run]; `sekai train`"),
        ("env.lookbak=3", "did you mean 'lookback'"),
        ("evaluate.seeds", "expected section.key=value"),
    ],
)
def test_settings_that_an_evaluation_cannot_change_are_refused(
    runs: Path, change: str, error: str
) -> None:
    before = files_of(runs)

    told = call("evaluate", "small", "--runs", runs, "--set", change, "--quiet")

    assert told.code == 2
    assert error in " ".join(told.err.split())
    assert files_of(runs) == before


def test_an_env_that_the_policy_cannot_observe_is_refused(runs: Path) -> None:
    told = call("evaluate", "small", "--runs", runs, "--set", "env.lookback=3", *FEW)

    assert told.code == 1
    assert "evaluate it on an env with the settings of its training" in told.err


def test_a_walk_forward_evaluation_takes_settings_of_training(runs: Path) -> None:
    told = call(
        "evaluate", "small", "--runs", runs, "--walk-forward", "--folds", "2", "--quiet",
        "--set", "train.steps=64", "--set", "data.embargo=7", "--baseline", "equal_weight",
    )  # fmt: skip
    joined = load_evaluation(runs / "small" / "walk_forward.json")

    assert told.code == 0, told.err
    (flag,) = [flag for flag in joined.flags if flag.name == "changed_settings"]
    assert "train.steps=64, data.embargo=7" in flag.message
