"""Sweeps: trials with Optuna, their selection, the ledger, and continuation after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from sekai.config.toml_file import ConfigError, load_toml
from sekai.data import simulate_gbm
from sekai.evaluation.statistics import TrialLedger
from sekai.experiment import ExperimentError, RunFolder, SweepResult, run_sweep
from sekai.experiment.run_folder import find_run, runs_in
from sekai.policy import load_policy
from tests.cli.commands import assert_same_agent, call, environment

pytestmark = pytest.mark.timeout(300)  # torch takes long to import on a busy machine

MAKING = """\
[run]
seed = 3

[env]
id = "MarketMaking-v0"
episode_steps = 20

[train]
steps = 96
n_envs = 4
n_steps = 8
n_epochs = 1
batch_size = 32

[policy]
net_arch = [8]

[evaluate]
seeds = 2
every = 1
sensitivity = false

[sweep]
trials = 6
sampler_options = { n_startup_trials = 2 }

[sweep.space]
train.learning_rate = { low = 1e-4, high = 1e-2, log = true }
train.n_epochs = { low = 1, high = 3 }
policy.net_arch = [[8], [4, 4]]
"""

PRUNED = """
pruner = "MedianPruner"
pruner_options = { n_startup_trials = 1 }

[sweep.space]"""

PORTFOLIO = """\
[env]
id = "Portfolio-v0"
lookback = 1

[data]
source = "MARKET"
split = [0.6, 0.2, 0.2]
features = ["log_return"]

[train]
steps = 32
n_envs = 4
n_steps = 4
n_epochs = 1

[policy]
width = 8
encoder_layers = 1

[evaluate]
seeds = 2
every = 1
baselines = ["equal_weight"]
sensitivity = false

[sweep]
trials = 2
sampler = "RandomSampler"

[sweep.space]
train.learning_rate = { low = 1e-3, high = 1e-1, log = true }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text: str, *changes: tuple[str, str]) -> Path:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path("small.toml").write_text(text, encoding="utf-8")
    return Path("small.toml")


def pruning_sweep() -> Path:
    return written(MAKING, ("\n[sweep.space]", PRUNED))


def summary(result: SweepResult) -> list[Any]:
    """All that trials were and reached."""
    return [
        (trial.number, trial.state, trial.settings, repr(trial.score), trial.evaluations)
        for trial in result.trials
    ]


def assert_same_sweep(first: SweepResult, second: SweepResult) -> None:
    assert summary(first) == summary(second)
    assert first.best.number == second.best.number
    for trial in first.trials:
        name = f"trial-{trial.number:04}/policy.safetensors"
        assert_same_agent(first.path / name, second.path / name)


def ledger() -> TrialLedger:
    return TrialLedger(Path("runs/trials.jsonl"))


def test_trials_differ_in_the_searched_settings_and_the_best_score_wins() -> None:
    result = run_sweep(written(MAKING))

    assert [trial.number for trial in result.trials] == list(range(6))
    assert {trial.state for trial in result.trials} == {"complete"}
    for trial in result.trials:
        rate, epochs = trial.settings["train.learning_rate"], trial.settings["train.n_epochs"]
        assert 1e-4 <= rate <= 1e-2
        assert epochs in (1, 2, 3)
        assert trial.settings["policy.net_arch"] in ([8], [4, 4])
    assert len({trial.settings["train.learning_rate"] for trial in result.trials}) == 6
    assert result.best.score == max(trial.score for trial in result.trials)
    assert result.run.path == Path(f"runs/small/trial-{result.best.number:04}")
    config = result.run.config.read_text(encoding="utf-8")
    assert f"learning_rate = {result.best.settings['train.learning_rate']}" in config
    assert repr(result) == f"SweepResult(runs/small: 6 complete; best {result.run.name})"


def test_the_same_seed_gives_the_same_trials_and_another_seed_others() -> None:
    file = pruning_sweep()

    first, second = (run_sweep(file, name=name) for name in ("first", "second"))
    other = run_sweep(file, overrides={"sweep.seed": 1}, name="other", trials=2)

    assert_same_sweep(first, second)
    assert first.counts["pruned"] >= 1
    assert summary(other) != summary(first)[:2]


