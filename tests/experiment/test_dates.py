"""Dates without quotes: in files, in --set and in -o, wherever a date is meant."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.config.toml_file import ConfigSource, set_option
from sekai.data import simulate_gbm
from sekai.experiment.preparation import prepare
from sekai.experiment.reading import read_experiment
from sekai.experiment.run_folder import RunFolder
from tests.cli.commands import call, skip_evaluation

DAILY = """\
[run]
seed = 1

[env]
id = "Portfolio-v0"
lookback = 2
{env}

[data]
source = "{source}"
features = ["log_return"]
{data}

[train]
algorithm = "ppo"
steps = 256
n_envs = 8
n_steps = 8

[evaluate]
seeds = 2
baselines = ["equal_weight"]
sensitivity = false
"""
SIMULATED = "assets = 3\nrows = 400"


def experiment_of(folder: Path, *options: str, source: str = "simulate_gbm", **parts: str) -> Any:
    file = folder / "small.toml"
    data = parts.get("data", SIMULATED)
    file.write_text(DAILY.format(source=source, env=parts.get("env", ""), data=data))
    said = ConfigSource.read(file)
    for text in options:
        set_option(said, "--set", text)
    return read_experiment(said)


def panel_of(experiment: Any) -> Any:
    return experiment.source.read(**experiment.source_options)


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    path = tmp_path / "bars.parquet"
    simulate_gbm(assets=2, rows=300, start="2020-01-01").to_parquet(path)
    return path


@pytest.mark.parametrize(
    "value", ["2020-01-03", '"2020-01-03"', "2020-01-03T00:00:00", "2020-01-03 00:00:00"]
)
def test_a_simulator_starts_on_a_date_of_a_file(tmp_path: Path, value: str) -> None:
    found = experiment_of(tmp_path, data=f"{SIMULATED}\nstart = {value}")

    assert str(panel_of(found).times[0])[:10] == "2020-01-03"


def test_a_simulator_starts_on_a_date_of_an_option(tmp_path: Path) -> None:
    found = experiment_of(tmp_path, "data.start=2020-01-03")

    assert str(panel_of(found).times[0])[:10] == "2020-01-03"


@pytest.mark.parametrize(
    ("value", "first"),
    [
        ("2020-06-01", "2020-06-01T16"),
        ("2020-06-01T17:00:00", "2020-06-02T16"),
        ("2020-06-01T17:00:00Z", "2020-06-02T16"),
        ("2020-06-01T17:00:00+02:00", "2020-06-01T16"),
        ("2020-06-01T17:00:00.500+00:00", "2020-06-02T16"),
    ],
)
@pytest.mark.parametrize("is_option", [False, True])
def test_rows_of_files_begin_at_a_date(
    tmp_path: Path, bars: Path, value: str, first: str, is_option: bool
) -> None:
    options = [f"data.start={value}"] if is_option else []

    found = experiment_of(
        tmp_path, *options, source=str(bars), data="" if is_option else f"start = {value}"
    )

    assert str(panel_of(found).times[0]).startswith(first)


@pytest.mark.parametrize(
    "value", ["2024-07-01", "[2024-07-01]", "[2024-03-01, 2024-07-01T00:00:00Z]"]
)
@pytest.mark.parametrize("is_option", [False, True])
def test_data_is_split_at_dates(tmp_path: Path, value: str, is_option: bool) -> None:
    options = [f"data.split={value}"] if is_option else []
    split = "" if is_option else f"\nsplit = {value}"

    found = prepare(experiment_of(tmp_path, *options, data=SIMULATED + split))

    test = found.test["data"]
    assert str(test.times[test.warm_up])[:10] == "2024-07-01"


@pytest.mark.parametrize(
    "value", ["2023-09-01", "2023-09-01T00:00:00Z", "2023-09-01T02:00:00+02:00"]
)
@pytest.mark.parametrize("is_option", [False, True])
def test_episodes_start_at_a_date(tmp_path: Path, value: str, is_option: bool) -> None:
    import sekai

    options = [f"env.starts={value}"] if is_option else []
    env = "" if is_option else f"starts = {value}"

    found = prepare(experiment_of(tmp_path, *options, env=env))
    made = sekai.make("Portfolio-v0", **found.train)

    row = int(made.reset(seed=0).info["time_index"])
    assert str(found.train["data"].times[row])[:10] == "2023-09-01"


def test_a_date_where_another_thing_is_meant_is_refused(tmp_path: Path) -> None:
    from sekai.config.toml_file import ConfigError

    with pytest.raises(ConfigError, match="rows must be a whole number, got '2020-01-03'"):
        experiment_of(tmp_path, data="assets = 3\nrows = 2020-01-03")


def test_the_data_command_takes_dates(bars: Path, tmp_path: Path) -> None:
    found = call(
        "data", "inspect", bars, "-o", "start=2020-06-01", "-o", "stop=2020-07-01T00:00:00Z"
    )
    assert found.code == 0, found.err
    assert "2020-06-01 16:00 to 2020-06-30 16:00" in found.out

    assert call("data", "validate", bars, "-o", "start=2020-06-01").code == 0
    target = tmp_path / "cut.parquet"
    assert call("data", "convert", bars, target, "-o", "start=2020-06-01").code == 0
    found = call("data", "inspect", target)
    assert "2020-06-01 16:00 to" in found.out
    found = call("data", "inspect", "simulate_gbm", "-o", "rows=5", "-o", "start=2020-01-03")
    assert "2020-01-03 16:00 to" in found.out


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with one whose file and options have dates without quotes."""
    folder = tmp_path_factory.mktemp("trained")
    file = folder / "dated.toml"
    data = f"{SIMULATED}\nsplit = [2021-01-01]"
    file.write_text(DAILY.format(source="simulate_gbm", env="", data=data), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        skip_evaluation(patch)
        found = call(
            "train", file, "--runs", folder / "runs", "--quiet", "--set", "data.start=2020-01-03"
        )
    assert found.code == 0, found.err
    return folder / "runs"


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "runs"))


def test_a_run_keeps_the_dates_it_was_trained_with(runs: Path) -> None:
    kept = read_experiment(ConfigSource.read(RunFolder(runs / "dated").config))

    test = prepare(kept).test["data"]
    assert str(test.times[test.warm_up])[:10] == "2021-01-01"
    assert np.datetime64("2020-12-01") < test.times[0]


def test_evaluate_judges_a_run_with_dates(runs: Path) -> None:
    found = call("evaluate", "dated", "--runs", runs, "--quiet")

    assert found.code == 0, found.err


def test_paper_trades_a_run_with_dates(runs: Path) -> None:
    found = call("paper", "dated", "--runs", runs, "--bars", "5", "-q")

    assert found.code == 0, found.err
    assert "5 rows" in found.out
