"""`sekai compare`: the paired difference of two runs, or a reason why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sekai.evaluation import compare, load_evaluation
from tests.cli.commands import call

pytestmark = pytest.mark.timeout(300)  # torch takes long to import on a busy machine

EXPERIMENT = """\
[env]
id = "Portfolio-v0"
lookback = 2
episode_rows = 60

[data]
source = "simulate_gbm"
rows = 600
assets = 2
split = 0.5
features = {features}

[train]
steps = 32
n_envs = 4
n_steps = 8
n_epochs = 1
batch_size = 32

[evaluate]
seeds = {seeds}
sensitivity = false
baselines = ["equal_weight"]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with other features, with other test rows and without an evaluation."""
    folder = tmp_path_factory.mktemp("compare")
    runs = folder / "runs"
    made = {
        "short": EXPERIMENT.format(features='["log_return"]', seeds=3),
        "long": EXPERIMENT.format(features='["log_return", "momentum(20)"]', seeds=3),
        "more": EXPERIMENT.format(features='["log_return"]', seeds=4),
        "later": EXPERIMENT.format(features='["log_return"]', seeds=3).replace("0.5", "0.6"),
    }
    for name, text in made.items():
        file = folder / f"{name}.toml"
        file.write_text(text, encoding="utf-8")
        trained = call("train", file, "--runs", runs, "--quiet")
        assert trained.code == 0, trained.err
    return runs


def test_runs_with_other_features_are_compared_date_by_date(runs: Path) -> None:
    files = [runs / name / "evaluation.json" for name in ("short", "long")]
    expected = compare(*map(load_evaluation, files))

    shown = call("compare", "short", "long", "--runs", runs)

    assert shown.code == 0, shown.err
    assert f"{expected.difference:.3g} [" in shown.out
    assert f"p {expected.p_value:.2g}" in shown.out
    assert f"{expected.pairs:,} " in shown.out


def test_another_metric_can_be_compared(runs: Path) -> None:
    assert "max_drawdown" in call("compare", "short", "long", "--metric", "max_drawdown",
                                  "--runs", runs).out  # fmt: skip
    wrong = call("compare", "short", "long", "--metric", "sharp", "--runs", runs)

    assert wrong.code == 2
    assert "did you mean 'sharpe'" in wrong.err


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("more", "3 and 4 episodes; evaluate both with the same seeds"),
        ("later", "were judged on different dates"),
        ("shrt", "did you mean 'short'?"),
    ],
)
def test_runs_that_cannot_be_paired_are_refused(runs: Path, other: str, message: str) -> None:
    refused = call("compare", "short", other, "--runs", runs)

    assert refused.code == 2
    assert message in refused.err


def test_a_missing_evaluation_says_how_to_get_it(runs: Path) -> None:
    refused = call("compare", "short", "long", "--walk-forward", "--runs", runs)

    assert refused.code == 2
    assert "`sekai evaluate short --walk-forward` first" in refused.err