CHILD = """
import os, signal
from sekai.experiment import run_sweep

def kill_in_the_fourth_trial(trials):
    # Its first evaluation is on record, and its second one is not.
    if len(trials) == 4 and trials[3].state == "running" and trials[3].evaluations == 1:
        os.kill(os.getpid(), signal.SIGKILL)

run_sweep("small.toml", name="killed", watch=kill_in_the_fourth_trial)
"""


def test_a_killed_sweep_continues_as_one_that_was_not_killed() -> None:
    file = pruning_sweep()
    whole = run_sweep(file, name="whole")
    assert whole.trials[3].evaluations >= 1
    child = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment(), timeout=280, capture_output=True,
        check=False,
    )  # fmt: skip
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    # As if it had been killed while it wrote a line and held the lock of the journal.
    with Path("runs/killed/study.journal").open("ab") as journal:
        journal.write(b'{"op_code": 8, "worker')
    Path("runs/killed/study.journal.lock").touch()
    finished = Path("runs/killed/trial-0002/policy.safetensors").stat().st_mtime_ns

    resumed = run_sweep("killed", resume=True)

    assert_same_sweep(whole, resumed)
    metrics = {name: each.value for name, each in whole.evaluation.agent.metrics.items()}
    assert repr(metrics) == repr(
        {name: each.value for name, each in resumed.evaluation.agent.metrics.items()}
    )
    assert Path("runs/killed/trial-0002/policy.safetensors").stat().st_mtime_ns == finished
    recorded = [trial.name for trial in ledger().trials("MarketMaking-v0")]
    assert len(recorded) == 6  # equal policies of both sweeps count once


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepResult, SweepResult]:
    """The same sweep on two markets that differ in the test part alone."""
    folder = tmp_path_factory.mktemp("swept")
    text = PORTFOLIO.replace("MARKET", str(folder / "market.parquet"))
    (folder / "small.toml").write_text(text, encoding="utf-8")
    simulate_gbm(assets=2, rows=700, seed=1).to_parquet(folder / "market.parquet")
    first = run_sweep(folder / "small.toml", runs=folder / "first")
    market = pd.read_parquet(folder / "market.parquet")
    assert first.evaluation.agent.episodes[0].times is not None
    is_test = market["time"] >= pd.Timestamp(first.evaluation.agent.episodes[0].times[0], tz="UTC")
    assert 200 < is_test.sum() < 300
    prices = market.select_dtypes("float").columns
    market.loc[is_test, prices] *= np.linspace(1.0, 9.0, is_test.sum())[:, None]
    market.to_parquet(folder / "market.parquet")
    return first, run_sweep(folder / "small.toml", runs=folder / "second")


def test_all_trials_count_in_the_ledger_and_the_deflated_sharpe_ratio_knows(
    swept: tuple[SweepResult, SweepResult],
) -> None:
    result, ledger = swept[0], TrialLedger(swept[0].run.ledger)

    provenance, sharpe = result.evaluation.provenance, result.evaluation.deflated_sharpe
    assert sharpe is not None
    assert sharpe.trials == 2
    on_test = ledger.trials(provenance.judged_digest)
    assert sorted(trial.name for trial in on_test) == ["small/trial-0000", "small/trial-0001"]
    # The ratios of other trials on the test part are unknown: they were never computed.
    assert [trial.name for trial in on_test if np.isfinite(trial.sharpe)] == [result.run.name]
    lines = map(json.loads, ledger.path.read_text("utf-8").splitlines())
    digests = {line["data_digest"] for line in lines}
    (on_validation,) = (ledger.trials(each) for each in digests - {provenance.judged_digest})
    assert len(on_validation) == 2
    assert all(np.isfinite(trial.sharpe) for trial in on_validation)


def test_trials_are_the_same_whatever_the_test_part_holds(
    swept: tuple[SweepResult, SweepResult],
) -> None:
    first, second = swept

    assert summary(first) == summary(second)
    assert first.best.number == second.best.number
    for trial in first.trials:
        name = f"trial-{trial.number:04}/policy.safetensors"
        networks = [load_policy(result.path / name, backend="torch").network for result in swept]
        weights, others = (network.state_dict() for network in networks)
        assert all(np.array_equal(others[key], value) for key, value in weights.items())
    sharpes = [result.evaluation.agent.metrics["sharpe"].value for result in swept]
    assert sharpes[0] != sharpes[1]


