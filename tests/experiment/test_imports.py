"""Modules of the user: an experiment file names them, a run folder has nothing imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sekai.config.toml_file import ConfigError, ConfigSource
from sekai.experiment.preparation import data_source
from sekai.experiment.reading import read_experiment
from sekai.registry import isolated
from tests.cli.commands import call, experiment

pytestmark = pytest.mark.timeout(300)  # torch takes long to import on a busy machine

MODULE = "envs_of_a_user"
CODE = """\
from pathlib import Path
from sekai.registry import register

Path("imported").touch()
register(
    "Mine-v0",
    "sekai.envs.market_making:MarketMaking",
    vector_entry_point="sekai.vector.native_envs:market_making",
    validate_actions=False,
    order_enforce=False,
)
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


def named(folder: Path, imports: str) -> Path:
    file = experiment(folder)
    text = file.read_text(encoding="utf-8").replace("MarketMaking-v0", "Mine-v0")
    file.write_text(text.replace("[run]\n", f"[run]\n{imports}\n"), encoding="utf-8")
    return file


def run_folder(folder: Path) -> Path:
    """A run folder as a stranger may have sent it."""
    run = folder / "runs" / "sent"
    run.mkdir(parents=True)
    named(folder, f'imports = ["{MODULE}"]').rename(run / "config.toml")
    (run / "run.json").write_text('{"state": "interrupted", "planned_steps": 64}')
    (run / "policy.safetensors").write_bytes(b"")
    return run


def test_an_experiment_file_of_the_user_names_modules_of_the_user(folder: Path) -> None:
    read = read_experiment(ConfigSource.read(named(folder, f'imports = ["{MODULE}"]')))

    assert was_imported(folder)
    assert (read.id, read.run.imports) == ("Mine-v0", (MODULE,))
    assert read.resolved("name")["run"]["imports"] == [MODULE]


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "sent"),
        ("train", "runs/sent", "--resume"),
        ("train", "runs/sent/config.toml"),
        ("paper", "sent"),
        ("report", "sent"),
        ("runs",),
        ("runs", "sent"),
    ],
)
def test_a_run_folder_has_nothing_imported(folder: Path, command: tuple[str, ...]) -> None:
    run_folder(folder)

    found = call(*command)

    assert not was_imported(folder)
    if command[0] in ("evaluate", "train", "paper"):
        assert found.code == 2
        assert f"--import {MODULE}" in found.err.replace("\n", " ")


def test_the_user_names_the_modules_of_a_run_folder(folder: Path) -> None:
    source = ConfigSource.read(run_folder(folder) / "config.toml")
    with pytest.raises(ConfigError, match=f"--import {MODULE}"):
        read_experiment(source, imports=("json",))
    assert not was_imported(folder)

    assert read_experiment(source, imports=(MODULE,)).id == "Mine-v0"
    assert was_imported(folder)


def test_the_option_imports_what_the_file_does_not_name(folder: Path) -> None:
    file = named(folder, "")
    with isolated():
        trained = call("train", file, "--import", MODULE, "--name", "mine", "--quiet")
    assert trained.code == 0, trained.err
    assert was_imported(folder)

    refused = call("evaluate", "mine", "--quiet")
    assert (refused.code, was_imported(folder)) == (2, False)
    assert f"--import {MODULE}" in refused.err.replace("\n", " ")

    judged = call("evaluate", "mine", "--import", MODULE, "--quiet")
    assert judged.code == 0, judged.err


def test_a_source_that_no_file_can_be_called_is_none() -> None:
    assert data_source("x" * 5000) is None


@pytest.mark.parametrize("name", ["no_such_module_here", "os.system", "a b", "../x", "x;y"])
def test_a_module_that_is_not_there_is_named(name: str) -> None:
    found = call("train", "--env", "MarketMaking-v0", "--steps", "8", "--import", name)

    assert found.code == 2
    assert name.partition(".")[0] in found.err
