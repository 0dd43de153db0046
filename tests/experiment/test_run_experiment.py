"""`sekai.run_experiment`: an experiment from Python, as in a notebook."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.config import ConfigError
from sekai.config.toml_file import ConfigSource
from sekai.experiment import ExperimentError, ExperimentResult, RunFolder
from sekai.experiment.run import RunOptions, start_run
from sekai.training import Agent, Callback
from tests.cli.commands import assert_same_agent, environment, experiment


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> ExperimentResult:
    folder = tmp_path_factory.mktemp("trained")
    return sekai.run_experiment(
        experiment(folder), overrides={"run.seed": 4, "train.steps": 96}, runs=folder / "runs"
    )


def test_the_result_has_agent_evaluation_and_run(trained: ExperimentResult) -> None:
    observation = trained.agent.vec.observation_space.sample()

    assert trained.agent.steps == 96
    assert trained.evaluation.seeds == [1_000_000, 1_000_001]
    assert trained.run.path.name == "small"
    assert trained.report == trained.run.report
    assert trained.run.facts["state"] == "finished"
    assert np.isfinite(observation).all()


def test_a_notebook_shows_the_evaluation_of_a_result(trained: ExperimentResult) -> None:
    shown = trained._repr_html_()

    assert trained.evaluation._repr_html_() in shown
    assert str(trained.run.path) in shown


def test_overrides_are_written_to_the_run(trained: ExperimentResult) -> None:
    config = trained.run.config.read_text(encoding="utf-8")

    assert "seed = 4" in config
    assert "steps = 96" in config
    assert trained.run.facts["command"] == "sekai.run_experiment"


def test_the_same_experiment_gives_the_same_agent(
    trained: ExperimentResult, tmp_path: Path
) -> None:
    overrides = {"run.seed": 4, "train.steps": 96}

    again = sekai.run_experiment(experiment(tmp_path), overrides=overrides, runs=tmp_path, name="b")

    assert again.run.path == tmp_path / "b"
    assert_same_agent(again.run.policy, trained.run.policy)


def test_nothing_is_printed_unless_progress_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sekai.run_experiment(experiment(tmp_path), runs=tmp_path / "quiet")
    quiet = capsys.readouterr()
    sekai.run_experiment(experiment(tmp_path), runs=tmp_path / "shown", progress=True)
    shown = capsys.readouterr()

    assert quiet.out + quiet.err + shown.out == ""
    assert "64/64 steps" in shown.err
    assert "evaluating on 2 unseen seeds" in shown.err


def test_a_wrong_key_is_pointed_at(tmp_path: Path) -> None:
    file = experiment(tmp_path)
    file.write_text(file.read_text().replace("n_envs", "n_env"), encoding="utf-8")

    with pytest.raises(
        ConfigError, match=r"small\.toml:11:1: \[train\] has no key 'n_env'; did you mean"
    ):
        sekai.run_experiment(file, runs=tmp_path / "runs")

    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"train.steps": 0}, r"overrides\['train.steps'\]: steps must be at least 1, got 0"),
        ({"train.stps": 1}, r"overrides\['train.stps'\]: \[train\] has no key 'stps'"),
        ({"agent.steps": 1}, r"overrides\['agent.steps'\]: there is no section 'agent'"),
        ({"steps": 1}, r"overrides\['steps'\]: expected section.key"),
    ],
)
def test_a_wrong_override_is_named(
    overrides: Mapping[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        sekai.run_experiment(experiment(tmp_path), overrides=overrides, runs=tmp_path / "runs")


def test_a_run_is_never_overwritten(trained: ExperimentResult, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="exists, and runs are never overwritten"):
        sekai.run_experiment(experiment(tmp_path), name="small", runs=trained.run.path.parent)
    with pytest.raises(ExperimentError, match="is finished"):
        sekai.run_experiment(trained.run.path, resume=True)
    with pytest.raises(ExperimentError, match="leave out overrides"):
        sekai.run_experiment(trained.run.path, resume=True, overrides={"train.steps": 1})


class Interrupting(Callback):
    """Sends an interrupt after the first iteration."""

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupted_run_is_resumed_to_the_same_agent(
    trained: ExperimentResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sekai.experiment import run

    callbacks = run._callbacks
    file, runs = experiment(tmp_path), tmp_path / "runs"
    overrides = {"run.seed": 4, "train.steps": 96}

    with monkeypatch.context() as patch:
        patch.setattr(run, "_callbacks", lambda *given: [*callbacks(*given), Interrupting()])
        with pytest.raises(KeyboardInterrupt):
            sekai.run_experiment(file, overrides=overrides, runs=runs)
    assert RunFolder(runs / "small").facts["state"] == "interrupted"
    result = sekai.run_experiment(file, runs=runs, resume=True)

    assert result.run.facts["state"] == "finished"
    assert_same_agent(result.run.policy, trained.run.policy)


def test_no_terminal_packages_are_needed(tmp_path: Path) -> None:
    script = (
        "import sys\nsys.modules['typer'] = sys.modules['rich'] = None\nimport sekai\n"
        f"result = sekai.run_experiment({str(experiment(tmp_path))!r}, runs={str(tmp_path)!r})\n"
        "print(result.run.name)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout == "small\n"


OFFLINE = """
[env]
id = "MarketMaking-v0"

