"""`sekai evaluate`: evaluate a run again."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.options import AllowOption, ImportOption, QuietOption, RunArgument, RunsOption
from sekai.cli.screen import note, waiting
from sekai.experiment.run_folder import DEFAULT_ROOT, find_run, lock_run

__all__ = ["EXAMPLES", "evaluate"]

EXAMPLES = (
    "sekai evaluate demo",
    "sekai evaluate demo --seeds 64 --baseline equal_weight --baseline buy_and_hold",
)


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
    allow: AllowOption = None,
    runs: RunsOption = DEFAULT_ROOT,
    imports: ImportOption = None,
    quiet: QuietOption = False,
) -> None:
    """Evaluate the policy of a run on unseen seeds beside baselines, and update its report."""
    from sekai.cli.summary import show_summary
    from sekai.config.toml_file import ConfigSource
    from sekai.experiment.preparation import prepare
    from sekai.experiment.reading import read_experiment
    from sekai.experiment.run import evaluate_run, write_run_report
    from sekai.training.checkpoint import ModelFileError

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
    experiment = read_experiment(source, imports or ())
    command = shlex.join(["sekai", *sys.argv[1:]])
    message = f"evaluating on {experiment.evaluate.seeds} unseen seeds"
    with lock_run(folder.path), waiting(message, quiet):
        try:
            evaluation = evaluate_run(experiment, prepare(experiment), folder, command, allow or ())
        except ModelFileError as error:
            raise CommandError(f"{error}; {folder.retrain_hint}") from error
        report = write_run_report(evaluation, folder.report, note)
    show_summary(evaluation, folder, report)
