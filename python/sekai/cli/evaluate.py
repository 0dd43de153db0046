"""`sekai evaluate`: evaluate a run again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.options import (
    AllowOption,
    ImportOption,
    QuietOption,
    RunArgument,
    RunsOption,
    SetOption,
)
from sekai.cli.screen import note, say, waiting
from sekai.experiment.run_folder import DEFAULT_ROOT, RunFolder, find_run, lock_run

if TYPE_CHECKING:
    from sekai.config.toml_file import ConfigSource
    from sekai.experiment.experiment import Experiment

EXAMPLES = (
    "sekai evaluate demo",
    "sekai evaluate demo --seeds 64 --baseline equal_weight --baseline buy_and_hold",
    "sekai evaluate demo --set env.costs.proportional=0.001",
    "sekai evaluate demo --walk-forward --folds 4",
)

EVALUATED_SECTIONS = ("env", "evaluate")
"""Sections that an evaluation of a trained policy can change."""

RETRAINED_SECTIONS = (*EVALUATED_SECTIONS, "data", "train", "policy")
"""Sections that a walk-forward evaluation can change, since it trains anew."""


@guarded
def evaluate(
    run: RunArgument,
    seeds: Annotated[int | None, typer.Option(help="Number of unseen episodes.")] = None,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Baseline to compare with; repeatable.")
    ] = None,
    sensitivity: Annotated[
        bool | None,
        typer.Option(
            "--sensitivity/--no-sensitivity", help="Evaluate under higher costs and delays too."
        ),
    ] = None,
    walk_forward: Annotated[
        bool,
        typer.Option(
            "--walk-forward", help="Train an agent for each fold instead, and evaluate it after."
        ),
    ] = False,
    folds: Annotated[int | None, typer.Option(help="Number of walk-forward folds.")] = None,
    change: SetOption = None,
    allow: AllowOption = None,
    runs: RunsOption = DEFAULT_ROOT,
    imports: ImportOption = None,
    quiet: QuietOption = False,
) -> None:
    """Evaluate the policy of a run on unseen seeds beside baselines, and update its report."""
    from sekai.config.toml_file import ConfigSource
    from sekai.experiment.reading import read_experiment

    folder = find_run(run, runs)
    # Unreadable files are reported before minutes of evaluation.
    state = folder.facts["state"]
    if not folder.policy.is_file():
        raise CommandError(
            f"{folder.path} has no policy yet, its state is {state}; "
            f"`sekai train {folder.path} --resume` continues it"
        )
    source = ConfigSource.read(folder.config)
    options: dict[str, tuple[str, Any]] = {
        "seeds": ("--seeds", seeds),
        "baselines": ("--baseline", baseline),
        "sensitivity": ("--sensitivity", sensitivity),
    }
    for name, (option, value) in options.items():
        if value is not None:
            source.set(("evaluate", name), value, option)
    retrains = walk_forward or folds is not None
    _change(source, change or (), RETRAINED_SECTIONS if retrains else EVALUATED_SECTIONS)
    if retrains:
        table = source.values.get("evaluate", {}).get("walk_forward", {})
        changed = {**table, **({} if folds is None else {"folds": folds})}
        source.set(("evaluate", "walk_forward"), changed, "--walk-forward")
        _walk_forward(read_experiment(source, imports or ()), folder, change or (), quiet)
    else:
        experiment = read_experiment(source, imports or ())
        _evaluate(experiment, folder, change or (), allow or (), quiet)


def _change(source: ConfigSource, changes: Sequence[str], sections: tuple[str, ...]) -> None:
    from sekai.config.toml_file import set_option

    for text in changes:
        key = text.partition("=")[0].strip()
        section = key.partition(".")[0].strip()
        if section not in sections:
            known = ", ".join(f"[{name}]" for name in sections)
            remedy = (
                "; --walk-forward trains anew and can change it"
                if section in RETRAINED_SECTIONS
                else ""
            )
            raise CommandError(
                f"--set {key}: an evaluation can change {known}, not [{section}]{remedy}; "
                f"`sekai train` starts another run with --set {text}"
            )
        set_option(source, f"--set {key}", text)


def _evaluate(
    experiment: Experiment,
    folder: RunFolder,
    changes: Sequence[str],
    allow: Sequence[str],
    quiet: bool,
) -> None:
    from sekai.cli.summary import show_summary
    from sekai.experiment.index_page import refresh_index
    from sekai.experiment.preparation import prepare
    from sekai.experiment.run import evaluate_run, write_run_report
    from sekai.policy.files import ModelFileError

    message = f"evaluating on {experiment.evaluate.seeds} unseen seeds"
    with lock_run(folder.path), waiting(message, quiet):
        try:
            evaluation = evaluate_run(
                experiment, prepare(experiment), folder, _command(), allow, changes
            )
        except ModelFileError as error:
            raise CommandError(f"{error}; {folder.retrain_hint}") from error
        report = write_run_report(evaluation, folder.report, note)
    refresh_index(folder, note)
    show_summary(evaluation, folder, report)


def _walk_forward(
    experiment: Experiment, folder: RunFolder, changes: Sequence[str], quiet: bool
) -> None:
    from sekai.cli.summary import show_walk_forward
    from sekai.experiment.run import write_run_report
    from sekai.experiment.walk_forward import walk_forward_run

    log = (lambda text: None) if quiet else note
    with lock_run(folder.path):
        result = walk_forward_run(experiment, folder, _command(), log, changes)
        report = write_run_report(result.joined, folder.walk_forward.with_suffix(".html"), note)
    show_walk_forward(result, folder)
    if report is not None:
        say(f"report  {report}")


def _command() -> str:
    return shlex.join(["sekai", *sys.argv[1:]])