[train]
algorithm = "iql"
steps = 10
steps_per_iteration = 5
batch_size = 8
{dataset}

[evaluate]
seeds = 2
every = 1
sensitivity = false
baselines = ["random"]
"""


@pytest.mark.timeout(240)
def test_an_experiment_trains_offline_on_the_data_set_beside_it(tmp_path: Path) -> None:
    from sekai.training import ReplayDataset, load_policy

    dataset = ReplayDataset.collect("MarketMaking-v0", "random", 64, num_envs=4)
    dataset.save(tmp_path / "steps.safetensors")
    file = tmp_path / "offline.toml"
    file.write_text(OFFLINE.format(dataset='dataset = "steps.safetensors"'))

    result = sekai.run_experiment(file, runs=tmp_path / "runs")

    assert result.agent.steps == 10
    assert load_policy(result.run.policy).algorithm == "IQL"
    assert "eval/return" in result.run.curve.columns()


def test_offline_training_on_a_cluster_is_refused_before_a_run_begins(tmp_path: Path) -> None:
    from sekai.training import ReplayDataset

    ReplayDataset.collect("MarketMaking-v0", "random", 64, num_envs=4).save(
        tmp_path / "a.safetensors"
    )
    file = tmp_path / "offline.toml"
    file.write_text(OFFLINE.format(dataset='dataset = "a.safetensors"'))

    with pytest.raises(ExperimentError, match="iql is trained on a data set, .* leave out ray"):
        start_run(ConfigSource.read(file), tmp_path / "runs", (), RunOptions(ray="local"))

    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", r"dataset must be the file of a replay data set, which iql is trained on"),
        ('dataset = "none.safetensors"', r"none\.safetensors cannot be read as a data set"),
        ('dataset = "other.safetensors"', "the data set has another observation_space"),
        ('algorithm = "ppo"\ndataset = "a"', "dataset must be left out: ppo is trained on an env"),
    ],
)
def test_a_data_set_that_does_not_fit_is_an_error_at_its_line(
    line: str, message: str, tmp_path: Path
) -> None:
    from sekai.training import ReplayDataset

    other = ReplayDataset.collect("Trading-v0", "random", 8, num_envs=2)
    other.save(tmp_path / "other.safetensors")
    text = OFFLINE.format(dataset=line)
    if "ppo" in line:
        text = text.replace('algorithm = "iql"\n', "").replace("steps_per_iteration = 5\n", "")
    file = tmp_path / "offline.toml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=message) as error:
        sekai.run_experiment(file, runs=tmp_path / "runs")

    assert "offline.toml" in str(error.value)
    assert not (tmp_path / "runs").exists()
