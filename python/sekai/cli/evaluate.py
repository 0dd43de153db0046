"""`sekai evaluate`: judge a run again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.runs.run_folder import DEFAULT_ROOT, find_run
from sekai.cli.runs.run_lock import RunLock
from sekai.cli.screen import waiting
from sekai.cli.user_modules import ImportOption

__all__ = ["EXAMPLES", "evaluate"]

EXAMPLES = (
    "sekai evaluate demo",
    "sekai evaluate demo --seeds 64 --baseline equal_weight --baseline buy_and_hold",
)


@guarded
def evaluate(
    run: Annotated[str, typer.Argument(help="The name of a run, or its folder.")],
    seeds: Annotated[int | None, typer.Option(help="Episodes that were never seen.")] = None,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Who it is judged beside; can be given again.")
    ] = None,
    sensitivity: Annotated[
        bool | None,
        typer.Option(
            "--sensitivity/--no-sensitivity",
            help="Whether to judge under higher costs and delays too.",
        ),
    ] = None,
    runs: Annotated[
        Path, typer.Option(envvar="SEKAI_RUNS", help="Where runs are kept.")
    ] = DEFAULT_ROOT,
    imports: ImportOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Judge the policy of a run on unseen seeds, beside baselines, and write its report anew."""
    from sekai.cli.experiment.prepare import prepare
    from sekai.cli.experiment.read import read_experiment
    from sekai.cli.experiment.source import Source
    from sekai.cli.judging import headline_of, judge, report_on
    from sekai.cli.summary import show_summary
    from sekai.training.kept_file import ModelFileError

    folder = find_run(run, runs)
    # What cannot be read is said before minutes are spent on it.
    state = folder.facts["state"]
    if not folder.policy.is_file():
        raise CommandError(
            f"{folder.path} has no policy yet, its state is {state}: "
            f"`sekai train {folder.path} --resume` goes on with it"
        )
    source = Source.read(folder.config)
    told: dict[str, tuple[str, Any]] = {
        "seeds": ("--seeds", seeds),
        "baselines": ("--baseline", baseline),
        "sensitivity": ("--sensitivity", sensitivity),
    }
    for name, (option, value) in told.items():
        if value is not None:
            source.set(("evaluate", name), value, option)
    experiment = read_experiment(source, imports or ())
    command = shlex.join(["sekai", *sys.argv[1:]])
    what = f"judging on {experiment.evaluate.seeds} unseen seeds"
    with RunLock(folder.path), waiting(what, quiet):
        try:
            found = judge(experiment, prepare(experiment), folder, command)
        except ModelFileError as error:
            raise CommandError(f"{error}; {folder.anew}") from error
        folder.note(headline=headline_of(found))
        page = report_on(found, folder.report)
    show_summary(found, folder, page)
