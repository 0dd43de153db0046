"""`sekai train`: train an agent from an experiment file or from options."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.options import ImportOption, QuietOption, RunsOption
from sekai.cli.screen import note
from sekai.experiment.run_folder import DEFAULT_ROOT

if TYPE_CHECKING:
    from sekai.config.toml_file import ConfigSource
    from sekai.experiment.run import ExperimentResult, RunOptions
    from sekai.experiment.seeds import SeedsResult

SHOWN = 5
"""Maximum number of files that an error lists."""

EXAMPLES = (
    "sekai train examples/demo.toml",
    "sekai train --env MarketMaking-v0 --algorithm ppo --steps 200000",
    "sekai train examples/demo.toml --set train.learning_rate=0.001 --name quick",
    "sekai train examples/demo.toml --seeds 5",
    "sekai train runs/demo --resume",
)


@guarded
def train(
    file: Annotated[
        Path | None,
        typer.Argument(help="Experiment file; with --resume, also the folder of a run."),
    ] = None,
    env: Annotated[str | None, typer.Option(help="Env id.")] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(help="ppo, recurrent_ppo, a2c, ddpg, td3, sac, dqn, maddpg or qmix."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps of single envs.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run.")] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Number of training seeds, or a list such as 1,2,3; each is a run."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Set any key of the file."),
    ] = None,
    imports: ImportOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run from its last checkpoint.")
    ] = False,
    runs: RunsOption = DEFAULT_ROOT,
    quiet: QuietOption = False,
) -> None:
    """Train an agent from an experiment file, evaluate it beside baselines, and write a report.

    All files are stored in runs/NAME. Ctrl-C stops after the current iteration and saves a
    checkpoint; a second Ctrl-C stops at once. --resume continues a run, bit for bit.
    """
    from sekai.experiment.run import RunOptions

    options: dict[tuple[str, ...], tuple[str, Any]] = {
        ("env", "id"): ("--env", env),
        ("train", "algorithm"): ("--algorithm", algorithm),
        ("train", "steps"): ("--steps", steps),
        ("run", "seed"): ("--seed", seed),
        ("run", "name"): ("--name", name),
    }
    passed = {path: option for path, option in options.items() if option[1] is not None}
    output = RunOptions(progress=not quiet, log=note, command=shlex.join(["sekai", *sys.argv[1:]]))
    if resume:
        changes = [option for option, _ in passed.values() if option != "--name"]
        others = {"--set": change, "--seeds": seeds}
        _require_unchanged(changes + [option for option, value in others.items() if value])
        if file is None and name is None:
            raise CommandError("--resume needs a run: its name, its folder or its experiment file")
        _resume(file or Path(), name, runs, imports or (), output)
        return
    if file is None and env is None and not change:
        raise CommandError(
            "nothing to train, [env] needs an id: pass an experiment file, such as "
            "`sekai train examples/demo.toml`, or an env with --env; `sekai list` shows them"
        )
    _start(_source(file, passed, change or [], seeds), runs, imports or (), output)


def _start(source: ConfigSource, runs: Path, imports: Sequence[str], output: RunOptions) -> None:
    from sekai.experiment.run import start_run
    from sekai.experiment.seeds import start_seeds

    section = source.values.get("run")
    if isinstance(section, dict) and "seeds" in section:
        _show_seeds(start_seeds(source, runs, imports, output))
    else:
        _show(start_run(source, runs, imports, output))


def _resume(
    file: Path, name: str | None, runs: Path, imports: Sequence[str], output: RunOptions
) -> None:
    from sekai.experiment.run import resume_run, run_to_resume
    from sekai.experiment.seeds import resume_seeds, seeds_folder

    folder = seeds_folder(file, name, runs)
    if folder is not None:
        _show_seeds(resume_seeds(folder, imports, output))
    else:
        _show(resume_run(run_to_resume(file, name, runs), imports, output))


def _show(result: ExperimentResult) -> None:
    from sekai.cli.summary import show_summary, show_walk_forward

    show_summary(result.evaluation, result.run, result.report)
    if result.walk_forward is not None:
        show_walk_forward(result.walk_forward, result.run)


def _show_seeds(result: SeedsResult) -> None:
    from sekai.cli.summary import show_seeds

    show_seeds(result)


def _source(
    file: Path | None,
    passed: dict[tuple[str, ...], tuple[str, Any]],
    changes: list[str],
    seeds: str | None,
) -> ConfigSource:
    from sekai.config.toml_file import ConfigSource, set_option
    from sekai.experiment.seeds import set_seeds

    if file is not None:
        _require_file(file)
    source = ConfigSource() if file is None else ConfigSource.read(file)
    for path, (option, value) in passed.items():
        source.set(path, value, option)
    for text in changes:
        set_option(source, f"--set {text.partition('=')[0]}", text)
    if seeds is not None:
        set_seeds(source, _seed_list(seeds), "--seeds")
    return source


def _seed_list(text: str) -> int | list[int]:
    try:
        return [int(seed) for seed in text.split(",")] if "," in text else int(text)
    except ValueError:
        raise CommandError(
            f"--seeds must be a number, or a list such as 1,2,3, got {text!r}"
        ) from None


def _require_file(file: Path) -> None:
    if not file.exists():
        texts = {path: path.read_text("utf-8", "replace") for path in sorted(Path().glob("*.toml"))}
        here = [str(path) for path, text in texts.items() if "[env]" in text]
        known = f"this folder has {', '.join(here[:SHOWN])}" if here else "this folder has none"
        raise CommandError(
            f"cannot read {file}: no such file; expected an experiment file, {known}. "
            f"`sekai train --env MarketMaking-v0 --steps 200000` needs none"
        )
    if file.is_dir():
        raise CommandError(
            f"{file} is a folder; expected an experiment file, or --resume to continue a run"
        )


def _require_unchanged(options: list[str]) -> None:
    if options:
        raise CommandError(
            f"--resume continues a run unchanged: leave out {', '.join(options)}, or start another"
        )
