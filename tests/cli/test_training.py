"""Whole runs, in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sekai.cli.list_runs import headline_text
from sekai.evaluation import load_evaluation
from sekai.experiment.run_folder import RunFolder
from sekai.policy import NativePolicy, load_policy
from tests.cli.commands import Outcome, assert_same_agent, call, experiment


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    folder = tmp_path_factory.mktemp("trained")
    return folder, call("train", experiment(folder), "--runs", folder / "runs")


@pytest.fixture
def runs(trained: tuple[Path, Outcome], tmp_path: Path) -> Path:
    """A copy of the run that nobody else looks at."""
    shutil.copytree(trained[0] / "runs", tmp_path / "runs")
    return tmp_path / "runs"


def files_of(folder: Path) -> dict[str, bytes]:
    found = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in found}


def test_a_run_trains_judges_and_reports(trained: tuple[Path, Outcome]) -> None:
    folder, told = trained
    run = RunFolder(folder / "runs" / "small")

    assert told.code == 0, told.err
    assert run.facts["state"] == "finished"
    assert run.facts["steps"] == 64
    assert [row["steps"] for row in run.curve.rows()] == [32.0, 64.0]
    assert "</html>" in run.report.read_text(encoding="utf-8")
    assert isinstance(load_policy(run.policy), NativePolicy)
    judged = load_evaluation(run.evaluation)
    assert judged.seeds == [1_000_000, 1_000_001]
    assert len(judged.baselines) >= 3
    assert judged.learning["steps"] == [32.0, 64.0]


def test_a_run_ends_with_a_table_and_the_place_of_the_report(
    trained: tuple[Path, Outcome],
) -> None:
    folder, told = trained

    lines = told.out.splitlines()
    assert any(line.startswith("small") for line in lines)
    assert any(line.startswith("optimal_quotes") for line in lines)
    assert lines[-1].split() == ["report", str(folder / "runs" / "small" / "report.html")]


def test_progress_is_told_line_by_line_where_there_is_no_terminal(
    trained: tuple[Path, Outcome],
) -> None:
    assert "64/64 steps" in trained[1].err
    assert "left 0:00" in trained[1].err


def test_what_was_resolved_trains_the_same_again(runs: Path) -> None:
    first = RunFolder(runs / "small")

    told = call("train", first.config, "--name", "again", "--runs", runs, "--quiet")

    assert told.code == 0, told.err
    assert told.err == ""
    again = RunFolder(runs / "again")
    assert_same_agent(again.policy, first.policy)
    assert again.config.read_text() == first.config.read_text().replace('"small"', '"again"')


def test_a_name_that_is_taken_is_refused_and_nothing_is_touched(runs: Path) -> None:
    before = files_of(runs)

    told = call("train", runs / "small" / "config.toml", "--runs", runs)

    assert told.code == 2
    assert "--resume" in told.err
    assert "--name small-2" in told.err
    assert files_of(runs) == before


def test_names_that_nobody_chose_count_up(trained: tuple[Path, Outcome], runs: Path) -> None:
    told = call("train", trained[0] / "small.toml", "--runs", runs, "--quiet")

    assert told.code == 0, told.err
    assert (runs / "small-2" / "report.html").is_file()


def test_options_alone_are_an_experiment(tmp_path: Path) -> None:
    told = call(
        "train", "--env", "MarketMaking-v0", "--steps", "32", "--runs", tmp_path, "--quiet",
        "--set", "train.n_envs=2", "--set", "train.n_steps=4", "--set", "evaluate.seeds=2",
        "--set", "env.episode_steps=10", "--set", "evaluate.sensitivity=false",
    )  # fmt: skip

    assert told.code == 0, told.err
    assert (tmp_path / "marketmaking-ppo" / "policy.safetensors").is_file()


def test_data_is_cut_and_the_part_that_is_judged_on_was_never_seen(tmp_path: Path) -> None:
    file = tmp_path / "stocks.toml"
    file.write_text(
        '[env]\nid = "Portfolio-v0"\nlookback = 5\nepisode_rows = 30\n'
        "[env.costs]\nproportional = 0.002\n"
        '[data]\nsource = "simulate_gbm"\nassets = 3\nrows = 600\nsplit = [0.5, 0.25]\n'
        'features = ["log_return", "momentum(20)"]\nscaling = "zscore"\n'
        "[train]\nsteps = 64\nn_envs = 4\nn_steps = 8\n"
        "[evaluate]\nseeds = 3\nevery = 1\nsensitivity = false\n"
        'baselines = ["equal_weight", "buy_and_hold", "random"]\n'
    )

    told = call("train", file, "--runs", tmp_path / "runs")

    assert told.code == 0, told.err
    assert "training on 295 rows" in told.err
    judged = load_evaluation(tmp_path / "runs" / "stocks" / "evaluation.json")
    assert list(judged.baselines) == ["equal_weight", "buy_and_hold", "random"]
    assert "eval/return" in judged.learning
    first = min(episode.times[0] for episode in judged.agent.episodes if episode.times is not None)
    learnt_until = told.err.partition("to ")[2].partition(")")[0]
    assert str(first) > learnt_until
    trials = (tmp_path / "runs" / "trials.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in trials] == ["stocks"]


def test_a_run_that_cannot_begin_leaves_no_folder(tmp_path: Path) -> None:
    told = call(
        "train", "--env", "MarketMaking-v0", "--algorithm", "qmix", "--steps", "8",
        "--runs", tmp_path / "runs",
    )  # fmt: skip

    assert told.code == 1
    assert "error: " in told.err
    assert not (tmp_path / "runs").exists()


def test_a_part_that_cannot_be_judged_on_is_found_before_anything_is_learnt(
    tmp_path: Path,
) -> None:
    told = call(
        "train", "--env", "Portfolio-v0", "--steps", "64", "--runs", tmp_path / "runs",
        "--set", "data.rows=300", "--set", "data.split=0.9", "--set", "data.warm_up=0",
    )  # fmt: skip

    assert told.code == 1
    assert "test on 30 rows" in told.err
    assert not (tmp_path / "runs").exists()


def test_a_run_that_fails_says_so_and_goes_on_when_asked_to(
    runs: Path, trained: tuple[Path, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*given: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("sekai.experiment.run.evaluate_run", failing)
        told = call("train", trained[0] / "small.toml", "--name", "late", "--runs", runs)
    listed = call("runs", "late", "--runs", runs).out

    assert told.code == 1
    assert "the disk is full" in told.err
    assert "failed" in listed
    assert "the disk is full" in listed
    assert "--resume" in listed
    assert call("train", runs / "late", "--resume").code == 0
    assert RunFolder(runs / "late").facts["state"] == "finished"
    assert RunFolder(runs / "late").facts["error"] is None


def test_a_finished_run_is_not_gone_on_with(runs: Path) -> None:
    before = files_of(runs)

    told = call("train", runs / "small", "--resume")

    assert told.code == 2
    assert "sekai evaluate small" in told.err
    assert files_of(runs) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--resume"], "needs a run"),
        (["smal", "--resume"], "did you mean 'small'?"),
        (
            ["small", "--resume", "--steps", "5", "--set", "train.clip_range=1"],
            "leave out --steps, --set",
        ),
        (["small"], "cannot read small"),
        ([], "needs an id"),
    ],
)
def test_what_cannot_be_gone_on_with_is_misuse(runs: Path, words: list[str], said: str) -> None:
    told = call("train", *words, "--runs", runs)

    assert told.code == 2
    assert said in told.err


def test_an_experiment_that_is_not_there_is_said_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    alone = call("train", "mine.toml")
    (tmp_path / "yours.toml").write_text("[env]\n")
    (tmp_path / "pyproject.toml").touch()
    beside = call("train", "mine.toml")

    assert (alone.code, beside.code) == (2, 2)
    assert "this folder has none" in alone.err
    assert "--env" in alone.err
    assert "this folder has yours.toml." in beside.err


def test_a_file_in_the_place_of_the_folder_of_runs_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    told = call("train", "--env", "MarketMaking-v0", "--steps", "8", "--runs", tmp_path / "runs")

    assert told.code == 2
    assert "runs is a file, not a folder for runs; choose another with --runs" in " ".join(
        told.err.split()
    )


def test_a_place_that_is_closed_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *given: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    told = call("train", "--env", "MarketMaking-v0", "--steps", "8", "--runs", tmp_path / "closed")

    assert told.code == 1
    assert "closed; change its permissions" in " ".join(told.err.split())


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """A finished run to break something of."""
    shutil.copytree(runs / "small", tmp_path / "small")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "file", "said"),
    [
        (["evaluate", "small"], "run.json", "--name small-2` trains it again"),
        (
            ["evaluate", "small"],
            "policy.safetensors",
            "--name small-2` trains it again",
        ),
        (["report", "small"], "evaluation.json", "`sekai evaluate small` evaluates it again"),
    ],
)
def test_a_file_of_a_run_that_is_not_whole_is_said_with_what_to_type(
    copied: Path, words: list[str], file: str, said: str
) -> None:
    whole = (copied / "small" / file).read_bytes()
    (copied / "small" / file).write_bytes(whole[: len(whole) // 2])
    told = call(*words, "--runs", copied)

    assert told.code == 2
    assert said in " ".join(told.err.split())


def test_a_run_is_judged_again_with_other_seeds_and_baselines(runs: Path) -> None:
    told = call(
        "evaluate", "small", "--runs", runs, "--seeds", "4", "--baseline", "random",
        "--baseline", "idle", "--baseline", "last_action", "--quiet",
    )  # fmt: skip

    assert told.code == 0, told.err
    judged = load_evaluation(runs / "small" / "evaluation.json")
    assert len(judged.seeds) == 4
    assert list(judged.baselines) == ["random", "idle", "last_action"]
    assert "4 unseen episodes" in told.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "there is no run 'nothing'"),
        (["small", "--baseline", "rnd"], "--baseline: MarketMaking-v0 has no baseline 'rnd'"),
        (["small", "--seeds", "1"], "--seeds: seeds must be at least 2"),
    ],
)
def test_judging_what_is_not_there_is_misuse(runs: Path, words: list[str], said: str) -> None:
    before = files_of(runs)

    told = call("evaluate", *words, "--runs", runs)

    assert told.code == 2
    assert said in told.err
    assert files_of(runs) == before


def test_reports_of_several_runs_are_one_page(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "small", runs / "other")
    page = tmp_path / "both.html"

    told = call("report", "small", "other", "--runs", runs, "--output", page)

    assert told.out.strip() == str(page)
    assert "</html>" in page.read_text(encoding="utf-8")


def test_pictures_are_drawn_into_a_folder(runs: Path, tmp_path: Path) -> None:
    told = call("report", "small", "--runs", runs, "--pictures", tmp_path / "pictures")

    assert told.code == 0, told.err
    assert all(name.endswith(".png") for name in told.out.split()[1:])
    assert len(list((tmp_path / "pictures").glob("*.png"))) >= 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (Path.unlink, "has no evaluation"),
        (lambda file: file.write_text("{}"), "is not an evaluation: missing key 'format'"),
    ],
)
def test_a_run_that_was_not_judged_has_no_report(
    runs: Path, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(runs / "small" / "evaluation.json")

    told = call("report", "small", "--runs", runs)

    assert told.code == 2
    assert said in told.err


def test_runs_are_listed_with_state_steps_and_headline(runs: Path) -> None:
    line = call("runs", "--runs", runs).out.splitlines()[1]

    assert line.split()[:5] == ["small", "finished", "MarketMaking-v0", "ppo", "64/64"]
    judged = load_evaluation(runs / "small" / "evaluation.json")
    assert f"{judged.headline} " in line


def test_invalid_results_are_marked_in_the_list() -> None:
    headline = {"metric": "sharpe", "value": "1.5", "low": "0.5", "high": "2.5"}

    assert headline_text(headline) == "sharpe 1.5 [0.5, 2.5]"
    assert headline_text({**headline, "is_valid": False}) == "sharpe 1.5 [0.5, 2.5] (invalid)"


def test_no_runs_are_no_error(tmp_path: Path) -> None:
    told = call("runs", "--runs", tmp_path)

    assert (told.code, told.out) == (0, "")
    assert "no runs in" in told.err


def test_envs_that_cannot_be_kept_are_trained_and_gone_on_with_in_new_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        "train", "--env", "gymnasium/CartPole-v1", "--steps", "64", "--runs", str(tmp_path),
        "--set", "train.n_envs=2", "--set", "train.n_steps=8", "--set", "evaluate.seeds=2",
        "--set", "train.checkpoint_every=1",
    ]  # fmt: skip

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sekai.experiment.run.evaluate_run", interrupted)
        stopped = call(*words)
    told = call("train", tmp_path / "cartpole-ppo", "--resume")

    assert stopped.code == 130
    assert (tmp_path / "cartpole-ppo" / "checkpoints" / "00000004.safetensors").is_file()
    assert told.code == 0, told.err
    assert "resuming from" in told.err
    assert "episode_return" in told.out


def test_several_agents_are_trained_and_judged(tmp_path: Path) -> None:
    told = call(
        "train", "--env", "MultiPortfolio-v0", "--steps", "16", "--runs", tmp_path, "--quiet",
        "--set", "train.n_envs=1", "--set", "train.n_steps=16", "--set", "env.agents=2",
        "--set", "env.episode_rows=20", "--set", "evaluate.seeds=8",
        "--set", "evaluate.sensitivity=false",
        "--set", 'evaluate.baselines=["equal_weight", "buy_and_hold", "momentum"]',
    )  # fmt: skip

    assert told.code == 0, told.err
    run = RunFolder(tmp_path / "multiportfolio-ppo")
    assert run.facts["state"] == "finished"
    assert run.report.is_file()
    judged = load_evaluation(run.evaluation)
    assert list(judged.agent.episodes[0].members) == ["agent_0", "agent_1"]
    assert "sharpe of agent_1" in judged.agent.metrics
    again = call("evaluate", "multiportfolio-ppo", "--runs", tmp_path, "--quiet")
    assert again.code == 0, again.err
