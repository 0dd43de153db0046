"""References `package.module:name` of experiment files: own envs, features, rewards, networks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sekai.config.toml_file import ConfigError, ConfigSource
from sekai.experiment.reading import read_experiment
from sekai.experiment.references import find_references
from sekai.registry import isolated
from tests.cli.commands import call

pytestmark = pytest.mark.timeout(300)  # torch takes long to import on a busy machine

MODULE = "code_of_a_user"
CODE = """\
from pathlib import Path

import numpy as np

from sekai import StepResult, ResetResult
from sekai.core.env import Env
from sekai.data import Events, simulate_regimes
from sekai.spaces import Box
from sekai.training.policies.actor_critic import MLPBackbone

Path("imported").touch()


class Walk(Env):
    \"\"\"Guess the sign of a random walk.\"\"\"

    def __init__(self, size: int = 2, episode_steps: int = 5) -> None:
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self.size, self.episode_steps, self.count = size, episode_steps, 0

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return ResetResult(np.zeros(self.size, np.float32), {})

    def step(self, action):
        self.count += 1
        seen = np.full(self.size, self.count, np.float32)
        over = self.count >= self.episode_steps
        return StepResult(seen, float(action[0]), False, over, {})


def spread(data, rows=3):
    close = data.field("close")
    return np.log(close) - np.log(close).mean(axis=1, keepdims=True) + rows


spread.lookback = 1


def reward(state):
    return np.asarray(state.equity) / 100_000.0 - 1.0


class Network(MLPBackbone):
    pass


def market(rows: int = 100):
    return simulate_regimes(rows=rows, assets=2, seed=5)


times = market().times
earnings = Events(times[::20], np.ones(len(times[::20])), delay="1d", name="earnings")


def long_only(observation):
    weights = np.zeros_like(observation["weights"])
    weights[0] = 1.0
    return weights


number = 3
"""

EXPERIMENT = """\
[env]
id = "Portfolio-v0"
lookback = 2
episode_rows = 10
reward = "{module}:reward"

[data]
source = "{module}:market"
rows = 120
split = 0.6
features = ["{module}:spread(4)", "rank({module}:spread)", "{module}:earnings.latest(age=True)"]

[train]
steps = 32
n_envs = 4
n_steps = 8
n_epochs = 1
batch_size = 32

[policy]
backbone = "{module}:Network"
net_arch = [8]

[evaluate]
seeds = 2
sensitivity = false
baselines = ["equal_weight", "{module}:long_only"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a module of the user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / f"{MODULE}.py").write_text(CODE, encoding="utf-8")
    with isolated():
        yield tmp_path
    sys.modules.pop(MODULE, None)


def was_imported(folder: Path) -> bool:
    """Whether the module has run since this was last asked."""
    mark = folder / "imported"
    found = mark.exists()
    mark.unlink(missing_ok=True)
    sys.modules.pop(MODULE, None)
    return found


def portfolio(folder: Path, **changes: str) -> Path:
    text = EXPERIMENT.format(module=MODULE)
    for old, new in changes.items():
        assert f":{old}" in text
        text = text.replace(f"{MODULE}:{old}", new)
    file = folder / "own.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_an_experiment_names_its_own_code_and_keeps_the_references() -> None:
    source = ConfigSource.read(portfolio(Path()))

    read = read_experiment(source)

    assert callable(read.env_options["reward"])
    assert read.settings.policy.backbone == f"{MODULE}:Network"
    assert read.evaluate.baselines == ("equal_weight", f"{MODULE}:long_only")
    resolved = read.resolved("own")
    for section in ("data", "env"):
        assert source.values[section].items() <= resolved[section].items()
    assert resolved["policy"]["backbone"] == f"{MODULE}:Network"
    assert resolved["evaluate"]["baselines"] == ["equal_weight", f"{MODULE}:long_only"]
    assert {found.module for found in find_references(resolved)} == {MODULE}


