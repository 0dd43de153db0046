"""`sekai sweep`: search settings of an experiment over trials."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.options import ImportOption, QuietOption, RayOption, RunsOption
from sekai.cli.screen import live_table, note, say
from sekai.experiment.run_folder import DEFAULT_ROOT

if TYPE_CHECKING:
    from sekai.config.toml_file import ConfigSource
    from sekai.experiment.sweep import SweepResult, SweepTrial, Watch

EXAMPLES = (
    "sekai sweep examples/sweep.toml",
    "sekai sweep examples/sweep.toml --trials 100 --jobs 4",
    "sekai sweep runs/sweep --resume",
    "sekai sweep examples/sweep.toml --ray auto",
)

SHOWN = 16
"""Trials in the table, the last ones and the best."""


@guarded
def sweep(
    file: Annotated[
        Path,
        typer.Argument(help="Experiment file; with --resume, also the folder of a sweep."),
    ],
    trials: Annotated[int | None, typer.Option(help="Number of trials.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Trials at the same time; with --ray, one per core by default."),
    ] = None,
    ray: RayOption = None,
    name: Annotated[str | None, typer.Option(help="Name of the sweep.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Set any key of the file."),
    ] = None,
    imports: ImportOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a sweep; unfinished trials are run again.")
    ] = False,
    runs: RunsOption = DEFAULT_ROOT,
    quiet: QuietOption = False,
) -> None:
    """Search settings of an experiment with Optuna, and evaluate the best trial on the test part.

    The section [sweep] states trials, sampler and pruner, [sweep.space] the settings. Trials are
    compared on the validation part; all of them count in the trial ledger. All files are stored in
    runs/NAME.
    """
    from sekai.experiment.run import RunOptions
    from sekai.experiment.sweep import (
        SweepOptions,
        resume_sweep,
        start_sweep,
        sweep_to_resume,
    )

    output = RunOptions(progress=not quiet, log=note, command=shlex.join(["sekai", *sys.argv[1:]]))
    if resume and (change or trials is not None):
        raise CommandError("--resume continues a sweep unchanged: leave out --set and --trials")
    with _progress(quiet) as watch:
        options = SweepOptions(jobs, ray, output, watch)
        if resume:
            result = resume_sweep(sweep_to_resume(file, name, runs), imports or (), options)
        else:
            source = _source(file, trials, name, change or [])
            result = start_sweep(source, runs, imports or (), options)
    _show(result)


def _source(file: Path, trials: int | None, name: str | None, changes: list[str]) -> ConfigSource:
    from sekai.config.toml_file import ConfigSource, set_option

    source = ConfigSource.read(file)
    if trials is not None:
        source.set(("sweep", "trials"), trials, "--trials")
    if name is not None:
        source.set(("run", "name"), name, "--name")
    for text in changes:
        set_option(source, f"--set {text.partition('=')[0]}", text)
    return source


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Watch | None]:
    """Table of trials on a terminal; None elsewhere, where trials are logged."""
    with contextlib.ExitStack() as parts:
        update = None if quiet else parts.enter_context(live_table())
        if update is None:
            yield None
            return

        def watch(trials: Sequence[SweepTrial]) -> None:
            update(*_table(trials))

        yield watch


def _show(result: SweepResult) -> None:
    from sekai.cli.screen import show_table
    from sekai.cli.summary import show_summary

    columns, rows = _table(result.trials, len(result.trials))
    show_table(columns, rows)
    counts = ", ".join(f"{count} {state}" for state, count in result.counts.items() if count)
    say(
        f"trials: {counts}; the best by the score on the validation part is {result.run.name}, and "
        "it alone was evaluated on the test part"
    )
    show_summary(result.evaluation, result.run, result.report)
    say(f"sweep   {result.path}")


def _table(
    trials: Sequence[SweepTrial], count: int = SHOWN
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Columns and rows of trials: the last ones, and running ones before them."""
    last = len(trials) - count
    shown = [
        trial for index, trial in enumerate(trials) if index >= last or trial.state == "running"
    ]
    names = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    columns = ["trial", "state", *(f">{name}" for name in names), ">evaluations", ">last return"]
    rows = [
        (
            str(trial.number),
            trial.state,
            *(_text(trial.settings.get(name, "")) for name in names),
            str(trial.evaluations or ""),
            _text(trial.last_return),
            _text(trial.score),
            trial.error.partition("\n")[0][:80],
        )
        for trial in shown
    ]
    return [*columns, ">score", "error"], rows


def _text(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)