def test_only_the_best_trial_is_evaluated_on_the_test_part(
    swept: tuple[SweepResult, SweepResult],
) -> None:
    result = swept[0]

    assert list(result.path.glob("*/evaluation.json")) == [result.run.evaluation]
    assert [run.name for run in runs_in(result.path.parent)] == [result.run.name]
    facts = find_run(result.run.name, result.path.parent).facts
    assert facts["headline"]["metric"] == "sharpe"
    assert facts["validation"]["value"] == str(result.best.score)


def test_pruned_and_failed_trials_count_too() -> None:
    rate = ("{ low = 1e-4, high = 1e-2, log = true }", "[1e-4, 1e-3, 1e38]")
    result = run_sweep(written(MAKING, ("\n[sweep.space]", PRUNED), rate))

    diverged = [trial for trial in result.trials if trial.settings["train.learning_rate"] > 1]
    assert len(diverged) == result.counts["failed"] >= 1
    assert all("Error: " in trial.error for trial in diverged)
    assert result.counts["pruned"] >= 1
    assert result.counts["complete"] >= 1
    names = {json.loads(line)["name"] for line in ledger().path.read_text("utf-8").splitlines()}
    assert names == {f"small/trial-{number:04}" for number in range(6)}
    for trial in result.trials:
        facts = RunFolder(result.path / f"trial-{trial.number:04}").facts
        assert facts["state"] == trial.state.replace("complete", "finished")


def test_a_step_of_a_share_makes_a_range_of_shares() -> None:
    shares = (
        "train.n_epochs = { low = 1, high = 3 }",
        "train.gae_lambda = { low = 0, high = 1, step = 0.25 }",
    )
    result = run_sweep(written(MAKING, shares), trials=4)

    found = {trial.settings["train.gae_lambda"] for trial in result.trials}
    assert found <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert found - {0.0, 1.0}


def test_a_trial_that_needs_too_much_memory_fails_alone() -> None:
    large = ("policy.net_arch = [[8], [4, 4]]", f"policy.net_arch = [[8], [{10**14}]]")

    result = run_sweep(written(MAKING, large))

    failed = [trial for trial in result.trials if trial.settings["policy.net_arch"] != [8]]
    assert 1 <= len(failed) == result.counts["failed"] < len(result.trials)
    assert all("Error: " in trial.error for trial in failed)


def test_a_sweep_of_an_offline_algorithm_keeps_the_path_of_its_data_set(folder: Path) -> None:
    from sekai.training import ReplayDataset

    ReplayDataset.collect("MarketMaking-v0", "random", 64, num_envs=4).save("steps.safetensors")
    offline = (
        "steps = 96\nn_envs = 4\nn_steps = 8\nn_epochs = 1\nbatch_size = 32",
        'algorithm = "iql"\ndataset = "steps.safetensors"\nsteps = 4\nbatch_size = 16',
    )
    epochs = ("train.n_epochs = { low = 1, high = 3 }\n", "")

    result = run_sweep(written(MAKING, offline, epochs), trials=1)

    copied = load_toml((result.path / "config.toml").read_text("utf-8"))
    assert copied["train"]["dataset"] == str(folder / "steps.safetensors")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("train.n_epochs = {", "train.n_epoch = {", "29:1: [train] has no key 'n_epoch'; did you"),
        ("train.n_epochs = {", "trian.n_epochs = {", "29:1: there is no section 'trian'; did you"),
        ("low = 1, high = 3", "low = 0, high = 3", "29:18: n_epochs must be"),
        ("low = 1, high = 3", "low = 3, high = 1", "29:18: train.n_epochs: "),
        ("low = 1, high = 3", "lo = 1, high = 3", "29:20: a range has no key 'lo'; did you mean"),
        ("low = 1, high = 3", "low = 1", "29:18: the range of train.n_epochs needs high"),
        ("trials = 6", 'sampler = "tpe"\ntrials = 6', "24:11: unknown sampler 'tpe'"),
        ("trials = 6", 'pruner = "ASHA"\ntrials = 6', "did you mean 'SuccessiveHalvingPruner'?"),
        ("trials = 6", "trails = 6", "24:1: [sweep] has no key 'trails'; did you mean 'trials'"),
        ("trials = 6\n", "", "[sweep] needs trials"),
        ("{ n_startup_trials", "{ n_startup_trial", "no option 'n_startup_trial'; did you mean"),
        ("train.n_epochs = {", "run.seed = {", "29:1: run.seed cannot be searched"),
        ("every = 1\n", "", None),
    ],
)
def test_wrong_names_and_ranges_are_refused_at_their_line(
    old: str, new: str, expected: str | None
) -> None:
    file = written(MAKING, (old, new))
    if expected is None:
        file = written(file.read_text("utf-8"), ("\n[sweep.space]", PRUNED))
        expected = "MedianPruner needs evaluations during training"

    with pytest.raises(ConfigError) as refused:
        run_sweep(file)

    assert expected in str(refused.value)
    assert not Path("runs").exists()


