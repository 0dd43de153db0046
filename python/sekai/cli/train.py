"""`sekai train`: an experiment, from a file or from options."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.runs.run_folder import (
    DEFAULT_ROOT,
    RunFolder,
    find_run,
    free_name,
    last_name,
    taken,
)
from sekai.cli.user_modules import ImportOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sekai.cli.experiment.source import Source

__all__ = ["EXAMPLES", "train"]

SHOWN = 5
"""Files that are named to who has named none that is there."""

EXAMPLES = (
    "sekai train examples/demo.toml",
    "sekai train --env MarketMaking-v0 --algorithm ppo --steps 200000",
    "sekai train examples/demo.toml --set train.learning_rate=0.001 --name quick",
    "sekai train runs/demo --resume",
)


@guarded
def train(
    file: Annotated[
        Path | None,
        typer.Argument(help="An experiment file; with --resume, the folder of a run or its file."),
    ] = None,
    env: Annotated[str | None, typer.Option(help="The id of the env.")] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="ppo, a2c, ddpg, sac, maddpg or qmix.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of single envs to learn from.")] = None,
    seed: Annotated[int | None, typer.Option(help="What decides all that is random.")] = None,
    name: Annotated[str | None, typer.Option(help="What the run is called.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any other key of a file."),
    ] = None,
    imports: ImportOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run was.")] = False,
    runs: Annotated[
        Path, typer.Option(envvar="SEKAI_RUNS", help="Where runs are kept.")
    ] = DEFAULT_ROOT,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train an agent, judge it beside baselines on unseen seeds, and write a report.

    Everything is kept in a folder of its own, runs/NAME. Ctrl-C stops after the iteration that is
    under way and keeps a checkpoint; a second one stops at once. --resume goes on, bit for bit.
    """
    options: dict[tuple[str, ...], tuple[str, Any]] = {
        ("env", "id"): ("--env", env),
        ("train", "algorithm"): ("--algorithm", algorithm),
        ("train", "steps"): ("--steps", steps),
        ("run", "seed"): ("--seed", seed),
        ("run", "name"): ("--name", name),
    }
    given = {path: one for path, one in options.items() if one[1] is not None}
    if resume:
        others = [option for option, _ in given.values() if option != "--name"]
        _require_as_it_was(others + (["--set"] if change else []))
        _resume(_run_of(file, name, runs), imports or (), quiet)
        return
    from sekai.cli.experiment.source import set_by_text

    if file is None and env is None and not change:
        raise CommandError(
            "nothing to train, [env] needs an id: name an experiment, such as "
            "`sekai train examples/demo.toml`, or an env with --env; `sekai list` shows them"
        )
    source = _source(file)
    for path, (option, value) in given.items():
        source.set(path, value, option)
    for text in change or ():
        set_by_text(source, f"--set {text.partition('=')[0]}", text)
    _start(source, runs, imports or (), quiet)


def _source(file: Path | None) -> Source:
    from sekai.cli.experiment.source import Source

    if file is None:
        return Source()
    if not file.exists():
        texts = {one: one.read_text("utf-8", "replace") for one in sorted(Path().glob("*.toml"))}
        here = [str(one) for one, text in texts.items() if "[env]" in text]
        known = f"there are {', '.join(here[:SHOWN])}" if here else "there is none in this folder"
        raise CommandError(
            f"{file} cannot be read, there is no such file: an experiment was wanted, and {known}; "
            f"`sekai train --env MarketMaking-v0 --steps 200000` needs none"
        )
    if file.is_dir():
        raise CommandError(
            f"{file} is a folder, and an experiment file was wanted: --resume goes on with a run"
        )
    return Source.read(file)


def _start(source: Source, runs: Path, imports: Sequence[str], quiet: bool) -> None:
    from sekai.cli.experiment.read import read_experiment
    from sekai.cli.training import start

    wanted = source.values.get("run", {})
    is_named = isinstance(wanted, dict) and isinstance(wanted.get("name"), str)
    if is_named and (runs / wanted["name"]).exists():
        raise taken(RunFolder(runs / wanted["name"]))
    experiment = read_experiment(source, imports)
    called = experiment.run.name or free_name(runs, _usual_name(source))
    start(experiment, RunFolder(runs / called), _command(), quiet)


def _usual_name(source: Source) -> str:
    if source.file is not None:
        return source.file.stem
    env = str(source.values["env"]["id"]).rpartition("/")[2].rpartition("-v")[0].lower()
    return f"{env}-{source.values['train'].get('algorithm', 'ppo')}"


def _require_as_it_was(others: list[str]) -> None:
    if others:
        raise CommandError(
            f"--resume goes on with a run as it was: leave out {', '.join(others)}, or begin anew"
        )


def _resume(run: RunFolder, imports: Sequence[str], quiet: bool) -> None:
    if run.facts["state"] == "finished":
        raise CommandError(f"{run.path} is finished: `sekai evaluate {run.name}` judges it again")
    from sekai.cli.experiment.read import read_experiment
    from sekai.cli.experiment.source import Source
    from sekai.cli.training import go_on_with

    go_on_with(read_experiment(Source.read(run.config), imports), run, _command(), quiet)


def _run_of(file: Path | None, name: str | None, runs: Path) -> RunFolder:
    """The run that is meant: by its name, its folder, or the file that it was begun with."""
    if name is not None:
        return find_run(name, runs)
    if file is None:
        raise CommandError("--resume needs a run: its name, its folder, or the file it began with")
    if not file.is_file():
        return find_run(str(file), runs)
    from sekai.cli.experiment.source import Source

    named = Source.read(file).values.get("run", {}).get("name")
    return find_run(named or last_name(runs, file.stem), runs)


def _command() -> str:
    return shlex.join(["sekai", *sys.argv[1:]])
