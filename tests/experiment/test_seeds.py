"""Experiments with several training seeds: a run for each, and a summary."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

import sekai.experiment.run
from sekai.config.toml_file import ConfigError, ConfigSource
from sekai.experiment import ExperimentError, run_experiment, run_seeds
from sekai.experiment.run_folder import RunFolder, find_run, runs_in
from tests.cli.commands import assert_same_agent, call, experiment

pytestmark = pytest.mark.timeout(300)  # torch takes long to import on a busy machine


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_seed_is_a_run_equal_to_one_of_its_own(folder: Path) -> None:
    file = experiment(folder)

    result = run_seeds(file, seeds=[3, 5])
    alone = run_experiment(file, overrides={"run.seed": 5}, name="alone")

    assert list(result.runs) == [3, 5]
    assert result.path == Path("runs/small")
    names = sorted(run.name for run in runs_in(Path("runs")))
    assert names == ["alone", "small/seed-3", "small/seed-5"]
    assert find_run("small/seed-5", Path("runs")).facts["seed"] == 5
    assert_same_agent(result.runs[5].policy, alone.run.policy)
    assert result.runs[3].ledger == alone.run.ledger == Path("runs/trials.jsonl")


def test_the_summary_is_the_median_and_the_interval_over_seeds(folder: Path) -> None:
    result = run_seeds(experiment(folder), seeds=3)

    metric = result.metric
    values = [found.agent.metrics[metric].value for found in result.evaluations.values()]
    assert list(result.evaluations) == [3, 4, 5]
    assert result.values(metric) == values
    assert result.median(metric) == statistics.median(values)
    interval = result.interval(metric)
    # Student's t with two degrees of freedom.
    half = 4.302652729911275 * statistics.stdev(values) / 3**0.5
    assert interval.value == pytest.approx(statistics.mean(values))
    assert interval.high - interval.value == pytest.approx(half)
    assert repr(result) == f"SeedsResult(runs/small: {metric} {interval} over 3 training seeds)"


def test_an_interrupted_experiment_of_seeds_is_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, evaluated = experiment(folder), 0
    evaluate_run = sekai.experiment.run.evaluate_run

    def interrupted(*arguments: object) -> object:
        nonlocal evaluated
        evaluated += 1
        if evaluated == 2:
            raise KeyboardInterrupt
        return evaluate_run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sekai.experiment.run, "evaluate_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_seeds(file, seeds=3)
    states = {run.name: run.facts["state"] for run in runs_in(Path("runs"))}
    assert states == {"small/seed-3": "finished", "small/seed-4": "interrupted"}

    resumed = call("train", file, "--resume", "--quiet")

    assert resumed.code == 0, resumed.err
    assert [run.facts["state"] for run in runs_in(Path("runs"))] == ["finished"] * 3
    assert evaluated == 4


def test_the_command_trains_seeds_and_shows_median_and_mean(folder: Path) -> None:
    file = experiment(folder)

    trained = call("train", file, "--seeds", "7,9", "--quiet")

    assert trained.code == 0, trained.err
    lines = [line.split() for line in trained.out.splitlines() if line.strip()]
    assert [line[0] for line in lines[1:5]] == ["7", "9", "median", "mean"]
    assert Path("runs/small/report.html").is_file()
    assert "small/seed-7" in call("runs").out
    again = call("train", file, "--seeds", "2", "--name", "small", "--quiet")
    assert again.code == 2
    assert "--resume continues it" in again.err


@pytest.mark.parametrize(
    ("seeds", "message"),
    [("[1]", "at least 2 different seeds"), ("[1, 1]", "at least 2 different"), ("3", "seeds")],
)
def test_invalid_seeds_are_shown_at_their_line(folder: Path, seeds: str, message: str) -> None:
    file = experiment(folder)
    file.write_text(file.read_text("utf-8").replace("seed = 3", f"seeds = {seeds}"), "utf-8")

    with pytest.raises(ConfigError, match=r"small.toml:2:9: .*seeds") as error:
        run_seeds(file)

    assert message in str(error.value)
    assert not Path("runs").exists()


def test_an_experiment_that_cannot_be_trained_leaves_no_folder(folder: Path) -> None:
    file = folder / "bad.toml"
    file.write_text(
        '[run]\nseeds = [1, 2]\n[env]\nid = "Portfolio-v0"\n[data]\nsource = "simulate_gbm"\n'
        "rows = 20\n[train]\nsteps = 8\n",
        encoding="utf-8",
    )

    with pytest.raises(ValueError, match="rows"):
        run_seeds(file)

    assert not list(Path("runs").glob("*"))


def test_one_run_refuses_several_seeds(folder: Path) -> None:
    file = experiment(folder)
    file.write_text(file.read_text("utf-8").replace("seed = 3", "seeds = [1, 2]"), "utf-8")

    with pytest.raises(ConfigError, match="run_seeds"):
        run_experiment(file)
    with pytest.raises(ExperimentError, match="there is no experiment of several seeds"):
        run_seeds(file, resume=True)


def test_the_config_of_several_seeds_is_data(folder: Path) -> None:
    result = run_seeds(experiment(folder), seeds=2)

    assert ConfigSource.read(result.path / "config.toml").is_data
    assert RunFolder(result.path / "seed-3").name == "small/seed-3"