def test_a_sweep_without_a_validation_part_is_refused() -> None:
    simulate_gbm(assets=2, rows=700, seed=1).to_parquet(Path("market.parquet"))
    file = written(PORTFOLIO, ("MARKET", "market.parquet"), ("[0.6, 0.2, 0.2]", "0.7"))

    with pytest.raises(ConfigError, match="selects on a validation part") as refused:
        run_sweep(file)

    assert "small.toml:7:9" in str(refused.value)


def test_a_grid_visits_each_combination_once() -> None:
    space = "train.learning_rate = { low = 1e-4, high = 1e-2, log = true }"
    file = written(
        MAKING,
        (space, "train.gamma = [0.5, 0.9]"),
        ("trials = 6\nsampler_options = { n_startup_trials = 2 }", 'sampler = "GridSampler"'),
        ("low = 1, high = 3", "low = 1, high = 2"),
    )

    result = run_sweep(file)

    combinations = [json.dumps(trial.settings, sort_keys=True) for trial in result.trials]
    assert len(combinations) == len(set(combinations)) == 8


def test_a_finished_sweep_is_not_evaluated_again() -> None:
    first = run_sweep(written(MAKING), trials=2)
    before = Path("runs/trials.jsonl").read_bytes()

    again = run_sweep("small", resume=True)

    assert_same_sweep(first, again)
    assert Path("runs/trials.jsonl").read_bytes() == before
    with pytest.raises(ExperimentError, match="keeps its settings"):
        run_sweep("small", resume=True, trials=9)


def test_a_sweep_of_failing_trials_says_why() -> None:
    rate = ("{ low = 1e-4, high = 1e-2, log = true }", "[1e38]")

    with pytest.raises(ExperimentError, match="no trial of runs/small is complete: Diverged"):
        run_sweep(written(MAKING, rate), trials=2)


def test_the_command_shows_trials_and_the_holdout_result() -> None:
    swept = call("sweep", pruning_sweep(), "--trials", "3", "--name", "short")

    assert swept.code == 0, swept.err
    assert "trial 2 " in swept.err
    rows = [line.split() for line in swept.out.splitlines() if line.strip()]
    assert [row[0] for row in rows[1:4]] == ["0", "1", "2"]
    assert "it alone was evaluated on the test part" in swept.out
    assert "runs/short" in swept.out
    resumed = call("sweep", "short", "--resume", "--quiet")
    assert resumed.code == 0, resumed.err
    assert call("sweep", "short", "--resume", "--trials", "5").code == 2


def independent_trials() -> Path:
    """A sweep whose trials do not depend on which of others ended before."""
    options = ("sampler_options = { n_startup_trials = 2 }\n", "")
    return written(MAKING, ("trials = 6", 'trials = 3\nsampler = "RandomSampler"'), options)


@pytest.mark.nightly
def test_processes_run_the_same_trials() -> None:
    file = independent_trials()

    assert_same_sweep(run_sweep(file, name="alone"), run_sweep(file, name="both", jobs=2))


@pytest.mark.nightly
# Ray leaves files open behind it, and warns of future versions.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore:Tip. In future versions of Ray:FutureWarning")
def test_a_cluster_runs_the_same_trials() -> None:
    pytest.importorskip("ray")
    file = independent_trials()

    assert_same_sweep(
        run_sweep(file, name="alone"), run_sweep(file, name="cluster", jobs=2, ray="local")
    )