def test_a_run_with_own_code_is_evaluated_and_traded_again_with_consent(folder: Path) -> None:
    file = portfolio(folder)
    trained = call("train", file, "--quiet")
    assert trained.code == 0, trained.err
    assert was_imported(folder)

    again = ("train", "runs/own/config.toml", "--name", "again")
    for command in (("evaluate", "own"), ("paper", "own"), again):
        refused = call(*command, "--quiet")
        assert (refused.code, was_imported(folder)) == (2, False)
        assert f"--import {MODULE}" in refused.err.replace("\n", " ")
        assert "config.toml:" in refused.err
    assert call("report", "own").code == 0
    assert call("runs").code == 0
    assert not was_imported(folder)

    judged = call("evaluate", "own", "--import", MODULE, "--quiet")
    assert judged.code == 0, judged.err
    assert f"{MODULE}:long_only" in judged.out
    assert was_imported(folder)
    traded = call("paper", "own", "--import", file, "--quiet", "--bars", "5")
    assert traded.code == 0, traded.err
    assert "replay to the same bytes" in traded.out
    assert was_imported(folder)


def test_the_policy_file_of_a_run_imports_nothing(folder: Path) -> None:
    from sekai.policy.files import ModelFileError
    from sekai.training import load_policy
    from sekai.training.policies.actor_critic import BACKBONES

    assert call("train", portfolio(folder), "--quiet").code == 0
    assert was_imported(folder)
    del BACKBONES[f"{MODULE}:Network"]

    with pytest.raises(ModelFileError, match="backbone must be one of"):
        load_policy("runs/own/policy.safetensors")
    assert not was_imported(folder)


def test_an_own_env_is_trained_from_a_reference(folder: Path) -> None:
    file = folder / "walk.toml"
    file.write_text(
        f'[env]\nid = "{MODULE}:Walk"\nsize = 3\n\n[train]\nsteps = 16\nn_envs = 2\nn_steps = 8\n'
        "batch_size = 16\n\n[evaluate]\nseeds = 2\nsensitivity = false\n",
        encoding="utf-8",
    )

    trained = call("train", file, "--quiet")

    assert trained.code == 0, trained.err
    text = (folder / "runs" / "walk" / "config.toml").read_text(encoding="utf-8")
    assert f'id = "{MODULE}:Walk"' in text
    assert call("evaluate", "walk", "--import", MODULE, "--quiet").code == 0
    file.write_text(file.read_text("utf-8").replace("size", "sizes"), encoding="utf-8")
    refused = call("train", file, "--quiet")
    assert refused.code == 2
    assert "walk.toml:3:1" in refused.err
    assert "did you mean 'size'?" in refused.err


@pytest.mark.parametrize(
    ("name", "reference", "line", "message"),
    [
        ("reward", f"{MODULE}:rewrd", 5, "did you mean 'reward'?"),
        ("reward", f"{MODULE}:number", 5, "must be a class or a function, got 3"),
        ("reward", "no_such_module_here:f", 5, "there is no module 'no_such_module_here'"),
        ("market", f"{MODULE}:markt", 8, "did you mean 'market'?"),
        ("spread", f"{MODULE}:spred", 11, "did you mean 'spread'?"),
        ("earnings.latest", f"rank({MODULE}:earnings.latest)", 11, "cannot be a parameter"),
        ("earnings.latest(age=True)", f"{MODULE}:earnings.latest(ages=True)", 11, "ages"),
        ("Network", f"{MODULE}:Netwrk", 21, "did you mean 'Network'?"),
        ("long_only", f"{MODULE}:long", 27, "has no 'long'"),
    ],
)
def test_a_wrong_reference_is_shown_at_its_line(
    folder: Path, name: str, reference: str, line: int, message: str
) -> None:
    file = portfolio(folder, **{name: reference})

    with pytest.raises(ConfigError) as error:
        read_experiment(ConfigSource.read(file))

    assert f"own.toml:{line}:" in str(error.value)
    assert message in str(error.value)


def test_an_option_of_the_command_is_consent_to_its_own_module(folder: Path) -> None:
    assert call("train", portfolio(folder, reward="log_return"), "--quiet").code == 0
    source = ConfigSource.read(Path("runs/own/config.toml"))
    source.set(("env", "reward"), f"{MODULE}:reward", "--set env.reward")
    for section in ("data", "policy", "evaluate"):
        del source.values[section]

    assert callable(read_experiment(source).env_options["reward"])


def test_a_file_of_a_run_folder_is_no_consent(folder: Path) -> None:
    assert call("train", portfolio(folder), "--quiet").code == 0
    assert was_imported(folder)

    refused = call("evaluate", "own", "--import", "runs/own/config.toml")

    assert (refused.code, was_imported(folder)) == (2, False)
    assert "belongs to a run folder" in refused.err


def test_paths_and_times_are_no_references() -> None:
    values = {"env": {"starts": "2020-01-03T10:30", "path": "C:\\bars", "url": "http://x"}}

    assert find_references(values) == []
